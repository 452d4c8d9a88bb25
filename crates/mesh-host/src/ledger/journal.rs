//! The form of the ledger's one file: a snapshot and what was appended since, as checksummed records. Pure: bytes in,
//! bytes out.
//!
//! The file is text: a line that names the format and how long the snapshot is, then records, each a header line and
//! a payload. Every record's checksum covers the checksum before it, so that none can be lost, repeated or moved
//! unnoticed in the middle. No byte of a valid file is zero: that is how the tail that a power cut tore (cut short, or
//! with sectors that never arrived and read as zeros) is told from damage to what was durable.

use sha2::{Digest as _, Sha256};

/// The format this program writes, and the newest it reads.
pub const FORMAT: u32 = 1;
/// `LENGTH CHECK SYNCED HEADERCHECK\n` in hexadecimal.
const HEADER: usize = 8 + 1 + 16 + 1 + 16 + 1 + 8 + 1;
/// `novox-mesh ledger FORMAT SNAPSHOT CHECK\n`.
const FIRST_LINE: usize = 18 + 8 + 1 + 16 + 1 + 8 + 1;
/// What a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// The checksum of everything up to some record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain(u64);

/// A file that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read<'a> {
    /// The payloads, in order.
    pub(super) payloads: Vec<&'a [u8]>,
    /// The checksum to go on from.
    pub(super) chain: Chain,
    /// How many bytes are good. What follows was torn by a power cut and was never durable.
    pub(super) good: usize,
}

/// A file that cannot be read as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged<'a> {
    /// What is wrong, for a person.
    pub(super) reason: String,
    /// What is left of it, in order; `None` where a newer host wrote it. Not to be acted upon: what is missing is not
    /// known.
    pub(super) left: Option<Vec<Piece<'a>>>,
}

/// What is left of a damaged file, piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A payload whose checksum is right.
    Whole(&'a [u8]),
    /// One or more records that cannot be trusted any more.
    Lost {
        /// Whether one of them may have been appended, so that it changed what stands before it in the file.
        appended: bool,
    },
}

/// Why the first line is not that of a ledger this program reads.
enum NoFirstLine {
    Damaged(&'static str),
    Newer(String),
}

/// A new file that holds these payloads.
pub(super) fn snapshot<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Chain) {
    let mut chain = Chain(sum(&[b"novox-mesh ledger"]));
    let mut records = Vec::new();
    for payload in payloads {
        // Within a snapshot the first line says what is durable.
        chain = append(&mut records, chain, 0, payload);
    }
    let start = format!("novox-mesh ledger {FORMAT:08x} {:016x}", records.len());
    let mut bytes = format!("{start} {:08x}\n", short(&[start.as_bytes()])).into_bytes();
    bytes.append(&mut records);
    (bytes, chain)
}

/// Appends one record. `synced`: how many bytes of the file are known to be durable.
pub(super) fn append(bytes: &mut Vec<u8>, chain: Chain, synced: u64, payload: &[u8]) -> Chain {
    let length = payload.len();
    let next = next_in(chain, payload);
    let start = format!("{length:08x} {:016x} {synced:016x}", next.0);
    bytes.extend_from_slice(format!("{start} {:08x}\n", short(&[start.as_bytes()])).as_bytes());
    bytes.extend_from_slice(payload);
    bytes.push(b'\n');
    next
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8]) -> Result<Read<'_>, Damaged<'_>> {
    let damaged = |reason: String, snapshot_end| Damaged { reason, left: Some(salvage(bytes, snapshot_end)) };
    let durable = match read_first_line(bytes) {
        Ok(snapshot) => FIRST_LINE + snapshot,
        Err(NoFirstLine::Newer(reason)) => return Err(Damaged { reason, left: None }),
        // Where the snapshot ended is not known then: anything may have been appended.
        Err(NoFirstLine::Damaged(reason)) => return Err(damaged(reason.to_owned(), FIRST_LINE)),
    };
    let mut chain = Chain(sum(&[b"novox-mesh ledger"]));
    let (mut payloads, mut at) = (Vec::new(), FIRST_LINE);
    while at < bytes.len() {
        let Some((payload, next)) = read_record(&bytes[at..], chain) else {
            if at < durable || !is_torn(&bytes[at..], at) {
                return Err(damaged(format!("it is damaged {at} bytes from its beginning"), durable));
            }
            return Ok(Read { payloads, chain, good: at });
        };
        payloads.push(payload);
        chain = next;
        at += HEADER + payload.len() + 1;
    }
    if at < durable {
        return Err(damaged(format!("it ends after {at} of at least {durable} bytes"), durable));
    }
    Ok(Read { payloads, chain, good: at })
}

/// Everything in a damaged file whose checksum is right, before and after the damage. A record behind damage is known by
/// the checksum that the header before it names, or, where that header is what is damaged, by that of its payload.
fn salvage(bytes: &[u8], snapshot_end: usize) -> Vec<Piece<'_>> {
    let (mut pieces, mut chain, mut at) = (Vec::new(), Chain(sum(&[b"novox-mesh ledger"])), FIRST_LINE);
    while at < bytes.len() {
        if let Some((payload, next)) = read_record(&bytes[at..], chain) {
            pieces.push(Piece::Whole(payload));
            (chain, at) = (next, at + HEADER + payload.len() + 1);
            continue;
        }
        let header = read_header(&bytes[at..]);
        let end = header.and_then(|(length, ..)| at.checked_add(HEADER)?.checked_add(length)?.checked_add(1));
        let begins = |start: &usize| bytes.get(*start..).is_some_and(|tail| read_header(tail).is_some());
        let next = end.filter(begins).or_else(|| {
            let lines = (at + 1..bytes.len()).filter(|start| bytes[start - 1] == b'\n');
            lines.into_iter().find(begins)
        });
        let Some(next) = next else {
            pieces.push(Piece::Lost { appended: true });
            return pieces;
        };
        let between = bytes.get(at + HEADER..next - 1);
        let by_payload = between.map(|payload| (payload, next_in(chain, payload)));
        match (header, by_payload) {
            (Some((_, named, _)), _) if end == Some(next) => {
                pieces.push(Piece::Lost { appended: next > snapshot_end });
                chain = named;
            }
            (_, Some((payload, summed))) if read_record(&bytes[next..], summed).is_some() => {
                pieces.push(Piece::Whole(payload));
                chain = summed;
            }
            _ => pieces.push(Piece::Lost { appended: next > snapshot_end }),
        }
        at = next;
    }
    if at < snapshot_end {
        // Cut short between two records, and with it all that was appended.
        pieces.push(Piece::Lost { appended: true });
    }
    pieces
}

fn read_first_line(bytes: &[u8]) -> Result<usize, NoFirstLine> {
    let line = bytes
        .get(..FIRST_LINE)
        .and_then(|line| std::str::from_utf8(line).ok())
        .ok_or(NoFirstLine::Damaged("it does not begin as a ledger does"))?;
    let damaged = NoFirstLine::Damaged("its first line is damaged");
    let Some((start, check)) = line.split_at_checked(FIRST_LINE - 10) else { return Err(damaged) };
    if check != format!(" {:08x}\n", short(&[start.as_bytes()])) {
        return Err(damaged);
    }
    let mut words = start.split(' ').skip(2);
    let number = |word: Option<&str>| word.and_then(|word| usize::from_str_radix(word, 16).ok());
    match (number(words.next()), number(words.next())) {
        (Some(format), Some(snapshot)) if format == FORMAT as usize => Ok(snapshot),
        (Some(format), _) => {
            Err(NoFirstLine::Newer(format!("it has format {format}, this host reads format {FORMAT}")))
        }
        _ => Err(damaged),
    }
}

/// The length, the checksum and the synced length of a header, if the header itself is whole.
fn read_header(bytes: &[u8]) -> Option<(usize, Chain, usize)> {
    let line = std::str::from_utf8(bytes.get(..HEADER)?).ok()?;
    let (start, check) = line.split_at_checked(HEADER - 10)?;
    if check != format!(" {:08x}\n", short(&[start.as_bytes()])) {
        return None;
    }
    let mut words = start.split(' ').map(|word| u64::from_str_radix(word, 16).ok());
    let (length, chain, synced) = (words.next()??, words.next()??, words.next()??);
    Some((usize::try_from(length).ok()?, Chain(chain), usize::try_from(synced).ok()?))
}

fn read_record(bytes: &[u8], chain: Chain) -> Option<(&[u8], Chain)> {
    let (length, next, _) = read_header(bytes)?;
    let end = HEADER.checked_add(length)?;
    let payload = bytes.get(HEADER..end)?;
    (bytes.get(end) == Some(&b'\n') && next_in(chain, payload) == next).then_some((payload, next))
}

/// Whether what begins at offset `at` of the file and is no record can be what a power cut left of an append.
fn is_torn(tail: &[u8], at: usize) -> bool {
    // A later record that was written when this place was already durable: then this is damage.
    let witness = |start: usize| read_header(&tail[start..]).is_some_and(|(_, _, synced)| synced > at);
    let line_starts = tail.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(i, _)| i + 1);
    if line_starts.into_iter().any(witness) {
        return false;
    }
    let cut_short = match read_header(tail) {
        Some((length, _, _)) => tail.len() <= HEADER.saturating_add(length),
        None => tail.len() < HEADER && tail.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b' '),
    };
    let first = SECTOR - at % SECTOR;
    let (head, rest) = tail.split_at(first.min(tail.len()));
    let is_zero = |sector: &[u8]| !sector.is_empty() && sector.iter().all(|byte| *byte == 0);
    cut_short || is_zero(head) || rest.chunks(SECTOR).any(is_zero)
}

fn next_in(chain: Chain, payload: &[u8]) -> Chain {
    Chain(sum(&[&chain.0.to_be_bytes(), payload]))
}

fn sum(parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn short(parts: &[&[u8]]) -> u64 {
    sum(parts) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut chain) = snapshot([b"{\"a\":1}".as_slice(), b"{\"b\":2}"]);
        let mut ends = vec![bytes.len()];
        for text in ["short", &"x".repeat(700), "{\"last\":true}"] {
            let synced = bytes.len() as u64;
            chain = append(&mut bytes, chain, synced, text.as_bytes());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn what_was_written_is_read() {
        let (bytes, _) = file();
        let read = read(&bytes).expect("it is whole");
        assert_eq!(read.payloads.len(), 5);
        assert_eq!(read.payloads[4], b"{\"last\":true}");
        assert_eq!(read.good, bytes.len());
    }

    #[test]
    fn every_prefix_after_the_snapshot_is_read_up_to_its_last_whole_record() {
        let (bytes, ends) = file();
        for length in 0..bytes.len() {
            let outcome = read(&bytes[..length]);
            if length < ends[0] {
                assert!(outcome.is_err(), "a snapshot of {length} bytes");
                continue;
            }
            let whole = ends.iter().filter(|end| **end <= length).count();
            let read = outcome.unwrap_or_else(|damaged| panic!("{length}: {}", damaged.reason));
            assert_eq!((read.payloads.len(), read.good), (whole + 1, ends[whole - 1]), "{length}");
        }
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let (bytes, _) = file();
        for at in 0..bytes.len() {
            for change in [0x01, 0x02, 0x20, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                assert!(read(&changed).is_err(), "byte {at} changed by {change:#x}");
            }
        }
    }

    #[test]
    fn sectors_that_never_arrived_are_torn_only_where_nothing_was_durable() {
        let (mut bytes, mut chain) = snapshot([b"{}".as_slice()]);
        let durable = bytes.len();
        for _ in 0..4 {
            chain = append(&mut bytes, chain, durable as u64, &[b'y'; 900]);
        }
        let sectors: Vec<usize> = (0..bytes.len()).step_by(SECTOR).collect();
        for start in sectors {
            let mut image = bytes.clone();
            let end = (start + SECTOR).min(bytes.len());
            image[start.max(durable)..end].fill(0);
            let read = read(&image).unwrap_or_else(|damaged| panic!("sector at {start}: {}", damaged.reason));
            assert!(read.good >= durable && read.good <= start.max(durable), "sector at {start}");
        }
        // The same zeros where a later record says that the place was durable.
        let mut image = bytes.clone();
        append(&mut image, chain, bytes.len() as u64, b"later");
        image[SECTOR * 2..SECTOR * 3].fill(0);
        assert!(read(&image).is_err());
    }

    #[test]
    fn a_newer_format_is_named() {
        let start = format!("novox-mesh ledger {:08x} {:016x}", 2, 0);
        let bytes = format!("{start} {:08x}\n", short(&[start.as_bytes()])).into_bytes();
        let damaged = read(&bytes).expect_err("format 2");
        assert_eq!(damaged.reason, "it has format 2, this host reads format 1");
        assert_eq!(damaged.left, None);
    }

    fn left(bytes: &[u8]) -> Vec<&[u8]> {
        let damaged = read(bytes).expect_err("damaged");
        let pieces = damaged.left.expect("not a newer one");
        let whole = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Whole(payload) => Some(payload),
            Piece::Lost { .. } => None,
        });
        whole.collect()
    }

    #[test]
    fn a_changed_byte_costs_the_record_it_is_in_and_no_other() {
        let (bytes, _) = file();
        let whole = read(&bytes).expect("it is whole").payloads;
        let ends: Vec<usize> = (whole.iter())
            .scan(FIRST_LINE, |at, payload| {
                *at += HEADER + payload.len() + 1;
                Some(*at)
            })
            .collect();
        for at in 0..bytes.len() {
            for change in [0x01, 0x2a, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                let hit = (at >= FIRST_LINE).then(|| ends.iter().filter(|end| **end <= at).count());
                let left = left(&changed);
                for (place, payload) in whole.iter().enumerate().filter(|(place, _)| Some(*place) != hit) {
                    assert!(left.contains(payload), "byte {at} cost record {place}");
                }
                // What only lost its header is known by the checksum of the record behind it.
                let in_header = hit.is_some_and(|hit| at + whole[hit].len() + 1 < ends[hit]);
                let only_header = in_header && at < ends[whole.len() - 2];
                assert!(!only_header || left.len() == whole.len(), "byte {at} of a header cost its record");
                assert!(
                    left.iter().all(|payload| whole.contains(payload)),
                    "byte {at}: something untrue is left"
                );
            }
        }
    }

    #[test]
    fn of_a_file_with_a_hole_what_is_around_the_hole_is_left() {
        let (mut bytes, mut chain) = snapshot([b"{}".as_slice()]);
        for n in 0..9 {
            let synced = bytes.len() as u64;
            chain = append(&mut bytes, chain, synced, format!("{n}{}", "z".repeat(150)).as_bytes());
        }
        let whole = read(&bytes).expect("it is whole").payloads.len();
        for start in (FIRST_LINE..bytes.len() - 300).step_by(7) {
            let mut image = bytes.clone();
            image[start..start + 100].fill(0);
            // The record in the hole, or two; and the one behind it, whose checksum needs theirs.
            assert!(left(&image).len() + 3 >= whole, "a hole at {start}: {} of {whole}", left(&image).len());
            let cut = &bytes[..start.min(FIRST_LINE + 20)];
            assert!(left(cut).is_empty());
        }
    }
}
