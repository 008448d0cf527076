//! The part of a header that has been read.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{
    DType, DisplayShape, Limits, Part, TensorTable,
    author::{Extent, NewTensor},
};

use crate::error::{Error, Fault, Result};
use crate::metadata::Metadata;
use crate::text;

/// The approximate minimum length of an entry in real models. It determines how many entries to reserve
/// memory for.
const USUAL_ENTRY_LEN: usize = 100;

pub(crate) struct State<'a> {
    pub(crate) text: &'a str,
    /// The offset of the text in the file.
    pub(crate) at: u64,
    pub(crate) file_len: u64,
    pub(crate) limits: &'a Limits,
    pub(crate) tensors: TensorTable,
    /// The value of `__metadata__`: `None` before the key has been seen, `Some(None)` for `null`.
    pub(crate) metadata: Option<Option<Metadata>>,
    pub(crate) dims: Vec<u64>,
    /// The end of the tensors that have been read, as long as each begins where the previous one ends.
    pub(crate) end: Option<u64>,
    pub(crate) has_unknown_keys: bool,
    /// The number of the tensor that is being read.
    pub(crate) number: u64,
    /// The offset in the file of the entry that is being read, if known.
    entry_at: Option<u64>,
    /// The error that stopped parsing, unless the JSON itself is faulty.
    stop: Option<Stop>,
}

pub(crate) enum Stop {
    Fault(Part, Fault),
    Error(Error),
}

impl<'a> State<'a> {
    /// Creates the state before anything is read. `table` makes a table with room for the given number of
    /// tensors.
    pub(crate) fn new(
        text: &'a str,
        at: u64,
        file_len: u64,
        limits: &'a Limits,
        table: fn(usize) -> TensorTable,
    ) -> Self {
        let cap = usize::try_from(limits.tensors).unwrap_or(usize::MAX);
        let capacity = (text.len() / USUAL_ENTRY_LEN).min(cap);
        Self {
            text,
            at,
            file_len,
            limits,
            tensors: table(capacity),
            metadata: None,
            dims: Vec::new(),
            end: Some(0),
            has_unknown_keys: false,
            number: 0,
            entry_at: None,
            stop: None,
        }
    }

    /// Clears and returns the list for the dimensions of the next tensor.
    pub(crate) fn new_dims(&mut self) -> &mut Vec<u64> {
        self.dims.clear();
        &mut self.dims
    }

    /// Adds the tensor whose dimensions have been read. Returns `None` if that is not allowed.
    pub(crate) fn list_within_limits(
        &mut self,
        name: &str,
        dtype: DType,
        begin: u64,
        end: u64,
    ) -> Option<()> {
        let limits = self.limits;
        let is_within = (self.tensors.len() as u64) < limits.tensors
            && name.len() as u64 <= limits.name_len
            && self.dims.len() as u64 <= limits.rank;
        is_within.then(|| self.list(name, dtype, begin, end).ok())?
    }

    /// Returns the offset in the file at which the data begin.
    pub(crate) const fn data_start(&self) -> u64 {
        self.at.saturating_add(self.text.len() as u64)
    }

    /// Records where the entry with this name begins. A name without escapes borrows from the text, so its
    /// address gives the offset.
    pub(crate) fn begin(&mut self, name: &str) {
        let offset = name.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        // The offset of the quotation mark before the name.
        let quote = (offset <= self.text.len()).then(|| (offset as u64).saturating_sub(1));
        self.entry_at = quote.map(|quote| self.at.saturating_add(quote));
    }

    /// Stops parsing because of a fault in the current tensor.
    pub(crate) fn fault<E: serde::de::Error>(
        &mut self,
        name: &str,
        field: Option<&'static str>,
        fault: Fault,
    ) -> E {
        let mut part = Part::entry("tensor", self.number).with_name(name);
        part.field = field;
        self.stop(Stop::Fault(part, fault))
    }

    pub(crate) fn stop<E: serde::de::Error>(&mut self, stop: Stop) -> E {
        self.stop = Some(stop);
        E::custom("stopped")
    }

    pub(crate) fn check<E: serde::de::Error>(
        &mut self,
        what: &'static str,
        found: usize,
        max: u64,
    ) -> Result<(), E> {
        match Limits::check(what, found as u64, max) {
            Ok(_) => Ok(()),
            Err(limit) => Err(self.stop(Stop::Error(limit.into()))),
        }
    }

    /// Returns the error to report after serde_json has stopped: the recorded error, or the error in the
    /// JSON.
    pub(crate) fn stopped(self, error: &serde_json::Error) -> Error {
        let here = self.at.saturating_add(text::offset(self.text, error));
        match self.stop {
            Some(Stop::Error(error)) => error,
            Some(Stop::Fault(part, fault)) => {
                Error::Malformed { part, at: self.entry_at.unwrap_or(here), fault }
            }
            None => {
                let fault = modelfmt_core::CommonFault::Metadata(text::message(error)).into();
                Error::Malformed { part: Part::new("header"), at: here, fault }
            }
        }
    }

    /// Adds the tensor whose entry has been read. Its dimensions are in `dims`.
    pub(crate) fn list(&mut self, name: &str, dtype: DType, begin: u64, end: u64) -> Result<(), Fault> {
        check_countable(&self.dims)?;
        let len = end.checked_sub(begin).ok_or(Fault::Reversed { begin, end })?;
        let out_of_bounds =
            modelfmt_core::CommonFault::OutOfBounds { offset: begin, len, end: self.file_len };
        let offset = self.data_start().checked_add(begin).ok_or(out_of_bounds)?;
        let extent = Extent::new(offset, len, self.file_len)?;
        let tensor = NewTensor { name, dtype, offset: Some(offset), packed_nbytes: 0 };
        let expected = self.tensors.push(tensor, self.dims.iter().copied())?;
        if extent.len() != expected {
            return Err(modelfmt_core::CommonFault::Nbytes { found: len, expected }.into());
        }
        self.end = self.end.filter(|&so_far| so_far == begin).map(|_| end);
        Ok(())
    }
}

/// Refuses shapes whose product overflows when multiplied from the left, even if a later dimension is 0, as
/// the reference implementation does.
pub(crate) fn check_countable(shape: &[u64]) -> Result<(), Fault> {
    match shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)) {
        Some(_) => Ok(()),
        None => Err(modelfmt_core::CommonFault::TooManyElements(DisplayShape(shape).to_string()).into()),
    }
}
