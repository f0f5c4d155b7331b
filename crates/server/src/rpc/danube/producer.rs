//! `danube.ProducerService`.

use danube_broker::Broker;
use danube_model::ErrorKind;
use danube_proto::danube::producer_service_server::ProducerService;
use danube_proto::danube::{
    MessageResponse, ProducerRequest, ProducerResponse, Sent, StreamMessage, access_mode,
    client_name, delivered_bytes_max, dispatch_strategy,
};
use danube_proto::{Error, convert};
use tonic::{Request, Response, Status};

use super::producers::Producers;
use crate::caps;
use crate::rpc::status;
use crate::rpc::topics::{self, Expected, MissingPartition};

/// The service.
#[derive(Clone)]
pub(crate) struct ProducerRpc {
    pub(crate) broker: Broker,
    pub(crate) producers: Producers,
}

#[tonic::async_trait]
impl ProducerService for ProducerRpc {
    async fn create_producer(
        &self,
        request: Request<ProducerRequest>,
    ) -> Result<Response<ProducerResponse>, Status> {
        let request = request.into_inner();
        let request_id = request.request_id;
        let invalid = |error: Error| status::invalid(&error);
        let topic = convert::topic_name("topic_name", &request.topic_name).map_err(invalid)?;
        let name = client_name("producer_name", request.producer_name).map_err(invalid)?;
        access_mode("producer_access_mode", request.producer_access_mode).map_err(invalid)?;
        let strategy = dispatch_strategy("dispatch_strategy", request.dispatch_strategy);
        let reliability = Some(strategy.map_err(invalid)?);
        let schema = request.schema_ref.unwrap_or_default();
        if !schema.subject.is_empty() {
            return Err(status::no_such_subject(&schema.subject));
        }
        let expected = Expected { reliability, durability: None };
        let missing = MissingPartition::for_producer(&topic, &name);
        let topic = topics::for_producer(&self.broker, &topic, Some(expected), missing).await;
        let topic = topic.map_err(|error| status::registering(&error))?;
        if topic.is_reliable() {
            topic.open().await.map_err(|error| status::registering(&error))?;
        }
        let producer_id = self.producers.register(topic, &name)?;
        Ok(Response::new(ProducerResponse { request_id, producer_id, producer_name: name }))
    }

    async fn send_message(
        &self,
        request: Request<StreamMessage>,
    ) -> Result<Response<MessageResponse>, Status> {
        let sent = request.into_inner();
        let request_id = sent.request_id;
        let bytes = delivered_bytes_max(&sent);
        if bytes > caps::DELIVERED_BYTES_MAX {
            return Err(status::too_large("bytes of a message", bytes, caps::DELIVERED_BYTES_MAX));
        }
        let Sent { producer_id, topic_name, message } =
            sent.try_into().map_err(|error| status::invalid(&error))?;
        let producer = self.producers.get(producer_id);
        let producer = producer.ok_or_else(|| status::unknown_producer(producer_id))?;
        let topic = &producer.topic;
        if topic.name().as_str() != topic_name {
            return Err(status::other_topic(producer_id, topic.name(), &topic_name));
        }
        let record = message.to_record().map_err(|error| status::invalid_value(&error))?;
        let stored = match producer.is_reliable {
            true => topic.append_message(&record).await.map(drop),
            false => topic.publish_message(&record).await,
        };
        if let Err(error) = stored {
            if error.kind() == ErrorKind::NotFound {
                self.producers.forget(producer_id);
            }
            return Err(status::registered(&error));
        }
        Ok(Response::new(MessageResponse { request_id }))
    }
}
