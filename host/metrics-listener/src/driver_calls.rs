//! Calls of a CSI driver, counted as they end: where they are made, or where they are answered.

use std::error::Error;
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
use tonic::{Code, Status, TimeoutExpired};
use tower::{Layer, Service};

/// The buckets of upstream's sidecars, in seconds.
const BUCKETS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// A call and its outcome, as upstream's sidecars and drivers label theirs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    driver_name: String,
    /// The full gRPC path.
    method_name: String,
    /// The name of the gRPC status.
    grpc_status_code: String,
}

/// The method of calls that a driver does not have: a caller may name any.
const UNIMPLEMENTED: &str = "unimplemented";

/// The durations of calls of a driver.
#[derive(Debug)]
pub struct DriverCalls {
    metric: &'static str,
    took: Family<CallLabels, Histogram, fn() -> Histogram>,
}

impl DriverCalls {
    /// Calls that a sidecar makes, as upstream's sidecars name the metric.
    pub fn of_sidecar() -> Self {
        Self::new("csi_sidecar_operations_seconds")
    }

    /// Calls that a driver answers, as upstream's drivers name the metric.
    pub fn of_driver() -> Self {
        Self::new("csi_plugin_operations_seconds")
    }

    fn new(metric: &'static str) -> Self {
        Self { metric, took: Family::new_with_constructor(|| Histogram::new(BUCKETS)) }
    }

    /// Adds the metric.
    pub fn register(&self, registry: &mut Registry) {
        let help = "How long calls of the CSI driver took, by method and gRPC status";
        registry.register(self.metric, help, self.took.clone());
    }
}

/// A service of gRPC, or a connection to one, whose calls are counted.
#[derive(Debug, Clone)]
pub struct Observed<S> {
    inner: S,
    driver: Arc<str>,
    calls: Arc<DriverCalls>,
}

impl<S> Observed<S> {
    /// Counts the calls as those of the driver of this name.
    pub fn new(inner: S, driver: &str, calls: Arc<DriverCalls>) -> Self {
        Self { inner, driver: driver.into(), calls }
    }
}

/// Counts the calls of a server.
#[derive(Debug, Clone)]
pub struct ObserveLayer {
    driver: Arc<str>,
    calls: Arc<DriverCalls>,
}

impl ObserveLayer {
    /// Counts the calls as those of the driver of this name.
    pub fn new(driver: &str, calls: Arc<DriverCalls>) -> Self {
        Self { driver: driver.into(), calls }
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed::new(inner, &self.driver, Arc::clone(&self.calls))
    }
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Error + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (driver, method, calls) = (self.driver.as_ref().to_owned(), request.uri().path().to_owned(), &self.calls);
        let mut running = RunningCall { driver, method, calls: Arc::clone(calls), begun: Instant::now(), code: None };
        let answer = self.inner.call(request);
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
    fn failed(&mut self, error: &(dyn Error + 'static)) {
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
        // Without an outcome, the answer broke off or its caller has gone away.
        let code = self.code.unwrap_or(Code::Unknown);
        let method = std::mem::take(&mut self.method);
        let labels = CallLabels {
            driver_name: std::mem::take(&mut self.driver),
            method_name: if code == Code::Unimplemented { UNIMPLEMENTED.to_owned() } else { method },
            grpc_status_code: name_of(code),
        };
        self.calls.took.get_or_create(&labels).observe(self.begun.elapsed().as_secs_f64());
    }
}

/// The code that a caller gets for an answer that did not come.
fn code_of(error: &(dyn Error + 'static)) -> Code {
    let mut cause = Some(error);
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
