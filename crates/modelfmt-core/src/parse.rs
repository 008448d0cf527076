//! Parsing without I/O: a parser requests the bytes it needs, and its driver fetches them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use crate::error::{CommonError, Error, Part};
use crate::fetch::{Fetch, now};
use crate::source::Source;

/// Turns the bytes of a file into an index without any I/O, so it works with a source, a fuzzer or an
/// asynchronous loader. As long as [`need`](Self::need) returns a range, pass its bytes to
/// [`feed`](Self::feed); then call [`finish`](Self::finish).
pub trait Parser: Sized {
    /// The index that the parser builds.
    type Index;
    /// The fault type of the format.
    type Fault;

    /// Returns the range that is needed next; `None` when there are enough bytes. It is always within the
    /// file, and never empty.
    fn need(&self) -> Option<Range<u64>>;

    /// Takes the bytes from the start of the needed range on: at least the whole range, or more if you have
    /// them.
    ///
    /// # Errors
    /// If the bytes break a rule of the format.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Error<Self::Fault>>;

    /// Returns the index, once no more bytes are needed.
    ///
    /// # Errors
    /// If the file breaks a rule that can only be checked at the end.
    fn finish(self) -> Result<Self::Index, Error<Self::Fault>>;
}

/// Drives a parser over a source. If the source is in memory, it is passed as a whole without a copy;
/// otherwise the ranges that the parser requests are fetched.
///
/// # Errors
/// The errors of the parser and of the source.
pub async fn parse_fetched<P: Parser>(
    mut parser: P,
    source: &(impl Fetch + ?Sized),
) -> Result<P::Index, Error<P::Fault>> {
    while let Some(range) = parser.need() {
        let in_memory = source.memory().and_then(|all| all.get(usize::try_from(range.start).ok()?..));
        if let Some(rest) = in_memory {
            parser.feed(rest)?;
            continue;
        }
        let (at, len) = (range.start, range.end.saturating_sub(range.start));
        let bytes = source.fetch(range).await.map_err(|source| Error::Io { at, len, source })?;
        parser.feed(&bytes)?;
    }
    parser.finish()
}

/// Drives a parser over a blocking source: the counterpart of [`parse_fetched`].
///
/// # Errors
/// The errors of the parser and of the source.
pub fn parse_source<P: Parser>(
    parser: P,
    source: &(impl Source + ?Sized),
) -> Result<P::Index, Error<P::Fault>> {
    now(parse_fetched(parser, source))
}

/// Checks that a source is as long as the file that an index was built from.
///
/// # Errors
/// [`CommonError::Truncated`] if the source is shorter; a longer one is a different file and gives the same
/// error.
pub fn require_len(found: u64, expected: u64) -> Result<(), CommonError> {
    if found == expected {
        return Ok(());
    }
    Err(CommonError::Truncated {
        part: Part::new("the file that the index was made of"),
        at: 0,
        need: expected,
        have: found,
    })
}
