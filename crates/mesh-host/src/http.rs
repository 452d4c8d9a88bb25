//! One HTTP exchange over a stream that is open already. Reads a bounded answer; never opens a connection, never
//! follows a redirect. Called by the engine's door and by the bootstrap.

use std::fmt;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::failure::{During as _, Failure};

/// The largest answer that is read.
const MOST_BYTES: usize = 32 << 20;

/// Sends `request` and reads the whole answer. The caller gives it a deadline.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    what: impl fmt::Display,
) -> Result<(StatusCode, Bytes), Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.during(&what)?;
    let exchange = async {
        let answer = sender.send_request(request).await.during(&what)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|error| Failure::new(format!("{what}: read the answer: {error}")))?;
        Ok((status, body.to_bytes()))
    };
    tokio::pin!(connection, exchange);
    tokio::select! {
        biased;
        outcome = &mut exchange => outcome,
        // The connection may end a moment before its last answer is read.
        ended = &mut connection => {
            ended.during(&what)?;
            exchange.await
        }
    }
}
