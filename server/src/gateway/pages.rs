//! What is served, told: `/version`, `/api`, `/apis`, and what is below them.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tonic::body::Body;

use super::{
    Gateway,
    accept::is_gzip_accepted,
    discovery::{self, Form},
    openapi, respond,
    status::{Failed, Failure},
};

impl Gateway {
    pub(super) fn page(
        &self,
        method: &Method,
        segments: &[String],
        headers: &HeaderMap,
    ) -> Result<Response<Body>, Failed> {
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        let registry = self.kinds.registry();
        let text = |name: header::HeaderName| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default()
        };
        if names == ["openapi", "v2"] {
            let form = openapi::Form::accepted(text(header::ACCEPT));
            let form = form.ok_or_else(|| Failure::not_acceptable(openapi::Form::ACCEPTED))?;
            if method != Method::GET {
                return Err(Failure::method_not_allowed());
            }
            let page = openapi::everything_as(form, &registry);
            return Ok(told(page, form.content_type(), is_gzip_accepted(headers)));
        }
        let mut form = Form::Plain;
        let page = match names.as_slice() {
            ["version"] => Some(discovery::version(env!("CARGO_PKG_VERSION"))),
            ["api"] => {
                form = Form::accepted(text(header::ACCEPT));
                Some(discovery::core(&registry, form, text(header::HOST)))
            }
            ["apis"] => {
                form = Form::accepted(text(header::ACCEPT));
                Some(discovery::groups(&registry, form))
            }
            ["api", version] => discovery::resources(&registry, "", version),
            ["apis", group] => discovery::group(&registry, group),
            ["apis", group, version] => discovery::resources(&registry, group, version),
            ["openapi", "v3"] => Some(openapi::index(&registry)),
            ["openapi", "v3", "api", version] => openapi::document(&registry, "", version),
            ["openapi", "v3", "apis", group, version] => {
                openapi::document(&registry, group, version)
            }
            _ => None,
        };
        let page = page.ok_or_else(Failure::no_such_resource)?;
        if method != Method::GET {
            return Err(Failure::method_not_allowed());
        }
        let page = page.to_string().into();
        Ok(told(page, form.content_type(), is_gzip_accepted(headers)))
    }
}

fn told(page: Vec<u8>, content_type: &'static str, gzip: bool) -> Response<Body> {
    let mut response = respond::whole(StatusCode::OK, page, gzip);
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    response
}
