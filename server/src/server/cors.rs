//! Which web pages of other origins a browser lets read our answers. By default none.

use std::{fmt, str::FromStr, time::Duration};

use http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How long a browser need not ask again.
const MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// Where web pages come from that may use this server, such as `https://dashboard.example:8443`;
/// or `*` for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl Origin {
    /// As many as a server may be told of: each request is compared with all of them.
    pub const MAX_COUNT: usize = 64;

    fn is_any(&self) -> bool {
        self.0 == "*"
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no origin: write https://HOST, http://HOST:PORT or *");
        if text != "*" {
            let host = ["https://", "http://"]
                .iter()
                .find_map(|scheme| text.strip_prefix(scheme));
            let host = host.ok_or_else(bad)?;
            // Browsers send it in small letters and without a path: what differs never matches.
            let fits = |c: char| {
                c.is_ascii_lowercase()
                    || c.is_ascii_digit()
                    || matches!(c, '.' | '-' | ':' | '[' | ']')
            };
            if host.is_empty() || !host.chars().all(fits) {
                return Err(bad());
            }
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0.as_bytes()))
    }
}

/// Tells browsers so; `None` if no page may.
pub(super) fn layer(origins: &[Origin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let origins = match origins.iter().any(Origin::is_any) {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(origins.iter().map(|origin| origin.0.clone())),
    };
    let name = HeaderName::from_static;
    let allowed = [
        header::ACCEPT,
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        name("grpc-timeout"),
        name("x-grpc-web"),
        name("x-user-agent"),
    ];
    let shown = [
        name("grpc-status"),
        name("grpc-message"),
        name("grpc-status-details-bin"),
        header::RETRY_AFTER,
    ];
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    let cors = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(methods)
        .allow_headers(allowed)
        .expose_headers(shown)
        .max_age(MAX_AGE);
    Some(cors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        for good in [
            "*",
            "https://a.example",
            "http://localhost:3000",
            "http://[::1]:80",
        ] {
            assert_eq!(good.parse::<Origin>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "null",
            "a.example",
            "https://",
            "https://a/",
            "https://A",
            "ftp://a",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }
}
