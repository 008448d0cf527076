//! Finds integers beyond 64 bits in JSON text before it is parsed. serde_json would turn them into floats;
//! this allows a tree to keep them.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::super::Value;
use super::super::de::KnownNumber;
use super::super::integer::Integer;

/// A bare word that was replaced by a zero: its offset in the text, and the float it means.
pub(super) type Word = (usize, f64);

/// The number of digits of the shortest integer that may not fit i64 or u64.
const DIGITS: usize = 19;

/// Finds the integers of the text that fit neither i64 nor u64, in order. The error is the offset of an
/// integer of more than 128 bits.
///
/// If the text is not JSON, the result is meaningless, and the parser refuses the text.
pub(super) fn large_integers(text: &str) -> Result<Vec<KnownNumber>, usize> {
    known_numbers(text, &[])
}

/// Finds the same integers, and adds the floats that were replaced by zeros at the given offsets, which must
/// ascend.
pub(super) fn known_numbers(text: &str, words: &[Word]) -> Result<Vec<KnownNumber>, usize> {
    let mut found = Vec::new();
    if words.is_empty() && !has_long_run(text.as_bytes()) {
        return Ok(found);
    }
    let mut words = words.iter().peekable();
    let (mut at, mut before) = (0, 0u64);
    while let Some(&byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => at = end_of_string(text.as_bytes(), at),
            b'-' | b'0'..=b'9' => {
                let rest = text.get(at..).unwrap_or_default();
                let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let token = rest.find(|c| !is_of_number(c)).and_then(|end| rest.get(..end)).unwrap_or(rest);
                if let Some((_, float)) = words.next_if(|(word, _)| *word == at) {
                    found.push(KnownNumber { before, value: Value::Float(*float) });
                } else if is_large(token) {
                    let number: Integer = token.parse::<i128>().map_err(|_| at)?.into();
                    found.push(KnownNumber { before, value: number.into() });
                }
                before = before.saturating_add(1);
                at = at.saturating_add(token.len());
            }
            _ => at = at.saturating_add(1),
        }
    }
    Ok(found)
}

/// Returns whether the text has enough consecutive digits for a large integer. Such a run covers a byte at
/// every 19th position.
fn has_long_run(text: &[u8]) -> bool {
    (DIGITS - 1..text.len()).step_by(DIGITS).any(|at| {
        let digits = |byte: &&u8| byte.is_ascii_digit();
        let (left, right) = text.split_at(at);
        let before = left.iter().rev().take(DIGITS).take_while(digits).count();
        before.saturating_add(right.iter().take(DIGITS).take_while(digits).count()) >= DIGITS
            && right.first().is_some_and(u8::is_ascii_digit)
    })
}

fn is_large(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.len() >= DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && token.parse::<u64>().is_err()
        && token.parse::<i64>().is_err()
}

/// Returns the offset after the quotation mark that ends the string which begins at `at`.
pub(super) fn end_of_string(text: &[u8], at: usize) -> usize {
    let mut escaped = false;
    let rest = text.get(at.saturating_add(1)..).unwrap_or_default();
    let end = rest.iter().position(|&byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |end| at.saturating_add(end).saturating_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_wherever_they_stand() {
        for pad in 0..60 {
            let text =
                |digits: usize| format!("{}{}{}", "x".repeat(pad), "1".repeat(digits), "y".repeat(60 - pad));
            assert!(has_long_run(text(19).as_bytes()) && has_long_run(text(100).as_bytes()), "{pad}");
            assert!(!has_long_run(text(18).as_bytes()), "{pad}");
        }
    }

    #[test]
    fn only_integers_outside_of_strings_count() {
        let text = r#"{"99999999999999999999": ["\\\"99999999999999999999", 1, -0, 99999999999999999999,
            -9223372036854775809, 18446744073709551615, -9223372036854775808, 99999999999999999999.0, 1e99]}"#;
        let found = large_integers(text).unwrap();
        let numbers: Vec<(u64, Value)> = found.into_iter().map(|large| (large.before, large.value)).collect();
        let expected = [(2, 99_999_999_999_999_999_999i128), (3, -9_223_372_036_854_775_809)];
        assert_eq!(numbers, expected.map(|(before, number)| (before, Value::from(number))));
        let most = i128::MAX.to_string();
        assert_eq!(large_integers(&most).unwrap().len(), 1);
        assert_eq!(large_integers(&format!("[1, {most}0]")), Err(4));
    }
}
