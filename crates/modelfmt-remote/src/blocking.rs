//! Files at URLs for blocking code: a runtime on its own thread, and files as [`Source`]s.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use bytes::Bytes as Chunk;
use modelfmt_core::Source;
use modelfmt_core::source::{Files, SharedFiles, check_relative, checked_len, shared_files};
use tensor_core::{AlignedBuf, Bytes};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::ahead::{Ahead, Found};
use crate::error::Result;
use crate::object::Object;
use crate::options::Options;
use crate::store::{self, Traffic};
use crate::url::Location;

/// Does the same as [`crate::Store`], for blocking code. It starts a thread, which ends when the last clone
/// and the last open file are dropped.
///
/// ```no_run
/// use modelfmt_core::Source as _;
/// use modelfmt_remote::{Options, blocking::Store};
///
/// let store = Store::new(Options::new())?;
/// let place = "https://example.org/m.safetensors".parse()?;
/// let file = store.open(&place)?;
/// println!("{} bytes", file.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    store: store::Store,
    thread: Arc<Thread>,
}

/// The runtime's thread, which runs until this is dropped. It only talks to servers; the waiting thread does everything else with
/// the bytes.
#[derive(Debug)]
struct Thread {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl Thread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (until, dropped) = oneshot::channel::<()>();
        thread::Builder::new().name("modelfmt-remote".to_owned()).spawn(move || {
            let _ = runtime.block_on(dropped);
            // A name lookup may still be running and cannot be stopped, so do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _until: until })
    }

    /// Runs a future on the calling thread, which may belong to another runtime.
    fn wait<F: Future>(&self, future: F) -> F::Output {
        let _within = self.handle.enter();
        let unpark = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(Arc::clone(&unpark));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            while !unpark.is_woken.swap(false, Ordering::Acquire) {
                thread::park();
            }
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark {
    thread: thread::Thread,
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Store {
    /// Makes a store with these options, and starts its thread. No request is made yet.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn new(options: Options) -> io::Result<Self> {
        Ok(Self { store: store::Store::new(options), thread: Arc::new(Thread::start()?) })
    }

    /// Returns the same store, with or without asking the server whether cached files are still valid.
    #[must_use]
    pub fn revalidating(&self, ask: bool) -> Self {
        Self { store: self.store.revalidating(ask), ..self.clone() }
    }

    /// Returns the same store without its cache.
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { store: self.store.uncached(), ..self.clone() }
    }

    /// Opens a file, like [`crate::Store::open`].
    ///
    /// # Errors
    /// If there is no such file, or the server cannot be reached.
    pub fn open(&self, place: &Location) -> Result<File> {
        let object = Arc::new(self.thread.wait(self.store.open(place))?);
        let ahead = Ahead::new(self.store.options().bytes_in_flight.into());
        Ok(File { name: place.to_string(), object, ahead, thread: Arc::clone(&self.thread) })
    }

    /// Returns the names of the files in a folder, like [`crate::Store::list`].
    ///
    /// # Errors
    /// If the folder cannot be listed, or the server cannot be reached.
    pub fn list(&self, folder: &Location) -> Result<Vec<String>> {
        self.thread.wait(self.store.list(folder))
    }

    /// Fetches a file, a set or a repository, like [`fetch`](crate::fetch::fetch()).
    ///
    /// # Errors
    /// [`FetchError`](crate::fetch::FetchError).
    #[cfg(feature = "models")]
    #[cfg_attr(docsrs, doc(cfg(feature = "models")))]
    pub fn fetch(
        &self,
        urls: &[Location],
        out: impl AsRef<std::path::Path>,
        options: &crate::fetch::FetchOptions<'_>,
    ) -> std::result::Result<crate::fetch::Fetched, crate::fetch::FetchError> {
        self.thread.wait(crate::fetch::fetch(&self.store, urls, out, options))
    }

    /// Returns the files in the same folder as `place`, such as the files of a set next to its index. If
    /// `place` is a folder, returns the files in it.
    #[must_use]
    pub fn beside(&self, place: &Location) -> SharedFiles {
        shared_files(Beside { store: self.clone(), place: place.clone() })
    }

    /// Returns the asynchronous store that this store uses.
    #[must_use]
    pub const fn inner(&self) -> &store::Store {
        &self.store
    }

    /// Returns the number of requests so far, and the number of bytes received.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.store.traffic()
    }
}

/// The files in the same folder as a file.
#[derive(Clone, Debug)]
struct Beside {
    store: Store,
    place: Location,
}

impl Files for Beside {
    type Source = File;

    fn open(&self, path: &str) -> io::Result<File> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        Ok(self.store.open(&self.place.sibling(path))?)
    }
}

/// An open file. Several threads may read it at the same time. A long range is requested in pieces, several
/// at the same time. If short reads follow each other, the bytes after them are requested ahead.
#[derive(Debug)]
pub struct File {
    name: String,
    object: Arc<Object>,
    ahead: Ahead,
    thread: Arc<Thread>,
}

impl File {
    /// Returns the same file for asynchronous code.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Fills `out` with bytes that were requested ahead, and requests the others.
    fn fill(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        self.ahead.note(&self.object, &self.thread.handle, &(offset..end));
        while !out.is_empty() {
            let found = self.ahead.find(offset, end);
            let until = match &found {
                Found::Until(until) => *until,
                Found::Ahead(piece, _) => piece.end.min(end),
            };
            let len = usize::try_from(until - offset).unwrap_or(usize::MAX);
            let (here, rest) = out.split_at_mut(len.min(out.len()));
            match found {
                Found::Until(_) => self.thread.wait(self.object.read_into(offset, here))?,
                Found::Ahead(piece, coming) => {
                    let chunks = self.thread.wait(coming).inspect_err(|_| self.ahead.forget())?;
                    if !copy(&chunks, offset - piece.start, here) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            (offset, out) = (until, rest);
        }
        Ok(())
    }
}

/// Fills `out` with the bytes of the chunks, without the first `behind` bytes. Returns whether there are
/// enough bytes.
fn copy(chunks: &[Chunk], behind: u64, mut out: &mut [u8]) -> bool {
    let mut behind = usize::try_from(behind).unwrap_or(usize::MAX);
    for chunk in chunks {
        let bytes = chunk.get(behind..).unwrap_or_default();
        behind = behind.saturating_sub(chunk.len());
        let (here, rest) = out.split_at_mut(bytes.len().min(out.len()));
        if let Some(bytes) = bytes.get(..here.len()) {
            here.copy_from_slice(bytes);
        }
        out = rest;
    }
    out.is_empty()
}

impl Source for File {
    fn len(&self) -> u64 {
        self.object.version().size
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        checked_len(&(offset..end), self.len())?;
        let (from, rest) = self.object.fill_ends(offset, out);
        if rest.is_empty() { Ok(()) } else { self.fill(from, rest) }
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let len = checked_len(&range, self.len())?;
        if let Some(bytes) = self.object.kept_bytes(&range) {
            return Ok(Bytes::Borrowed(bytes));
        }
        let mut buffer = AlignedBuf::zeroed(len)?;
        self.read_into(range.start, &mut buffer)?;
        Ok(Bytes::Owned(buffer))
    }

    fn shared(&self) -> Option<&(dyn Source + Sync)> {
        Some(self)
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.name))
    }
}
