//! Implements [`Container`] for the readers of all formats.

use std::ops::Range;

use tensor_core::{Bytes, TensorInfo};

use super::Container;
use crate::claims::{Claims, WantedRange};
use crate::error::{AnyError, Error};
use crate::execution::Execution;
use crate::fetch::{now, now_or_never};
use crate::read::{OpenedNow, Reader, Reading, Which};
use crate::report::{Report, VerifyLevel};
use crate::source::Source;
use crate::table::{Location, Stored};
use crate::value::{Object, Value};

impl<T: OpenedNow> Reader<T> {
    /// Adds the name of the file to an error.
    fn failed(&self, error: Error<T::Fault>) -> AnyError {
        self.0.named(error).into()
    }
}

impl<T: OpenedNow> Container for Reader<T> {
    fn version(&self) -> Option<String> {
        self.0.version_text()
    }

    /// Adds up the sizes that the index of a set states. If it states none, each file is opened; a file that
    /// cannot be opened counts as 0.
    fn file_size(&self) -> u64 {
        now_or_never(self.0.file_size()).unwrap_or(0)
    }

    fn tensor_count(&self) -> usize {
        self.0.tensor_count()
    }

    /// May open the tensor's file. Also returns `None` if that fails.
    fn info(&self, position: usize) -> Option<TensorInfo<'_>> {
        self.0.info_now(position).ok()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.find(name)
    }

    fn location(&self, position: usize) -> Result<Location, AnyError> {
        self.0.prepare(position);
        now(self.0.location(position)).map_err(|error| self.failed(error))
    }

    fn stored(&self, position: usize) -> Result<Stored, AnyError> {
        self.0.prepare(position);
        now(self.0.stored(position)).map_err(|error| self.failed(error))
    }

    fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        self.0.prepare(position);
        now(self.0.stored_range(position, values)).map_err(|error| self.failed(error))
    }

    fn as_slice(&self) -> Option<&[u8]> {
        self.0.as_slice()
    }

    fn file_paths(&self) -> Vec<String> {
        self.0.file_paths()
    }

    fn values(&self, position: usize, which: Which<'_>, reading: Reading<'_>) -> Result<Bytes<'_>, AnyError> {
        self.0.prepare(position);
        now(self.0.values(position, which, reading)).map_err(|error| self.failed(error))
    }

    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), AnyError> {
        self.0.prepare(position);
        now(self.0.values_into(position, at, out, claims)).map_err(|error| self.failed(error))
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        now(self.0.bytes_into(file, at, out)).map_err(|error| self.failed(error))
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        self.0.source_of(file)
    }

    fn claims_of(&self, wanted: &[WantedRange]) -> Result<Claims, AnyError> {
        now(self.0.claims(wanted)).map_err(|error| self.failed(error))
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        now(self.0.metadata_tree()).map_err(|error| self.failed(error))
    }

    fn flat_metadata(&self) -> Result<Object, AnyError> {
        now(self.0.flat_metadata()).map_err(|error| self.failed(error))
    }

    fn details(&self) -> Result<Value, AnyError> {
        now(self.0.details()).map_err(|error| self.failed(error)).map(Value::Object)
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.verify_with(level, work)
    }
}
