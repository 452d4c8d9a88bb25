//! The file of the ledger, and the records in it. Whatever the bytes are, it opens or says why not; what it remembers is
//! remembered again when it is opened anew.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_fuzz::Memory;
use mesh_host::ledger::{Ledger, Record};

fn again(disk: &Memory, ledger: &Ledger) {
    let anew = Ledger::open(Box::new(disk.clone())).expect("a disk without faults");
    assert_eq!(ledger.unreadable().is_some(), anew.unreadable().is_some());
    assert_eq!(ledger.memory(), anew.memory());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else { return };
    if form % 2 == 0 {
        let disk = Memory::with(bytes);
        let ledger = Ledger::open(Box::new(disk.clone())).expect("a disk without faults");
        again(&disk, &ledger);
    } else {
        // The checks of the file let no invented record through: these are written by the ledger itself.
        let disk = Memory::default();
        let mut ledger = Ledger::open(Box::new(disk.clone())).expect("a new ledger");
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
            ledger.write([record]).expect("a disk without faults");
        }
        ledger.commit().expect("a disk without faults");
        again(&disk, &ledger);
    }
});
