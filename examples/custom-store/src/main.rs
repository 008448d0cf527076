//! Opens a model in your own store: here files are cut into chunks, as in a database. The store implements
//! `Fetch` for a file and `FetchFiles` for files by name; `AsyncModel` does the rest.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use modelfmt::AsyncModel;
use modelfmt::modelfmt_core::{AlignedBuf, Bytes, Fetch, FetchFiles};

const CHUNK: usize = 256;

/// The chunks of each file.
#[derive(Default)]
struct Chunks {
    files: HashMap<String, Vec<Vec<u8>>>,
    fetched: AtomicUsize,
}

impl Chunks {
    fn insert(&mut self, name: &str, bytes: &[u8]) {
        self.files.insert(name.to_owned(), bytes.chunks(CHUNK).map(<[u8]>::to_vec).collect());
    }

    /// Your store would query its database or decrypt here.
    async fn chunk(&self, name: &str, number: usize) -> io::Result<&[u8]> {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        let chunk = self.files.get(name).and_then(|chunks| chunks.get(number));
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no chunk {number} of {name}"));
        chunk.map(Vec::as_slice).ok_or_else(missing)
    }
}

struct File<'a> {
    store: &'a Chunks,
    name: String,
    len: u64,
}

impl<'a> FetchFiles for &'a Chunks {
    type File = File<'a>;

    async fn fetch_file(&self, path: &str) -> io::Result<File<'a>> {
        let chunks = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Ok(File { store: self, name: path.to_owned(), len })
    }
}

impl Fetch for File<'_> {
    fn size(&self) -> u64 {
        self.len
    }

    /// Returns exactly the bytes of the range, or an error.
    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let index = |at| usize::try_from(at).map_err(io::Error::other);
        let (start, end) = (index(range.start)?, index(range.end)?);
        let mut bytes = Vec::new();
        for number in start / CHUNK..end.div_ceil(CHUNK) {
            let (chunk, begin) = (self.store.chunk(&self.name, number).await?, number * CHUNK);
            let within = start.saturating_sub(begin)..(end - begin).min(CHUNK);
            bytes.extend_from_slice(chunk.get(within).ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        Ok(Bytes::Owned(AlignedBuf::copy_from_slice(&bytes)?))
    }
}

/// Any executor works.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/reference/one-shard.aero");
    let mut store = Chunks::default();
    store.insert("model", &std::fs::read(path)?);
    block_on(async {
        let model = AsyncModel::open(&store, "model").await?;
        let tensors = model.tensors().await?;
        let Some(last) = tensors.last() else { return Ok(()) };
        let values = modelfmt::to_f32(&model.tensor(last.name).await?)?;
        println!("{} begins with {:?}", last.name, values.iter().take(4).collect::<Vec<_>>());
        println!("fetched {} chunks", store.fetched.load(Ordering::Relaxed));
        Ok(())
    })
}

#[cfg(test)]
mod tests;
