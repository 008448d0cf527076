//! Any bytes: opening, listing, reading whole and by ranges, and verifying never panic and hold little memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mag::tensor_core::{Container, Parser};
use mag::{Index, IndexParser, Level, Limits, OpenOptions, Reader, Work};

fuzz_target!(|bytes: &[u8]| {
    let mut limits = Limits::default();
    limits.index_len = 1 << 20;
    for ignore in [false, true] {
        let options = OpenOptions::new().limits(limits.clone()).ignore_checksum(ignore);
        let in_memory = options.open_source(bytes);
        let in_pieces = parse_in_pieces(bytes, limits.clone(), !ignore);
        assert_eq!(in_memory.is_ok(), in_pieces.is_some(), "memory and pieces agree");
        let Ok(reader) = in_memory else { continue };
        if let Some(index) = in_pieces {
            assert!(reader.tensors().eq(index.tensors()));
        }
        read(&reader, bytes);
    }
});

/// Drives the parser with exactly the ranges that it asks for.
fn parse_in_pieces(bytes: &[u8], limits: Limits, require_checksum: bool) -> Option<Index> {
    let mut parser = IndexParser::new(bytes.len() as u64, limits, require_checksum);
    while let Some(range) = parser.need() {
        assert!(range.start < range.end && range.end <= bytes.len() as u64);
        parser.feed(&bytes[range.start as usize..range.end as usize]).ok()?;
    }
    parser.finish().ok()
}

fn read(reader: &Reader<&[u8]>, bytes: &[u8]) {
    for (position, info) in reader.tensors().enumerate() {
        assert_eq!(reader.index().find(info.name), Some(position));
        let view = reader.tensor_at(position).expect("a tensor of an index can be read from memory");
        assert_eq!(view.bytes().len() as u64, info.nbytes);
        assert!(view.bytes().is_empty() || bytes.as_ptr_range().contains(&view.bytes().as_ptr()), "no copy");
        let mut last = [0; 3];
        let read = reader.read_into(position, info.nbytes.saturating_sub(3), &mut last);
        assert_eq!(read.is_ok(), info.nbytes >= 3);
        assert!(reader.read_into(position, info.nbytes, &mut last).is_err());
    }
    for (key, _) in reader.metadata().iter() {
        assert!(reader.metadata().get(key).is_some());
    }
    let _ = (Container::metadata(reader), reader.details());
    for level in [Level::Header, Level::Control, Level::Full] {
        let report = reader.verify_with(level, &Work::sequential());
        assert_eq!(report.is_ok(), report.errors.is_empty());
    }
}
