//! Runs an S3 server: moto, from PyPI.

use std::path::PathBuf;
use std::process::Command;

use super::{Response, Running, request};

/// The variable that names a Python interpreter that can import moto.
const VARIABLE: &str = "MODELFMT_SERVERS_PYTHON";

/// Prints the address at which it listens, and ends when its standard input ends.
const SCRIPT: &str = "
import logging, os, sys
from moto.server import ThreadedMotoServer
logging.getLogger('werkzeug').setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print('%s:%d' % server.get_host_and_port(), flush=True)
sys.stdin.read()
os._exit(0)
";

/// The server only checks that there is a signature, not that it is right. Unsigned requests cannot read a
/// bucket.
const AUTHORIZATION: &str = "Authorization: AWS4-HMAC-SHA256 \
    Credential=test-key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n";

/// A server that speaks S3 and keeps its buckets in memory. It accepts any credentials.
#[derive(Debug)]
pub struct S3 {
    address: String,
    _process: Running,
}

impl S3 {
    /// Starts a server.
    ///
    /// # Panics
    /// If moto is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let python = interpreter();
        let mut command = Command::new(&python);
        command.args(["-c", SCRIPT]);
        let help = "run `cargo xtask servers`";
        let process = Running::start(command).unwrap_or_else(|e| panic!("{}: {e}; {help}", python.display()));
        Self { address: process.first_line.trim().to_owned(), _process: process }
    }

    /// Returns the address at which it listens, as `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the environment for a program that uses this server and no cloud.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test-key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test-secret".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// Sends a signed request, like [`request`](super::request()).
    ///
    /// # Panics
    /// Like [`request`](super::request()).
    #[must_use]
    pub fn request(&self, method: &str, target: &str, head: &str, body: &[u8]) -> Response {
        request(&self.address, method, target, &format!("{AUTHORIZATION}{head}"), body)
    }

    /// Makes a bucket.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn make_bucket(&self, bucket: &str) {
        assert_eq!(self.request("PUT", &format!("/{bucket}"), "", b"").status, 200);
    }

    /// Uploads an object.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn put(&self, bucket: &str, key: &str, body: &[u8]) {
        assert_eq!(self.request("PUT", &format!("/{bucket}/{}", encoded(key)), "", body).status, 200);
    }

    /// Returns the bytes of an object, if it exists.
    #[must_use]
    pub fn get(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let response = self.request("GET", &format!("/{bucket}/{}", encoded(key)), "", b"");
        (response.status == 200).then_some(response.body)
    }

    /// Returns the keys of a bucket, in order.
    #[must_use]
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        values(&self.request("GET", &format!("/{bucket}?list-type=2"), "", b""), "Key")
    }

    /// Returns the keys of uploads whose parts have not been completed to an object.
    #[must_use]
    pub fn unfinished_uploads(&self, bucket: &str) -> Vec<String> {
        values(&self.request("GET", &format!("/{bucket}?uploads"), "", b""), "Key")
    }
}

/// Encodes a key as part of a URL.
fn encoded(key: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    let byte = |byte: u8| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    key.bytes().map(byte).collect()
}

/// Returns the contents of the elements with this name.
fn values(response: &Response, name: &str) -> Vec<String> {
    assert_eq!(response.status, 200, "{}", response.head);
    let text = String::from_utf8_lossy(&response.body);
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&begin).skip(1);
    parts.filter_map(|part| Some(part.split_once(&end)?.0.to_owned())).collect()
}

fn interpreter() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return path.into();
    }
    let path = crate::workspace::root().join("target/servers/bin/python");
    assert!(path.exists(), "no S3 server: run `cargo xtask servers`, or name an interpreter in {VARIABLE}");
    path
}
