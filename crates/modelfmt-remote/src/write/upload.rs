//! An object that is being written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use modelfmt_write::{Output, Overwrite, Sink};
use object_store::multipart::PartId;
use object_store::{MultipartId, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::background;
use super::parts::{Parts, Ready};
use super::target::Target;
use super::unfinished::{self, Unfinished};

/// The maximum number of parts that are sent at the same time.
const IN_FLIGHT: usize = 4;
/// The maximum number of parts that the providers allow.
const MOST_PARTS: u64 = 10_000;
/// The maximum length of an object of a set that waits in memory until the set is complete. A longer object
/// is sent in parts at once.
const WAITS_IN_MEMORY: u64 = 64 << 10;
/// How long an abort may take.
const ABORT: Duration = Duration::from_secs(10);
/// How long to wait for the id of an upload that has to be aborted. Without the id, it cannot be aborted.
const ID: Duration = Duration::from_secs(1);
/// How often a failed abort is repeated, and the wait before each.
const ABORTS_AGAIN: (usize, Duration) = (20, Duration::from_millis(100));

/// An object in a bucket that appears when it is complete.
///
/// Its parts are sent as soon as they are complete, at most four at the same time; a faster writer waits. Up
/// to eight parts that were not sent wait in memory, the others in a temporary file. An object with a single
/// part is sent in one request. If the upload is dropped before [`commit`](Output::commit), it is aborted and
/// its parts are removed.
#[derive(Debug)]
pub struct Upload {
    shared: Arc<Shared>,
    /// A copy of all bytes, for a writer that reads back what it has written.
    spool: Option<Mutex<File>>,
    overwrite: Overwrite,
    is_finished: bool,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    id: OnceCell<MultipartId>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    parts: Parts,
    part_size: u64,
    /// The ids of the sent parts, by number.
    done: Vec<Option<PartId>>,
    in_flight: Vec<JoinHandle<()>>,
    /// The number of these tasks that are running.
    running: usize,
    error: Option<io::Error>,
    /// Whether nothing more may be sent, because the upload is complete or aborted.
    is_over: bool,
    /// Whether no parts remain that would have to be removed.
    is_settled: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a part, once fewer than [`IN_FLIGHT`] parts are in flight.
    fn send(self: &Arc<Self>, (number, bytes): Ready) -> io::Result<()> {
        let runtime = background::handle()?;
        if number >= MOST_PARTS {
            let text = format!(
                "it has more than {MOST_PARTS} parts, which no provider takes; write a set (--shard-size)"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        let number = usize::try_from(number).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut state = self.state();
        while state.running >= IN_FLIGHT && state.error.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.check()?;
        state.in_flight.retain(|task| !task.is_finished());
        state.running += 1;
        let shared = Arc::clone(self);
        state.in_flight.push(runtime.spawn(async move {
            let sent = shared.put_part(number, bytes).await;
            shared.sent(number, sent);
        }));
        Ok(())
    }

    async fn put_part(&self, number: usize, bytes: Vec<u8>) -> object_store::Result<PartId> {
        let Target { store, path, .. } = &self.target;
        let id = self.id.get_or_try_init(|| store.create_multipart(path)).await?;
        store.put_part(path, id, number, PutPayload::from(bytes)).await
    }

    fn sent(&self, number: usize, sent: object_store::Result<PartId>) {
        let mut state = self.state();
        state.running -= 1;
        match sent {
            Ok(part) => {
                if state.done.len() <= number {
                    state.done.resize(number + 1, None);
                }
                if let Some(done) = state.done.get_mut(number) {
                    *done = Some(part);
                }
            }
            Err(error) => {
                let error = self.target.failed(&error);
                state.error.get_or_insert(error);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Removes the parts of an upload that is aborted.
    async fn take_back(&self, mut tasks: Vec<JoinHandle<()>>) {
        let until = tokio::time::Instant::now() + ID;
        for task in &mut tasks {
            if !self.id.initialized() {
                let _ = tokio::time::timeout_at(until, task).await;
            }
        }
        // Abort all at once, because otherwise each task that waits for the id would request another one.
        tasks.iter().for_each(JoinHandle::abort);
        // A part that arrives after the abort would remain, so wait for all parts first.
        for task in tasks.into_iter().filter(|task| !task.is_finished()) {
            let _ = task.await;
        }
        let (Some(id), Target { store, path, .. }) = (self.id.get(), &self.target) else { return };
        // An abort may fail while the provider is still receiving a part whose connection is already closed.
        // A refusal is final.
        let (times, wait) = ABORTS_AGAIN;
        for _ in 0..=times {
            let Err(object_store::Error::Generic { .. }) = store.abort_multipart(path, id).await else {
                return;
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for all parts in flight. Parts of an aborted upload never arrive.
    fn wait(&self) -> io::Result<()> {
        let mut state = self.state();
        while state.running > 0 && !state.is_over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.check()
    }
}

impl Unfinished for Shared {
    fn abort(self: Arc<Self>, at_most: Duration) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_over, true) {
            // Another thread is aborting the upload, and the process must not end before that is done.
            let _ = self.changed.wait_timeout_while(state, at_most, |state| !state.is_settled);
            return;
        }
        let tasks = std::mem::take(&mut state.in_flight);
        state.error.get_or_insert_with(given_up);
        drop(state);
        self.changed.notify_all();
        let over = Arc::clone(&self);
        // Parts that remain nevertheless cannot be read, and a rule of the bucket may remove them.
        let _ = background::wait(async move { self.take_back(tasks).await }, Some(at_most));
        over.state().is_settled = true;
        over.changed.notify_all();
    }
}

fn given_up() -> io::Error {
    io::Error::other("it was given up")
}

impl State {
    fn check(&self) -> io::Result<()> {
        match &self.error {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None if self.is_over => Err(given_up()),
            None => Ok(()),
        }
    }
}

impl Upload {
    pub(super) fn begin(
        target: Target,
        part_size: u64,
        overwrite: Overwrite,
        reads_back: bool,
    ) -> io::Result<Self> {
        let spool = reads_back.then(super::spool::create).transpose()?.map(Mutex::new);
        let state = State {
            parts: Parts::new(part_size),
            part_size,
            done: Vec::new(),
            in_flight: Vec::new(),
            running: 0,
            error: None,
            is_over: false,
            is_settled: false,
        };
        let (id, state, changed) = (OnceCell::new(), Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { target, id, state, changed });
        unfinished::begin(Arc::<Shared>::clone(&shared));
        Ok(Self { shared, spool, overwrite, is_finished: false })
    }

    fn take(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut state = self.shared.state();
        state.check()?;
        state.parts.write(offset, bytes, &mut ready)?;
        drop(state);
        ready.into_iter().try_for_each(|part| self.shared.send(part))
    }

    /// Sends the copy that was kept to be read back.
    fn unspool(&mut self) -> io::Result<()> {
        let Some(spool) = self.spool.take() else { return Ok(()) };
        let mut file = spool.into_inner().unwrap_or_else(PoisonError::into_inner);
        let len = file.metadata()?.len();
        let piece = self.shared.state().part_size.min(len);
        let mut buffer = vec![0; usize::try_from(piece).map_err(|_| io::ErrorKind::OutOfMemory)?];
        file.seek(SeekFrom::Start(0))?;
        let mut at = 0;
        while at < len {
            let here = usize::try_from((len - at).min(piece)).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let bytes = buffer.get_mut(..here).unwrap_or_default();
            file.read_exact(bytes)?;
            self.take(at, bytes)?;
            at += here as u64;
        }
        Ok(())
    }

    /// Sends the rest, unless it fits into one piece of at most `in_one_piece` bytes. Such a piece is sent
    /// when the object has to appear.
    fn send_rest(&mut self, in_one_piece: u64) -> io::Result<()> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        self.unspool()?;
        let state = self.shared.state();
        if state.parts.nothing_left() && state.parts.len() <= in_one_piece {
            return state.check();
        }
        drop(state);
        loop {
            let next = self.shared.state().parts.next()?;
            let Some(part) = next else { break };
            self.shared.send(part)?;
        }
        self.shared.wait()
    }

    /// Sends the whole object in one request.
    fn put(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        state.check()?; // it may have been aborted since it was finished
        let part = state.parts.next()?;
        drop(state);
        let bytes = part.map(|(_, bytes)| bytes).unwrap_or_default();
        let mode = match self.overwrite {
            Overwrite::Refuse => PutMode::Create,
            Overwrite::Replace => PutMode::Overwrite,
        };
        self.shared.target.ask(move |store, path| async move {
            store.put_opts(&path, bytes.into(), mode.into()).await.map(drop)
        })
    }

    /// Completes the object from the parts that were sent.
    fn complete(&self, id: &MultipartId) -> io::Result<()> {
        let (parts, count) = {
            let state = self.shared.state();
            state.check()?;
            (state.done.iter().flatten().cloned().collect::<Vec<_>>(), state.parts.count())
        };
        if parts.len() as u64 != count {
            return Err(io::Error::other("a part of it is missing")); // each was sent, and none failed
        }
        if self.overwrite == Overwrite::Refuse {
            self.shared.target.expect_none()?;
        }
        let id = id.clone();
        self.shared.target.ask(move |store, path| async move {
            store.complete_multipart(&path, &id, parts).await.map(drop)
        })
    }
}

impl Sink for Upload {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.spool {
            Some(spool) => {
                let mut file = spool.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(offset))?;
                io::Write::write_all(&mut *file, bytes)
            }
            None if self.is_finished => Err(io::Error::other("the object is finished already")),
            None => self.take(offset, bytes),
        }
    }

    fn name(&self) -> String {
        self.shared.target.name.clone()
    }
}

impl Output for Upload {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Some(spool) = &self.spool else {
            let text = "what was sent to a bucket cannot be read back before it is complete";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        };
        let mut file = spool.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.send_rest(WAITS_IN_MEMORY)
    }

    fn remove_old(&self) -> io::Result<()> {
        if self.overwrite == Overwrite::Refuse {
            return Ok(()); // there was none, and one that has appeared belongs to somebody else
        }
        self.shared.target.ask(|store, path| async move {
            match store.delete(&path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        })
    }

    fn commit(mut self) -> io::Result<()> {
        let part_size = self.shared.state().part_size;
        self.send_rest(part_size)?;
        match self.shared.id.get() {
            Some(id) => self.complete(id)?,
            None => self.put()?,
        }
        let mut state = self.shared.state();
        (state.is_over, state.is_settled) = (true, true);
        drop(state);
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        Arc::clone(&self.shared).abort(ABORT);
        unfinished::end(&self.shared);
    }
}
