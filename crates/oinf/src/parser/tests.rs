use modelfmt_core::Source;
use modelfmt_core::author::parse_source;

use super::*;
use crate::layout::{Plan, WriteOptions};
use crate::metadata::Metadata;
use modelfmt_core::{DType, Execution};
use modelfmt_write::{MemoryFile, TensorSpec};

/// Returns exactly the requested bytes.
struct Ranges<'a>(&'a [u8]);

impl Source for Ranges<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn read_into(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_into(offset, out)
    }
}

fn file() -> Vec<u8> {
    let names: Vec<String> = (0..30).map(|n| "n".repeat(n + 1)).collect();
    let specs: Vec<_> =
        names.iter().map(|name| TensorSpec::new(name.as_str(), DType::U8, vec![1; name.len() % 5])).collect();
    let metadata = names.iter().fold(Metadata::new(), |metadata, name| {
        metadata.sizevar(name.as_str(), name.len() as u64).value(name.as_str(), name.as_str())
    });
    let data: Vec<_> = names.iter().map(|_| vec![1u8]).collect();
    let file = MemoryFile::new();
    let plan = Plan::new(specs, &metadata, &WriteOptions::new()).unwrap();
    plan.write(&data, &file, &Execution::sequential()).unwrap();
    file.into_bytes()
}

/// For any window size, a record that does not fit makes the next window larger, and no byte is read twice or
/// left out.
#[test]
fn tables_are_read_in_windows_of_any_size() {
    let file = file();
    let whole = Index::parse(&file).unwrap();
    for window in [1, 7, 16, 40, 100, 1000, 100_000] {
        let parser =
            IndexParser { window, wanted: window, ..IndexParser::new(file.len() as u64, &Limits::default()) };
        let index = parse_source(parser, &Ranges(&file)).unwrap();
        assert!(index.sizevars().iter().eq(whole.sizevars().iter()), "{window}");
        assert!(index.metadata().eq(whole.metadata()), "{window}");
        assert!(index.tensors().iter().eq(whole.tensors()), "{window}");
        assert_eq!(index.ends, whole.ends, "{window}");
    }
}

#[test]
fn what_is_needed_lies_within_the_file_and_is_never_empty() {
    let file = file();
    let len = file.len() as u64;
    for window in [1, 1000] {
        let mut parser = IndexParser { window, wanted: window, ..IndexParser::new(len, &Limits::default()) };
        while let Some(range) = parser.need() {
            assert!(range.start < range.end && range.end <= len);
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            parser.feed(&file[range]).unwrap();
        }
        parser.finish().unwrap();
    }
    for len in 0..72 {
        let need = IndexParser::new(len, &Limits::default()).need();
        assert_eq!(need, (len > 0).then_some(0..len));
    }
}

#[test]
fn an_index_is_found_by_name_and_position() {
    let index = Index::parse(&file()).unwrap();
    assert_eq!(index.tensors().find("nnn"), Some(2));
    assert_eq!(index.tensors().tensor("nnn").map(|tensor| tensor.shape.len()), Some(3));
    assert_eq!(index.value("nnnn").unwrap().as_str(), Some("nnnn"));
    assert_eq!(index.sizevars().value("nn"), Some(2));
    assert!(
        index.tensors().find("x").is_none()
            && index.value("x").is_none()
            && index.sizevars().value("x").is_none()
    );
    assert_eq!(index.tensors().location(30), None);
    assert!(index.heap_size() < 16_384, "{}", index.heap_size());
}
