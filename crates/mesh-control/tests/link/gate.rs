//! A way to the broker's management interface that can be shut while the broker itself is there.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on while it is open. Shut, it cuts those there are and drops new ones.
pub(crate) struct Gate {
    port: u16,
    open: Arc<watch::Sender<bool>>,
}

impl Gate {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let open = Arc::new(watch::Sender::new(true));
        let gate = Self { port: listener.local_addr().unwrap().port(), open: Arc::clone(&open) };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut state = open.subscribe();
                tokio::spawn(async move {
                    let pass = async {
                        let mut to = TcpStream::connect(("127.0.0.1", port)).await?;
                        copy_bidirectional(&mut stream, &mut to).await
                    };
                    tokio::select! {
                        biased;
                        _ = state.wait_for(|open| !*open) => {}
                        _ = pass => {}
                    }
                });
            }
        });
        gate
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}
