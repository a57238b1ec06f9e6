//! One driver's connection, and unary calls over it whose messages are passed through as bytes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use prost::bytes::{Buf as _, BufMut as _};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Response, Status};
use tower::service_fn;
use volhost_model::drivers::DriverFailure;

use super::call::{RpcError, within};
use super::call_observer::{ObservedDriver, name_of_code, name_of_status};
use super::driver_stream::DriverStream;
use super::lasting_answers::LastingAnswers;

/// The largest answer, in bytes.
const ANSWER_BYTES: usize = 4 << 20;
/// Part of tonic's own error for a larger one.
const TOO_LARGE: &str = "decoded message length too large";
/// How long a connection to a socket may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// A connection that is opened at the first call, kept, and opened again after it has broken.
#[derive(Debug, Clone)]
pub(super) struct DriverConnection {
    channel: Channel,
    socket: PathBuf,
    answers: Arc<LastingAnswers>,
    observed: Option<ObservedDriver>,
}

impl DriverConnection {
    /// A connection to the socket at this path. Needs a tokio runtime.
    pub(super) fn new(socket: &Path) -> Self {
        let (path, answers) = (socket.to_owned(), Arc::new(LastingAnswers::default()));
        let of_connections = Arc::clone(&answers);
        let connector = service_fn(move |_: Uri| {
            let (path, answers) = (path.clone(), Arc::clone(&of_connections));
            async move {
                let socket = UnixStream::connect(path).await?;
                Ok::<_, std::io::Error>(TokioIo::new(DriverStream::new(socket, answers)))
            }
        });
        // The address is never looked up: the connector knows the socket.
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(CONNECT_TIME);
        let channel = endpoint.connect_with_connector_lazy(connector);
        Self { channel, socket: socket.to_owned(), answers, observed: None }
    }

    /// Has the calls over this connection observed.
    pub(super) fn with_observed(mut self, driver: Option<ObservedDriver>) -> Self {
        self.observed = driver;
        self
    }

    /// The driver's socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The channel, for typed calls.
    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Waits for the answer of a typed call over [`Self::channel`], for this time at most. `method`
    /// is its full gRPC path.
    ///
    /// # Errors
    /// [`RpcError`].
    pub(super) async fn within<T>(
        &self,
        time: Duration,
        method: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RpcError> {
        let began = Instant::now();
        let outcome = within(time, call).await;
        self.note(
            method,
            began,
            match &outcome {
                Ok(_) => name_of_code(Code::Ok),
                Err(RpcError::Status(status)) => name_of_status(status),
                Err(RpcError::NoAnswer(_)) => name_of_code(Code::DeadlineExceeded),
            },
        );
        outcome
    }

    fn note(&self, method: &str, began: Instant, code: &'static str) {
        if let Some(driver) = &self.observed {
            driver.ended(method, code, began);
        }
    }

    /// Returns the driver's answer to this request, if it is known already: see
    /// [`LastingAnswers`].
    pub(super) fn known_answer(&self, method: &str, request: &[u8]) -> Option<Vec<u8>> {
        self.answers.known(method, request)
    }

    /// One unary call. The deadline is sent to the driver, too.
    ///
    /// # Errors
    /// [`DriverFailure`]; not sent only when no connection could be made.
    pub(super) async fn call(
        &self,
        method: PathAndQuery,
        message: Vec<u8>,
        deadline: Duration,
    ) -> Result<Vec<u8>, DriverFailure> {
        let (began, path) = (Instant::now(), method.clone());
        let question = self.answers.ask(path.as_str(), &message);
        let outcome = timeout(deadline, self.exchange(method, message, deadline)).await;
        self.note(
            path.as_str(),
            began,
            match &outcome {
                Ok(Ok(_)) => name_of_code(Code::Ok),
                Ok(Err(status)) => name_of_status(status),
                Err(_) => name_of_code(Code::DeadlineExceeded),
            },
        );
        match outcome {
            Ok(answer) => {
                if let (Some(question), Ok(answer)) = (question, &answer) {
                    self.answers.keep(question, answer);
                }
                answer.map_err(|status| self.failure(&status))
            }
            Err(_) => Err(DriverFailure::Unanswered(format!(
                "the driver did not answer within {:.1} s",
                deadline.as_secs_f64()
            ))),
        }
    }

    async fn exchange(&self, method: PathAndQuery, message: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES);
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        Ok(client.unary(request, method, BytesCodec).await?.into_inner())
    }

    /// Classifies a status: tonic returns one of its own if the connection failed.
    fn failure(&self, status: &Status) -> DriverFailure {
        let socket = self.socket.display();
        let causes = || std::iter::successors(status.source(), |cause| (*cause).source());
        if causes().any(|cause| cause.is::<tonic::ConnectError>()) {
            let why = causes().last().map_or_else(|| status.message().to_owned(), ToString::to_string);
            return DriverFailure::NotSent(format!("{socket} cannot be connected: {why}"));
        }
        if let Some(why) = causes().last() {
            return DriverFailure::Unanswered(format!("the connection to {socket} broke: {why}"));
        }
        if status.code() == Code::OutOfRange && status.message().contains(TOO_LARGE) {
            return DriverFailure::Unanswered(format!("the driver's answer has more than {ANSWER_BYTES} bytes"));
        }
        let code = u32::try_from(i32::from(status.code())).unwrap_or_default();
        DriverFailure::Status { code, message: status.message().to_owned() }
    }
}

/// Passes messages through as bytes.
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; from.remaining()];
        from.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}
