//! What a broker's speed is held against: a bare gRPC server that acknowledges every batch of the native protocol, and every
//! message of existing clients, and does nothing else. It has the broker's HTTP/2 settings, and runs as a child, as a broker does.

mod danube;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use danube_proto::stream::produce_request::{Batch, Open, Request as Produce};
use danube_proto::stream::produce_response::answer::Answer;
use danube_proto::stream::produce_response::{Ack, Answer as Answered, Closed, Opened};
use danube_proto::stream::stream_server::{Stream, StreamServer};
use danube_proto::stream::{
    ConsumeRequest, ConsumeResponse, LookupRequest, LookupResponse, ProduceRequest,
    ProduceResponse, ReadRequest, ReadResponse,
};
use danube_proto::{Reliability, convert};
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use crate::native;

/// The HTTP/2 settings of a broker's client port.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
const HTTP2_FRAME_BYTES_MAX: u32 = 64 << 10;

/// A running echo. Dropping it ends the process.
pub struct Echo {
    child: Child,
    url: String,
}

impl Echo {
    /// Starts `program echo`, which must call [`serve`].
    ///
    /// # Panics
    ///
    /// If it does not say where it listens.
    #[must_use]
    pub fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
        let mut url = String::new();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        BufReader::new(stdout).read_line(&mut url).expect("a pipe can be read");
        assert!(url.starts_with("http://"), "an echo says where it listens, not {url:?}");
        Self { child, url: url.trim_end().to_owned() }
    }

    /// Where clients connect.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Process id, for looking at it from outside.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves on a free port, which it prints, until standard input ends: so that it goes with whoever started it.
///
/// # Panics
///
/// If there is no port to be had.
#[expect(clippy::print_stdout, reason = "its parent reads where it listens")]
pub fn serve() {
    let runtime = native::runtime();
    let parent = runtime.spawn_blocking(|| std::io::stdin().read(&mut [0]));
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        println!("{url}");
        let connections = TcpListenerStream::new(listener).map(|accepted| {
            accepted.and_then(|connection| connection.set_nodelay(true).map(|()| connection))
        });
        let native = StreamServer::new(Echoing).max_decoding_message_size(usize::MAX);
        let serving = tonic::transport::Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(HTTP2_FRAME_BYTES_MAX)
            .add_routes(danube::routes(&url).add_service(native))
            .serve_with_incoming(connections);
        tokio::select! {
            served = serving => served.expect("the port can be served"),
            _ = parent => {}
        }
    });
}

struct Echoing;

type Responses<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Stream for Echoing {
    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        Ok(Response::new(LookupResponse { partitions: vec![request.into_inner().topic] }))
    }

    type ProduceStream = Responses<ProduceResponse>;

    async fn produce(
        &self,
        requests: Request<Streaming<ProduceRequest>>,
    ) -> Result<Response<Self::ProduceStream>, Status> {
        let answers = requests.into_inner().map(|request| {
            let answer = answer(request?).ok_or_else(|| Status::invalid_argument("no request"))?;
            Ok(ProduceResponse { answers: vec![Answered { answer: Some(answer) }] })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    type ReadStream = Responses<ReadResponse>;

    async fn read(&self, _: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        Err(Status::unimplemented("an echo keeps nothing"))
    }

    type ConsumeStream = Responses<ConsumeResponse>;

    async fn consume(
        &self,
        _: Request<Streaming<ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        Err(Status::unimplemented("an echo has no subscriptions"))
    }
}

fn answer(request: ProduceRequest) -> Option<Answer> {
    Some(match request.request? {
        Produce::Open(Open { alias, .. }) => Answer::Opened(Opened {
            alias,
            topic_id: Bytes::from_static(&[1; 16]),
            epoch: 1,
            max_message_bytes: 1 << 20,
            durability: convert::wire_durability(Some(danube_client::Durability::PageCache)),
            reliability: convert::wire_reliability(Some(Reliability::Reliable)),
        }),
        Produce::Batch(Batch { alias, batch }) => Answer::Ack(Ack {
            alias,
            base_sequence: field(&batch, 53)?,
            base_offset: 0,
            count: field(&batch, 57)? as u32,
            epoch: 1,
            durability: convert::wire_durability(Some(danube_client::Durability::PageCache)),
            duplicate: false,
        }),
        Produce::Close(close) => Answer::Closed(Closed { alias: close.alias, failure: None }),
    })
}

/// Four bytes of a batch's header.
fn field(batch: &[u8], at: usize) -> Option<i32> {
    batch.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}
