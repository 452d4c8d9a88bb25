//! Whether a file is a program of this machine, by the first bytes of it (elf(5)). Pure. It says nothing of whether the
//! program works: that is what a trial is for.

/// How much of a file is looked at.
pub(super) const HEADER_BYTES: usize = 20;

/// Why the file that begins with `header` cannot be run where the one that begins with `own` does.
pub(super) fn complaint(header: &[u8], own: &[u8]) -> Option<String> {
    let Some(kind) = Kind::of(header) else {
        return Some("it is no program: it has no ELF header".to_owned());
    };
    match Kind::of(own) {
        Some(own) if own != kind => Some(format!("it is a program for {kind}, and this machine runs {own}")),
        _ => None,
    }
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// 1: 32 bits, 2: 64 bits.
    class: u8,
    /// 1: the lowest byte first, 2: the highest.
    order: u8,
    machine: u16,
}

impl Kind {
    fn of(header: &[u8]) -> Option<Self> {
        let (magic, rest) = header.get(..HEADER_BYTES)?.split_at(4);
        let machine = [rest[14], rest[15]];
        let (class, order) = (rest[0], rest[1]);
        let machine = if order == 2 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
        (magic == b"\x7fELF").then_some(Self { class, order, machine })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.machine {
            3 => f.write_str("x86"),
            40 => f.write_str("arm"),
            62 => f.write_str("x86_64"),
            183 => f.write_str("aarch64"),
            243 => f.write_str("riscv"),
            other => write!(f, "machine {other}"),
        }?;
        let bits = if self.class == 2 { 64 } else { 32 };
        write!(f, " ({bits} bits{})", if self.order == 2 { ", big-endian" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut header = b"\x7fELF".to_vec();
        header.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        header.extend(machine);
        header
    }

    #[test]
    fn a_program_of_another_machine_and_what_is_none_are_told_apart_from_ours() {
        let ours = header(2, 1, [62, 0]);
        assert_eq!(complaint(&ours, &ours), None);
        let words = |other: &[u8]| complaint(other, &ours).expect("a complaint");
        let aarch64 = words(&header(2, 1, [183, 0]));
        assert_eq!(aarch64, "it is a program for aarch64 (64 bits), and this machine runs x86_64 (64 bits)");
        assert!(words(&header(1, 1, [3, 0])).contains("x86 (32 bits)"));
        assert!(words(&header(2, 2, [0, 243])).contains("riscv (64 bits, big-endian)"));
        assert!(words(b"#!/bin/sh\nexec true and more").starts_with("it is no program"));
        assert!(words(b"\x7fELF").starts_with("it is no program"));
    }
}
