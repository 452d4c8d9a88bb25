//! Deadlines of what is read from the engine. bollard gives up on an answer that does not begin; one that begins and
//! never ends is given up here.

use std::{fmt::Display, time::Duration};

use bollard::errors::Error;
use futures_util::{Stream, StreamExt as _};
use tokio::time::timeout;

use super::convert::words;
use crate::failure::Failure;

/// How long an answer may say nothing.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// How long the engine may say nothing while it fetches an image: it unpacks a layer without a word.
pub(super) const SILENCE_OF_IMAGES: Duration = Duration::from_mins(5);

/// A whole answer.
pub(super) async fn answer<T>(
    what: impl Display,
    within: Duration,
    asked: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    match timeout(within, asked).await {
        Ok(answer) => answer.map_err(words),
        Err(_) => Err(Failure::new(format!("{what}: the engine did not answer within {within:?}"))),
    }
}

/// The outcome of taking something away that may already be gone.
pub(super) async fn gone_is_done(
    what: impl Display,
    within: Duration,
    asked: impl Future<Output = Result<(), Error>>,
) -> Result<(), Failure> {
    let asked = async {
        match asked.await {
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
            outcome => outcome,
        }
    };
    answer(what, within, asked).await
}

/// The next piece of an answer; `None` at its end.
pub(super) async fn next<S: Stream + Unpin>(
    what: impl Display,
    silence: Duration,
    pieces: &mut S,
) -> Result<Option<S::Item>, Failure> {
    let silent = |_| Failure::new(format!("{what}: the engine said nothing for {silence:?}"));
    timeout(silence, pieces.next()).await.map_err(silent)
}

/// Waits for the end of an answer whose pieces say nothing but that it goes on. `first`: until its first piece.
pub(super) async fn end<T>(
    what: impl Display,
    first: Duration,
    silence: Duration,
    pieces: impl Stream<Item = Result<T, Error>>,
) -> Result<(), Failure> {
    let mut pieces = std::pin::pin!(pieces);
    let mut patience = first;
    while let Some(piece) = next(&what, patience, &mut pieces).await? {
        piece.map_err(words)?;
        patience = silence;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_util::stream::{self, pending};

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn an_answer_that_stops_in_the_middle_is_given_up() {
        let said = stream::iter([Ok::<_, Error>(1), Ok(2)]).chain(pending());
        let why = end("pull the image x", SILENCE_OF_IMAGES, SHORT, said).await.expect_err("it never ends");
        assert_eq!(why.to_string(), "pull the image x: the engine said nothing for 300ms");
        let why = end("pull the image x", SHORT, SILENCE_OF_IMAGES, pending::<Result<u8, Error>>()).await;
        assert_eq!(
            why.expect_err("nothing").to_string(),
            "pull the image x: the engine said nothing for 300ms"
        );
        let why = answer("list the images", SHORT, std::future::pending::<Result<u8, Error>>()).await;
        assert_eq!(
            why.expect_err("nothing").to_string(),
            "list the images: the engine did not answer within 300ms"
        );
    }

    #[tokio::test]
    async fn a_slow_answer_is_not_given_up() {
        let mut ticks = tokio::time::interval(SHORT / 10);
        let mut left = 30;
        let slow = stream::poll_fn(move |context| {
            ticks.poll_tick(context).map(|_| {
                left -= 1;
                (left > 0).then_some(Ok::<_, Error>(()))
            })
        });
        assert_eq!(end("pull the image x", SHORT, SHORT, slow).await, Ok(()));
    }
}
