//! A minimal HTTP client, because requests of a test must not go through the code under test.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The answer of a server.
#[derive(Debug)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// The lines of the head.
    pub head: String,
    /// The body, as it was sent.
    pub body: Vec<u8>,
}

/// Sends one request to `address`, such as `127.0.0.1:80`. `head` is further header lines, each with its line
/// end.
///
/// # Panics
/// If the server cannot be reached, or its answer is not HTTP.
#[must_use]
pub fn request(address: &str, method: &str, target: &str, head: &str, body: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let length = body.len();
    // With HTTP/1.0, a body comes in one piece and ends with the connection.
    let start =
        format!("{method} {target} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n{head}\r\n");
    stream
        .write_all(start.as_bytes())
        .and_then(|()| stream.write_all(body))
        .expect("a request that is taken");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer by HTTP");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Response { status, head, body: answer[end + 4..].to_vec() }
}
