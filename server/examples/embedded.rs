//! A Listwatch server inside another program, and a client that reaches it over memory.

#![allow(clippy::print_stdout)] // It shows what happens.

use listwatch_client::{Client, Select, key, v1};
use listwatch_server::{Server, store::StoreOptions};
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = StoreOptions::default();
    let server = Server::builder().ephemeral(store).start().await?;
    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint.connect_with_connector(server.in_memory()).await?;
    let client = Client::from_channel(channel);

    let lamp = |value: &'static str| v1::UpdateRequest {
        resource: Some(v1::Resource {
            key: Some(key("lamps", "", "hall")),
            value: value.into(),
            ..Default::default()
        }),
        allow_missing: true,
        ..Default::default()
    };
    client.update(lamp("off")).await?;

    let selector = Some(Select::all("lamps").into());
    let request = v1::ListRequest {
        selector: selector.clone(),
        ..Default::default()
    };
    let list = client.list(request).await?;
    for lamp in list.resources {
        println!("listed at revision {}: {:?}", list.revision, lamp.value);
    }

    let start = Some(v1::watch_request::Start::ResumeToken(list.resume_token));
    let request = v1::WatchRequest {
        selector,
        start,
        ..Default::default()
    };
    let mut watch = client.watch(request).await?;
    client.update(lamp("on")).await?;
    while let Some(response) = watch.message().await? {
        for event in response.events {
            println!(
                "{:?}: {:?}",
                event.r#type(),
                event.resource.unwrap_or_default().value
            );
            server.drain();
        }
    }
    server.join().await?;
    println!("ended");
    Ok(())
}
