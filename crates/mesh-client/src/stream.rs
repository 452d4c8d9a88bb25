//! Server-sent events as they arrive: the three fields this interface uses, and a bound on the size of one event.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream as Chunks, StreamExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::error::Error;

/// The largest event that is read, in bytes. A node with thousands of resources fits many times over.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// How long nothing may come: the control plane sends a sign of life every ten seconds, so three are missing.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// One event of a watched list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamEvent {
    /// What kind of event, e.g. `node`; `message` where nothing was said.
    pub event: String,
    /// What it carries: JSON.
    pub data: String,
    /// Where to continue from after it, where it says so.
    pub id: Option<String>,
}

impl StreamEvent {
    /// What it carries, as a value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.data)
    }
}

/// A watched list: events until the connection ends.
pub struct Stream {
    api: String,
    chunks: Pin<Box<dyn Chunks<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    lines: Lines,
    /// Until when something has to come; none while nobody waits for it.
    silent_until: Option<Instant>,
}

impl Stream {
    pub(crate) fn new(api: String, response: reqwest::Response) -> Self {
        Self::of(api, Box::pin(response.bytes_stream()))
    }

    fn of(api: String, chunks: Pin<Box<dyn Chunks<Item = reqwest::Result<bytes::Bytes>> + Send>>) -> Self {
        Self { api, chunks, lines: Lines::default(), silent_until: None }
    }

    /// The next event; `None` once the server ended the stream. A stream on which nothing comes for 30 s, not even a sign of
    /// life, is broken off: continue from the last event's `id`. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, Error> {
        loop {
            if let Some(event) = self.lines.next_event() {
                return Ok(Some(event));
            }
            // Kept where the caller gives up in between, which a caller that waits for several things does all the time.
            let end = *self.silent_until.get_or_insert_with(|| Instant::now() + LONGEST_SILENCE);
            let Ok(chunk) = timeout_at(end, self.chunks.next()).await else {
                let seconds = LONGEST_SILENCE.as_secs();
                let reason =
                    format!("the stream broke off: nothing came for {seconds} s, not even a sign of life");
                return Err(Error::Unreachable { api: self.api.clone(), reason });
            };
            self.silent_until = None;
            match chunk {
                None => return Ok(None),
                Some(Err(error)) => {
                    let reason = format!("the stream broke off: {}", error.without_url());
                    return Err(Error::Unreachable { api: self.api.clone(), reason });
                }
                Some(Ok(chunk)) if self.lines.push(&chunk) => {}
                Some(Ok(_)) => {
                    let reason = format!("an event is larger than {MAX_EVENT_BYTES} bytes");
                    return Err(Error::Foreign { api: self.api.clone(), reason });
                }
            }
        }
    }
}

/// Bytes that arrived, and the event they add up to so far (WHATWG HTML, section 9.2.6).
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    read: usize,
    event: StreamEvent,
    data: Vec<String>,
}

impl Lines {
    /// Takes more bytes; false where too many wait for their end.
    fn push(&mut self, chunk: &[u8]) -> bool {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(chunk);
        self.bytes.len() + self.data.iter().map(String::len).sum::<usize>() <= MAX_EVENT_BYTES
    }

    fn next_event(&mut self) -> Option<StreamEvent> {
        while let Some(end) = self.bytes[self.read..].iter().position(|&b| b == b'\n') {
            let line = String::from_utf8_lossy(&self.bytes[self.read..self.read + end]).into_owned();
            self.read += end + 1;
            if let Some(event) = self.take_line(line.trim_end_matches('\r')) {
                return Some(event);
            }
        }
        None
    }

    fn take_line(&mut self, line: &str) -> Option<StreamEvent> {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            let mut event = std::mem::take(&mut self.event);
            if data.is_empty() {
                return None;
            }
            event.data = data.join("\n");
            if event.event.is_empty() {
                "message".clone_into(&mut event.event);
            }
            return Some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.event),
            "data" => self.data.push(value.to_owned()),
            "id" => self.event.id = Some(value.to_owned()),
            // A comment (an empty field), `retry`, or something newer.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = ": hello\n\nevent: node\nid: 7\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nretry: 5\n\n";

    fn events(cuts: &[usize]) -> Vec<StreamEvent> {
        let mut lines = Lines::default();
        let mut events = Vec::new();
        let mut start = 0;
        for &cut in cuts.iter().chain([&TEXT.len()]) {
            assert!(lines.push(&TEXT.as_bytes()[start..cut]));
            start = cut;
            events.extend(std::iter::from_fn(|| lines.next_event()));
        }
        events
    }

    proptest! {
        #[test]
        fn events_are_the_same_wherever_the_bytes_are_cut(mut cuts in proptest::collection::vec(0..TEXT.len(), 0..6)) {
            cuts.sort_unstable();
            let expected = [
                StreamEvent { event: "node".into(), data: "{\"a\":\n1}".into(), id: Some("7".into()) },
                StreamEvent { event: "message".into(), data: "x".into(), id: None },
            ];
            prop_assert_eq!(events(&cuts), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_is_broken_off_in_words_and_signs_of_life_keep_it() {
        let begun = Instant::now();
        let second = move |at: u64, text: &'static [u8]| async move {
            tokio::time::sleep_until(begun + Duration::from_secs(at)).await;
            Ok(bytes::Bytes::from_static(text))
        };
        let signs = [(25, b":\n\n".as_slice()), (50, b"data: x\n\n"), (75, b":\n\n")];
        let chunks = futures_util::stream::iter(signs).then(move |(at, text)| second(at, text));
        let mut stream =
            Stream::of("api".to_owned(), Box::pin(chunks.chain(futures_util::stream::pending())));
        let event = stream.next().await;
        assert!(matches!(event, Ok(Some(event)) if event.data == "x"));
        // Given up again and again, as by a `select`.
        let broken = loop {
            match tokio::time::timeout(Duration::from_secs(4), stream.next()).await {
                Ok(outcome) => break outcome,
                Err(_) => assert!(begun.elapsed() < Duration::from_secs(200), "it is waited for without end"),
            }
        };
        let Err(Error::Unreachable { reason, .. }) = broken else { panic!("{broken:?}") };
        assert!(reason.contains("nothing came for 30 s"), "{reason}");
        assert_eq!(begun.elapsed(), Duration::from_secs(105));
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut lines = Lines::default();
        assert!(!lines.push(&vec![b'x'; MAX_EVENT_BYTES + 1]));
    }
}
