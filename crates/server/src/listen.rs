//! Accepting connections.
//!
//! tonic configures the sockets that it binds, not those that it is handed: each accepted one gets `TCP_NODELAY` here. Floods are bounded here, too, before a byte is read: by connections in all, by connections of one
//! address, and by the time until the whole preface of HTTP/2 has come; from there on a client that answers no ping is given up.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use danube_env::Env;
use danube_model::metric::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::caps;

/// A port that is listened on.
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
    env: Env,
    connections: Connections,
    /// Before this time, failures are not told: there may be twenty a second.
    silent_until: Duration,
}

/// The connections of all ports. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    total_max: usize,
    open: Arc<Mutex<Open>>,
    /// Set when all are to end at once.
    is_cut: watch::Sender<bool>,
    /// Tells when the last one ends.
    none: Arc<Notify>,
    /// Connections that were too many.
    refused: Arc<Counter>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Connections {
    /// Up to so many at once.
    pub(crate) fn new(total_max: usize) -> Connections {
        let (open, is_cut, none, refused) = Default::default();
        Connections { total_max, open, is_cut, none, refused }
    }

    /// Ends all connections, whoever is at their other ends, and completes when they have ended.
    pub(crate) async fn cut(&self) {
        self.is_cut.send_replace(true);
        loop {
            let ended = self.none.notified();
            if self.open().total == 0 {
                return;
            }
            ended.await;
        }
    }

    /// How many are open, and how many were too many so far.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.open().total as u64, self.refused.get())
    }

    fn admit(&self, address: IpAddr) -> Option<Admitted> {
        let mut open = self.open();
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if open.total >= self.total_max || of_address >= caps::CONNECTIONS_PER_ADDRESS_MAX {
            self.refused.add(1);
            return None;
        }
        open.total += 1;
        open.by_address.insert(address, of_address + 1);
        Some(Admitted { connections: self.clone(), address })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An accepted connection.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Until the preface has come.
    deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Bytes of it that are still to come.
    preface_bytes: usize,
    /// Completes when the connection is to end.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    _admitted: Admitted,
}

/// A place among the open connections.
struct Admitted {
    connections: Connections,
    address: IpAddr,
}

impl Port {
    /// Listens on `host:port`; port 0 takes a free one.
    pub(crate) async fn bind(
        host: &str,
        port: u16,
        env: &Env,
        connections: &Connections,
    ) -> io::Result<Port> {
        let listener = TcpListener::bind((host, port)).await?;
        let address = listener.local_addr()?;
        let (env, connections) = (env.clone(), connections.clone());
        Ok(Port { listener, address, env, connections, silent_until: Duration::ZERO })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Connection> {
        loop {
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => match self.admit(stream, peer) {
                    Some(connection) => return Poll::Ready(connection),
                    None => continue,
                },
                // A connection that was gone before it was accepted, or no descriptor left: the next may work. The queue of
                // the kernel is bounded, and each error takes one out of it or yields below.
                Err(error) => {
                    let now = self.env.clock.monotonic();
                    if now >= self.silent_until {
                        self.silent_until = now + FAILURES_TOLD_EVERY;
                        let port = self.address.port();
                        tracing::warn!(%error, port, "accepting a connection failed");
                    }
                    let mut pause = self.env.clock.sleep(ACCEPT_PAUSE);
                    if pause.as_mut().poll(context).is_pending() {
                        let waker = context.waker().clone();
                        let wake = async move {
                            pause.await;
                            waker.wake();
                        };
                        drop(self.env.spawn.task("accept pause", Box::pin(wake)));
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let Some(admitted) = self.connections.admit(peer.ip()) else {
            tracing::warn!(%peer, port = self.address.port(), "too many connections");
            return None;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, %peer, "the connection is gone");
            return None;
        }
        let mut is_cut = self.connections.is_cut.subscribe();
        let cut = Box::pin(async move {
            // The sender is among those who hold the connections.
            let _ = is_cut.wait_for(|is_cut| *is_cut).await;
        });
        let deadline = Some(self.env.clock.sleep(caps::PREFACE_TIMEOUT));
        Some(Connection {
            stream,
            deadline,
            preface_bytes: PREFACE_BYTES,
            cut,
            _admitted: admitted,
        })
    }
}

/// What each HTTP/2 connection begins with (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// Before the next connection is accepted after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const FAILURES_TOLD_EVERY: Duration = Duration::from_secs(1);

impl tokio_stream::Stream for Port {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_accept(context).map(|connection| Some(Ok(connection)))
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.total -= 1;
        if open.total == 0 {
            self.connections.none.notify_waiters();
        }
        if let Some(of_address) = open.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.deadline.is_some() && read.is_ready() {
            let come = buffer.filled().len() - before;
            self.preface_bytes = self.preface_bytes.saturating_sub(come);
            if self.preface_bytes == 0 {
                self.deadline = None;
            }
        } else if let Some(deadline) = &mut self.deadline {
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair(connections: &Connections) -> (TcpStream, Connection) {
        let env = Env::real();
        let mut port = Port::bind("127.0.0.1", 0, &env, connections).await.unwrap();
        let client = TcpStream::connect(port.address()).await.unwrap();
        let accepted = std::future::poll_fn(|context| port.poll_accept(context)).await;
        (client, accepted)
    }

    #[tokio::test]
    async fn accepted_sockets_don_t_hold_small_writes_back() {
        let (_client, connection) = pair(&Connections::new(10_000)).await;
        assert!(connection.stream.nodelay().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_finish_its_preface_is_given_up_and_one_that_did_is_not() {
        let connections = Connections::new(10_000);
        let (_silent, mut connection) = pair(&connections).await;
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let (mut client, mut connection) = pair(&connections).await;
        client.write_all(&preface[..PREFACE_BYTES - 1]).await.unwrap();
        let error = connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (mut client, mut connection) = pair(&connections).await;
        client.write_all(preface).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let silence = caps::PREFACE_TIMEOUT * 10;
        assert!(tokio::time::timeout(silence, connection.read_u8()).await.is_err());
    }

    #[tokio::test]
    async fn connections_are_counted_until_they_end_and_can_be_cut() {
        let connections = Connections::new(10_000);
        let (_client, mut connection) = pair(&connections).await;
        assert_eq!(connections.open().total, 1);
        let reading = async move { connection.read_u8().await.unwrap_err().kind() };
        let ((), kind) = tokio::join!(connections.cut(), reading);
        assert_eq!(kind, io::ErrorKind::ConnectionAborted);
        assert_eq!(connections.open().total, 0);
        assert!(connections.open().by_address.is_empty());
    }

    #[test]
    fn one_address_can_t_take_all_places() {
        let connections = Connections::new(10_000);
        let address = |last| IpAddr::from([127, 0, 0, last]);
        let admitted: Vec<_> = (0..).map_while(|_| connections.admit(address(1))).collect();
        assert_eq!(admitted.len(), caps::CONNECTIONS_PER_ADDRESS_MAX);
        assert!(connections.admit(address(2)).is_some());
        drop(admitted);
        assert!(connections.admit(address(1)).is_some());
    }
}
