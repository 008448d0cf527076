//! What JavaScript calls, and what it answers.
//!
//! Buffers that cross the border are boxed slices: JavaScript gets them from [`allocate`], and gives each of them back in a
//! call that takes it.
#![allow(unsafe_code, reason = "memory shared with JavaScript has no other form")]

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use modelfmt_core::Source;
use modelfmt_core::source::{Files, MemoryFiles, SharedFiles, shared_files};

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    /// The length of a file; negative if there is none.
    fn file_len(name: *const u8, name_len: usize) -> i64;
    /// Fills `out` with a file's bytes from `offset` on; returns whether it did.
    fn read_range(name: *const u8, name_len: usize, offset: u64, out: *mut u8, out_len: usize) -> i32;
    /// Takes a message for the host.
    fn say(text: *const u8, text_len: usize);
}

thread_local! {
    static MEMORY: RefCell<MemoryFiles> = RefCell::default();
}

/// Lets panics be read before they become traps. To be called first.
#[unsafe(no_mangle)]
extern "C" fn start() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the host reads these bytes during the call and no others.
        unsafe { say(text.as_ptr(), text.len()) };
    }));
}

/// A buffer of `len` bytes, to be filled and passed to one of the others.
#[unsafe(no_mangle)]
extern "C" fn allocate(len: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Keeps a file in memory.
///
/// # Safety
/// Both buffers are from [`allocate`], with these lengths, and the caller has passed them nowhere else.
#[unsafe(no_mangle)]
unsafe extern "C" fn put_file(name: *mut u8, name_len: usize, bytes: *mut u8, len: usize) {
    // SAFETY: this function's own contract.
    let (name, bytes) = unsafe { (take_text(name, name_len), take(bytes, len)) };
    MEMORY.with_borrow_mut(|files| files.0.insert(name, Arc::from(bytes)));
}

/// What a file holds that [`put_file`] has brought.
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

/// What a file holds whose ranges the host reads.
///
/// # Safety
/// As for [`describe_memory`].
#[unsafe(no_mangle)]
unsafe extern "C" fn describe_ranges(name: *mut u8, name_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let name = unsafe { take_text(name, name_len) };
    give(&crate::describe(&name, &host_files()))
}

/// What a file of 100 GB holds whose ranges the host makes up.
///
/// # Safety
/// As for [`describe_memory`].
#[unsafe(no_mangle)]
unsafe extern "C" fn describe_far(name: *mut u8, name_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let name = unsafe { take_text(name, name_len) };
    give(&crate::far::describe(&*crate::open(&name, &host_files())))
}

/// Frees a text that [`give`] gave.
///
/// # Safety
/// It is one, and is freed once.
#[unsafe(no_mangle)]
unsafe extern "C" fn release(text: *mut u8, len: usize) {
    // SAFETY: this function's own contract; such a text is a boxed slice, as buffers are.
    drop(unsafe { take(text, len) });
}

/// # Safety
/// The buffer is a boxed slice of that length which nobody else has.
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

/// A text for JavaScript: its address in the upper half, its length in the lower. [`release`] frees it.
fn give(text: &str) -> u64 {
    let bytes: Box<[u8]> = text.as_bytes().into();
    let len = text.len() as u64;
    let address = Box::into_raw(bytes).cast::<u8>() as usize as u64;
    address << 32 | len
}

fn host_files() -> SharedFiles {
    shared_files(HostFiles)
}

/// The files that the host has.
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

/// One of them.
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
