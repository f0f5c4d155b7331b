//! `danube.stream.v1`.

use danube_broker::Broker;
use danube_proto::convert;
use danube_proto::stream::stream_server::Stream;
use danube_proto::stream::{
    ConsumeRequest, ConsumeResponse, LookupRequest, LookupResponse, ProduceRequest,
    ProduceResponse, ReadRequest, ReadResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{consume, produce, read, status, topics};
use crate::caps;
use crate::sessions::Sessions;

/// The service.
#[derive(Clone)]
pub(crate) struct StreamRpc {
    pub(crate) broker: Broker,
    pub(crate) sessions: Sessions,
}

#[tonic::async_trait]
impl Stream for StreamRpc {
    async fn lookup(
        &self,
        request: Request<LookupRequest>,
    ) -> Result<Response<LookupResponse>, Status> {
        let topic = convert::topic_name("topic", &request.get_ref().topic);
        let topic = topic.map_err(|error| status::invalid(&error))?;
        let partitions = topics::partitions(&self.broker, &topic);
        let partitions = partitions.map_err(|error| status::status(&error))?;
        Ok(Response::new(LookupResponse { partitions }))
    }

    type ProduceStream = ReceiverStream<Result<ProduceResponse, Status>>;

    async fn produce(
        &self,
        request: Request<Streaming<ProduceRequest>>,
    ) -> Result<Response<Self::ProduceStream>, Status> {
        if self.sessions.is_stopping() {
            return Err(status::stopping());
        }
        let (answers, receiver) = mpsc::channel(caps::RESPONSES_WAITING_MAX);
        let (broker, stopping) = (self.broker.clone(), self.sessions.stopping());
        let requests = request.into_inner();
        self.sessions.spawn("produce", produce::run(broker, stopping, requests, answers));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ReadStream = ReceiverStream<Result<ReadResponse, Status>>;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        if self.sessions.is_stopping() {
            return Err(status::stopping());
        }
        let plan =
            read::Plan::decode(request.get_ref()).map_err(|error| status::invalid(&error))?;
        let reading = read::Reading::open(&self.broker, plan).await;
        let reading = reading.map_err(|error| status::status(&error))?;
        let (responses, receiver) = mpsc::channel(caps::RESPONSES_WAITING_MAX);
        self.sessions.spawn("read", reading.run(self.sessions.clone(), responses));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type ConsumeStream = ReceiverStream<Result<ConsumeResponse, Status>>;

    async fn consume(
        &self,
        request: Request<Streaming<ConsumeRequest>>,
    ) -> Result<Response<Self::ConsumeStream>, Status> {
        if self.sessions.is_stopping() {
            return Err(status::stopping());
        }
        let (responses, receiver) = mpsc::channel(caps::RESPONSES_WAITING_MAX);
        let (broker, stopping) = (self.broker.clone(), self.sessions.stopping());
        let requests = request.into_inner();
        let consuming = consume::run(broker, self.sessions.clock(), stopping, requests, responses);
        self.sessions.spawn("consume", consuming);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
