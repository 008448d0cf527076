//! A web server for one file, so that the example runs without a network.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Serves `file` at `path` on a free port, until the process ends, and returns the URL.
pub(crate) fn serve(path: &'static str, file: Vec<u8>) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}{path}", listener.local_addr()?);
    let file = Arc::new(file);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let file = Arc::clone(&file);
            // A client that hangs up does not affect the others.
            thread::spawn(move || answer(stream, path, &file));
        }
    });
    Ok(url)
}

fn answer(mut stream: TcpStream, path: &str, file: &[u8]) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let headers: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let range = headers.iter().find_map(|line| line.strip_prefix("Range: bytes="));
    let (status, range, body) = match range.map(|range| (range, part(file, range))) {
        _ if request.split(' ').nth(1) != Some(path) => ("404 Not Found", None, &[][..]),
        None => ("200 OK", None, file),
        Some((range, Some(body))) => ("206 Partial Content", Some(range), body),
        Some((_, None)) => ("416 Range Not Satisfiable", None, &[][..]),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"1\"\r\n", body.len())?;
    if let Some(range) = range {
        write!(stream, "Content-Range: bytes {range}/{}\r\n", file.len())?;
    }
    stream.write_all(b"Connection: close\r\n\r\n")?;
    if request.starts_with("GET ") {
        stream.write_all(body)?;
    }
    Ok(())
}

/// Returns the bytes of `FIRST-LAST`.
fn part<'a>(file: &'a [u8], range: &str) -> Option<&'a [u8]> {
    let (first, last) = range.split_once('-')?;
    file.get(first.parse().ok()?..=last.parse().ok()?)
}
