//! What is done with every file that opens: everything that its reader can do.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use tensor_core::stats::{stats, stats_of_bytes};
use tensor_core::{AnyError, Bytes, Container, Encoding, Level, Limits, TensorInfo, TensorView, Work};
use testkit::peak;

/// The bytes that one file may make the drill read: tensors may share theirs, so a small file can ask for many.
const MAX_READ: u64 = 4 << 20;
/// Statistics take MiBs for their counters, so that only the first tensors have theirs computed.
const MAX_STATS: usize = 2;

/// Caps that keep an input that is good but large from being slow.
#[must_use]
pub fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.tensors = 20_000;
    limits.entries = 20_000;
    limits.index_len = 1 << 20;
    limits.metadata_len = 1 << 20;
    limits.expansion = 64;
    limits
}

/// Lists, reads whole and by ranges, computes statistics, decodes and verifies, and checks that all of it fits
/// together. Returns what it saw, so that two readers of the same bytes can be compared.
///
/// # Panics
/// For every finding.
#[must_use]
pub fn drill(container: &dyn Container) -> String {
    let mut seen = String::new();
    let _ = writeln!(seen, "{:?}", container.version());
    let _ = writeln!(seen, "{:?}", container.metadata().map_err(|e| e.to_string()));
    let _ = writeln!(seen, "{:?}", container.details().map_err(|e| e.to_string()));
    let mut budget = MAX_READ;
    let count = container.tensor_count();
    for number in 0..count {
        let location = container.location(number); // a set opens the file that has it
        let Some(info) = container.info(number) else {
            assert!(location.is_err(), "a tensor that can be located can be listed");
            let _ = writeln!(seen, "{number}: {:?}", location.map_err(|e| e.to_string()));
            continue;
        };
        let Ok(location) = location else {
            // The index of a set lists what a missing or broken file has.
            let _ = writeln!(seen, "{number}: {info:?} {:?}", location.map_err(|e| e.to_string()));
            assert!(container.read(number).is_err(), "{info:?}");
            continue;
        };
        let _ = writeln!(seen, "{number}: {info:?} {location:?}");
        assert_eq!(container.find(info.name), Some(number), "names are unique");
        if let (None, Some(offset)) = (&location.file, location.offset) {
            let end = offset.checked_add(location.stored_nbytes);
            assert!(end.is_some_and(|end| end <= container.file_size()), "{info:?} {location:?}");
        }
        // A tensor of an AEROSET index has data, and the file that lists it has none of it.
        assert!(info.has_data || location.offset.is_none(), "{info:?} {location:?}");
        if location.encoding == Encoding::Raw && location.offset.is_some() {
            assert_eq!(info.nbytes, location.stored_nbytes);
        }
        match budget.checked_sub(info.nbytes.max(1)) {
            Some(rest) => budget = rest,
            None => continue,
        }
        let _ = writeln!(seen, "{:?}", values(container, number, info));
    }
    beyond(container, count);
    for level in [Level::Header, Level::Control, Level::Full] {
        let report = container.verify(level, &Work::sequential());
        assert_eq!(report.is_ok(), report.errors.is_empty(), "{report:?}");
        let _ = writeln!(seen, "{report:?}");
    }
    seen
}

/// A number or a name that no tensor has is an error like any other.
fn beyond(container: &dyn Container, count: usize) {
    for number in [count, usize::MAX] {
        assert!(container.info(number).is_none() && container.location(number).is_err());
        assert!(container.read(number).is_err() && container.read_into(number, 0, &mut [0]).is_err());
    }
    assert!(container.find("\u{0}no tensor is named so\u{0}").is_none());
}

/// A hash of a tensor's values, or why they cannot be had.
fn values(container: &dyn Container, number: usize, info: TensorInfo<'_>) -> Result<u64, String> {
    let (whole, held) = peak(|| container.read(number));
    // What LZ4 can make of a byte is bounded, so the whole is bounded by the file too.
    let bound =
        (64 << 10) + 2 * usize::try_from(container.file_size()).unwrap_or(usize::MAX).saturating_mul(256);
    assert!(held <= bound, "{held} bytes were held to read {info:?}, the bound is {bound}");
    let whole = whole.map_err(|e| e.to_string());
    by_ranges(container, number, info, whole.as_deref());
    let whole = whole?;
    assert_eq!(whole.len() as u64, info.nbytes, "{info:?}");
    let mut hasher = DefaultHasher::new();
    whole.hash(&mut hasher);
    let view = TensorView::new(info, Bytes::Borrowed(&whole)).expect("a view of as many bytes");
    if number < MAX_STATS {
        both_statistics(container, number, info, &whole);
        let numbers = view.to_f64();
        assert!(numbers.is_err() || numbers.is_ok_and(|numbers| numbers.len() as u64 == info.elements()));
    }
    Ok(hasher.finish())
}

/// Reading in pieces of odd lengths gives the same bytes, and fails only if reading the whole does.
fn by_ranges(container: &dyn Container, number: usize, info: TensorInfo<'_>, whole: Result<&[u8], &String>) {
    let read = |offset: u64, len: usize| -> Result<Vec<u8>, AnyError> {
        let mut out = vec![0xa5; len];
        container.read_into(number, offset, &mut out)?;
        Ok(out)
    };
    assert!(read(info.nbytes, 1).is_err(), "beyond the end of {info:?}");
    assert!(read(u64::MAX, 2).is_err(), "beyond every end of {info:?}");
    let Ok(whole) = whole else {
        return;
    };
    assert!(read(0, whole.len() + 1).is_err(), "past the end of {info:?}");
    let third = whole.len() / 3;
    for range in
        [0..third, third..whole.len(), whole.len() / 2..whole.len() / 2 + third / 2, whole.len()..whole.len()]
    {
        let part = read(range.start as u64, range.len()).expect("a part of what was read");
        assert!(part == whole[range.clone()], "{range:?} of {info:?}");
    }
}

/// Statistics of values in memory, and of values that are read by ranges, are the same.
fn both_statistics(container: &dyn Container, number: usize, info: TensorInfo<'_>, whole: &[u8]) {
    let Some(size) = info.dtype.size().map(u64::from) else {
        assert!(stats_of_bytes(info.dtype, whole).is_err());
        return;
    };
    let of_bytes = stats_of_bytes(info.dtype, whole).map_err(|e| e.to_string());
    let of_ranges =
        stats(info.dtype, info.elements(), |first, out| container.read_into(number, first * size, out));
    // NaN is not equal to itself, but its text is.
    assert_eq!(format!("{of_bytes:?}"), format!("{:?}", of_ranges.map_err(|e| e.to_string())), "{info:?}");
}
