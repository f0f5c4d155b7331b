//! A TCP forwarder between client and broker that can be cut and frozen.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// Forwards connections to one address.
pub(crate) struct Network {
    pub(crate) address: SocketAddr,
    cut: Arc<Notify>,
    is_frozen: watch::Sender<bool>,
}

impl Network {
    pub(crate) async fn before(target: SocketAddr) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Notify::new());
        let is_frozen = watch::Sender::new(false);
        let (notify, frozen) = (cut.clone(), is_frozen.subscribe());
        spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (notify, frozen) = (notify.clone(), frozen.clone());
                spawn(async move {
                    let broker = TcpStream::connect(target).await.unwrap();
                    let (client_reads, client_writes) = client.into_split();
                    let (broker_reads, broker_writes) = broker.into_split();
                    tokio::select! {
                        () = notify.notified() => {}
                        () = forward(client_reads, broker_writes, frozen.clone()) => {}
                        () = forward(broker_reads, client_writes, frozen) => {}
                    }
                });
            }
        });
        Network { address, cut, is_frozen }
    }

    /// Closes every connection.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }

    /// Connections stay, and nothing passes.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut frozen: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if frozen.wait_for(|is_frozen| !is_frozen).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests are not simulated")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
