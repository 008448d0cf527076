//! Single requests to a server: no redirect is followed, nothing is retried.

use std::error::Error as StdError;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector as Connect, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};

use crate::answer::{self, LIST_PAGE, LONG_LIST};
use crate::error::Fault;
use crate::guard::Guard;
use crate::min_speed::{Paced, STEP};
use crate::options::Options;
use crate::resolve::Resolver;
use crate::sending::Sending;
use crate::tls;

/// The number of bytes of an error response body that are read.
const ERROR_BODY: u64 = 8 << 10;

type Plain = legacy::Client<HttpConnector<Resolver>, Sending>;
type Tls = legacy::Client<tls::Connector, Sending>;

/// Connections with the same guard.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    guard: Arc<Guard>,
    first_byte: Duration,
    progress: Duration,
    stall_timeout: Duration,
    silence: Mutex<Option<Silence>>,
    plain: Plain,
    /// Made when it is first needed, because the system's trusted certificates have to be read for it.
    tls: OnceLock<Result<Tls, Fault>>,
}

/// A period in which requests got no response.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Instant,
    /// The time when the last of these requests was given up.
    until: Instant,
}

impl Client {
    pub(crate) fn new(guard: Guard, options: &Options) -> Self {
        let guard = Arc::new(guard);
        let plain = builder().build(connector(&guard));
        let (first_byte, progress) = options.limits_of_try();
        let (stall_timeout, silence, tls) = (options.stall_timeout, Mutex::default(), OnceLock::new());
        Self(Arc::new(Inner { guard, first_byte, progress, stall_timeout, silence, plain, tls }))
    }

    /// Sends a request and waits for the head of the response, whatever its status.
    pub(crate) async fn send(&self, mut request: Request<HttpRequestBody>) -> Result<Response<Paced>, Fault> {
        let inner = &*self.0;
        check_literal(&inner.guard, &request)?;
        let agent = http::HeaderValue::from_static(concat!("modelfmt/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(http::header::USER_AGENT).or_insert(agent);
        let sent = Arc::new(AtomicU64::new(0));
        let request = request.map(|body| Sending::new(body, Arc::clone(&sent)));
        let mut answer = inner.start(request)?;
        let mut before = 0;
        let answer = loop {
            if let Ok(answer) = tokio::time::timeout(inner.first_byte, &mut answer).await {
                break answer.map_err(|error| fault_of(&error))?;
            }
            // Sending a long body may take long, as long as it makes progress.
            let now = sent.load(Ordering::Relaxed);
            if now < before + STEP {
                return Err(inner.no_answer());
            }
            before = now;
        };
        *inner.silence() = None;
        let is_good = answer.status().is_success();
        let most = if is_good { u64::MAX } else { ERROR_BODY };
        Ok(answer.map(|body: Incoming| Paced::new(body, inner.progress, most)))
    }
}

impl Inner {
    fn silence(&self) -> MutexGuard<'_, Option<Silence>> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fault for a request that got no response in time. A store that writes repeats the request,
    /// until the server has been silent for so long that another try is useless.
    fn no_answer(&self) -> Fault {
        /// The longest pause between two tries of one request.
        const PAUSE: Duration = Duration::from_secs(60);
        let now = Instant::now();
        let begun = now.checked_sub(self.first_byte).unwrap_or(now);
        let mut silence = self.silence();
        let last = silence.filter(|last| begun.saturating_duration_since(last.until) < PAUSE);
        let since = last.map_or(begun, |last| last.since);
        if now.saturating_duration_since(since) < self.stall_timeout {
            *silence = Some(Silence { since, until: now });
            return Fault::NoAnswer(self.first_byte);
        }
        *silence = None;
        Fault::Silent(self.stall_timeout)
    }

    fn start(&self, request: Request<Sending>) -> Result<ResponseFuture, Fault> {
        if request.uri().scheme_str() == Some("http") {
            return Ok(self.plain.request(request));
        }
        let made = self.tls.get_or_init(|| Ok(builder().build(tls::connector(connector(&self.guard))?)));
        Ok(made.as_ref().map_err(Clone::clone)?.request(request))
    }
}

fn builder() -> legacy::Builder {
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new());
    builder
}

fn connector(guard: &Arc<Guard>) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver(Arc::clone(guard)));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector
}

/// Checks a host that is an IP address: it is never looked up, so the resolver cannot check it.
fn check_literal<B>(guard: &Guard, request: &Request<B>) -> Result<(), Fault> {
    let host = request.uri().host().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => guard.check(host, address),
        Err(_) => Ok(()),
    }
}

/// Describes what failed in a few words: the text of the innermost cause.
fn fault_of(error: &legacy::Error) -> Fault {
    if let Some(fault) = Fault::within(error) {
        return fault.clone();
    }
    let mut cause: &dyn StdError = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text: Box<str> = cause.to_string().chars().filter(|c| !c.is_control()).take(200).collect();
    match error.is_connect() {
        true if text.contains("certificate") => Fault::Tls(text),
        true => Fault::Connect(text),
        false => Fault::Broken(0),
    }
}

/// The client for object stores. If a status is worth a retry, or is not checked by object_store, the
/// response becomes an error without a body, which includes the time that the server asks to wait. Data that
/// object_store trusts without checking is checked here.
#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = is_of_object(&request);
        let failed = |fault| HttpError::new(kind(&fault), fault);
        let answer = self.send(request).await.map_err(failed)?;
        match answer.status().as_u16() {
            206 => {
                answer::check_partial(answer.headers()).map_err(failed)?;
                Ok(answer.map(HttpResponseBody::new))
            }
            status @ (300..=303 | 305..=400 | 405..=408 | 411 | 413..=u16::MAX) => {
                let (head, body) = answer.into_parts();
                let body = HttpResponseBody::new(body).bytes().await.unwrap_or_default();
                Err(failed(answer::fault(status, &head.headers, &body)))
            }
            // The store reads the body into memory.
            _ if !is_object => {
                Ok(answer.map(|body| HttpResponseBody::new(body.refusing_more(LIST_PAGE as u64, LONG_LIST))))
            }
            _ => Ok(answer.map(HttpResponseBody::new)),
        }
    }
}

/// Checks whether a request is for the bytes of an object, and not for a list.
fn is_of_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_list = query.split('&').any(|pair| matches!(pair, "list-type=2" | "comp=list"));
    request.method() == http::Method::GET && !is_list
}

fn kind(fault: &Fault) -> HttpErrorKind {
    match fault {
        Fault::Connect(_) => HttpErrorKind::Connect,
        Fault::NoAnswer(_) | Fault::Stalled(_) => HttpErrorKind::Timeout,
        Fault::Broken(_) | Fault::Status { .. } if fault.is_passing() => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}

/// Makes object stores use this client and no other.
#[derive(Debug)]
pub(crate) struct Connector(pub(crate) Client);

impl Connect for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}
