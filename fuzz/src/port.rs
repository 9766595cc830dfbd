//! Bytes on the port.

use http::StatusCode;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::timeout,
};

use super::bed::{Bed, PATIENCE, with_bed};

/// What a client that speaks HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes for one connection. The first says how they come: bit 0, behind the preface of HTTP/2;
/// bit 1, in two pieces; bit 2, with the end of what is sent told at once.
///
/// The connection ends or waits, and the server answers others.
pub fn port(data: &[u8]) {
    let Some((form, bytes)) = data.split_first() else {
        return;
    };
    let mut sent = Vec::new();
    if form & 1 != 0 {
        sent.extend_from_slice(PREFACE);
    }
    sent.extend_from_slice(bytes);
    let middle = if form & 2 != 0 { sent.len() / 2 } else { 0 };
    let ends = form & 4 != 0;
    with_bed(async |bed| {
        let (mut from, mut to) = tokio::io::split(bed.connect().await);
        let pieces = sent.split_at(middle);
        let sending = async {
            for piece in [pieces.0, pieces.1] {
                // The server may have heard enough.
                let _ = to.write_all(piece).await;
                let _ = to.flush().await;
                tokio::task::yield_now().await;
            }
            if ends {
                let _ = to.shutdown().await;
            }
        };
        let reading = async {
            let mut answer = [0; 4096];
            while !matches!(from.read(&mut answer).await, Ok(0) | Err(_)) {}
        };
        let _ = timeout(PATIENCE, async { tokio::join!(sending, reading) }).await;
        still_answers(bed).await;
    });
}

async fn still_answers(bed: &Bed) {
    let stream: DuplexStream = bed.connect().await;
    let asked = async {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("a connection");
        let request = http::Request::get("/livez").header("host", "test");
        let request = request
            .body(Empty::<bytes::Bytes>::new())
            .expect("a request");
        let answer = async {
            let response = sender.send_request(request).await.expect("an answer");
            let status = response.status();
            response.into_body().collect().await.expect("its body");
            drop(sender);
            status
        };
        tokio::join!(answer, connection).0
    };
    let status = timeout(PATIENCE, asked).await.expect("no answer");
    assert_eq!(status, StatusCode::OK);
}
