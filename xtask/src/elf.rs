//! Whether a program is static: a 64-bit ELF file that asks for no interpreter, so that it starts on a machine with
//! nothing on it.
//!
//! It reads headers only and never runs the program. Called by `build` for everything it puts into `dist/`.

use anyhow::{Context as _, bail};

const PT_INTERP: u32 = 3;

/// Refuses bytes that are no 64-bit little-endian ELF program, or that name an interpreter (a dynamic loader).
pub(crate) fn ensure_static(elf: &[u8]) -> anyhow::Result<()> {
    if elf.get(..6) != Some(b"\x7fELF\x02\x01") {
        bail!("not a 64-bit little-endian ELF file");
    }
    let table = usize::try_from(u64::from_le_bytes(field(elf, 32)?))?;
    let size = usize::from(u16::from_le_bytes(field(elf, 54)?));
    let count = usize::from(u16::from_le_bytes(field(elf, 56)?));
    for index in 0..count {
        if u32::from_le_bytes(field(elf, table + index * size)?) == PT_INTERP {
            bail!(
                "it names an interpreter, so it is not static: was it built with target-feature=+crt-static?"
            );
        }
    }
    Ok(())
}

fn field<const N: usize>(elf: &[u8], at: usize) -> anyhow::Result<[u8; N]> {
    let bytes = elf.get(at..at + N).with_context(|| format!("the ELF file ends before byte {}", at + N))?;
    Ok(bytes.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::ensure_static;

    /// An ELF header with one program header of the given type.
    fn program(kind: u32) -> Vec<u8> {
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
        elf[54..56].copy_from_slice(&56_u16.to_le_bytes());
        elf[56..58].copy_from_slice(&1_u16.to_le_bytes());
        elf[64..68].copy_from_slice(&kind.to_le_bytes());
        elf
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        assert!(ensure_static(&program(1)).is_ok());
    }

    #[test]
    fn a_program_with_an_interpreter_is_refused() {
        let refused = ensure_static(&program(3)).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|words| words.contains("interpreter")));
    }

    #[test]
    fn a_truncated_file_is_refused() {
        assert!(ensure_static(&program(1)[..70]).is_ok());
        assert!(ensure_static(&program(1)[..66]).is_err());
        assert!(ensure_static(b"\x7fELF\x02\x01").is_err());
        assert!(ensure_static(b"#!/bin/sh").is_err());
    }
}
