//! How much the server takes on, what it says to the rest, and that the one never starves the
//! other.

mod calls;
mod connections;
mod descriptors;
mod lag;
mod watches;

use std::{net::SocketAddr, time::Duration};

use hyper_util::rt::TokioIo;
use listwatch::v1::{
    self, list_watch_service_client::ListWatchServiceClient, list_watch_service_server,
};
use listwatch_server::{Server, ServerHandle, ServerOptions};
use tokio::{net::TcpSocket, task::JoinHandle};
use tonic::{
    Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use crate::harness::{PATIENCE, reason};

/// Waits until something is so.
async fn until(what: &str, so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "not in time: {what}");
}

/// A server in memory behind a port.
async fn listening(options: ServerOptions) -> ServerHandle {
    let server = Server::builder().listen("127.0.0.1:0").options(options);
    server.start().await.unwrap()
}

fn port_of(server: &ServerHandle) -> SocketAddr {
    server.local_addr().unwrap()
}

/// A channel from an address of this machine: all of 127.0.0.0/8 is.
async fn channel_from(
    source: &'static str,
    server: &ServerHandle,
) -> Result<Channel, tonic::transport::Error> {
    let to = port_of(server);
    let connector = tower::service_fn(move |_: http::Uri| async move {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source.parse().unwrap(), 0))?;
        socket.connect(to).await.map(TokioIo::new)
    });
    let endpoint = Endpoint::from_static("http://of-this-machine");
    endpoint.connect_with_connector(connector).await
}

async fn stub_from(source: &'static str, server: &ServerHandle) -> ListWatchServiceClient<Channel> {
    ListWatchServiceClient::new(channel_from(source, server).await.unwrap())
}

/// A call that has begun and whose message never comes.
fn held(channel: &Channel, method: &str) -> JoinHandle<Result<(), Status>> {
    let mut grpc = Grpc::new(channel.clone());
    let service = list_watch_service_server::SERVICE_NAME;
    let path = format!("/{service}/{method}").parse().unwrap();
    tokio::spawn(async move {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<v1::GetRequest, v1::GetResponse>::default();
        let messages = futures::stream::pending::<v1::GetRequest>();
        let call = grpc.client_streaming(tonic::Request::new(messages), path, codec);
        call.await.map(drop)
    })
}

/// When a refusal says to come again: with its reason, and within its bounds.
#[track_caller]
fn retry_after(status: &Status, expected: &str) -> Duration {
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(status), expected);
    let retry = status.get_error_details().retry_info().cloned();
    let delay = retry.and_then(|retry| retry.retry_delay).expect("a delay");
    let bounds = Duration::from_secs(1)..=Duration::from_secs(2);
    assert!(bounds.contains(&delay), "{delay:?}");
    delay
}
