//! Calls of the driver, counted as they end.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body_util::BodyExt as _;
use hyper::body::Frame;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Bytes};
use tonic::transport::Channel;
use tonic::{Code, Status, TimeoutExpired};
use tower::Service;

/// The buckets of upstream's sidecars, in seconds.
const BUCKETS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// A call and its outcome, as upstream's sidecars label `csi_sidecar_operations_seconds`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    driver_name: String,
    /// The full gRPC path.
    method_name: String,
    /// The name of the gRPC status.
    grpc_status_code: String,
}

/// The durations of calls of the driver.
#[derive(Debug)]
pub(crate) struct DriverCalls(Family<CallLabels, Histogram, fn() -> Histogram>);

impl Default for DriverCalls {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

impl DriverCalls {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "How long calls of the CSI driver took, by method and gRPC status";
        registry.register("csi_sidecar_operations_seconds", help, self.0.clone());
    }
}

/// A connection to a driver, whose calls are counted.
#[derive(Debug, Clone)]
pub(crate) struct ObservedChannel {
    channel: Channel,
    driver: Arc<str>,
    calls: Arc<DriverCalls>,
}

impl ObservedChannel {
    /// Counts the calls over this connection as those of the driver of this name.
    pub(crate) fn new(channel: Channel, driver: &str, calls: Arc<DriverCalls>) -> Self {
        Self { channel, driver: driver.into(), calls }
    }
}

impl Service<Request<Body>> for ObservedChannel {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (driver, method, calls) = (self.driver.as_ref().to_owned(), request.uri().path().to_owned(), &self.calls);
        let mut running = RunningCall { driver, method, calls: Arc::clone(calls), begun: Instant::now(), code: None };
        let answer = self.channel.call(request);
        Box::pin(async move {
            match answer.await {
                Ok(response) => {
                    running.ended(response.headers());
                    Ok(response.map(|body| Body::new(body.map_frame(move |frame| running.saw(frame)))))
                }
                Err(error) => {
                    running.failed(&error);
                    Err(error)
                }
            }
        })
    }
}

/// A call that is counted when it is dropped.
struct RunningCall {
    driver: String,
    method: String,
    calls: Arc<DriverCalls>,
    begun: Instant,
    /// Its outcome, once it is known.
    code: Option<Code>,
}

impl RunningCall {
    /// Notes the outcome if these headers or trailers have it.
    fn ended(&mut self, headers: &HeaderMap) {
        self.code = Status::from_header_map(headers).map(|status| status.code()).or(self.code);
    }

    /// Notes that there is no answer.
    fn failed(&mut self, error: &tonic::transport::Error) {
        self.code = Some(code_of(error));
    }

    /// Notes the outcome if this part of the answer has it.
    fn saw(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if let Some(trailers) = frame.trailers_ref() {
            self.ended(trailers);
        }
        frame
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let labels = CallLabels {
            driver_name: std::mem::take(&mut self.driver),
            method_name: std::mem::take(&mut self.method),
            // Without an outcome, the answer broke off or its caller has gone away.
            grpc_status_code: name_of(self.code.unwrap_or(Code::Unknown)),
        };
        self.calls.0.get_or_create(&labels).observe(self.begun.elapsed().as_secs_f64());
    }
}

/// The code that a caller gets for an answer that did not come.
fn code_of(error: &tonic::transport::Error) -> Code {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if this.is::<TimeoutExpired>() {
            return Code::DeadlineExceeded;
        }
        cause = this.source();
    }
    Code::Unavailable
}

/// As Go's gRPC library names it, in which upstream's sidecars are written.
fn name_of(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}
