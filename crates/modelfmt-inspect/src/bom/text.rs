//! Texts from metadata: what counts as said, and how long it may be.

/// The most characters of a text: CycloneDX allows a version no more.
pub(super) const LONGEST: usize = 1024;

/// A text without the white space around it and without what may be secret in its addresses, and cut if it is too long; `None` if
/// nothing is left.
pub(super) fn text(stated: &str) -> Option<String> {
    let stated = without_secrets(stated.trim());
    let cut = match stated.char_indices().nth(LONGEST) {
        Some(_) => stated.chars().take(LONGEST - 1).chain(['…']).collect(),
        None => stated.to_owned(),
    };
    (!cut.is_empty()).then_some(cut)
}

/// A text whose addresses have no user, no password, no query and no fragment.
fn without_secrets(stated: &str) -> String {
    let mut out = String::new();
    let mut rest = stated;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c)).unwrap_or(after.len());
        let (address, others) = after.split_at(end);
        let mut kept = address.split(['?', '#']).next().unwrap_or(address);
        // A path may hold another address.
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
        assert!(is_said("1.0") && !is_said("Unknown"));
    }
}
