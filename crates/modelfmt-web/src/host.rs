//! The functions that JavaScript provides: files by name, outputs, a callback for progress. All calls are
//! synchronous.
#![allow(unsafe_code, reason = "functions of the host are called so")]

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use modelfmt::Source;
use modelfmt::modelfmt_core::source::{Files, Share, SharedFiles, check_relative, shared_files};
use modelfmt::modelfmt_write::{NewFiles, Output, Sink};

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Returns the length of a file, or a negative number if there is none; then [`failure`] says why.
    fn file_len(name: *const u8, name_len: usize) -> i64;
    /// Fills `out` with a file's bytes from `offset` on. Returns 1 if it succeeded; otherwise [`failure`]
    /// says why not.
    fn file_read(name: *const u8, name_len: usize, offset: u64, out: *mut u8, out_len: usize) -> i32;
    /// Begins a file of the output. Returns its number, or a negative number if it cannot be begun; then
    /// [`failure`] says why.
    #[link_name = "create"]
    fn create_file(name: *const u8, name_len: usize) -> i32;
    /// Writes to a file of the output. Returns 1 if it succeeded; otherwise [`failure`] says why not.
    fn write_at(file: i32, offset: u64, bytes: *const u8, len: usize) -> i32;
    /// Fills `out` with bytes that were written to a file of the output. Returns 1 if it succeeded; otherwise
    /// [`failure`] says why not.
    fn read_back(file: i32, offset: u64, out: *mut u8, out_len: usize) -> i32;
    /// Copies the reason of the last failure to `out`, at most `out_len` bytes, and returns its length.
    fn failure(out: *mut u8, out_len: usize) -> usize;
    /// Shows a message.
    fn message(text: *const u8, text_len: usize);
    /// Reports the number of bytes done since the last call. Returns 0 to stop the work.
    fn progress(nbytes: u64) -> i32;
}

/// The most bytes that are taken of a reason for a failure.
const REASON: usize = 512;

/// Sends a message to the page that started the worker.
pub(crate) fn say(text: &str) {
    // SAFETY: the host reads these bytes during the call and no others.
    unsafe { message(text.as_ptr(), text.len()) };
}

/// Reports bytes that are done.
pub(crate) fn advance(nbytes: u64) -> ControlFlow<()> {
    // SAFETY: it takes a number and returns one, and touches no memory.
    match unsafe { progress(nbytes) } {
        0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Returns why the last call of the host failed.
fn reason(kind: io::ErrorKind) -> io::Error {
    let mut text = [0; REASON];
    // SAFETY: the host writes at most `REASON` bytes to `text` during the call.
    let len = unsafe { failure(text.as_mut_ptr(), REASON) };
    let text = String::from_utf8_lossy(text.get(..len).unwrap_or_default());
    io::Error::new(kind, text.trim_end_matches('\u{fffd}').to_owned())
}

/// Returns the host's files, as the files of a set whose index is in `folder`.
pub(crate) fn files(folder: &str) -> SharedFiles {
    shared_files(HostFiles { folder: folder.to_owned() })
}

thread_local! {
    /// This worker's share of a job, if several workers do it together.
    static SHARE: RefCell<Option<Arc<Share>>> = const { RefCell::new(None) };
}

/// Sets the share of a job for which files are read that are opened from now on.
pub(crate) fn share(share: Arc<Share>) {
    SHARE.set(Some(share));
}

/// Opens one of the files by its full name.
pub(crate) fn open(name: &str) -> io::Result<HostFile> {
    // SAFETY: the host reads these bytes during the call and no others.
    let len = unsafe { file_len(name.as_ptr(), name.len()) };
    let len = u64::try_from(len).map_err(|_| reason(io::ErrorKind::NotFound))?;
    Ok(HostFile { name: name.to_owned(), len, share: SHARE.with_borrow(Clone::clone) })
}

struct HostFiles {
    /// The folder with a slash at its end, if it is not empty.
    folder: String,
}

impl Files for HostFiles {
    type Source = HostFile;

    fn open(&self, path: &str) -> io::Result<HostFile> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))?;
        open(&format!("{}{path}", self.folder))
    }
}

/// One of the files, which the host identifies by its name.
pub(crate) struct HostFile {
    name: String,
    len: u64,
    share: Option<Arc<Share>>,
}

impl Source for HostFile {
    fn share(&self) -> Option<&Share> {
        self.share.as_deref()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64);
        end.filter(|end| *end <= self.len).ok_or(io::ErrorKind::UnexpectedEof)?;
        if out.is_empty() {
            return Ok(());
        }
        let (name, out_ptr) = (self.name.as_ptr(), out.as_mut_ptr());
        // SAFETY: the host reads the name and writes the `out.len()` bytes of `out` during the call, and nothing else.
        match unsafe { file_read(name, self.name.len(), offset, out_ptr, out.len()) } {
            1 => Ok(()),
            _ => Err(reason(io::ErrorKind::Other)),
        }
    }
}

/// Begins a file of the output.
pub(crate) fn create(name: &str) -> io::Result<HostSink> {
    // SAFETY: the host reads these bytes during the call and no others.
    let file = unsafe { create_file(name.as_ptr(), name.len()) };
    if file < 0 { Err(reason(io::ErrorKind::Other)) } else { Ok(HostSink { name: name.to_owned(), file }) }
}

/// The files of a set that is written. The host hands them over when all are complete.
pub(crate) struct HostOutput;

impl NewFiles for HostOutput {
    type Output = HostSink;

    fn check(&self, path: &str) -> io::Result<()> {
        check_relative(path).map_err(|fault| io::Error::new(io::ErrorKind::InvalidInput, fault))
    }

    fn create(&self, path: &str) -> io::Result<HostSink> {
        self.check(path)?;
        create(path)
    }
}

/// A file of the output.
pub(crate) struct HostSink {
    name: String,
    file: i32,
}

impl Sink for HostSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the host reads these bytes during the call and no others.
        match unsafe { write_at(self.file, offset, bytes.as_ptr(), bytes.len()) } {
            1 => Ok(()),
            _ => Err(reason(io::ErrorKind::Other)),
        }
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

impl Output for HostSink {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        // SAFETY: the host writes the `out.len()` bytes of `out` during the call, and nothing else.
        match unsafe { read_back(self.file, offset, out.as_mut_ptr(), out.len()) } {
            1 => Ok(()),
            _ => Err(reason(io::ErrorKind::Other)),
        }
    }

    /// The host keeps the files, and hands them over when the worker is done.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        Ok(())
    }

    fn commit(self) -> io::Result<()> {
        Ok(())
    }
}
