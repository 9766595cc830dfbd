//! gRPC to a server, over connections that count.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use listwatch::v1::{
    admin_service_client::AdminServiceClient, list_watch_service_client::ListWatchServiceClient,
};
use tonic::transport::{Channel, Endpoint};

use super::{
    http::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, failed},
    side::Site,
    wire::{Wire, dial},
};

/// A whole state may come in one message.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

async fn channel(site: &Site, wire: &Arc<Wire>) -> Result<Channel, String> {
    let (address, wire) = (site.address().to_owned(), wire.clone());
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(failed)?;
    let connector = tower::service_fn(move |_| {
        let (address, wire) = (address.clone(), wire.clone());
        async move { dial(&address, &wire).await.map(TokioIo::new) }
    });
    endpoint
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .connect_with_connector(connector)
        .await
        .map_err(|error| format!("cannot connect to {}: {error}", site.address()))
}

/// A connection of its own.
pub(super) async fn connect(
    site: &Site,
    wire: &Arc<Wire>,
) -> Result<ListWatchServiceClient<Channel>, String> {
    let client = ListWatchServiceClient::new(channel(site, wire).await?);
    Ok(client.max_decoding_message_size(MAX_MESSAGE_BYTES))
}

/// Drops all history before a revision.
pub(super) async fn compact(site: &Site, revision: i64) -> Result<(), String> {
    let mut admin = AdminServiceClient::new(channel(site, &Arc::default()).await?);
    let request = listwatch::v1::CompactRequest {
        revision,
        wait: true,
    };
    admin.compact(request).await.map(drop).map_err(failed)
}
