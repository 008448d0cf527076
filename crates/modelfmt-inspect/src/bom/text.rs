//! Texts from metadata: which of them count as statements, and how long they may be.

/// The maximum number of characters of a text. CycloneDX does not allow more in a version.
pub(super) const LONGEST: usize = 1024;

/// Trims a text, removes possible secrets from its addresses, and shortens it if it is too long; `None` if
/// nothing is left.
pub(super) fn text(stated: &str) -> Option<String> {
    let stated = without_secrets(stated.trim());
    let cut = match stated.char_indices().nth(LONGEST) {
        Some(_) => stated.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => stated.to_owned(),
    };
    (!cut.is_empty()).then_some(cut)
}

/// Removes the user, password, query and fragment of each address in a text.
fn without_secrets(stated: &str) -> String {
    let mut out = String::new();
    let mut rest = stated;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c)).unwrap_or(after.len());
        let (address, others) = after.split_at(end);
        let mut kept = address.split(['?', '#']).next().unwrap_or(address);
        // A path may contain another address.
        loop {
            let (part, nested) = kept.split_at(kept.find("://").unwrap_or(kept.len()));
            let (host, path) = part.split_at(part.find(['/', '\\']).unwrap_or(part.len()));
            out.push_str(host.rsplit_once('@').map_or(host, |(_, host)| host));
            out.push_str(path);
            let Some(next) = nested.strip_prefix("://") else { break };
            out.push_str("://");
            kept = next;
        }
        rest = others;
    }
    out.push_str(rest);
    out
}

/// Checks whether a text states something. Some words mean that a value is unknown; they occur in formats
/// with required keys.
pub(super) fn is_known(stated: &str) -> bool {
    const NOT_KNOWN: [&str; 5] = ["unknown", "none", "null", "n/a", "noassertion"];
    !NOT_KNOWN.iter().any(|word| stated.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_an_ellipsis() {
        assert_eq!(text(" a b "), Some("a b".to_owned()));
        for (stated, shown) in [
            ("https://u:p@h/a?token=s#f", "https://h/a"),
            (
                "see <https://u@h?k=s> and s3://b/c?x, or \"http://h#k\"",
                "see <https://h> and s3://b/c or \"http://h\"",
            ),
            ("v1@2?x=1#y", "v1@2?x=1#y"),
            ("://a@b://c@d/?e", "://b://d/"),
            ("https://h/?u=https://x:pw@y&t=s", "https://h/"),
        ] {
            assert_eq!(text(stated).as_deref(), Some(shown), "{stated}");
        }
        assert_eq!(text(" \n"), None);
        assert_eq!(text(&"ü".repeat(LONGEST)), Some("ü".repeat(LONGEST)));
        assert_eq!(text(&"ü".repeat(LONGEST + 1)), Some("ü".repeat(LONGEST - 1) + "…"));
        assert!(is_known("1.0") && !is_known("Unknown"));
    }
}
