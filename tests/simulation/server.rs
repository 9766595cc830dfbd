//! The server of a run, and the way to it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use listwatch::v1::list_watch_service_client::ListWatchServiceClient;
use listwatch_server::{Server, ServerOptions};
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};

use super::{late_feed, world::World};

const PORT: u16 = 7450;
/// After so much silence a client gives its stream up: two and a half bookmark intervals.
pub const SILENCE: Duration = Duration::from_millis(2500);
pub const BOOKMARKS: Duration = Duration::from_millis(1000);

fn options(world: &World) -> ServerOptions {
    let clock = world.clock();
    let plan = world.lock().plan.clone();
    let mut options = ServerOptions::default();
    options.service.clock = clock;
    options.service.seed = Some(plan.seed);
    options.service.min_watch_life = Duration::from_secs(20);
    options.hub.default_cache_size = plan.cache;
    options.hub.window_span = Duration::ZERO;
    options.hub.response.items = 2;
    options.compaction_interval = None;
    options.shutdown_grace = Duration::from_secs(1);
    options
}

/// Runs until it is drained.
pub async fn serve(world: World, drain: Arc<Notify>) -> turmoil::Result {
    let address = (IpAddr::from(Ipv4Addr::UNSPECIFIED), PORT);
    let listener = turmoil::net::TcpListener::bind(address).await?;
    let incoming = futures::stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(connection, _)| connection);
        Some((accepted, listener))
    });
    let server = Server::builder()
        .store(late_feed::store(&world))
        .incoming(incoming)
        .options(options(&world))
        .shutdown(async move { drain.notified().await })
        .start()
        .await?;
    server.join().await?;
    Ok(())
}

/// A connection to the server, made with the first call.
pub fn channel() -> Channel {
    let connector = tower::service_fn(|_| async {
        let stream = turmoil::net::TcpStream::connect(("server", PORT)).await?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    });
    Endpoint::from_static("http://server")
        .connect_timeout(SILENCE)
        .connect_with_connector_lazy(connector)
}

pub fn dial() -> ListWatchServiceClient<Channel> {
    ListWatchServiceClient::new(channel())
}
