//! A TCP forwarder whose path can freeze: connections stay up, and nothing passes, as behind a router that lost its table.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;

use crate::broker::Broker;
use crate::native;

/// Forwards to one broker until it is dropped.
pub struct Forwarder {
    url: String,
    is_open: watch::Sender<bool>,
    /// Its threads do the forwarding.
    _runtime: Runtime,
}

impl Forwarder {
    /// Starts on a free port.
    ///
    /// # Panics
    ///
    /// If there is no port to be had.
    #[must_use]
    pub fn start(broker: &Broker) -> Self {
        let runtime = native::runtime();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (is_open, watched) = watch::channel(true);
        runtime.spawn(accept(listener, broker.ready().client.clone(), watched));
        Self { url, is_open, _runtime: runtime }
    }

    /// Where clients connect.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Nothing passes any more. New connections come up, and nothing passes there either.
    pub fn freeze(&self) {
        self.is_open.send_replace(false);
    }

    /// Everything passes, also what was sent meanwhile.
    pub fn thaw(&self) {
        self.is_open.send_replace(true);
    }
}

async fn accept(listener: TcpListener, target: String, is_open: watch::Receiver<bool>) {
    while let Ok((near, _)) = listener.accept().await {
        let (target, is_open) = (target.clone(), is_open.clone());
        Handle::current().spawn(async move {
            let far = TcpStream::connect(target).await?;
            near.set_nodelay(true)?;
            far.set_nodelay(true)?;
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            Handle::current().spawn(copy(near_in, far_out, is_open.clone()));
            copy(far_in, near_out, is_open).await
        });
    }
}

/// One direction. An end, as everything, passes only while the path is open.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut bytes).await?;
        if is_open.wait_for(|is_open| *is_open).await.is_err() || count == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..count]).await?;
    }
}
