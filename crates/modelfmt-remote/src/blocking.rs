//! The same for code that waits: a runtime on a thread of its own, and files as [`Source`]s.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread;

use modelfmt_core::Source;
use modelfmt_core::source::{Files, SharedFiles, check_relative, checked_len, shared_files};
use tensor_core::{AlignedBuf, Bytes};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::error::{Error, Fault, Result};
use crate::object::Object;
use crate::options::Options;
use crate::store::{self, Traffic};
use crate::url::Location;

/// As [`crate::Store`], for code that waits. It has a thread, which ends with the last clone and the last file of it.
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

/// The runtime's thread, which runs until this is dropped.
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
            // A name may still be looked up, which nothing can stop: it is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _until: until })
    }
}

impl Store {
    /// A store with these options, and its thread. Nothing is asked yet.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(options: Options) -> io::Result<Self> {
        Ok(Self { store: store::Store::new(options), thread: Arc::new(Thread::start()?) })
    }

    /// As [`crate::Store::revalidating`].
    #[must_use]
    pub fn revalidating(&self, ask: bool) -> Self {
        Self { store: self.store.revalidating(ask), ..self.clone() }
    }

    /// As [`crate::Store::uncached`].
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { store: self.store.uncached(), ..self.clone() }
    }

    /// Opens a file, as [`crate::Store::open`].
    ///
    /// # Errors
    /// As [`crate::Store::open`].
    pub fn open(&self, place: &Location) -> Result<File> {
        let (answer, opened) = mpsc::sync_channel(1);
        let (store, at) = (self.store.clone(), place.clone());
        self.thread.handle.spawn(async move {
            let _ = answer.send(store.open(&at).await);
        });
        let object = opened.recv().unwrap_or_else(|_| Err(Error::new(place, Fault::Ended)))?;
        Ok(File { name: place.to_string(), object: Arc::new(object), thread: Arc::clone(&self.thread) })
    }

    /// The files beside a file, such as those of a set beside its index.
    #[must_use]
    pub fn beside(&self, place: &Location) -> SharedFiles {
        shared_files(Beside { store: self.clone(), place: place.clone() })
    }

    /// The asynchronous store below.
    #[must_use]
    pub const fn inner(&self) -> &store::Store {
        &self.store
    }

    /// How much was asked for so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.store.traffic()
    }
}

/// The files beside a file.
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

/// An open file. Threads may read it at once; a long range is asked for in pieces, several at once.
#[derive(Debug)]
pub struct File {
    name: String,
    object: Arc<Object>,
    thread: Arc<Thread>,
}

/// Ends the tasks whose answers nobody waits for any more.
struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl File {
    /// The file, for code that awaits.
    #[must_use]
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Asks for all pieces of a range, and puts each where it belongs.
    fn fill(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let piece = self.object.store().piece();
        let (answers, pieces) = mpsc::channel::<(usize, Result<AlignedBuf>)>();
        let mut tasks = Tasks(Vec::new());
        for (number, part) in out.chunks(piece).enumerate() {
            let start = offset + (number * piece) as u64;
            let range = start..start + part.len() as u64;
            let (object, answers) = (Arc::clone(&self.object), answers.clone());
            let task = self.thread.handle.spawn(async move {
                let _ = answers.send((number, object.owned(range).await));
            });
            tasks.0.push(task.abort_handle());
        }
        drop(answers);
        for _ in 0..tasks.0.len() {
            let ended = |_| Error::new(self.object.location(), Fault::Ended);
            let (number, bytes) = pieces.recv().map_err(ended)?;
            let bytes = bytes?;
            let part =
                out.chunks_mut(piece).nth(number).filter(|part| <[u8]>::len(part) == <[u8]>::len(&bytes));
            part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(&bytes);
        }
        Ok(())
    }
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
        if let Some(bytes) = self.object.at_hand(&range) {
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
