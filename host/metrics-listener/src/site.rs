//! The status page behind the listener: who may have it, and its two resources.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{Request, Response, StatusCode};

use super::listener::ScrapeError;

/// The path of the page's data.
pub(super) const STATE: &str = "/state.json";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Where the page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageAccess {
    /// If the listener's address is a loopback one, to clients that name it so: a page of another
    /// site whose name leads here (DNS rebinding) gets nothing.
    Loopback,
    /// To every client.
    Everywhere,
}

/// The parameters of a request for the data, by name, without those that are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    fn read(query: &str) -> Self {
        let parts = query.split('&').filter_map(|part| part.split_once('='));
        let parts = parts.map(|(name, value)| (decoded(name), decoded(value)));
        Self(parts.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// Takes the parameter of this name, if there is one.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}

type StateFuture = Pin<Box<dyn Future<Output = Result<String, ScrapeError>> + Send>>;

/// The page, and what it shows.
#[derive(Clone)]
pub struct StatusPage {
    html: &'static str,
    policy: HeaderValue,
    access: PageAccess,
    state: Arc<dyn Fn(Query) -> StateFuture + Send + Sync>,
}

impl fmt::Debug for StatusPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusPage").field("access", &self.access).finish_non_exhaustive()
    }
}

impl StatusPage {
    /// Creates a page of this HTML with this Content-Security-Policy. `state` returns its data as
    /// JSON. None if the policy is no header.
    pub fn new<F, T>(html: &'static str, policy: &str, access: PageAccess, state: F) -> Option<Self>
    where
        F: Fn(Query) -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, ScrapeError>> + Send + 'static,
    {
        let policy = HeaderValue::from_str(policy).ok()?;
        Some(Self { html, policy, access, state: Arc::new(move |query| Box::pin(state(query))) })
    }

    /// The page itself.
    pub(super) fn html<B>(&self, request: &Request<B>, listens: SocketAddr) -> Response<Full<Bytes>> {
        match self.refusal(request, listens) {
            Some(refusal) => refusal,
            None => self.answer(StatusCode::OK, HTML, self.html.to_owned()),
        }
    }

    /// Its data.
    pub(super) async fn state<B>(&self, request: &Request<B>, listens: SocketAddr) -> Response<Full<Bytes>> {
        if let Some(refusal) = self.refusal(request, listens) {
            return refusal;
        }
        match (self.state)(Query::read(request.uri().query().unwrap_or_default())).await {
            Ok(json) => self.answer(StatusCode::OK, JSON, json),
            Err(error) => {
                self.answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", format!("{error}\n"))
            }
        }
    }

    /// Why this client gets nothing; none if it does.
    fn refusal<B>(&self, request: &Request<B>, listens: SocketAddr) -> Option<Response<Full<Bytes>>> {
        let text = match self.access {
            PageAccess::Everywhere => return None,
            PageAccess::Loopback if !listens.ip().is_loopback() => {
                "the status page is served at loopback addresses only; --status-page everywhere serves it here\n"
            }
            PageAccess::Loopback => {
                let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
                if is_loopback_name(host) {
                    return None;
                }
                "the status page is served to clients that ask for a loopback address or localhost\n"
            }
        };
        Some(self.answer(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", text.to_owned()))
    }

    fn answer(&self, status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        response
    }
}

/// Whether a Host header names this machine's loopback.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A value of a query with its escapes (`%2F`) resolved; a broken escape stays as it is.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_are_its_names() {
        for host in ["localhost", "LOCALHOST:9810", "127.0.0.1:9810", "127.9.9.9", "[::1]:9810", "[::1]"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example:9810", "localhost.evil.example", "10.0.0.1", "[::2]", "::1"]
        {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn escapes_of_a_query_are_resolved() {
        assert_eq!(decoded("default%2Fweb"), "default/web");
        assert_eq!(decoded("a+b%20c"), "a b c");
        for broken in ["%", "%2", "%zz", "%é"] {
            assert_eq!(decoded(broken), broken);
        }
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }
}
