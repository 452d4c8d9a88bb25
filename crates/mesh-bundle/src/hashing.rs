//! Digests of what passes by: of bytes in memory, of what is written, of what is read. The digest's own form stands in
//! `mesh-ids`.

use std::io::{self, Read, Write};

use mesh_ids::Digest;
use sha2::{Digest as _, Sha256};

/// The digest of `bytes`.
pub fn digest_of(bytes: &[u8]) -> Digest {
    finished(Sha256::new_with_prefix(bytes))
}

fn finished(hash: Sha256) -> Digest {
    Digest::of_sha256(hash.finalize().into())
}

/// Hashes and counts what is written through it.
pub struct HashingWriter<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> HashingWriter<W> {
    /// Starts at nothing written.
    pub fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), size: 0 }
    }

    /// The digest and the number of bytes written, and the writer back.
    pub fn finish(self) -> (Digest, u64, W) {
        (finished(self.hash), self.size, self.inner)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Hashes what is read through it.
pub struct HashingReader<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> HashingReader<R> {
    /// Starts at nothing read.
    pub fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// The digest of what was read so far.
    pub fn finish(self) -> Digest {
        finished(self.hash)
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn reader_and_writer_agree_with_the_whole() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(b"").as_str(), empty);
        let mut reader = HashingReader::new(&b"some bytes"[..]);
        let mut writer = HashingWriter::new(Vec::new());
        io::copy(&mut reader, &mut writer).unwrap();
        assert_eq!(reader.finish(), digest_of(b"some bytes"));
        let (digest, size, bytes) = writer.finish();
        assert_eq!((digest, size, bytes.as_slice()), (digest_of(b"some bytes"), 10, &b"some bytes"[..]));
    }
}
