//! The runtime the AMQP library runs on: tokio, with our TLS stream in the place of its TCP stream.
//!
//! So the library holds no TLS of its own: what it could trust beside our one authority is not compiled in. It never
//! connects by itself either; the stream is handed to it.
//! Called by: [`crate::Connection`].

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_compat::Compat;
use async_rs::Tokio;
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What the library reads from and writes to.
pub(crate) type LinkStream = Compat<TlsStream<TcpStream>>;
/// Tokio's executor, and timers beside our stream.
pub(crate) type LinkRuntime = RuntimeParts<Tokio, Timers>;

/// The current tokio runtime.
pub(crate) fn current() -> async_rs::Runtime<LinkRuntime> {
    async_rs::Runtime::new(RuntimeParts::new(Tokio::current(), Timers(Tokio::current())))
}

#[derive(Debug, Clone)]
pub(crate) struct Timers(Tokio);

impl Reactor for Timers {
    type TcpStream = LinkStream;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<LinkStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        _: SocketAddr,
    ) -> impl Future<Output = io::Result<LinkStream>> + Send + 'static {
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
