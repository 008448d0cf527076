//! Measures how much memory a piece of code holds.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts the bytes that each thread holds. Use it as `#[global_allocator]` in a test that
/// calls [`peak`].
#[derive(Debug)]
pub struct CountingAllocator;

fn count(delta: isize) {
    // A thread that is ending has no counters left, and nobody needs them.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + delta);
        PEAK.try_with(|peak| peak.set(peak.get().max(held.get())))
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Returns the result of `run`, and the most bytes that this thread held while it ran, beyond those it held
/// before. This is 0 unless [`CountingAllocator`] is the global allocator.
pub fn peak<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}

/// Returns the result of `run`, and how many more bytes this thread holds than before. This is 0 unless
/// [`CountingAllocator`] is the global allocator.
pub fn held<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    let result = run();
    (result, usize::try_from(HELD.get() - before).unwrap_or(0))
}

/// Opens a file of `len` bytes, all of which may be index, and returns the result of `open`.
///
/// # Panics
/// If this held more memory than the project promises: four times the index, the fetched bytes of the index,
/// and 16 KiB. Never panics unless [`CountingAllocator`] is the global allocator.
pub fn bounded<T>(len: usize, open: impl FnOnce() -> T) -> T {
    let (opened, held) = peak(open);
    assert!(held <= (16 << 10) + 5 * len, "{held} bytes were held to open a file of {len}");
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn the_peak_is_what_is_held_at_once() {
        let ((), nbytes) = peak(|| {
            drop(std::hint::black_box(vec![0u8; 3000]));
            drop(std::hint::black_box(vec![1u8; 5000]));
        });
        assert!((5000..6000).contains(&nbytes), "{nbytes}");
    }

    #[test]
    fn what_is_held_is_what_was_not_given_back() {
        let (kept, nbytes) = held(|| {
            drop(std::hint::black_box(vec![0u8; 3000]));
            std::hint::black_box(vec![1u8; 500])
        });
        assert!((500..600).contains(&nbytes), "{nbytes}");
        drop(kept);
    }
}
