//! Reads headers in the usual spelling, which nearly all headers have: no escapes, no unknown fields. This is
//! less work than for a general JSON reader.
//!
//! This reader only accepts headers. If it meets anything else, including a fault, it gives up. The general
//! reader (`header.rs`) then starts over and reports what is wrong.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

use crate::state::State;
use crate::wire;

/// Reads the whole header into `state`. Returns `None` if the header is not in the usual spelling or has a
/// fault. `state` is then unusable.
///
/// `metadata` reads the value of `__metadata__`, which is an object.
pub(crate) fn read<'a>(
    state: &mut State<'a>,
    metadata: impl Fn(&mut State<'a>, &'a str) -> Option<()>,
) -> Option<()> {
    let mut text = Scanner { text: state.text, at: 0 };
    text.token(b'{')?;
    if !text.takes(b'}') {
        loop {
            let name = text.string()?;
            text.token(b':')?;
            if name == wire::METADATA {
                metadata(state, text.object()?)?;
            } else {
                let (dtype, begin, end) = entry(&mut text, state.new_dims())?;
                state.list_within_limits(name, dtype, begin, end)?;
            }
            if text.ends(b'}')? {
                break;
            }
        }
    }
    text.rest_is_space().then_some(())?;
    state.tensors.compare_names().ok()
}

/// Reads the entry of a tensor and returns its dtype, and the start and end of its values. The dimensions go
/// into `dims`.
fn entry(text: &mut Scanner<'_>, dims: &mut Vec<u64>) -> Option<(DType, u64, u64)> {
    let (mut dtype, mut has_shape, mut offsets) = (None, false, None);
    text.token(b'{')?;
    loop {
        let field = text.string()?;
        text.token(b':')?;
        match field {
            "dtype" if dtype.is_none() => dtype = Some(wire::dtype_of(text.string()?)?),
            "shape" if !has_shape => {
                has_shape = true;
                shape(text, dims)?;
            }
            "data_offsets" if offsets.is_none() => offsets = Some(pair(text)?),
            _ => return None,
        }
        if text.ends(b'}')? {
            break;
        }
    }
    let (begin, end) = offsets.filter(|_| has_shape)?;
    Some((dtype?, begin, end))
}

fn shape(text: &mut Scanner<'_>, dims: &mut Vec<u64>) -> Option<()> {
    text.token(b'[')?;
    if text.takes(b']') {
        return Some(());
    }
    loop {
        dims.push(text.number()?);
        if text.ends(b']')? {
            return Some(());
        }
    }
}

fn pair(text: &mut Scanner<'_>) -> Option<(u64, u64)> {
    text.token(b'[')?;
    let first = text.number()?;
    text.token(b',')?;
    let second = text.number()?;
    text.token(b']')?;
    Some((first, second))
}

/// Takes JSON tokens from the front of a text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !is_space(byte) {
                return Some(byte);
            }
            self.at = self.at.saturating_add(1);
        }
    }

    /// Takes the next token if it is `byte`. Returns whether it was.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at = self.at.saturating_add(usize::from(is_next));
        is_next
    }

    /// Takes the token `byte`, which must come next.
    fn token(&mut self, byte: u8) -> Option<()> {
        self.takes(byte).then_some(())
    }

    /// Takes what follows an element of a list: `close` ends the list, and a comma continues it. Returns
    /// whether the list ends.
    fn ends(&mut self, close: u8) -> Option<bool> {
        let next = self.peek().filter(|&next| next == close || next == b',')?;
        self.at = self.at.saturating_add(1);
        Some(next == close)
    }

    /// Takes a string without escapes.
    fn string(&mut self) -> Option<&'a str> {
        self.token(b'"')?;
        let rest = self.rest();
        let len = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        if rest.get(len) != Some(&b'"') {
            return None;
        }
        let start = self.at;
        let end = start.checked_add(len)?;
        self.at = end.checked_add(1)?;
        self.text.get(start..end)
    }

    /// Takes a whole number without a sign.
    fn number(&mut self) -> Option<u64> {
        self.peek()?;
        let rest = self.rest();
        let mut number = 0u64;
        let mut len = 0usize;
        for digit in rest.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|&digit| digit < 10) {
            number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
            len = len.saturating_add(1);
        }
        self.at = self.at.saturating_add(len);
        // JSON numbers have no leading zeros.
        (len > 0 && (len == 1 || rest.first() != Some(&b'0'))).then_some(number)
    }

    /// Takes an object with any content. The object ends with its closing brace.
    fn object(&mut self) -> Option<&'a str> {
        if self.peek()? != b'{' {
            return None;
        }
        let start = self.at;
        let (mut depth, mut in_string, mut is_escaped) = (0u64, false, false);
        for &byte in self.rest() {
            self.at = self.at.saturating_add(1);
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
        None
    }

    fn rest_is_space(&self) -> bool {
        self.rest().iter().all(|&byte| is_space(byte))
    }
}

/// Returns whether the byte is white space in JSON.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
