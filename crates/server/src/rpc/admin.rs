//! `danube.admin.v1`.

mod subscriptions;

use bytes::Bytes;
use danube_broker::{Broker, Change, Delivery, Description, Listed, NewTopic, Remedy, TopicChange};
use danube_model::{BrokerId, Durability, Namespace, TopicName};
use danube_proto::admin as wire;
use danube_proto::admin::admin_server::Admin;
use danube_proto::{Reliability, convert, stream};
use tonic::{Request, Response, Status};

use super::status;
use super::topics::Expected;
use crate::caps;

/// The service.
#[derive(Clone)]
pub(crate) struct AdminRpc {
    pub(crate) broker: Broker,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Admin for AdminRpc {
    async fn create_topic(
        &self,
        request: Request<wire::CreateTopicRequest>,
    ) -> Answer<wire::CreateTopicResponse> {
        let request = request.into_inner();
        let name = topic(&request.topic)?;
        let settings = request.settings.unwrap_or_default();
        let mut new = NewTopic {
            name: name.clone(),
            partitions: (request.partitions > 0).then_some(request.partitions),
            delivery: expected(&settings)?.delivery(),
            settings: Default::default(),
        };
        new.settings.retention_ms = settings.retention_time_ms;
        new.settings.retention_bytes = settings.retention_bytes;
        new.settings.message_bytes_max = settings.max_message_bytes.filter(|bytes| *bytes > 0);
        self.broker.create_topic(new).await.map_err(|error| status::status(&error))?;
        let topics = self.broker.partitions(&name).map_err(|error| status::status(&error))?;
        let topics = topics.iter().map(ToString::to_string).collect();
        Ok(Response::new(wire::CreateTopicResponse { topics }))
    }

    async fn list_topics(
        &self,
        request: Request<wire::ListTopicsRequest>,
    ) -> Answer<wire::ListTopicsResponse> {
        let request = request.into_inner();
        let namespace = if_said(&request.namespace, namespace)?;
        let after = if_said(&request.after, topic)?;
        let limit = match request.limit as usize {
            0 => caps::TOPICS_PER_PAGE_MAX,
            limit => limit.min(caps::TOPICS_PER_PAGE_MAX),
        };
        // One more, to know whether there is one.
        let topics = self.broker.list_topics(namespace.as_ref(), after.as_ref(), limit + 1);
        let mut topics = topics.map_err(|error| status::status(&error))?;
        let more = topics.len() > limit;
        topics.truncate(limit);
        let topics = topics.iter().map(topic_entry).collect();
        Ok(Response::new(wire::ListTopicsResponse { topics, more }))
    }

    async fn describe_topic(
        &self,
        request: Request<wire::DescribeTopicRequest>,
    ) -> Answer<wire::DescribeTopicResponse> {
        let name = topic(&request.get_ref().topic)?;
        let listed = self.broker.listed(&name).map_err(|error| status::status(&error))?;
        let topic = if listed.partitions.is_some() {
            let partitions = self.broker.partitions(&name);
            partitioned(&listed, &partitions.map_err(|error| status::status(&error))?)
        } else {
            let topic = self.broker.topic(&name).map_err(|error| status::status(&error))?;
            let described = topic.describe().await.map_err(|error| status::status(&error))?;
            let subscriptions = topic.subscriptions().iter().map(ToString::to_string).collect();
            wire::TopicDescription { subscriptions, ..self::described(described) }
        };
        Ok(Response::new(wire::DescribeTopicResponse { topic: Some(topic) }))
    }

    async fn update_topic(
        &self,
        request: Request<wire::UpdateTopicRequest>,
    ) -> Answer<wire::UpdateTopicResponse> {
        let request = request.into_inner();
        let name = topic(&request.topic)?;
        let settings = request.settings.unwrap_or_default();
        let expected = expected(&settings)?;
        if request.partitions > 0 {
            return Err(status::unsupported("this build can't add partitions to a topic"));
        }
        if expected.reliability.is_some() {
            return Err(status::unsupported("the reliability of a topic can't be changed"));
        }
        let change = TopicChange {
            durability: expected.durability,
            retention_ms: change(settings.retention_time_ms, request.default_retention_time),
            retention_bytes: change(settings.retention_bytes, request.default_retention_bytes),
            message_bytes_max: change(
                settings.max_message_bytes,
                settings.max_message_bytes == Some(0),
            ),
        };
        let updated = self.broker.update_topic(&name, change).await;
        updated.map_err(|error| status::status(&error))?;
        Ok(Response::new(wire::UpdateTopicResponse {}))
    }

    async fn delete_topic(
        &self,
        request: Request<wire::DeleteTopicRequest>,
    ) -> Answer<wire::DeleteTopicResponse> {
        let name = topic(&request.get_ref().topic)?;
        self.broker.delete_topic(&name).await.map_err(|error| status::status(&error))?;
        Ok(Response::new(wire::DeleteTopicResponse {}))
    }

    async fn repair_topic(
        &self,
        request: Request<wire::RepairTopicRequest>,
    ) -> Answer<wire::RepairTopicResponse> {
        let request = request.into_inner();
        let name = topic(&request.topic)?;
        let accept_gap = request.accept_gap && !request.dry_run;
        let findings = self.broker.repair_topic(&name, accept_gap).await;
        let findings = findings.map_err(|error| status::status(&error))?.into_iter();
        let findings = findings.map(|finding| wire::Finding {
            from: finding.from.get(),
            to: finding.to.get(),
            file: finding.file,
            message: finding.what,
            remedy: match finding.remedy {
                Remedy::Gap => wire::Remedy::Gap,
            }
            .into(),
            applied: finding.done,
        });
        Ok(Response::new(wire::RepairTopicResponse { findings: findings.collect() }))
    }

    async fn create_namespace(
        &self,
        request: Request<wire::CreateNamespaceRequest>,
    ) -> Answer<wire::CreateNamespaceResponse> {
        let namespace = namespace(&request.get_ref().namespace)?;
        let created = self.broker.create_namespace(namespace).await;
        created.map_err(|error| status::status(&error))?;
        Ok(Response::new(wire::CreateNamespaceResponse {}))
    }

    async fn list_namespaces(
        &self,
        _request: Request<wire::ListNamespacesRequest>,
    ) -> Answer<wire::ListNamespacesResponse> {
        let namespaces = self.broker.list_namespaces();
        let namespaces = namespaces.iter().map(ToString::to_string).collect();
        Ok(Response::new(wire::ListNamespacesResponse { namespaces }))
    }

    async fn delete_namespace(
        &self,
        request: Request<wire::DeleteNamespaceRequest>,
    ) -> Answer<wire::DeleteNamespaceResponse> {
        let namespace = namespace(&request.get_ref().namespace)?;
        let deleted = self.broker.delete_namespace(namespace).await;
        deleted.map_err(|error| status::status(&error))?;
        Ok(Response::new(wire::DeleteNamespaceResponse {}))
    }

    async fn create_subscription(
        &self,
        request: Request<wire::CreateSubscriptionRequest>,
    ) -> Answer<wire::CreateSubscriptionResponse> {
        subscriptions::create(&self.broker, request.into_inner()).await.map(Response::new)
    }

    async fn list_subscriptions(
        &self,
        request: Request<wire::ListSubscriptionsRequest>,
    ) -> Answer<wire::ListSubscriptionsResponse> {
        subscriptions::list(&self.broker, request.get_ref()).map(Response::new)
    }

    async fn describe_subscription(
        &self,
        request: Request<wire::DescribeSubscriptionRequest>,
    ) -> Answer<wire::DescribeSubscriptionResponse> {
        subscriptions::describe(&self.broker, request.into_inner()).await.map(Response::new)
    }

    async fn delete_subscription(
        &self,
        request: Request<wire::DeleteSubscriptionRequest>,
    ) -> Answer<wire::DeleteSubscriptionResponse> {
        subscriptions::delete(&self.broker, request.into_inner()).await.map(Response::new)
    }

    async fn seek_subscription(
        &self,
        request: Request<wire::SeekSubscriptionRequest>,
    ) -> Answer<wire::SeekSubscriptionResponse> {
        subscriptions::seek(&self.broker, request.into_inner()).await.map(Response::new)
    }

    async fn list_alarms(
        &self,
        _request: Request<wire::ListAlarmsRequest>,
    ) -> Answer<wire::ListAlarmsResponse> {
        Err(status::unsupported("this build has no alarms"))
    }
}

fn topic(text: &str) -> Result<TopicName, Status> {
    convert::topic_name("topic", text).map_err(|error| status::invalid(&error))
}

fn namespace(text: &str) -> Result<Namespace, Status> {
    convert::namespace("namespace", text).map_err(|error| status::invalid(&error))
}

fn if_said<T>(
    text: &str,
    decode: impl FnOnce(&str) -> Result<T, Status>,
) -> Result<Option<T>, Status> {
    if text.is_empty() { Ok(None) } else { decode(text).map(Some) }
}

fn expected(settings: &wire::TopicSettings) -> Result<Expected, Status> {
    let said =
        stream::Expectation { reliability: settings.reliability, durability: settings.durability };
    Expected::decode(&said).map_err(|error| status::invalid(&error))
}

fn change(said: Option<u64>, is_default: bool) -> Change<u64> {
    if is_default { Change::Reset } else { said.map_or(Change::Keep, Change::Set) }
}

fn owner(owner: Option<BrokerId>) -> String {
    owner.map_or_else(String::new, |owner| owner.to_string())
}

fn delivery(delivery: Delivery) -> (Reliability, Option<Durability>) {
    match delivery {
        Delivery::NonReliable => (Reliability::NonReliable, None),
        Delivery::Reliable(level) => (Reliability::Reliable, Some(level)),
    }
}

fn topic_entry(listed: &Listed) -> wire::TopicEntry {
    wire::TopicEntry {
        topic: listed.name.to_string(),
        partitions: listed.partitions.unwrap_or(0),
        reliability: convert::wire_reliability(Some(delivery(listed.delivery).0)),
        owner: owner(listed.owner),
    }
}

fn partitioned(listed: &Listed, partitions: &[TopicName]) -> wire::TopicDescription {
    let (reliability, durability) = delivery(listed.delivery);
    wire::TopicDescription {
        topic: listed.name.to_string(),
        settings: Some(wire::TopicSettings {
            reliability: convert::wire_reliability(Some(reliability)),
            durability: convert::wire_durability(durability),
            ..wire::TopicSettings::default()
        }),
        partitions: partitions.iter().map(ToString::to_string).collect(),
        ..wire::TopicDescription::default()
    }
}

fn described(topic: Description) -> wire::TopicDescription {
    let (start, end) = (topic.start.get(), topic.durable_end.get());
    let producers = topic.producers.into_iter();
    let (reliability, durability) = delivery(topic.delivery);
    let state = if topic.blocked.is_some() { "waiting" } else { "serving" };
    wire::TopicDescription {
        topic: topic.name.to_string(),
        topic_id: Bytes::copy_from_slice(topic.id.as_bytes()),
        owner: owner(topic.owner),
        epoch: topic.epoch.get(),
        settings: Some(wire::TopicSettings {
            reliability: convert::wire_reliability(Some(reliability)),
            durability: convert::wire_durability(durability),
            retention_time_ms: topic.settings.retention_ms,
            retention_bytes: topic.settings.retention_bytes,
            max_message_bytes: topic.settings.message_bytes_max,
        }),
        start_offset: start,
        durable_end: end,
        end_offset: end,
        ceiling: topic.ceiling.get(),
        hot: Some(wire::TierRange { start, end, bytes: topic.bytes }),
        warm: None,
        cold: None,
        gaps: topic.gaps.iter().filter_map(gap).collect(),
        damage: topic.gaps.iter().filter_map(damage).collect(),
        state: state.to_owned(),
        blocked: topic.blocked.map_or_else(String::new, |error| error.to_string()),
        producers: producers
            .map(|name| wire::ProducerDescription { name, peer: String::new() })
            .collect(),
        subscriptions: Vec::new(),
        partitions: Vec::new(),
    }
}

/// A gap that has a reason.
fn gap(gap: &danube_broker::Gap) -> Option<stream::Gap> {
    let why = gap.reason?.as_str().to_owned();
    Some(stream::Gap { from: gap.from.get(), to: gap.to.get(), why })
}

/// One without a reason is damage that nobody has accepted.
fn damage(gap: &danube_broker::Gap) -> Option<stream::Damage> {
    let (from, to) = (gap.from.get(), gap.to.get());
    let message = "can't be read; a repair tells where the damage is".to_owned();
    gap.reason.is_none().then(|| stream::Damage { from, to, file: String::new(), message })
}
