//! Handles the bytes of a request. They are checked and written in steps, by other threads if there are any,
//! so that the receiving thread does little else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use blake3_tree::Page;
use bytes::Bytes;
use futures_util::FutureExt as _;
use modelfmt_write::{FileSink, Sink as _};
use tokio::task::JoinHandle;

use super::context::Context;
use super::error::{FetchError, Result};
use super::part::Part;
use super::plan::Job;

/// The file that correct bytes are written to.
pub(super) struct Target<'a> {
    cx: &'a Context<'a>,
    path: &'a Path,
    sink: Arc<FileSink>,
    part: Option<&'a RefCell<Part>>,
    /// Whether the next fetch can use what was written before a stop.
    is_kept: bool,
    /// The number of steps that other threads are working on.
    elsewhere: Cell<usize>,
}

impl<'a> Target<'a> {
    /// Returns a target that is an existing file, written in place.
    pub(super) fn in_place(cx: &'a Context<'a>, path: &'a Path, file: &File) -> Result<Self> {
        let sink = Arc::new(FileSink(file.try_clone().map_err(FetchError::local(path))?));
        Ok(Self { cx, path, sink, part: None, is_kept: true, elsewhere: Cell::new(0) })
    }

    /// Returns a target that is a temporary file, of which nothing remains after a stop.
    pub(super) fn temporary(cx: &'a Context<'a>, path: &'a Path, file: &File) -> Result<Self> {
        Ok(Self { is_kept: false, ..Self::in_place(cx, path, file)? })
    }

    /// Returns a target that is an unfinished file, with a list of the ranges that have arrived.
    pub(super) fn part(cx: &'a Context<'a>, path: &'a Path, part: &'a RefCell<Part>) -> Result<Self> {
        let target = Self::in_place(cx, path, &part.borrow().file)?;
        Ok(Self { part: Some(part), is_kept: part.borrow().is_listed(), ..target })
    }

    /// Checks whether another thread may take a step.
    fn has_room(&self) -> bool {
        let threads = self.cx.options.threads;
        threads > 1 && self.elsewhere.get() < threads
    }

    /// Records that a range has been written.
    fn wrote(&self, range: Range<u64>) -> Result<()> {
        let len = range.end.saturating_sub(range.start);
        if let Some(part) = &self.part {
            part.borrow_mut().note(range).map_err(FetchError::local(self.path))?;
        }
        if self.is_kept { self.cx.count_written(len) } else { self.cx.count_received(len) }
    }

    fn failed(&self, error: io::Error) -> FetchError {
        FetchError::local(self.path)(error)
    }
}

/// The result of a step.
struct Checked {
    range: Range<u64>,
    /// The ranges that are right and have been written.
    right: Vec<Range<u64>>,
    bad: Vec<Range<u64>>,
    error: Option<io::Error>,
}

impl Checked {
    /// Checks bytes that begin at `at` and are whole groups, and writes those that are right.
    fn of(page: &Page, sink: &FileSink, at: u64, bytes: &[u8]) -> Self {
        let end = at.saturating_add(bytes.len() as u64);
        let mut checked = Self { range: at..end, right: Vec::new(), bad: Vec::new(), error: None };
        if page.check(at, bytes).is_ok() {
            checked.write(sink, at, bytes);
            return checked;
        }
        let (group, mut at) = (usize::try_from(page.group()).unwrap_or(usize::MAX), at);
        for bytes in bytes.chunks(group) {
            let end = at.saturating_add(bytes.len() as u64);
            match page.check(at, bytes) {
                Ok(()) => checked.write(sink, at, bytes),
                Err(_) => checked.bad.push(at..end),
            }
            at = end;
        }
        checked
    }

    fn write(&mut self, sink: &FileSink, at: u64, bytes: &[u8]) {
        match sink.write_at(at, bytes) {
            Ok(()) => self.right.push(at..at.saturating_add(bytes.len() as u64)),
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }
}

enum Step {
    Done(Checked),
    Elsewhere(JoinHandle<Checked>),
}

/// Checks the bytes of a request as they arrive, and writes those that are right.
pub(super) struct Intake<'a> {
    job: &'a Job,
    target: &'a Target<'a>,
    /// The offset up to which bytes are either written or known to be wrong.
    pub(super) at: u64,
    /// The offset of the next step. Bytes after it are held, or have not arrived.
    next: u64,
    held: Vec<Bytes>,
    /// The number of bytes that are held.
    len: usize,
    /// The number of bytes that are checked together.
    step: u64,
    steps: VecDeque<Step>,
    bad: &'a RefCell<Vec<Range<u64>>>,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        job: &'a Job,
        target: &'a Target<'a>,
        step: u64,
        bad: &'a RefCell<Vec<Range<u64>>>,
    ) -> Self {
        let (at, next) = (job.range.start, job.range.start);
        Self { job, target, at, next, held: Vec::new(), len: 0, step, steps: VecDeque::new(), bad }
    }

    /// Returns the range of the request.
    pub(super) fn range(&self) -> Range<u64> {
        self.job.range.clone()
    }

    /// Checks whether any bytes were wrong.
    pub(super) fn has_bad(&self) -> bool {
        !self.bad.borrow().is_empty()
    }

    /// Takes the next bytes of the response.
    pub(super) fn push(&mut self, mut bytes: Bytes) -> Result<()> {
        let Some(page) = &self.job.page else {
            self.target.sink.write_at(self.at, &bytes).map_err(|error| self.target.failed(error))?;
            let range = self.at..self.at.saturating_add(bytes.len() as u64);
            (self.at, self.next) = (range.end, range.end);
            return self.target.wrote(range);
        };
        while !bytes.is_empty() {
            let end = (self.next - self.next % self.step).saturating_add(self.step).min(self.job.range.end);
            let whole = usize::try_from(end.saturating_sub(self.next)).unwrap_or(usize::MAX);
            let lacking = whole.saturating_sub(self.len);
            if lacking == 0 {
                return Ok(()); // more than was asked for, which is refused before
            }
            let here = bytes.split_to(lacking.min(bytes.len()));
            self.len += here.len();
            self.held.push(here);
            if self.len == whole {
                let step = begin(page, self.target, self.next, std::mem::take(&mut self.held));
                self.steps.push_back(step);
                (self.next, self.len) = (end, 0);
                self.collect_done()?;
            }
        }
        Ok(())
    }

    /// Records the results of completed steps, in order.
    fn collect_done(&mut self) -> Result<()> {
        while let Some(step) = self.steps.front_mut() {
            let checked = match step {
                Step::Elsewhere(handle) => match handle.now_or_never() {
                    None => return Ok(()),
                    Some(checked) => {
                        self.target.elsewhere.set(self.target.elsewhere.get().saturating_sub(1));
                        checked.map_err(io::Error::other)
                    }
                },
                Step::Done(checked) => Ok(std::mem::replace(checked, placeholder())),
            };
            self.steps.pop_front();
            self.take(checked.map_err(|error| self.target.failed(error))?)?;
        }
        Ok(())
    }

    fn take(&mut self, checked: Checked) -> Result<()> {
        for range in checked.right {
            self.target.wrote(range)?;
        }
        self.bad.borrow_mut().extend(checked.bad);
        if let Some(error) = checked.error {
            return Err(self.target.failed(error));
        }
        self.at = checked.range.end;
        Ok(())
    }

    /// Waits for the steps in progress.
    pub(super) async fn finish(&mut self) -> Result<()> {
        while let Some(step) = self.steps.front_mut() {
            if let Step::Elsewhere(handle) = step {
                let checked = handle.await;
                self.target.elsewhere.set(self.target.elsewhere.get().saturating_sub(1));
                *step = Step::Done(checked.map_err(|error| self.target.failed(io::Error::other(error)))?);
            }
            self.collect_done()?;
        }
        Ok(())
    }
}

/// If a request is given up, other threads may still write, but only bytes that are right.
impl Drop for Intake<'_> {
    fn drop(&mut self) {
        let elsewhere = self.steps.iter().filter(|step| matches!(step, Step::Elsewhere(_))).count();
        self.target.elsewhere.set(self.target.elsewhere.get().saturating_sub(elsewhere));
    }
}

const fn placeholder() -> Checked {
    Checked { range: 0..0, right: Vec::new(), bad: Vec::new(), error: None }
}

/// Checks and writes a step, on another thread if one is free.
fn begin(page: &Arc<Page>, target: &Target<'_>, at: u64, pieces: Vec<Bytes>) -> Step {
    let (page, sink) = (Arc::clone(page), Arc::clone(&target.sink));
    let work = move || match &pieces[..] {
        [piece] => Checked::of(&page, &sink, at, piece),
        pieces => Checked::of(&page, &sink, at, &pieces.concat()),
    };
    if !target.has_room() {
        return Step::Done(work());
    }
    target.elsewhere.set(target.elsewhere.get().saturating_add(1));
    Step::Elsewhere(tokio::task::spawn_blocking(work))
}
