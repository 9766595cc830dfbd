//! Health (grpc.health.v1) of the server as a whole and of each of its services.

use listwatch::v1::{
    admin_service_server::AdminServiceServer, list_watch_service_server::ListWatchServiceServer,
};
use tonic::server::NamedService;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health as HealthService, HealthServer},
    server::{HealthReporter, health_reporter},
};

use crate::service::Service;

/// The empty name is the server as a whole: what most probes ask for.
const NAMES: [&str; 3] = [
    "",
    <ListWatchServiceServer<Service> as NamedService>::NAME,
    <AdminServiceServer<Service> as NamedService>::NAME,
];

/// Tells the health service how the server is.
pub(super) struct Health(HealthReporter);

impl Health {
    /// The service, and what to tell it.
    pub(super) async fn serving() -> (Self, HealthServer<impl HealthService>) {
        let (reporter, service) = health_reporter();
        for name in NAMES {
            reporter
                .set_service_status(name, ServingStatus::Serving)
                .await;
        }
        (Self(reporter), service)
    }

    /// Says so to those who watch, and ends their streams, which would otherwise keep
    /// their connections for the whole grace.
    pub(super) async fn going_away(mut self) {
        for name in NAMES {
            self.0
                .set_service_status(name, ServingStatus::NotServing)
                .await;
            self.0.clear_service_status(name).await;
        }
    }
}
