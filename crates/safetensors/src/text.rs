//! Information that serde_json does not report: the byte offset of an error, and how deep the text is nested.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{CommonError, Limits};

/// Returns the byte offset in `text` at which serde_json stopped, from its line (counted from 1) and its
/// column (the number of bytes that were read of this line).
pub(crate) fn offset(text: &str, error: &serde_json::Error) -> u64 {
    let newlines =
        text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at.saturating_add(1));
    let start = std::iter::once(0).chain(newlines).nth(error.line().saturating_sub(1)).unwrap_or(text.len());
    start.saturating_add(error.column().saturating_sub(1)).min(text.len()) as u64
}

/// Returns serde_json's message without the position. If the text is not valid JSON, the message says so.
pub(crate) fn message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    if error.is_data() { message.to_owned() } else { format!("is not good JSON: {message}") }
}

/// Checks how deep arrays and objects are nested. `text` must be valid JSON.
///
/// # Errors
/// [`CommonError::Limit`] if they are nested more than `limits.depth` levels deep.
pub(crate) fn check_depth(text: &str, limits: &Limits) -> Result<(), CommonError> {
    let (mut depth, mut deepest) = (0u64, 0u64);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Limits::check("the depth of JSON", deepest, limits.depth).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bytes_of_the_text() {
        let text = "{\n \"é\": nul}";
        let error = serde_json::from_str::<serde::de::IgnoredAny>(text).unwrap_err();
        let at = usize::try_from(offset(text, &error)).unwrap();
        assert!(text.is_char_boundary(at) && text[at..].starts_with('}'), "{at} {error}");
        assert_eq!(message(&error), "is not good JSON: expected ident");
        let error = serde_json::from_str::<u8>("\"x\"").unwrap_err();
        assert!(message(&error).starts_with("invalid type: string"), "{}", message(&error));
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let limits = |depth| {
            let mut limits = Limits::default();
            limits.depth = depth;
            limits
        };
        let text = r#"{"[[[\"[[": [[], ["]"]]}"#;
        assert!(check_depth(text, &limits(3)).is_ok());
        assert_eq!(
            check_depth(text, &limits(2)),
            Err(CommonError::Limit { what: "the depth of JSON", found: 3, max: 2 })
        );
    }
}
