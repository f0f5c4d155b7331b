//! `danube.HealthCheck`.

use danube_broker::Broker;
use danube_model::ConsumerId;
use danube_proto::danube::health_check_request::ClientType;
use danube_proto::danube::health_check_response::ClientStatus;
use danube_proto::danube::health_check_server::HealthCheck;
use danube_proto::danube::{HealthCheckRequest, HealthCheckResponse};
use tonic::{Request, Response, Status};

use super::consumers::Consumers;
use super::producers::Producers;
use crate::rpc::status;

/// The service.
#[derive(Clone)]
pub(crate) struct HealthRpc {
    pub(crate) broker: Broker,
    pub(crate) producers: Producers,
    pub(crate) consumers: Consumers,
}

#[tonic::async_trait]
impl HealthCheck for HealthRpc {
    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let HealthCheckRequest { client, id, .. } = request.into_inner();
        let is_known = match ClientType::try_from(client) {
            Ok(ClientType::Producer) => self.producers.get(id).is_some(),
            Ok(ClientType::Consumer) => {
                let consumer = ConsumerId::new(id);
                let is_alive = consumer.is_ok_and(|id| self.broker.consumer_is_alive(id));
                if !is_alive && !self.consumers.tell(id) {
                    return Err(status::forgotten_consumer(id));
                }
                is_alive
            }
            Err(_) => {
                let error = danube_proto::Error::UnknownValue { field: "client", found: client };
                return Err(status::invalid(&error));
            }
        };
        let status = if is_known { ClientStatus::Ok } else { ClientStatus::Close };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}
