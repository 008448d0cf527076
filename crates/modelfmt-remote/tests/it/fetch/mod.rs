//! Fetched files: new ones, stopped ones, damaged ones, from one server and from several.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

mod crash;
mod folders;
mod mirrors;
mod own_hashes;
mod proved;
mod servers;
mod unproved;

use std::path::Path;
use std::sync::Arc;

use modelfmt_remote::Location;
use modelfmt_remote::blocking::Store;
use modelfmt_remote::fetch::{FetchError, FetchOptions, Fetched};

use crate::common::{Reply, Request, Server};

pub(crate) const GROUP: usize = 16 << 10;

/// Returns bytes that differ at every offset.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Serves files by their paths.
pub(crate) fn files(files: Vec<(&str, Vec<u8>)>) -> Server {
    serving(files, |_, reply| reply)
}

/// Serves files, and changes the replies.
pub(crate) fn serving(
    files: Vec<(&str, Vec<u8>)>,
    change: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static,
) -> Server {
    let files: Vec<(String, Arc<Vec<u8>>)> =
        files.into_iter().map(|(name, bytes)| (format!("/{name}"), Arc::new(bytes))).collect();
    Server::start(move |request| {
        let found = files.iter().find(|(name, _)| *name == request.target);
        let reply = found.map_or(Reply::status(404), |(_, bytes)| Reply::file(request, bytes, "\"1\""));
        change(request, reply)
    })
}

/// Serves a file and its outboard, and returns the hash of the file.
pub(crate) fn proved(bytes: &[u8]) -> (Server, [u8; 32]) {
    let (hash, outboard) = blake3_tree::outboard(bytes);
    (files(vec![("m", bytes.to_vec()), ("m.obao4", outboard)]), hash)
}

pub(crate) fn fetch(server: &Server, out: &Path, options: &FetchOptions<'_>) -> Result<Fetched, FetchError> {
    fetch_from(server, &[server.url("m")], out, options)
}

pub(crate) fn fetch_from(
    server: &Server,
    urls: &[Location],
    out: &Path,
    options: &FetchOptions<'_>,
) -> Result<Fetched, FetchError> {
    Store::new(server.options()).unwrap().fetch(urls, out, options)
}

/// Returns the names in a folder, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns the number of requests for a path, and of bytes that they ask for.
pub(crate) fn asked(server: &Server, path: &str, len: usize) -> (usize, u64) {
    let requests = server.requests();
    let of_path = requests.iter().filter(|request| request.target == format!("/{path}"));
    let ranges: Vec<_> = of_path.map(|request| request.range(len as u64).unwrap_or(0..len as u64)).collect();
    (ranges.len(), ranges.iter().map(|range| range.end - range.start).sum())
}
