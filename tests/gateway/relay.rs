//! A connection that breaks when it is told to.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Passes connections on to a server, and cuts them without a word.
pub struct Relay {
    pub address: SocketAddr,
    server: Arc<watch::Sender<SocketAddr>>,
    cut: Arc<watch::Sender<u64>>,
}

impl Relay {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(watch::channel(0).0);
        let cuts = cut.clone();
        let servers = Arc::new(watch::channel(server).0);
        let server = servers.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cut = cuts.subscribe();
                let server = *server.borrow();
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(server).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        let server = servers;
        Self {
            address,
            server,
            cut,
        }
    }

    /// Passes new connections on to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.server.send_replace(server);
    }

    /// Cuts all connections that are open.
    pub fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}
