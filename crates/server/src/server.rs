//! The server: a broker and its ports, from start to stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use danube_broker::Broker;
use danube_env::Env;
use danube_env::real::open_files;
use danube_env::spawn::Running;
use danube_model::metric::Counter;
use danube_model::{ErrorKind, caps as model_caps};
use danube_proto::admin::admin_server::AdminServer;
use danube_proto::danube::consumer_service_server::ConsumerServiceServer;
use danube_proto::danube::discovery_server::DiscoveryServer;
use danube_proto::danube::health_check_server::HealthCheckServer;
use danube_proto::danube::producer_service_server::ProducerServiceServer;
use danube_proto::stream::stream_server::StreamServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::{InterceptorLayer, Routes};

use crate::config::{Address, Advertised, Config, Listen};
use crate::listen::{Connections, Port};
use crate::rpc::admin::AdminRpc;
use crate::rpc::danube::authority::WithAuthority;
use crate::rpc::danube::consumer::ConsumerRpc;
use crate::rpc::danube::consumers::Consumers;
use crate::rpc::danube::discovery::DiscoveryRpc;
use crate::rpc::danube::health::HealthRpc;
use crate::rpc::danube::producer::ProducerRpc;
use crate::rpc::danube::producers::Producers;
use crate::rpc::stream::StreamRpc;
use crate::sessions::Sessions;
use crate::watched::{Open, Watched};
use crate::{Readiness, caps, http, readiness};

/// `Result` with this module's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a server does not start, or does not go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A port can't be listened on.
    #[error("can't listen on {address} ({name})")]
    Listen {
        /// Which port: client, admin, raft or http.
        name: &'static str,
        /// The address that was asked for.
        address: Address,
        /// Why not.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The broker.
    #[error(transparent)]
    Broker(#[from] danube_broker::Error),
}

impl Error {
    /// What kind of error this is, for callers that branch.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Listen { .. } => ErrorKind::Unavailable,
            Error::Broker(error) => error.kind(),
        }
    }

    /// Whether the same may work later without anybody's help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Listen { .. } => false,
            Error::Broker(error) => error.is_retryable(),
        }
    }

    /// Advice, where there is some.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Listen { .. } => Some("is another broker running? port 0 takes a free one"),
            Error::Broker(error) => error.hint(),
        }
    }

    fn listen(name: &'static str, address: &Address, source: std::io::Error) -> Error {
        Error::Listen { name, address: address.clone(), source: Arc::new(source) }
    }
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Clients.
    pub client: SocketAddr,
    /// Admin gRPC of older tools.
    pub admin: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// Brokers among themselves.
    pub raft: SocketAddr,
}

/// A broker that serves clients. It runs until [`Server::stop`].
pub struct Server {
    broker: Broker,
    sessions: Sessions,
    connections: Connections,
    readiness: watch::Sender<Readiness>,
    addresses: Addresses,
    env: Env,
    /// Tells the ports to accept no more and to close what is idle.
    closing: watch::Sender<bool>,
    /// Calls that were begun.
    calls: Arc<Counter>,
    ports: Vec<Running>,
}

struct Ports {
    client: Port,
    admin: Port,
    http: TcpListener,
    raft: Port,
}

impl Server {
    /// Opens the broker on its directories and listens. When it returns, clients are served.
    ///
    /// # Errors
    /// [`Error::Listen`], before anything on the disk is touched; [`Error::Broker`] for what recovery refuses.
    pub async fn start(config: &Config, env: Env) -> Result<Server> {
        let connections = Connections::new(caps::connections(open_files()));
        let ports = Ports::bind(config, &env, &connections).await?;
        let addresses = ports
            .addresses()
            .map_err(|source| Error::listen("http", &config.listen.http, source))?;
        let (readiness, watched) = readiness::channel();
        let closing = watch::Sender::new(false);
        let observed = Watched::new(Arc::clone(&env.process));
        let http = serve_http(ports.http, watched, observed.clone(), &env, &closing);
        let opened = Broker::open(broker_config(config, addresses.client), env.clone()).await;
        let (broker, report) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                closing.send_replace(true);
                end(vec![http]).await;
                return Err(error.into());
            }
        };
        tell(&report);
        let sessions = Sessions::new(env.clone());
        let calls = Arc::<Counter>::default();
        observed.opened(Open {
            broker: broker.clone(),
            connections: connections.clone(),
            sessions: sessions.clone(),
            calls: Arc::clone(&calls),
            limits: config.metrics,
        });
        let mut server = Server {
            broker,
            sessions,
            connections,
            readiness,
            addresses,
            env,
            closing,
            calls,
            ports: vec![http],
        };
        server.serve(ports.client, ports.admin, ports.raft, config.advertised.clone());
        server.readiness.send_replace(Readiness::Ready);
        Ok(server)
    }

    /// Where it listens; free ports were chosen where port 0 was asked for.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Completes with the reason once a disk has failed and nothing is acknowledged any more: the process is to end then
    /// (promise P7). Never completes otherwise. Cancel safe.
    pub async fn failed(&self) -> Error {
        let error = self.broker.failed().await;
        self.readiness.send_replace(Readiness::Failed(error.to_string()));
        error.into()
    }

    /// Stops: batches that were received are answered, streams end, everything is saved. Takes less than 2 s, whoever is
    /// connected.
    ///
    /// # Errors
    /// What could not be saved.
    pub async fn stop(mut self) -> Result<()> {
        // Why it failed says more than that it stops.
        self.readiness.send_if_modified(|readiness| {
            let is_stop = !matches!(readiness, Readiness::Failed(_));
            if is_stop {
                *readiness = Readiness::Stopping;
            }
            is_stop
        });
        self.sessions.stop();
        if !self.within(caps::STREAMS_END_TIMEOUT, self.sessions.ended()).await {
            tracing::warn!("streams did not end in time; their clients don't take answers");
        }
        self.closing.send_replace(true);
        let closed = self.broker.close().await;
        let ports = std::mem::take(&mut self.ports);
        self.within(caps::CONNECTIONS_END_TIMEOUT, end(ports)).await;
        // What their clients keep open.
        self.within(caps::CONNECTIONS_END_TIMEOUT, self.connections.cut()).await;
        Ok(closed?)
    }

    async fn within(&self, limit: Duration, future: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = future => true,
            () = self.env.clock.sleep(limit) => false,
        }
    }

    fn serve(&mut self, client: Port, admin: Port, raft: Port, advertised: Advertised) {
        let message_bytes_max = model_caps::BATCH_BYTES_MAX + caps::MESSAGE_OVERHEAD_BYTES;
        let (broker, sessions) = (self.broker.clone(), self.sessions.clone());
        let stream = StreamServer::new(StreamRpc { broker: broker.clone(), sessions })
            .max_decoding_message_size(message_bytes_max)
            .max_encoding_message_size(message_bytes_max + caps::READ_RESPONSE_BYTES_MAX);
        let administration = AdminServer::new(AdminRpc { broker });
        let danube = self.danube(advertised);
        let services = danube.add_service(stream).add_service(administration);
        self.serve_grpc("client port", client, services);
        // Nothing is served there: every call is answered with UNIMPLEMENTED.
        self.serve_grpc("admin port", admin, Routes::default());
        self.serve_grpc("raft port", raft, Routes::default());
    }

    /// What existing clients speak.
    fn danube(&self, advertised: Advertised) -> Routes {
        let broker = self.broker.clone();
        let producers = Producers::new(self.env.clone());
        self.sessions.spawn("idle producers", producers.clone().run(self.sessions.stopping()));
        let discovery = DiscoveryServer::new(DiscoveryRpc { broker: broker.clone(), advertised });
        let consumers = Consumers::default();
        let health = HealthRpc {
            broker: broker.clone(),
            producers: producers.clone(),
            consumers: consumers.clone(),
        };
        let consumer = ConsumerRpc {
            broker: broker.clone(),
            consumers,
            sessions: self.sessions.clone(),
            env: self.env.clone(),
        };
        let producer = ProducerServiceServer::new(ProducerRpc { broker, producers })
            .max_decoding_message_size(caps::DANUBE_REQUEST_BYTES_MAX);
        Routes::new(WithAuthority(discovery))
            .add_service(HealthCheckServer::new(health))
            .add_service(ConsumerServiceServer::new(consumer))
            .add_service(producer)
    }

    fn serve_grpc(&mut self, name: &'static str, port: Port, routes: Routes) {
        let calls = Arc::clone(&self.calls);
        let count = move |request| {
            calls.add(1);
            Ok(request)
        };
        let server = tonic::transport::Server::builder()
            .layer(InterceptorLayer::new(count))
            .initial_stream_window_size(caps::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(caps::CONNECTION_WINDOW_BYTES)
            .max_frame_size(caps::HTTP2_FRAME_BYTES_MAX)
            .max_concurrent_streams(caps::STREAMS_PER_CONNECTION_MAX)
            .http2_keepalive_interval(Some(caps::KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(caps::KEEPALIVE_TIMEOUT))
            .add_routes(routes)
            .serve_with_incoming_shutdown(port, told(&self.closing));
        let server = async move {
            if let Err(error) = server.await {
                tracing::error!(%error, name, "a port failed");
            }
        };
        self.ports.push(self.env.spawn.task(name, Box::pin(server)));
    }
}

fn serve_http(
    listener: TcpListener,
    readiness: watch::Receiver<Readiness>,
    watched: Watched,
    env: &Env,
    closing: &watch::Sender<bool>,
) -> Running {
    let serving = http::serve(listener, readiness, watched, env.clock.clone(), told(closing));
    let serving = async {
        if let Err(error) = serving.await {
            tracing::error!(%error, name = "http port", "a port failed");
        }
    };
    env.spawn.task("http port", Box::pin(serving))
}

/// Says what a start found on the disk. What is lost was told where it was found.
fn tell(report: &danube_broker::Report) {
    for error in &report.problems {
        tracing::warn!("{error}");
    }
    for error in report.healed.iter().take(caps::HEALED_TOLD_MAX) {
        tracing::warn!(%error, "healed");
    }
    tracing::info!(
        rounds = report.rounds,
        frames = report.frames,
        healed = report.healed.len(),
        cut = report.cut.len(),
        damaged = report.damaged.len(),
        problems = report.problems.len(),
        page_cache_proven = report.page_cache_proven,
        "recovered"
    );
}

/// Completes when the ports are to close.
fn told(closing: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut closing = closing.subscribe();
    async move {
        // The sender gone means the same.
        let _ = closing.wait_for(|is_closing| *is_closing).await;
    }
}

async fn end(ports: Vec<Running>) {
    for port in ports {
        if let Err(panicked) = port.join().await {
            tracing::error!(%panicked, "a port");
        }
    }
}

impl Ports {
    async fn bind(config: &Config, env: &Env, connections: &Connections) -> Result<Ports> {
        let Listen { client, admin, http, raft } = &config.listen;
        let bind = async |name, address: &Address| {
            let port = Port::bind(&address.host, address.port, env, connections).await;
            port.map_err(|source| Error::listen(name, address, source))
        };
        let listener = TcpListener::bind((http.host.as_str(), http.port)).await;
        Ok(Ports {
            client: bind("client", client).await?,
            admin: bind("admin", admin).await?,
            http: listener.map_err(|source| Error::listen("http", http, source))?,
            raft: bind("raft", raft).await?,
        })
    }

    fn addresses(&self) -> std::io::Result<Addresses> {
        Ok(Addresses {
            client: self.client.address(),
            admin: self.admin.address(),
            http: self.http.local_addr()?,
            raft: self.raft.address(),
        })
    }
}

/// What the broker has to know of the configuration.
fn broker_config(config: &Config, client: SocketAddr) -> danube_broker::Config {
    let storage = &config.storage;
    let mut log = danube_broker::LogConfig::new(&storage.root);
    log.journal_bytes = storage.journal_bytes;
    log.round_bytes = storage.round_bytes;
    log.queue_bytes = storage.queue_bytes;
    log.tail_bytes = storage.tail_bytes;
    log.segment_bytes = storage.segment_bytes;
    log.segment_age = storage.segment_age;
    log.segment_worth_bytes = storage.segment_worth_bytes;
    log.segment_age_max = storage.segment_age_max;
    log.page_cache_sync = storage.page_cache_sync;
    log.quiet_sync = storage.quiet_sync;
    log.checkpoint_bytes = storage.checkpoint_bytes;
    log.open_files_max =
        storage.open_files_max.unwrap_or_else(|| caps::open_files_kept(open_files()));
    log.space_check = storage.space_check;
    danube_broker::Config {
        cluster_name: config.cluster_name.clone(),
        address: address(&config.advertised, client),
        meta_dir: config.metadata_dir.clone(),
        log,
        namespaces: config.namespaces.clone(),
        auto_create_topics: config.auto_create_topics,
        durability: storage.durability,
        producers_per_topic_max: config.producers_per_topic_max,
        publish_rate_max: config.publish_rate_max,
        message_bytes_max: config.message_bytes_max,
        retention: storage.retention,
        subscriptions: config.subscriptions.clone(),
        alarms: config.alarms,
    }
}

/// Where a broker that listens at `client` is reached, as far as it can tell: "any address" is none that could be called.
fn address(advertised: &Advertised, client: SocketAddr) -> String {
    let Advertised { broker_url, connect_url } = advertised;
    let listening = || (!client.ip().is_unspecified()).then(|| format!("http://{client}"));
    let known = broker_url.clone().or_else(|| connect_url.clone()).or_else(listening);
    known.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_not_where_a_broker_is_reached() {
        let url = |text: &str| Some(text.to_owned());
        for (broker_url, connect_url, client, expected) in [
            (None, None, "127.0.0.1:6650", "http://127.0.0.1:6650"),
            (None, None, "0.0.0.0:6650", ""),
            (None, None, "[::]:6650", ""),
            (None, url("http://c:2"), "0.0.0.0:6650", "http://c:2"),
            (url("http://b:1"), url("http://c:2"), "0.0.0.0:6650", "http://b:1"),
        ] {
            let advertised = Advertised { broker_url, connect_url };
            assert_eq!(address(&advertised, client.parse().unwrap()), expected);
        }
    }
}
