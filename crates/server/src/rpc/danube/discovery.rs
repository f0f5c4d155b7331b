//! `danube.Discovery`.

use std::net::{IpAddr, SocketAddr};

use danube_broker::Broker;
use danube_proto::convert;
use danube_proto::danube::discovery_server::Discovery;
use danube_proto::danube::topic_lookup_response::LookupType;
use danube_proto::danube::{TopicLookupRequest, TopicLookupResponse, TopicPartitionsResponse};
use tonic::codegen::http::uri::Authority;
use tonic::{Request, Response, Status};

use crate::config::Advertised;
use crate::rpc::{status, topics};

/// The service.
#[derive(Clone)]
pub(crate) struct DiscoveryRpc {
    pub(crate) broker: Broker,
    pub(crate) advertised: Advertised,
}

#[tonic::async_trait]
impl Discovery for DiscoveryRpc {
    async fn topic_lookup(
        &self,
        request: Request<TopicLookupRequest>,
    ) -> Result<Response<TopicLookupResponse>, Status> {
        let name = convert::topic_name("topic", &request.get_ref().topic);
        let name = name.map_err(|error| status::invalid(&error))?;
        self.broker.topic(&name).map_err(|error| status::lookup(&error))?;
        let Advertised { broker_url, connect_url } = &self.advertised;
        let (broker_url, connect_url) = match (broker_url, connect_url) {
            (Some(broker), Some(connect)) => (broker.clone(), connect.clone()),
            (Some(url), None) | (None, Some(url)) => (url.clone(), url.clone()),
            (None, None) => {
                let authority = request.extensions().get::<Authority>();
                let url = called(authority, request.local_addr())
                    .ok_or_else(|| status::protocol("a call without an authority"))?;
                (url.clone(), url)
            }
        };
        Ok(Response::new(TopicLookupResponse {
            request_id: request.get_ref().request_id,
            response_type: LookupType::Connect.into(),
            proxy: broker_url != connect_url,
            connect_url,
            broker_url,
        }))
    }

    async fn topic_partitions(
        &self,
        request: Request<TopicLookupRequest>,
    ) -> Result<Response<TopicPartitionsResponse>, Status> {
        let TopicLookupRequest { request_id, topic } = request.into_inner();
        let name = convert::topic_name("topic", &topic).map_err(|error| status::invalid(&error))?;
        let partitions = topics::partitions(&self.broker, &name);
        let partitions = partitions.map_err(|error| status::status(&error))?;
        Ok(Response::new(TopicPartitionsResponse { request_id, partitions }))
    }
}

/// The URL that a client called. "Any address" is none that another client could call: then it is the one that took the
/// connection.
fn called(authority: Option<&Authority>, local: Option<SocketAddr>) -> Option<String> {
    let any = |host: &str| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
    };
    match authority.filter(|authority| !any(authority.host())) {
        Some(authority) => match authority.port() {
            Some(port) => Some(format!("http://{}:{port}", authority.host())),
            None => Some(format!("http://{}", authority.host())),
        },
        None => local.map(|address| format!("http://{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_it_called_but_never_any_address() {
        let local = "10.0.0.7:6650".parse().ok();
        for (authority, expected) in [
            ("broker.example:7000", "http://broker.example:7000"),
            ("user@broker:1", "http://broker:1"),
            ("[::1]:6650", "http://[::1]:6650"),
            ("broker", "http://broker"),
            ("0.0.0.0:6650", "http://10.0.0.7:6650"),
            ("[::]:6650", "http://10.0.0.7:6650"),
        ] {
            let authority = authority.parse().unwrap();
            assert_eq!(called(Some(&authority), local).as_deref(), Some(expected));
        }
        assert_eq!(called(None, local).as_deref(), Some("http://10.0.0.7:6650"));
        assert_eq!(called(None, None), None);
    }
}
