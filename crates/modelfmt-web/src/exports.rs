//! The functions that JavaScript calls. Buffers that cross the border are boxed slices: JavaScript gets them
//! from [`allocate`] and returns each of them in a call that takes it. It frees answers with [`release`].
#![allow(unsafe_code, reason = "memory shared with JavaScript has no other form")]

use std::cell::RefCell;

use crate::{host, operations};

thread_local! {
    /// The bytes of the last answer.
    static BYTES: RefCell<Box<[u8]>> = RefCell::default();
}

/// Passes panic messages to the host before panics become traps. Must be called first.
#[unsafe(no_mangle)]
extern "C" fn start() {
    std::panic::set_hook(Box::new(|panic| host::say(&panic.to_string())));
}

/// Returns a buffer of `len` bytes, to be filled and passed to [`call`].
#[unsafe(no_mangle)]
extern "C" fn allocate(len: usize) -> *mut u8 {
    Box::into_raw(vec![0_u8; len].into_boxed_slice()).cast()
}

/// Executes an operation. Both texts are UTF-8; the answer is JSON.
///
/// # Safety
/// Both buffers are from [`allocate`], with these lengths, and the caller has not passed them to another
/// function.
#[unsafe(no_mangle)]
unsafe extern "C" fn call(name: *mut u8, name_len: usize, args: *mut u8, args_len: usize) -> u64 {
    // SAFETY: this function's own contract.
    let (name, args) = unsafe { (take(name, name_len), take(args, args_len)) };
    let (json, bytes) = operations::call(&String::from_utf8_lossy(&name), &args);
    BYTES.set(bytes.into_boxed_slice());
    give(json.into_bytes().into_boxed_slice())
}

/// Returns the bytes of the last answer, once.
#[unsafe(no_mangle)]
extern "C" fn bytes() -> u64 {
    give(BYTES.take())
}

/// Frees a buffer that [`call`] or [`bytes`] returned.
///
/// # Safety
/// `buffer` is such a buffer, and is freed only once.
#[unsafe(no_mangle)]
unsafe extern "C" fn release(buffer: *mut u8, len: usize) {
    // SAFETY: this function's own contract; such a buffer is a boxed slice.
    drop(unsafe { take(buffer, len) });
}

/// # Safety
/// The buffer is a boxed slice of that length that nobody else uses.
unsafe fn take(buffer: *mut u8, len: usize) -> Box<[u8]> {
    // SAFETY: this function's own contract.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer, len)) }
}

/// Passes a buffer to JavaScript: its address in the upper half, its length in the lower half.
fn give(buffer: Box<[u8]>) -> u64 {
    let len = buffer.len() as u64;
    let address = Box::into_raw(buffer).cast::<u8>() as usize as u64;
    address << 32 | len
}
