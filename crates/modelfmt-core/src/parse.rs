//! Parsing without I/O: a parser says which bytes it needs, and its driver fetches them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use crate::error::{CommonError, Error, Part};
use crate::fetch::{Fetch, now};
use crate::source::Source;

/// Turns the bytes of a file into an index without any I/O, so that it serves a source, a fuzzer or an asynchronous loader alike.
/// As long as [`need`](Self::need) returns a range, pass its bytes to [`feed`](Self::feed); then call [`finish`](Self::finish).
pub trait Parser: Sized {
    /// The index that it makes.
    type Index;
    /// The format's fault.
    type Fault;

    /// The bytes that are needed next; `None` when there are enough. Always within the file, and never empty.
    fn need(&self) -> Option<Range<u64>>;

    /// Takes the bytes from the start of the needed range on: at least the whole range, or more if you have them.
    ///
    /// # Errors
    /// If they break a rule of the format.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Error<Self::Fault>>;

    /// The index, once nothing more is needed.
    ///
    /// # Errors
    /// If the file breaks a rule that can only be checked at the end.
    fn finish(self) -> Result<Self::Index, Error<Self::Fault>>;
}

/// Drives a parser over a source. A source in memory is fed as a whole, without a copy; any other in the ranges that the parser
/// asks for.
///
/// # Errors
/// The errors of the parser, and of the source.
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

/// Drives a parser over a blocking source, as [`parse_fetched`] does over an asynchronous one.
///
/// # Errors
/// The errors of the parser, and of the source.
pub fn parse_source<P: Parser>(
    parser: P,
    source: &(impl Source + ?Sized),
) -> Result<P::Index, Error<P::Fault>> {
    now(parse_fetched(parser, source))
}

/// Checks that a source is as long as the file that an index was made from.
///
/// # Errors
/// [`CommonError::Truncated`] if it is shorter; a longer one is another file and is refused in the same way.
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
