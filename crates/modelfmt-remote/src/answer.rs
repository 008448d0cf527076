//! The responses of servers to requests for ranges.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER,
};
use std::ops::Range;

use crate::error::Fault;

/// The maximum number of characters of a server's error code that are kept.
const MAX_CODE: usize = 64;

/// The maximum length in bytes of a page of a list.
pub(crate) const LIST_PAGE: usize = 16 << 20;
/// The fault for a longer page.
pub(crate) const LONG_LIST: Fault = Fault::Answer("the list is too long");

/// The bytes that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// This range. If the length of the file is not known yet, the part of the range that exists.
    Part(Range<u64>),
    /// This many bytes at the end. If the file is shorter, the whole file.
    Tail(u64),
}

/// Identifies one state of a file. Later requests get bytes of this state, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Version {
    /// The number of bytes.
    pub size: u64,
    /// The entity tag that the server gives the content, with its quotes.
    pub etag: Option<String>,
    /// When the file was last changed, as the server writes it.
    pub modified: Option<String>,
    /// The version id, if the bucket keeps several versions.
    pub id: Option<String>,
}

impl Version {
    /// Checks that another response is of the same state. The response must have what identifies the state,
    /// because a response without it may be of any state.
    pub(crate) fn expect(&self, other: &Self) -> Result<(), Fault> {
        let names = [(&self.etag, &other.etag), (&self.id, &other.id), (&self.modified, &other.modified)];
        let name = names.into_iter().find(|(own, _)| own.is_some());
        let differs = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
        match name {
            _ if self.size != other.size || differs(&self.id, &other.id) => Err(Fault::Changed),
            Some((Some(_), None)) => Err(Fault::Unnamed),
            Some((own, other)) if own != other => Err(Fault::Changed),
            _ => Ok(()),
        }
    }

    /// Checks whether another response is of the same state.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.expect(other).is_ok()
    }

    /// Returns the entity tag, if requests can require it. A weak tag never matches.
    pub(crate) fn strong(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }
}

/// The bytes of a response, as they arrive.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// A response with bytes of the file.
pub(crate) struct Answer {
    /// The range of the bytes in the file. It begins where the request asked.
    pub(crate) range: Range<u64>,
    pub(crate) version: Version,
    pub(crate) pieces: Pieces,
}

/// Returns the range in a `Content-Range` header, and the length of the file. For a range that is not in the
/// file, the header has only the length.
pub(crate) fn content_range(headers: &HeaderMap) -> Result<(Option<Range<u64>>, u64), Fault> {
    let wrong = Fault::Answer("Content-Range is missing or malformed");
    let parse = || {
        let (range, total) = text(headers, &CONTENT_RANGE)?.trim().strip_prefix("bytes ")?.split_once('/')?;
        let total: u64 = number(total)?;
        if range == "*" {
            return Some((None, total));
        }
        let (first, last) = range.split_once('-')?;
        let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
        (start < end && end <= total).then_some((Some(start..end), total))
    };
    parse().ok_or(wrong)
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the `Content-Length` of a response.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, &CONTENT_LENGTH).and_then(number)
}

/// Refuses compressed responses: their bytes are not the bytes of the file, whatever their number.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Fault> {
    match text(headers, &CONTENT_ENCODING).map(str::trim) {
        None | Some("" | "identity") if headers.get_all(CONTENT_ENCODING).iter().count() < 2 => Ok(()),
        _ => Err(Fault::Answer("the body is compressed, which was not asked for")),
    }
}

/// Returns the range of a partial response and the length of the file, if all headers agree about them.
pub(crate) fn check_partial(headers: &HeaderMap) -> Result<(Range<u64>, u64), Fault> {
    check_encoding(headers)?;
    let (range, size) = content_range(headers)?;
    let range = range.ok_or(Fault::Answer("Content-Range has no range"))?;
    if content_length(headers).is_some_and(|claimed| claimed != range.end - range.start) {
        return Err(Fault::Answer("Content-Length is not the length of the range"));
    }
    Ok((range, size))
}

/// Returns the state of the file, as the headers describe it.
pub(crate) fn version(headers: &HeaderMap, size: u64) -> Version {
    let owned = |name| text(headers, name).map(str::to_owned);
    Version { size, etag: owned(&ETAG), modified: owned(&LAST_MODIFIED), id: None }
}

/// Returns the fault for a response with an error status. `body` is the beginning of its body.
pub(crate) fn fault(status: u16, headers: &HeaderMap, body: &[u8]) -> Fault {
    let seconds = text(headers, &RETRY_AFTER).and_then(|value| number(value.trim()));
    let code = code(&String::from_utf8_lossy(body));
    match status {
        401 | 403 => Fault::Denied { status, code },
        404 | 410 => Fault::NotFound(status),
        412 => Fault::Changed,
        _ => Fault::Status { status, code, retry_after: seconds.map(Duration::from_secs) },
    }
}

/// Returns a provider's error code from a response body, in parentheses: `<Code>AccessDenied</Code>`. The
/// rest of the body is left out, because it may be an HTML page or quote a signature.
pub(crate) fn code(body: &str) -> Box<str> {
    let word = body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let word = word.map(|(word, _)| word).filter(|word| word.len() <= MAX_CODE);
    match word.filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
        Some(word) => format!(" {word}").into(),
        None => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranged(value: &str) -> Result<(Option<Range<u64>>, u64), Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_RANGE, value.parse().unwrap());
        content_range(&headers)
    }

    #[test]
    fn ranges_are_read_and_checked() {
        assert_eq!(ranged("bytes 0-9/10").unwrap(), (Some(0..10), 10));
        assert_eq!(ranged("bytes */0").unwrap(), (None, 0));
        let most = u64::MAX;
        for bad in [
            "bytes 0-9/*",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "bytes -1/10",
            "0-9/10",
            "bytes 0-9",
            "bytes +0-9/10",
            &format!("bytes 0-{most}/{most}"),
            &format!("bytes 0-{most}0/{most}0"),
            "",
        ] {
            assert!(ranged(bad).is_err(), "{bad}");
        }
        assert!(content_range(&HeaderMap::new()).is_err());
    }

    #[test]
    fn an_answer_has_to_carry_what_names_the_state() {
        let version = |size, marks: [Option<&str>; 3]| {
            let [etag, id, modified] = marks.map(|mark| mark.map(str::to_owned));
            Version { size, etag, id, modified }
        };
        let (a, b) = (Some("\"a\""), Some("\"b\""));
        let judged = |opened, answer| match version(1, opened).expect(&version(1, answer)) {
            Ok(()) => "same",
            Err(Fault::Changed) => "changed",
            Err(Fault::Unnamed) => "unnamed",
            Err(_) => "other",
        };
        for (opened, answer, expected) in [
            ([a, None, None], [a, None, None], "same"),
            ([a, None, None], [b, None, None], "changed"),
            ([a, None, None], [None, None, None], "unnamed"),
            ([a, None, a], [None, None, a], "unnamed"),
            // Servers behind a load balancer may have different dates for the same file.
            ([a, None, a], [a, None, b], "same"),
            ([a, a, None], [a, b, None], "changed"),
            ([a, a, None], [a, None, None], "same"),
            ([None, a, None], [None, None, None], "unnamed"),
            ([None, None, a], [b, None, a], "same"),
            ([None, None, a], [None, None, b], "changed"),
            ([None, None, a], [None, None, None], "unnamed"),
            ([None, None, None], [a, a, a], "same"),
        ] {
            assert_eq!(judged(opened, answer), expected, "{opened:?} {answer:?}");
        }
        assert!(version(1, [a, a, a]).expect(&version(2, [a, a, a])).is_err());
    }

    #[test]
    fn only_a_word_of_an_error_is_kept() {
        assert_eq!(&*code("<?xml?><Error><Code>NoSuchKey</Code><Key>secret</Key>"), " NoSuchKey");
        for other in ["<html>", "<Code>a b</Code>", "<Code><b></Code>", "<Code>unfinished"] {
            assert_eq!(&*code(other), "", "{other}");
        }
    }
}
