//! Real servers on a free port of this machine, for tests that read and write over a network. A server ends
//! with the test process, however that ends, because it waits on a pipe from the test.

mod azure;
mod http;
mod nginx;
mod s3;

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

pub use azure::Azure;
pub use http::{Response, request};
pub use nginx::{Nginx, Request};
pub use s3::S3;

/// A server's process.
#[derive(Debug)]
struct Running {
    child: Child,
    /// The server runs as long as this is open.
    input: Option<ChildStdin>,
    /// The first line that the server printed.
    first_line: String,
}

impl Running {
    /// Starts a program that prints a line when it is ready, and ends when its standard input ends.
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let mut running = Self { child, input, first_line: String::new() };
        if let Some(output) = running.child.stdout.take() {
            BufReader::new(output).read_line(&mut running.first_line)?;
        }
        match running.first_line.is_empty() {
            true => Err(io::Error::other("it ended before it was ready")),
            false => Ok(running),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
