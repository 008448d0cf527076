//! A file on a web server as a source of bytes.
//!
//! This is a minimal HTTP client: a connection for each request, no TLS, no redirects. Use your own client in
//! place of `request`; the rest is what a source needs.

use std::fmt;
use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::Source;
use modelfmt::modelfmt_core::source::checked_len;

/// A file on a web server, read by ranges.
pub(crate) struct HttpSource {
    host: String,
    path: String,
    len: u64,
    /// The version of the file that was opened: ranges of two versions do not make a valid file.
    etag: Option<String>,
    requests: AtomicU64,
    nbytes: AtomicU64,
}

/// The answer of a server: the status, the headers with names in lower case, and the body to be read.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Box<dyn Read>,
}

impl HttpSource {
    /// Requests the length of the file. None of its bytes are fetched yet.
    pub(crate) fn open(url: &str) -> io::Result<Self> {
        let invalid = || Error::new(ErrorKind::InvalidInput, "the URL is not http://HOST/PATH");
        let rest = url.strip_prefix("http://").ok_or_else(invalid)?;
        let (host, _) = rest.split_once('/').ok_or_else(invalid)?;
        let path = rest.strip_prefix(host).unwrap_or("/");
        let (requests, nbytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut source =
            Self { host: host.to_owned(), path: path.to_owned(), len: 0, etag: None, requests, nbytes };
        let response = source.request("HEAD", "")?;
        if response.status != 200 {
            return Err(Error::other(format!("{url}: the server answers {}", response.status)));
        }
        let len = response.header("content-length").and_then(|len| len.parse().ok());
        source.len = len.ok_or_else(|| Error::other("the server does not say how long the file is"))?;
        source.etag = response.header("etag").map(str::to_owned);
        Ok(source)
    }

    /// Returns the number of bytes of the file that were fetched.
    pub(crate) fn nbytes_fetched(&self) -> u64 {
        self.nbytes.load(Ordering::Relaxed)
    }

    /// Describes what was fetched so far.
    pub(crate) fn fetched(&self) -> impl fmt::Display {
        let requests = self.requests.load(Ordering::Relaxed);
        format!("{} of {} bytes in {requests} requests", self.nbytes_fetched(), self.len)
    }

    fn request(&self, method: &str, headers: &str) -> io::Result<Response> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let address = if self.host.contains(':') { self.host.clone() } else { format!("{}:80", self.host) };
        let mut stream = TcpStream::connect(address)?;
        let Self { host, path, .. } = self;
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n")?;
        Response::read(stream)
    }
}

impl Source for HttpSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.len)?; // a range past the end is an error before the server is asked
        let Some(last) = end.checked_sub(1).filter(|_| !out.is_empty()) else { return Ok(()) };
        let mut headers = format!("Range: bytes={offset}-{last}\r\n");
        if let Some(etag) = &self.etag {
            headers.push_str(&format!("If-Match: {etag}\r\n"));
        }
        let mut response = self.request("GET", &headers)?;
        // 200 would mean the whole file, from a server without range requests; 412 would mean another version
        // of it.
        let expected = format!("bytes {offset}-{last}/{}", self.len);
        if response.status != 206 || response.header("content-range") != Some(&expected) {
            return Err(Error::other(format!("the server answers {} to {expected}", response.status)));
        }
        response.body.read_exact(out)?;
        self.nbytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Requests are independent of each other, so verification makes several at once.
    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }
}

impl Response {
    fn read(stream: impl Read + 'static) -> io::Result<Self> {
        const MAX_HEAD: u64 = 64 << 10; // a server is not to be trusted with our memory either
        let invalid = || Error::new(ErrorKind::InvalidData, "the answer is not HTTP");
        let mut reader = BufReader::new(stream);
        let mut head = reader.by_ref().take(MAX_HEAD).lines();
        let status = head.next().ok_or_else(invalid)??;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(invalid)?;
        let mut headers = Vec::new();
        loop {
            let line = head.next().ok_or_else(invalid)??;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(invalid)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Self { status, headers, body: Box::new(reader) })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}
