//! `danube.HealthCheck`.

use danube_proto::danube::health_check_request::ClientType;
use danube_proto::danube::health_check_response::ClientStatus;
use danube_proto::danube::health_check_server::HealthCheck;
use danube_proto::danube::{HealthCheckRequest, HealthCheckResponse};
use tonic::{Request, Response, Status};

use super::producers::Producers;
use crate::rpc::status;

/// The service.
#[derive(Clone)]
pub(crate) struct HealthRpc {
    pub(crate) producers: Producers,
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
            // This build has no consumers.
            Ok(ClientType::Consumer) => false,
            Err(_) => {
                let error = danube_proto::Error::UnknownValue { field: "client", found: client };
                return Err(status::invalid(&error));
            }
        };
        let status = if is_known { ClientStatus::Ok } else { ClientStatus::Close };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }
}
