//! A Listwatch server inside another program, and a client that reaches it over memory.

#![allow(clippy::print_stdout, clippy::field_reassign_with_default)]

use listwatch_client::{Client, Select, key, v1};
use listwatch_server::{Server, store::StoreOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = StoreOptions::default();
    let server = Server::builder().ephemeral(memory).start().await?;
    let endpoint = tonic::transport::Endpoint::from_static("http://in-memory");
    let client = Client::from_channel(endpoint.connect_with_connector(server.in_memory()).await?);

    client.update(lamp("off")).await?;
    let mut list = v1::ListRequest::default();
    list.selector = Some(Select::all("lamps").into());
    let list = client.list(list).await?;
    let (lamps, at) = (list.resources.len(), list.revision);
    println!("{lamps} lamp at revision {at}");

    let mut watch = v1::WatchRequest::default();
    watch.selector = Some(Select::all("lamps").into());
    watch.start = Some(v1::watch_request::Start::ResumeToken(list.resume_token));
    let mut watch = client.watch(watch).await?;
    client.update(lamp("on")).await?;
    while let Some(response) = watch.message().await? {
        for event in response.events {
            let kind = event.r#type();
            println!("{kind:?}: {:?}", event.resource.unwrap_or_default().value);
            server.drain(); // Ends the watch, and then the server.
        }
    }
    Ok(server.join().await?)
}

fn lamp(value: &'static str) -> v1::UpdateRequest {
    let mut lamp = v1::Resource::default();
    lamp.key = Some(key("lamps", "", "hall"));
    lamp.value = value.into();
    let mut update = v1::UpdateRequest::default();
    (update.resource, update.allow_missing) = (Some(lamp), true);
    update
}
