//! The echo for existing clients: every message is answered at once, as soon as it is decoded.

use danube_proto::danube::discovery_server::{Discovery, DiscoveryServer};
use danube_proto::danube::health_check_server::{HealthCheck, HealthCheckServer};
use danube_proto::danube::producer_service_server::{ProducerService, ProducerServiceServer};
use danube_proto::danube::{
    HealthCheckRequest, HealthCheckResponse, MessageResponse, ProducerRequest, ProducerResponse,
    StreamMessage, TopicLookupRequest, TopicLookupResponse, TopicPartitionsResponse,
    topic_lookup_response::LookupType,
};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// All of it, for an echo at `url`.
pub(super) fn routes(url: &str) -> Routes {
    let echoing = Echoing { url: url.to_owned() };
    Routes::new(DiscoveryServer::new(echoing.clone()))
        .add_service(HealthCheckServer::new(echoing.clone()))
        .add_service(ProducerServiceServer::new(echoing))
}

#[derive(Clone)]
struct Echoing {
    url: String,
}

#[tonic::async_trait]
impl Discovery for Echoing {
    async fn topic_lookup(
        &self,
        request: Request<TopicLookupRequest>,
    ) -> Result<Response<TopicLookupResponse>, Status> {
        Ok(Response::new(TopicLookupResponse {
            request_id: request.get_ref().request_id,
            response_type: LookupType::Connect.into(),
            connect_url: self.url.clone(),
            broker_url: self.url.clone(),
            proxy: false,
        }))
    }

    async fn topic_partitions(
        &self,
        request: Request<TopicLookupRequest>,
    ) -> Result<Response<TopicPartitionsResponse>, Status> {
        let TopicLookupRequest { request_id, topic } = request.into_inner();
        Ok(Response::new(TopicPartitionsResponse { request_id, partitions: vec![topic] }))
    }
}

#[tonic::async_trait]
impl HealthCheck for Echoing {
    async fn health_check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse::default()))
    }
}

#[tonic::async_trait]
impl ProducerService for Echoing {
    async fn create_producer(
        &self,
        request: Request<ProducerRequest>,
    ) -> Result<Response<ProducerResponse>, Status> {
        let ProducerRequest { request_id, producer_name, .. } = request.into_inner();
        Ok(Response::new(ProducerResponse { request_id, producer_id: 1, producer_name }))
    }

    async fn send_message(
        &self,
        request: Request<StreamMessage>,
    ) -> Result<Response<MessageResponse>, Status> {
        Ok(Response::new(MessageResponse { request_id: request.get_ref().request_id }))
    }
}
