//! What stands side by side: a way to a server, and the server.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method};
use listwatch::v1;
use serde_json::Value;

use super::{
    CompareError, CompareOptions, Objects, client,
    http::{CONFLICT, Http, Refused, bearer},
    objects::NAMESPACE,
    wire::Wire,
};
use crate::bench::{
    Target,
    process::{self, Usage},
    server::Server,
};

/// So many of the objects that were written are deleted in one call.
const DELETED_AT_A_TIME: usize = 100;
/// How long taking away what was written may take.
const CLEARING: Duration = Duration::from_secs(300);
/// Watches that share a connection, where they can.
const WATCHES_PER_CONNECTION: usize = 100;

/// How a watch reaches its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Messages over HTTP/2.
    Grpc,
    /// The same messages in the body of a plain response.
    GrpcWeb,
    /// Lines of JSON, as Kubernetes has them.
    Http,
}

impl Transport {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::GrpcWeb, Self::Http];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::GrpcWeb => "gRPC-web",
            Self::Http => "HTTP",
        }
    }
}

/// A server of HTTP: `http://HOST:PORT`, with a path in front of Kubernetes' if need be, and
/// `,pid=PID` for its processor time and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    address: String,
    prefix: String,
    pid: Option<u32>,
    token: Option<HeaderValue>,
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("{text:?} is no target: write http://HOST:PORT or http://HOST:PORT,pid=PID");
        let (url, pid) = match text.split_once(",pid=") {
            Some((url, pid)) => (url, Some(pid.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        if url.starts_with("https://") {
            return Err(format!(
                "{text:?}: there is no TLS here; put a proxy before it, such as kubectl proxy"
            ));
        }
        let uri: http::Uri = url.parse().map_err(|_| bad())?;
        let fits = uri.scheme_str() == Some("http") && uri.query().is_none() && !url.contains(',');
        let authority = uri.authority().filter(|_| fits).ok_or_else(bad)?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(bad());
        }
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self {
            address: format!("{}:{port}", authority.host()),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            pid,
            token: None,
        })
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.address, self.prefix)
    }
}

impl Site {
    /// The server, if it runs already.
    pub(super) fn running(target: &Target) -> Option<Self> {
        match target {
            Target::Running { address, pid, .. } => Some(Self::listwatch(address, *pid)),
            Target::Started { .. } => None,
        }
    }

    fn listwatch(address: &str, pid: Option<u32>) -> Self {
        Self {
            address: address.to_owned(),
            prefix: String::new(),
            pid,
            token: None,
        }
    }

    /// With a token that it is called with.
    ///
    /// # Errors
    /// The token is no text that fits in a header.
    pub fn with_token(mut self, token: &str) -> Result<Self, String> {
        self.token = Some(bearer(token)?);
        Ok(self)
    }

    /// `HOST:PORT`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn token(&self) -> Option<&HeaderValue> {
        self.token.as_ref()
    }

    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Refused> {
        let http = Http::connect(self, &Arc::default(), false).await;
        let mut http = http.map_err(|why| Refused { code: 0, why })?;
        http.json(self, method, path, body).await
    }

    /// Takes away the namespace that was made. A server may need a while for it.
    pub(super) async fn drop_namespace(&self) -> Result<(), CompareError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}");
        let dropped = self.call(Method::DELETE, &path, Bytes::new()).await;
        dropped.map(drop).map_err(|refused| CompareError::Target {
            target: self.to_string(),
            why: format!("{path}: {}", refused.why),
        })
    }

    /// It speaks Kubernetes' API, and has this kind.
    pub(super) async fn check(&self, objects: &Objects) -> Result<(), CompareError> {
        let failed = |why: String| CompareError::Target {
            target: self.to_string(),
            why,
        };
        let mut http = Http::connect(self, &Arc::default(), false)
            .await
            .map_err(failed)?;
        for path in ["/version".to_owned(), format!("{}?limit=1", objects.path())] {
            let answer = http.json(self, Method::GET, &path, Bytes::new()).await;
            answer.map_err(|refused| failed(format!("{path}: {}", refused.why)))?;
        }
        Ok(())
    }
}

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) transport: Transport,
    /// Another server than Listwatch.
    target: Option<Site>,
    pub(super) http2: bool,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(site) => site.fmt(f),
            None => f.write_str(self.transport.name()),
        }
    }
}

impl Side {
    pub(super) fn all(options: &CompareOptions) -> Vec<Self> {
        let http2 = options.http2;
        let ours = Transport::ALL.map(|transport| Self {
            transport,
            target: None,
            http2,
        });
        let theirs = options.targets.iter().map(|site| Self {
            transport: Transport::Http,
            target: Some(site.clone()),
            http2,
        });
        ours.into_iter().chain(theirs).collect()
    }

    pub(super) fn watches_per_connection(&self) -> usize {
        match self.transport == Transport::Grpc || self.http2 {
            true => WATCHES_PER_CONNECTION,
            false => 1,
        }
    }

    /// It is Listwatch, which is written to over gRPC.
    pub(super) fn is_listwatch(&self) -> bool {
        self.target.is_none()
    }

    pub(super) fn failed(&self, what: &'static str) -> impl Fn(String) -> CompareError {
        let side = self.to_string();
        move |why| CompareError::Failed {
            side: side.clone(),
            what,
            why,
        }
    }

    /// The server, started if need be.
    pub(super) async fn host(&self, options: &CompareOptions) -> Result<Host, CompareError> {
        let (site, server) = match &self.target {
            Some(site) => (site.clone(), None),
            None => {
                let server = Server::of(&options.server, &options.data_parent).await?;
                (Site::listwatch(&server.address, None), Some(server))
            }
        };
        Ok(Host {
            site,
            server,
            wire: Arc::default(),
        })
    }

    /// Makes the namespace where one must be made; true: it was not there.
    pub(super) async fn make_namespace(&self, host: &Host) -> Result<bool, CompareError> {
        if self.is_listwatch() {
            return Ok(false);
        }
        let namespace = format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#
        );
        let path = "/api/v1/namespaces";
        match host.site.call(Method::POST, path, namespace.into()).await {
            Ok(_) => Ok(true),
            Err(refused) if refused.code == CONFLICT => Ok(false),
            Err(refused) => Err(self.failed("making a namespace")(refused.why)),
        }
    }

    /// The newest revision.
    pub(super) async fn revision(
        &self,
        host: &Host,
        objects: &Objects,
    ) -> Result<i64, CompareError> {
        let failed = self.failed("reading the revision");
        if self.is_listwatch() {
            let mut client = client::connect(&host.site, &Arc::default())
                .await
                .map_err(&failed)?;
            let request = v1::ListRequest {
                selector: Some(objects.selector()),
                page_size: 1,
                ..v1::ListRequest::default()
            };
            let list = client.list(request).await;
            return Ok(list
                .map_err(|s| failed(s.to_string()))?
                .into_inner()
                .revision);
        }
        let path = format!("{}?limit=1", objects.path());
        let list = host.site.call(Method::GET, &path, Bytes::new()).await;
        let list = list.map_err(|refused| failed(refused.why))?;
        let revision = list["metadata"]["resourceVersion"].as_str();
        let revision = revision.and_then(|revision| revision.parse().ok());
        revision.ok_or_else(|| failed("the list has no resourceVersion that is a number".into()))
    }
}

/// A server at work.
pub(super) struct Host {
    pub(super) site: Site,
    pub(super) server: Option<Server>,
    /// What the watches receive.
    pub(super) wire: Arc<Wire>,
}

impl Host {
    /// What its process takes.
    pub(super) fn usage(&self) -> Option<Usage> {
        match (&self.server, self.site.pid) {
            (Some(server), _) => server.usage(),
            (None, Some(pid)) => process::usage(pid),
            (None, None) => None,
        }
    }

    /// It was started here, so that it can be started again.
    pub(super) fn is_own(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_own)
    }

    /// Ends it, or takes away what was written to it.
    pub(super) async fn clear(
        &self,
        side: &Side,
        options: &CompareOptions,
    ) -> Result<(), CompareError> {
        match &self.server {
            Some(server) if server.is_own() => server.kill(),
            _ => {
                let failed = side.failed("taking away what was written");
                let cleared = tokio::time::timeout(CLEARING, self.take_away(&options.objects));
                let cleared = cleared.await.unwrap_or_else(|_| {
                    Err(format!("not within {CLEARING:?}: the rest is still there"))
                });
                cleared.map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Page by page: a kube-apiserver may delete no more than a hundred objects a second, and
    /// answers when it has. Not every server says in its answer whether there are more.
    async fn take_away(&self, objects: &Objects) -> Result<(), String> {
        let path = objects.path();
        let page = format!("{path}?gracePeriodSeconds=0&limit={DELETED_AT_A_TIME}");
        let rest = format!("{path}?limit=1");
        loop {
            let deleted = self.site.call(Method::DELETE, &page, Bytes::new()).await;
            deleted.map_err(|refused| refused.why)?;
            let left = self.site.call(Method::GET, &rest, Bytes::new()).await;
            let left = left.map_err(|refused| refused.why)?;
            if left["items"].as_array().is_none_or(Vec::is_empty) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_they_are_written() {
        let site: Site = "http://127.0.0.1:8001/k8s/,pid=7".parse().unwrap();
        assert_eq!(
            (site.address(), site.prefix(), site.pid),
            ("127.0.0.1:8001", "/k8s", Some(7))
        );
        assert_eq!(site.to_string(), "http://127.0.0.1:8001/k8s");
        let site = "http://api".parse::<Site>().unwrap();
        assert_eq!(site.address(), "api:80");
        assert!(site.clone().with_token("abc\n").is_ok());
        assert!(site.with_token("a\nb").is_err());
        for bad in [
            "",
            "api:80",
            "https://a:1",
            "http://",
            "http://a:1,pid=x",
            "http://a?b",
            "http://u@a",
            "ftp://a",
        ] {
            assert!(bad.parse::<Site>().is_err(), "{bad}");
        }
    }
}
