//! Without the feature `lz4`, compressed tensors are listed, and any other use of them is one clear error.
#![cfg(not(feature = "lz4"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

use crate::common::{File, lz4, metadata};
use apr2::{Error, Fault, Plan, Reader, VerifyLevel, WriteError};

#[test]
fn compressed_tensors_are_listed_and_nothing_more() {
    let reader = Reader::from_source(File::compressed().build()).unwrap();
    assert_eq!(reader.tensors().len(), 1);
    let is_missing = |error: &Error| matches!(error, Error::Malformed { fault: Fault::NoLz4, .. });
    assert!(is_missing(&reader.tensor("z").unwrap_err()));
    assert!(is_missing(&reader.read_into(0, 5, &mut [0]).unwrap_err()));
    let report = reader.verify(VerifyLevel::Full);
    assert!(report.errors.iter().all(|error| error.contains("feature `lz4`")) && !report.is_ok());
    let refused = Plan::new([], &metadata(), &lz4()).unwrap_err();
    assert!(matches!(refused, WriteError::Unsupported { fault: Fault::NoLz4, .. }));
    let raw = Reader::from_source(File::two().build()).unwrap();
    assert_eq!(raw.tensor("b").unwrap().bytes(), [6, 7, 8]);
    assert!(raw.verify(VerifyLevel::Full).is_ok());
}
