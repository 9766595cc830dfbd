//! What kind of call a request is, by its path: before anything of it is read.

use listwatch::v1::{admin_service_server as admin, list_watch_service_server as list_watch};

/// The kinds of calls that are limited in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Reads and answers once.
    Read,
    /// Writes and answers once.
    Write,
    /// Answers once, when it has done work that takes as long as it takes.
    Work,
    /// Opens a stream once it has read the request.
    Open,
    /// Streams in both ways (their own limits), health and reflection (which must answer when all else
    /// is refused), and what does not exist.
    Other,
}

impl Call {
    pub(super) fn of(path: &str) -> Self {
        let Some((service, method)) = path.strip_prefix('/').and_then(|p| p.split_once('/')) else {
            return Self::Other;
        };
        match (service, method) {
            (list_watch::SERVICE_NAME, "Get" | "List") => Self::Read,
            (list_watch::SERVICE_NAME, "Watch") => Self::Open,
            (list_watch::SERVICE_NAME, "Create" | "Update" | "Delete" | "Batch") => Self::Write,
            (admin::SERVICE_NAME, "GetStatus" | "ListWatches") => Self::Read,
            (admin::SERVICE_NAME, "Compact") => Self::Work,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch::v1::FILE_DESCRIPTOR_SET;
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_unary_rpc_of_the_api_is_limited() {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let mut seen = 0;
        for file in &files.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let streams = method.client_streaming() || method.server_streaming();
                    let unlimited = matches!(Call::of(&path), Call::Open | Call::Other);
                    assert_eq!(unlimited, streams, "{path}");
                    seen += 1;
                }
            }
        }
        assert!(seen >= 11);
        assert_eq!(Call::of("/grpc.health.v1.Health/Check"), Call::Other);
        assert_eq!(Call::of("nonsense"), Call::Other);
    }
}
