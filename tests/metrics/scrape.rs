//! Asking a server's pages over HTTP/1.1, and reading what `/metrics` says.

use std::collections::BTreeMap;

use listwatch_server::ServerHandle;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Status and body of a page.
pub async fn get(server: &ServerHandle, path: &str) -> (u16, String) {
    let connection = server.in_memory().connect().await.unwrap();
    ask(connection, "GET", path).await
}

pub async fn ask(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP response");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// What `/metrics` said.
#[derive(Debug, Default)]
pub struct Scrape {
    /// By name, as TYPE lines have it.
    pub types: BTreeMap<String, String>,
    /// By name, then labels as they stand.
    pub series: BTreeMap<(String, String), f64>,
}

impl Scrape {
    pub async fn of(server: &ServerHandle) -> Self {
        let (status, text) = get(server, "/metrics").await;
        assert_eq!(status, 200, "{text}");
        Self::read(&text)
    }

    pub fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, kind) = typed.split_once(' ').unwrap();
                let twice = scrape.types.insert(name.into(), kind.into());
                assert!(twice.is_none(), "{name} is described twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect(line);
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                let labels = labels.strip_suffix('}').expect(line);
                let twice = scrape
                    .series
                    .insert((name.into(), labels.into()), value.parse().expect(line));
                assert!(twice.is_none(), "{series} is there twice");
            }
        }
        scrape
    }

    /// The sum of a metric's series whose labels have all of these.
    pub fn sum(&self, name: &str, having: &[(&str, &str)]) -> f64 {
        let wanted = |labels: &str| {
            having
                .iter()
                .all(|(label, value)| labels.contains(&format!("{label}=\"{value}\"")))
        };
        self.series
            .iter()
            .filter(|((known, labels), _)| known == name && wanted(labels))
            .map(|(_, value)| value)
            .sum()
    }

    /// The name stands for a metric, or for a part of a histogram.
    pub fn has(&self, name: &str) -> bool {
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|part| name.strip_suffix(part))
            .any(|base| self.types.get(base).is_some_and(|kind| kind == "histogram"));
        let kind = self.types.get(name);
        histogram || kind.is_some_and(|kind| kind != "histogram")
    }

    /// A series of the metric has the label.
    pub fn has_label(&self, name: &str, label: &str) -> bool {
        let label = format!("{label}=\"");
        self.series.keys().any(|(known, labels)| {
            let parts = labels.split(',');
            known == name && parts.into_iter().any(|part| part.starts_with(&label))
        })
    }
}
