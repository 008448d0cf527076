//! A web server that responds as a test wants: with correct responses, and all kinds of wrong ones.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "this is test code"
)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use modelfmt_remote::{Environment, Location, Options};

/// A request, as received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of requests before it.
    pub(crate) number: usize,
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested range of a file of this length.
    pub(crate) fn range(&self, len: u64) -> Option<Range<u64>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        if first.is_empty() {
            return Some(len.saturating_sub(last.parse().ok()?)..len);
        }
        let end = last.parse().map_or(len, |last: u64| (last + 1).min(len));
        Some(first.parse().ok()?..end)
    }
}

/// A response. The head and the body are sent as they are, completely or in part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The connection ends after this many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// The wait before each byte of the body.
    pub(crate) trickle: Option<Duration>,
    /// The wait before the response.
    pub(crate) wait: Option<Duration>,
    /// After this many bytes of the body, the server waits until the other end of the channel is dropped.
    pub(crate) gate: Option<(usize, Arc<Mutex<Receiver<()>>>)>,
    /// The stated length of the body, if it is not the real length; `Some(None)` states none.
    pub(crate) length: Option<Option<u64>>,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Returns the correct response of a server that has this file.
    pub(crate) fn file(request: &Request, bytes: &[u8], etag: &str) -> Self {
        let part = |range: Range<u64>| bytes[range.start as usize..range.end as usize].to_vec();
        Self::part(request, bytes.len() as u64, etag, part)
    }

    /// Does the same as [`file`](Self::file), for a file whose bytes are made by a function.
    pub(crate) fn part(
        request: &Request,
        len: u64,
        etag: &str,
        part: impl FnOnce(Range<u64>) -> Vec<u8>,
    ) -> Self {
        let reply =
            Self::status(206).with("etag", etag).with("last-modified", "Sun, 22 Nov 2026 00:00:00 GMT");
        if request.header("if-match").is_some_and(|wanted| wanted != etag) {
            return Self { status: 412, ..reply };
        }
        match request.range(len) {
            Some(range) if range.start < range.end => {
                let shown = format!("bytes {}-{}/{len}", range.start, range.end - 1);
                Self { body: part(range), ..reply }.with("content-range", &shown)
            }
            Some(_) => Self { status: 416, ..reply }.with("content-range", &format!("bytes */{len}")),
            None => Self { status: 200, body: part(0..len), ..reply },
        }
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<Request>>,
    active: AtomicUsize,
    most: AtomicUsize,
    /// The number of requests that arrived while no other request was being answered.
    waves: AtomicUsize,
}

/// A running server. Its threads end with the test.
pub(crate) struct Server {
    pub(crate) port: u16,
    log: Arc<Log>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Log::default());
        let (of_threads, handler) = (Arc::clone(&log), Arc::new(handler));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, handler) = (Arc::clone(&of_threads), Arc::clone(&handler));
                thread::spawn(move || serve(stream, &log, &*handler));
            }
        });
        Self { port, log }
    }

    /// Starts a server that responds correctly.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self::start(move |request| Reply::file(request, &bytes, "\"1\""))
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.requests.lock().unwrap().clone()
    }

    pub(crate) fn forget(&self) {
        self.log.requests.lock().unwrap().clear();
        self.log.waves.store(0, Ordering::SeqCst);
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.log.most.load(Ordering::SeqCst)
    }

    pub(crate) fn waves(&self) -> usize {
        self.log.waves.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self, path: &str) -> Location {
        format!("http://127.0.0.1:{}/{path}", self.port).parse().unwrap()
    }

    /// Returns options for a test, which must not wait long. Buckets are on this server.
    pub(crate) fn options(&self) -> Options {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let environment =
            [("AWS_SKIP_SIGNATURE", "true"), ("AWS_ENDPOINT_URL", &endpoint), ("HF_ENDPOINT", &endpoint)];
        options().environment(Environment::from_vars(environment))
    }
}

/// Returns options for a test, which must not wait long.
pub(crate) fn options() -> Options {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(1100));
    Options::new().waits(first, longest).environment(Environment::from_vars::<String, String>([]))
}

fn serve(mut stream: TcpStream, log: &Log, handler: &Handler) {
    stream.set_nodelay(true).unwrap();
    while let Some((target, headers)) = head(&mut stream) {
        let request = {
            let mut requests = log.requests.lock().unwrap();
            let request = Request { number: requests.len(), target, headers };
            requests.push(request.clone());
            request
        };
        let active = log.active.fetch_add(1, Ordering::SeqCst) + 1;
        log.most.fetch_max(active, Ordering::SeqCst);
        if active == 1 {
            log.waves.fetch_add(1, Ordering::SeqCst);
        }
        let is_open = answer(&mut stream, handler(&request));
        log.active.fetch_sub(1, Ordering::SeqCst);
        if !is_open {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn head(stream: &mut TcpStream) -> Option<(String, Vec<(String, String)>)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let text = String::from_utf8(head).unwrap();
    let mut lines = text.lines();
    let target = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    Some((target, headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()))
}

/// Sends a response. Returns whether the connection stays open.
fn answer(stream: &mut TcpStream, reply: Reply) -> bool {
    if let Some(wait) = reply.wait {
        thread::sleep(wait);
    }
    let mut text = format!("HTTP/1.1 {} X\r\n", reply.status);
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = reply.length.unwrap_or(Some(reply.body.len() as u64));
    match length {
        Some(length) => text.push_str(&format!("content-length: {length}\r\n\r\n")),
        None => text.push_str("connection: close\r\n\r\n"),
    }
    let sent = &reply.body[..reply.cut.unwrap_or(usize::MAX).min(reply.body.len())];
    let mut write = |bytes: &[u8]| stream.write_all(bytes).and_then(|()| stream.flush()).is_ok();
    let is_sent = write(text.as_bytes())
        && match reply.trickle {
            Some(wait) => sent.iter().all(|byte| {
                thread::sleep(wait);
                write(&[*byte])
            }),
            None => {
                let first = reply.gate.as_ref().map_or(0, |(at, _)| *at).min(sent.len());
                let is_sent = write(&sent[..first]);
                if let Some((_, gate)) = &reply.gate {
                    let _ = gate.lock().unwrap().recv();
                }
                is_sent && write(&sent[first..])
            }
        };
    is_sent && reply.cut.is_none() && length == Some(reply.body.len() as u64)
}
