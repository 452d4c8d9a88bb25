//! What the targets share: a mesh with one node, and a disk in memory.
//!
//! A target is handed bytes that nobody wrote. It must not panic, and what it accepts has to hold what is said there.

use std::{cell::RefCell, io, rc::Rc};

use mesh_host::{intake::Trust, ledger::Disk};
use mesh_seal::SigningKey;
use mesh_wire::Resource;

/// The key that signs declarations.
pub fn declare_key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

/// Whom the node follows.
pub fn trust() -> Trust {
    Trust {
        mesh: "0123456789abcdef0123456789abcdef".parse().expect("a mesh"),
        node: "node-1".parse().expect("a name"),
        key: SigningKey::from_seed(&[2; 32]).verifying_key().fingerprint(),
        declare_keys: vec![declare_key().verifying_key()],
    }
}

/// What was read is written, and read as the same again.
pub fn reads_itself(resource: &Resource) {
    let text = resource.to_raw().expect("a resource is JSON");
    let again = Resource::read(text.get(), 0).expect("what was written is read");
    assert_eq!(&again, resource);
}

/// A file in memory, and the note beside it.
#[derive(Clone, Default)]
pub struct Memory {
    /// The file.
    pub file: Rc<RefCell<Option<Vec<u8>>>>,
    note: Rc<RefCell<Option<String>>>,
}

impl Memory {
    /// A file that holds these bytes.
    pub fn with(bytes: &[u8]) -> Self {
        let memory = Self::default();
        *memory.file.borrow_mut() = Some(bytes.to_vec());
        memory
    }
}

impl Disk for Memory {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.file.borrow().clone())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.borrow_mut().get_or_insert_default().extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.file.borrow_mut().get_or_insert_default().truncate(length);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        *self.file.borrow_mut() = Some(bytes.to_vec());
        Ok(())
    }

    fn begun(&mut self) -> io::Result<Option<String>> {
        Ok(self.note.borrow().clone())
    }

    fn begin(&mut self, words: &str) -> io::Result<()> {
        *self.note.borrow_mut() = Some(words.to_owned());
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn is_ours(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}
