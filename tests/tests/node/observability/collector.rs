//! A collector of traces that keeps what it is sent.

use std::collections::BTreeMap;
use std::path::Path;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};
use volhost_tests::wait::TIMEOUT;

/// What arrives: the resource's attributes and a span.
pub(crate) type Arrival = (BTreeMap<String, String>, Span);

/// A collector, and what has arrived at it.
pub(crate) struct Collector {
    runtime: tokio::runtime::Runtime,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    seen: Vec<Arrival>,
}

struct Service(mpsc::UnboundedSender<Arrival>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let resource = attributes(&of_resource.resource.unwrap_or_default().attributes);
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let _ = self.0.send((resource.clone(), span));
            }
        }
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}

impl Collector {
    /// Listens at a socket.
    pub(crate) fn at_socket(path: &Path) -> Self {
        let (arrives, arrivals) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = {
            let _in = runtime.enter();
            tokio::net::UnixListener::bind(path).unwrap()
        };
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        let service = TraceServiceServer::new(Service(arrives));
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        Self { runtime, arrivals, seen: Vec::new() }
    }

    /// Listens at a port of the loopback, and says at which.
    pub(crate) fn at_port() -> (Self, u16) {
        let (arrives, arrivals) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let service = TraceServiceServer::new(Service(arrives));
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        (Self { runtime, arrivals, seen: Vec::new() }, port)
    }

    /// Waits for the first span of this name; answers it and its resource's attributes.
    pub(crate) fn wait_for(&mut self, name: &str) -> (Span, BTreeMap<String, String>) {
        let (resource, span) = self.find(name, |span| span.name == name);
        (span, resource)
    }

    /// Waits for the first span that is so.
    pub(crate) fn find(&mut self, what: &str, is: impl Fn(&Span) -> bool) -> Arrival {
        loop {
            if let Some(found) = self.seen.iter().find(|(_, span)| is(span)) {
                return found.clone();
            }
            let next = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, self.arrivals.recv()).await });
            let Ok(Some(next)) = next else {
                let names: Vec<&str> = self.seen.iter().map(|(_, span)| span.name.as_str()).collect();
                panic!("no span for {what} came, but {names:?}")
            };
            self.seen.push(next);
        }
    }

    /// The spans of a trace that have come, by when they began.
    pub(crate) fn of_trace(&self, trace: &[u8]) -> Vec<Span> {
        let of_trace = self.seen.iter().map(|(_, span)| span).filter(|span| span.trace_id == trace);
        let mut spans: Vec<Span> = of_trace.cloned().collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

/// Attributes as text.
pub(crate) fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}
