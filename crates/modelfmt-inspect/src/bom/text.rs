//! Texts from metadata: what counts as said, and how long it may be.

/// The most characters of a text: CycloneDX allows a version no more.
pub(super) const LONGEST: usize = 1024;

/// A text without the white space around it, and cut if it is too long; `None` if nothing is left.
pub(super) fn text(stated: &str) -> Option<String> {
    let stated = stated.trim();
    let cut = match stated.char_indices().nth(LONGEST) {
        Some(_) => stated.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => stated.to_owned(),
    };
    (!cut.is_empty()).then_some(cut)
}

/// Whether a text says something: it is no word for a value that is not known, as formats with required keys hold.
pub(super) fn is_said(stated: &str) -> bool {
    const NOT_KNOWN: [&str; 5] = ["unknown", "none", "null", "n/a", "noassertion"];
    !NOT_KNOWN.iter().any(|word| stated.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(text(" a b "), Some("a b".to_owned()));
        assert_eq!(text(" \n"), None);
        assert_eq!(text(&"ü".repeat(LONGEST)), Some("ü".repeat(LONGEST)));
        assert_eq!(text(&"ü".repeat(LONGEST + 1)), Some("ü".repeat(LONGEST - 1) + "…"));
        assert!(is_said("1.0") && !is_said("Unknown"));
    }
}
