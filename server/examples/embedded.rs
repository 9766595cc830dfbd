//! A Listwatch server inside another program, and a client that reaches it over memory.

// It shows what happens, and keeps it short.
#![allow(clippy::print_stdout, clippy::field_reassign_with_default)]

use listwatch_client::{Client, Select, key, v1};
use listwatch_server::{Server, store::StoreOptions};
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = StoreOptions::default();
    let server = Server::builder().ephemeral(memory).start().await?;
    let endpoint = Endpoint::from_static("http://in-memory");
    let client = Client::from_channel(endpoint.connect_with_connector(server.in_memory()).await?);

    client.update(lamp("off")).await?;
    let mut request = v1::ListRequest::default();
    request.selector = Some(Select::all("lamps").into());
    let list = client.list(request).await?;
    println!(
        "{} lamp at revision {}",
        list.resources.len(),
        list.revision
    );

    let mut request = v1::WatchRequest::default();
    request.selector = Some(Select::all("lamps").into());
    request.start = Some(v1::watch_request::Start::ResumeToken(list.resume_token));
    let mut watch = client.watch(request).await?;
    client.update(lamp("on")).await?;
    while let Some(response) = watch.message().await? {
        for event in response.events {
            println!(
                "{:?}: {:?}",
                event.r#type(),
                event.resource.unwrap_or_default().value
            );
            server.drain(); // Ends the watch, and then the server.
        }
    }
    server.join().await?;
    Ok(())
}

fn lamp(value: &'static str) -> v1::UpdateRequest {
    let mut lamp = v1::Resource::default();
    lamp.key = Some(key("lamps", "", "hall"));
    lamp.value = value.into();
    v1::UpdateRequest {
        resource: Some(lamp),
        allow_missing: true,
        ..Default::default()
    }
}
