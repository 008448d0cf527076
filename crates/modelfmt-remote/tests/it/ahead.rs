//! Reading a file in short pieces does not wait for each piece, and only a limited number of bytes is
//! requested in vain.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "this is test code"
)]

use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{Reply, Server};
use modelfmt_core::{Execution, Source as _};
use modelfmt_remote::Options;
use modelfmt_remote::blocking::{File, Store};

const LEN: u64 = 40 << 20;
const SHORT: u64 = 512 << 10;
/// The number of bytes at the beginning that opening fetches.
const FRONT: u64 = 512 << 10;

/// The content of the file.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (mut bytes, mut state) = (Vec::with_capacity(LEN as usize), 1u64);
    while bytes.len() < LEN as usize {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes
});

fn part(range: Range<u64>) -> &'static [u8] {
    &BYTES[range.start as usize..range.end as usize]
}

/// Returns a server that waits before it responds, so that simultaneous requests can be counted.
fn server() -> Server {
    Server::start(|request| {
        let reply = Reply::part(request, LEN, "\"1\"", |range| part(range).to_vec());
        Reply { wait: Some(Duration::from_millis(50)), ..reply }
    })
}

fn open(server: &Server, options: Options) -> (Store, File) {
    let store = Store::new(options).unwrap();
    let file = store.open(&server.url("m.bin")).unwrap();
    (store, file)
}

/// Reads a range in short pieces, one after the other.
fn read(file: &File, from: u64, to: u64) {
    let mut out = vec![0; SHORT as usize];
    for at in (from..to).step_by(SHORT as usize) {
        let out = &mut out[..(to - at).min(SHORT) as usize];
        file.read_into(at, out).unwrap();
        assert!(out == part(at..at + out.len() as u64), "at {at}");
    }
}

#[test]
fn short_reads_one_after_the_other_have_many_requests_under_way_and_fetch_nothing_twice() {
    let server = server();
    let (store, file) = open(&server, server.options().in_flight(6, 64 << 20));
    read(&file, 0, LEN);
    assert_eq!(store.traffic().bytes, LEN);
    let short = LEN / SHORT;
    assert!(store.traffic().requests < short / 2, "{:?}", store.traffic());
    assert!((4..=6).contains(&server.most_at_once()), "{} at once", server.most_at_once());
}

#[test]
fn threads_that_share_a_pass_fetch_nothing_twice() {
    let server = server();
    let (store, file) = open(&server, server.options());
    let sum = AtomicU64::new(0);
    let look = |at: u64, bytes: &[u8]| {
        assert!(bytes == part(at..at + bytes.len() as u64), "at {at}");
        sum.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    };
    let work = Execution { threads: 3, progress: None };
    work.scan(&file, 0..LEN, SHORT, look, |()| ()).unwrap();
    assert_eq!((sum.into_inner(), store.traffic().bytes), (LEN, LEN));
    assert!(server.most_at_once() >= 6, "{} at once", server.most_at_once());
}

#[test]
fn what_is_read_in_vain_is_no_more_than_what_was_read() {
    let server = server();
    for read_so_far in [1u64 << 20, 3 << 20, 8 << 20] {
        let (store, file) = open(&server, server.options());
        let from = 5 << 20;
        read(&file, from, from + read_so_far);
        settle(&store);
        let most = if read_so_far < 2 << 20 { FRONT + read_so_far } else { FRONT + 2 * read_so_far };
        assert!(store.traffic().bytes <= most, "{read_so_far}: {:?}", store.traffic());
    }
}

/// Waits until no more bytes arrive.
fn settle(store: &Store) {
    let mut before = store.traffic();
    loop {
        thread::sleep(Duration::from_millis(100));
        let now = store.traffic();
        if now == before {
            return;
        }
        before = now;
    }
}

#[test]
fn reads_here_and_there_fetch_what_they_read() {
    let server = server();
    let (store, file) = open(&server, server.options());
    let places = [30u64, 4, 21, 12, 35, 8, 17, 26, 2, 38].map(|mib| mib << 20);
    places.iter().for_each(|at| read(&file, *at, at + SHORT));
    // Reads a tensor at once, however long it is, and then the next tensors.
    let mut out = vec![0; 6 << 20];
    for at in [14u64 << 20, 20 << 20, 26 << 20, 32 << 20] {
        file.read_into(at, &mut out).unwrap();
        assert!(out == part(at..at + (6 << 20)));
    }
    settle(&store);
    assert_eq!(store.traffic().bytes, FRONT + places.len() as u64 * SHORT + (24 << 20));
}

#[test]
fn little_memory_reads_nothing_ahead() {
    let server = server();
    let (store, file) = open(&server, server.options().in_flight(4, 1000));
    file.read_into(1 << 20, &mut [0; 2000]).unwrap();
    assert_eq!(store.traffic().bytes, FRONT + 2000);
    let (store, file) = open(&server, server.options().in_flight(4, 1 << 20));
    read(&file, 0, LEN / 4);
    settle(&store);
    assert!(store.traffic().bytes <= LEN / 4 + SHORT, "{:?}", store.traffic());
}

#[test]
fn what_could_not_be_read_ahead_is_asked_for_again() {
    // The first request for the end is refused.
    let refusals = AtomicU64::new(0);
    let server = Server::start(move |request| {
        let is_end = request.range(LEN).is_some_and(|range| range.end > LEN - SHORT);
        if is_end && refusals.fetch_add(1, Ordering::Relaxed) < 1 {
            return Reply::status(403);
        }
        Reply::part(request, LEN, "\"1\"", |range| part(range).to_vec())
    });
    let (_store, file) = open(&server, server.options());
    read(&file, 0, LEN - (4 << 20));
    let mut out = vec![0; SHORT as usize];
    // The error is returned for the bytes that it concerns, and not before.
    let failed =
        (LEN - (4 << 20)..LEN).step_by(SHORT as usize).filter(|at| file.read_into(*at, &mut out).is_err());
    assert_eq!(failed.count(), 1);
    read(&file, LEN - (4 << 20), LEN);
}

#[test]
fn code_that_waits_may_be_called_where_others_await() {
    let server = Server::of(part(0..3_000_000).to_vec());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (length, last) = runtime.block_on(async {
        let store = Store::new(server.options()).unwrap();
        let file = store.open(&server.url("m.bin")).unwrap();
        let mut last = [0];
        file.read_into(2_999_999, &mut last).unwrap();
        (file.len(), last[0])
    });
    assert_eq!((length, last), (3_000_000, BYTES[2_999_999]));
}
