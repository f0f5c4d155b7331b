//! `danube.ConsumerService`.

use std::ops::Range;

use danube_broker::{Broker, Error, Settle, Start, Subscribe, Topic, Window};
use danube_env::Env;
use danube_model::{ConsumerId, ConsumerName, Offset, SubscriptionName};
use danube_proto::convert;
use danube_proto::danube::consumer_service_server::ConsumerService;
use danube_proto::danube::{
    AckRequest, AckResponse, ConsumerRequest, ConsumerResponse, MsgId, NackRequest, NackResponse,
    ReceiveRequest, name, subscription_type,
};
use tonic::{Request, Response, Status};

use super::consumers::Consumers;
use super::receive::{self, Messages};
use crate::caps;
use crate::rpc::status;
use crate::sessions::Sessions;

/// The service.
#[derive(Clone)]
pub(crate) struct ConsumerRpc {
    pub(crate) broker: Broker,
    pub(crate) consumers: Consumers,
    pub(crate) sessions: Sessions,
    pub(crate) env: Env,
}

#[tonic::async_trait]
impl ConsumerService for ConsumerRpc {
    async fn subscribe(
        &self,
        request: Request<ConsumerRequest>,
    ) -> Result<Response<ConsumerResponse>, Status> {
        let ConsumerRequest { request_id, consumer_name, .. } = request.get_ref();
        let response = (*request_id, consumer_name.clone());
        let (topic, subscribe) =
            decode(request.into_inner()).map_err(|error| status::invalid(&error))?;
        let topic = self.broker.topic(&topic).map_err(|error| status::lookup(&error))?;
        let replaced = topic.registered(&subscribe.subscription, &subscribe.consumer);
        let id = topic.subscribe(subscribe).await.map_err(|error| status::registering(&error))?;
        if let Some(replaced) = replaced {
            self.consumers.replaced(replaced.get());
        }
        let ((request_id, consumer_name), consumer_id) = (response, id.get());
        Ok(Response::new(ConsumerResponse { request_id, consumer_id, consumer_name }))
    }

    type ReceiveMessagesStream = Messages;

    async fn receive_messages(
        &self,
        request: Request<ReceiveRequest>,
    ) -> Result<Response<Self::ReceiveMessagesStream>, Status> {
        if self.sessions.is_stopping() {
            return Err(status::stopping());
        }
        let id = request.get_ref().consumer_id;
        match self.attach(id).await {
            Ok(messages) => Ok(Response::new(messages)),
            Err(refusal) => {
                // Some clients ask again at once, and for ever.
                self.env.clock.sleep(caps::REFUSED_CONSUMER_DELAY).await;
                Err(refusal)
            }
        }
    }

    async fn ack(&self, request: Request<AckRequest>) -> Result<Response<AckResponse>, Status> {
        let AckRequest { request_id, msg_id, subscription_name } = request.into_inner();
        let message = self.message(msg_id, &subscription_name)?;
        if let Some(offsets) = message.offsets {
            let settle = Settle::Acknowledge(vec![offsets]);
            let settled = message.topic.settle(&message.subscription, settle).await;
            settled.map_err(|error| status::registered(&error))?;
        }
        Ok(Response::new(AckResponse { request_id }))
    }

    async fn nack(&self, request: Request<NackRequest>) -> Result<Response<NackResponse>, Status> {
        let NackRequest { request_id, msg_id, subscription_name, delay_ms, reason } =
            request.into_inner();
        let message = self.message(msg_id, &subscription_name)?;
        if let Some(offsets) = message.offsets {
            let mut reason = reason.unwrap_or_default();
            reason.truncate(reason.floor_char_boundary(caps::NACK_REASON_BYTES_MAX));
            let (offset, delay_ms) = (offsets.start, delay_ms.unwrap_or(0));
            let settle = Settle::Refuse { offset, delay_ms, reason };
            let settled = message.topic.settle(&message.subscription, settle).await;
            settled.map_err(|error| status::registered(&error))?;
        }
        Ok(Response::new(NackResponse { request_id }))
    }
}

/// What an acknowledgement is about.
struct Settled {
    topic: Topic,
    subscription: SubscriptionName,
    /// `None`: no message can have that offset, which is no error.
    offsets: Option<Range<Offset>>,
}

impl ConsumerRpc {
    async fn attach(&self, id: u64) -> Result<Messages, Status> {
        let consumer = ConsumerId::new(id).map_err(|_| status::unknown_consumer(id))?;
        let Some(registration) = self.broker.registration(consumer) else {
            return Err(match self.consumers.is_replaced(id) {
                true => status::consuming(&Error::Replaced),
                false => status::unknown_consumer(id),
            });
        };
        let failed = |error: Error| status::consuming(&error);
        let topic = self.broker.topic(&registration.topic).map_err(failed)?;
        let attached = self.broker.attach_consumer(consumer, Window::Unlimited).await;
        Ok(receive::messages(&topic, attached.map_err(failed)?, &self.sessions))
    }

    fn message(&self, id: Option<MsgId>, subscription: &str) -> Result<Settled, Status> {
        let invalid = |error| status::invalid(&error);
        let id = convert::required("msg_id", id).map_err(invalid)?;
        let topic = convert::topic_name("topic_name", &id.topic_name).map_err(invalid)?;
        let subscription = name("subscription_name", subscription).map_err(invalid)?;
        // Final for its clients: subscribing again would not help.
        let topic = self.broker.topic(&topic).map_err(|error| status::lookup(&error))?;
        let offset = Offset::new(id.topic_offset);
        let offsets = offset.checked_add(1).map(|end| offset..end);
        Ok(Settled { topic, subscription, offsets })
    }
}

fn decode(request: ConsumerRequest) -> danube_proto::Result<(danube_model::TopicName, Subscribe)> {
    let topic = convert::topic_name("topic_name", &request.topic_name)?;
    let consumer: ConsumerName = name("consumer_name", &request.consumer_name)?;
    let subscribe = Subscribe {
        subscription: name("subscription", &request.subscription)?,
        consumer,
        kind: subscription_type("subscription_type", request.subscription_type)?,
        filters: request.key_filters,
        start: Start::Latest,
    };
    Ok((topic, subscribe))
}
