//! The producer's stream to the broker: down, being made, or up.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use danube_proto::stream::produce_response::{Answer, answer};
use danube_proto::stream::{ProduceRequest, ProduceResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::world::Clock;
use crate::{Client, Error, Result};

/// Requests on their way into the HTTP/2 stream. Few: those in flight are bounded elsewhere, and a full one is what
/// tells the driver that the network is the bottleneck.
const REQUESTS_MAX: usize = 16;
/// For the stream to come up.
const UP_TIMEOUT: Duration = Duration::from_secs(15);

/// See the module's text.
pub(crate) enum Link {
    Down { until: Duration },
    Rising(Pin<Box<dyn Future<Output = Result<Box<Up>>> + Send>>),
    Up(Box<Up>),
}

/// A stream that is up.
pub(crate) struct Up {
    requests: mpsc::Sender<ProduceRequest>,
    answers: Streaming<ProduceResponse>,
}

/// What happens to a link.
pub(crate) enum LinkEvent {
    /// It may be made again.
    MayRise,
    HasRisen(Box<Up>),
    Answers(Vec<answer::Answer>),
    HasRoom,
    Broke(Error),
}

impl Link {
    /// Begins to make the stream.
    pub(crate) fn rise(client: &Client) -> Link {
        let client = client.clone();
        Link::Rising(Box::pin(async move {
            let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
            let mut stream = client.stream();
            let answers = stream.produce(ReceiverStream::new(receiver));
            let answers = tokio::time::timeout(UP_TIMEOUT, answers).await;
            let answers = answers.map_err(|_| client.late())?;
            let answers = answers.map_err(|status| client.failed(status))?.into_inner();
            Ok(Box::new(Up { requests, answers }))
        }))
    }

    /// Puts a request into the stream, if it is up and has room.
    pub(crate) fn try_reserve(&self) -> Option<mpsc::Permit<'_, ProduceRequest>> {
        match self {
            Link::Up(up) => up.requests.try_reserve().ok(),
            Link::Down { .. } | Link::Rising(_) => None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self, Link::Up(_))
    }

    /// The next thing that happens to it. Cancel safe.
    pub(crate) async fn event(
        &mut self,
        client: &Client,
        clock: &Clock,
        wants_room: bool,
    ) -> LinkEvent {
        match self {
            Link::Down { until } => {
                clock.sleep_until(*until).await;
                LinkEvent::MayRise
            }
            Link::Rising(rising) => match rising.await {
                Ok(up) => LinkEvent::HasRisen(up),
                Err(error) => LinkEvent::Broke(error),
            },
            // Answers first: they make room.
            Link::Up(up) => tokio::select! {
                biased;
                answers = up.answers.message() => match answers {
                    Ok(Some(response)) => LinkEvent::Answers(inner(response.answers)),
                    Ok(None) => LinkEvent::Broke(ended(client)),
                    Err(status) => LinkEvent::Broke(client.failed(status)),
                },
                // When the other end is gone, `answers` says why.
                Ok(_) = up.requests.reserve(), if wants_room => LinkEvent::HasRoom,
            },
        }
    }
}

fn inner(answers: Vec<Answer>) -> Vec<answer::Answer> {
    // An answer of a kind that a newer broker may send and this client doesn't know is passed over.
    answers.into_iter().filter_map(|answer| answer.answer).collect()
}

fn ended(client: &Client) -> Error {
    client.failed(tonic::Status::unavailable("the broker ended the stream"))
}
