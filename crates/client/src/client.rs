//! The connection to a broker.

use std::sync::Arc;
use std::time::Duration;

use danube_model::{TopicName, caps};
use danube_proto::admin::admin_client::AdminClient;
use danube_proto::stream::LookupRequest;
use danube_proto::stream::stream_client::StreamClient;
use tonic::transport::{Channel, Endpoint};

use crate::{Admin, ConsumerBuilder, Error, ProducerBuilder, ReaderBuilder, Result};

/// How much the broker may send ahead on a stream, and on all of them together, in bytes.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// The largest response: a batch and what surrounds it.
const RESPONSE_BYTES_MAX: usize = caps::BATCH_BYTES_MAX + (1 << 20);

/// Settings of a connection.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// For the TCP connection to come up. Default: 5 s.
    pub connect_timeout: Duration,
    /// A connection that was silent for so long is asked for a sign of life. Default: 10 s.
    pub keepalive_interval: Duration,
    /// A connection that gives no sign of life for so long is given up. Default: 10 s.
    pub keepalive_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            connect_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(10),
        }
    }
}

/// One HTTP/2 connection to a broker, shared by all that is opened on it. Cheap to clone.
///
/// A program that needs more than one connection carries makes several clients.
#[derive(Clone, Debug)]
pub struct Client {
    url: Arc<str>,
    channel: Channel,
}

impl Client {
    /// A client of the broker at `url`, such as `http://127.0.0.1:6650`. Connects when it is first used, and again
    /// whenever the connection breaks. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Url`] if that is not the URL of a broker.
    pub fn connect(url: &str) -> Result<Client> {
        Client::connect_with(url, &ClientSettings::default())
    }

    /// As [`Client::connect`], with settings.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_with(url: &str, settings: &ClientSettings) -> Result<Client> {
        let refuse = || Error::Url { url: url.to_owned() };
        let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| refuse())?;
        let authority = endpoint.uri().authority().ok_or_else(refuse)?;
        // What is no port is passed over by the transport.
        let is_port =
            authority.port_u16().is_some() || authority.as_str().ends_with(authority.host());
        if endpoint.uri().scheme_str() != Some("http") || !is_port {
            return Err(refuse());
        }
        let channel = endpoint
            .tcp_nodelay(true)
            .connect_timeout(settings.connect_timeout)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(settings.keepalive_interval)
            .keep_alive_timeout(settings.keepalive_timeout)
            .keep_alive_while_idle(true)
            .connect_lazy();
        Ok(Client { url: url.into(), channel })
    }

    /// The URL that it was made with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Prepares a producer.
    ///
    /// # Errors
    /// If `topic` is not the name of a topic.
    pub fn producer(&self, topic: &str) -> Result<ProducerBuilder> {
        Ok(ProducerBuilder::new(self.clone(), topic.parse()?))
    }

    /// Prepares a consumer of a subscription, which is created if it is new.
    ///
    /// # Errors
    /// If `topic` or `subscription` is not the name of one.
    pub fn consumer(&self, topic: &str, subscription: &str) -> Result<ConsumerBuilder> {
        Ok(ConsumerBuilder::new(self.clone(), topic.parse()?, subscription.parse()?))
    }

    /// Prepares a reader.
    ///
    /// # Errors
    /// If `topic` is not the name of a topic.
    pub fn reader(&self, topic: &str) -> Result<ReaderBuilder> {
        Ok(ReaderBuilder::new(self.clone(), topic.parse()?))
    }

    /// Administration.
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// The partitions of a topic by number, a topic without partitions as itself, nothing for an unknown one.
    ///
    /// # Errors
    /// What the broker refused, or that it could not be asked.
    pub async fn partitions(&self, topic: &TopicName) -> Result<Vec<TopicName>> {
        let request = LookupRequest { topic: topic.to_string() };
        let response = self.stream().lookup(request).await;
        let response = response.map_err(|status| self.failed(status))?.into_inner();
        let names = response.partitions.iter();
        Ok(names
            .map(|name| danube_proto::convert::topic_name("partitions", name))
            .collect::<Result<_, _>>()?)
    }

    pub(crate) fn shared_url(&self) -> &Arc<str> {
        &self.url
    }

    pub(crate) fn failed(&self, status: tonic::Status) -> Error {
        Error::from_status(&self.url, status)
    }

    /// Nobody answers.
    pub(crate) fn late(&self) -> Error {
        self.failed(tonic::Status::deadline_exceeded("no answer in time"))
    }

    pub(crate) fn stream(&self) -> StreamClient<Channel> {
        StreamClient::new(self.channel.clone())
            .max_decoding_message_size(RESPONSE_BYTES_MAX)
            .max_encoding_message_size(RESPONSE_BYTES_MAX)
    }

    pub(crate) fn admin_calls(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }
}
