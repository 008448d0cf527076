//! The functions that JavaScript calls.
//!
//! Buffers that cross the border are boxed slices: JavaScript gets them from [`allocate`], and returns each
//! of them in a call that takes it.
#![allow(unsafe_code, reason = "memory shared with JavaScript has no other form")]

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use modelfmt_core::Source;
use modelfmt_core::source::{Files, MemoryFiles, SharedFiles, shared_files};

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// Returns the length of a file, or a negative number if there is no such file.
    fn file_len(name: *const u8, name_len: usize) -> i64;
    /// Fills `out` with a file's bytes from `offset` on. Returns 1 if it succeeded.
    fn read_range(name: *const u8, name_len: usize, offset: u64, out: *mut u8, out_len: usize) -> i32;
    /// Shows a message on the host.
    fn say(text: *const u8, text_len: usize);
}

thread_local! {
    static MEMORY: RefCell<MemoryFiles> = RefCell::default();
}

/// Passes panic messages to the host before panics become traps. Must be called first.
#[unsafe(no_mangle)]
extern "C" fn start() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the host reads these bytes during the call and no others.
        unsafe { say(text.as_ptr(), text.len()) };
    }));
}

/// Returns a buffer of `len` bytes, to be filled and passed to one of the other functions.
#[unsafe(no_mangle)]
extern "C" fn allocate(len: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Keeps a file in memory.
///
/// # Safety
/// Both buffers are from [`allocate`], with these lengths, and the caller has not passed them to another
/// function.
#[unsafe(no_mangle)]
unsafe extern "C" fn put_file(name: *mut u8, name_len: usize, bytes: *mut u8, len: usize) {
    // SAFETY: this function's own contract.
    let (name, bytes) = unsafe { (take_text(name, name_len), take(bytes, len)) };
    MEMORY.with_borrow_mut(|files| files.0.insert(name, Arc::from(bytes)));
}

/// Describes the content of a file that [`put_file`] has stored.
///
/// # Safety
/// As for [`put_file`]. The result is as for [`give`].
#[unsafe(no_mangle)]
unsafe extern "C" fn describe_memory(name: *mut u8, name_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let name = unsafe { take_text(name, name_len) };
    let files = shared_files(MEMORY.with_borrow(MemoryFiles::clone));
    give(&crate::describe(&name, &files))
}

/// Describes the content of a file whose ranges the host reads.
///
/// # Safety
/// As for [`describe_memory`].
#[unsafe(no_mangle)]
unsafe extern "C" fn describe_ranges(name: *mut u8, name_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let name = unsafe { take_text(name, name_len) };
    give(&crate::describe(&name, &host_files()))
}

/// Describes the content of a file of 100 GB whose ranges the host makes up.
///
/// # Safety
/// As for [`describe_memory`].
#[unsafe(no_mangle)]
unsafe extern "C" fn describe_far(name: *mut u8, name_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let name = unsafe { take_text(name, name_len) };
    give(&crate::far::describe(&*crate::open(&name, &host_files())))
}

/// Frees a text that [`give`] returned.
///
/// # Safety
/// `text` is such a text, and is freed only once.
#[unsafe(no_mangle)]
unsafe extern "C" fn release(text: *mut u8, len: usize) {
    // SAFETY: this function's own contract; such a text is a boxed slice, as buffers are.
    drop(unsafe { take(text, len) });
}

/// # Safety
/// The buffer is a boxed slice of that length that nobody else uses.
unsafe fn take(buffer: *mut u8, len: usize) -> Box<[u8]> {
    // SAFETY: this function's own contract.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer, len)) }
}

/// # Safety
/// As for [`take`].
unsafe fn take_text(buffer: *mut u8, len: usize) -> String {
    // SAFETY: this function's own contract.
    String::from_utf8(unsafe { take(buffer, len) }.into_vec()).expect("UTF-8")
}

/// Passes a text to JavaScript: its address in the upper half, its length in the lower half. [`release`]
/// frees it.
fn give(text: &str) -> u64 {
    let bytes: Box<[u8]> = text.as_bytes().into();
    let len = text.len() as u64;
    let address = Box::into_raw(bytes).cast::<u8>() as usize as u64;
    address << 32 | len
}

fn host_files() -> SharedFiles {
    shared_files(HostFiles)
}

/// The files of the host.
struct HostFiles;

impl Files for HostFiles {
    type Source = HostFile;

    fn open(&self, path: &str) -> io::Result<HostFile> {
        // SAFETY: the host reads these bytes during the call and no others.
        let len = unsafe { file_len(path.as_ptr(), path.len()) };
        let len = u64::try_from(len).map_err(|_| io::ErrorKind::NotFound)?;
        Ok(HostFile { name: path.to_owned(), len })
    }
}

/// A file of the host.
struct HostFile {
    name: String,
    len: u64,
}

impl Source for HostFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64);
        end.filter(|end| *end <= self.len).ok_or(io::ErrorKind::UnexpectedEof)?;
        let name = (self.name.as_ptr(), self.name.len());
        // SAFETY: the host reads the name and writes the `out.len()` bytes of `out` during the call, and nothing else.
        let done = unsafe { read_range(name.0, name.1, offset, out.as_mut_ptr(), out.len()) };
        if done == 1 { Ok(()) } else { Err(io::Error::other("the host cannot read it")) }
    }
}
