//! The list of deliberate changes: which cases may differ until the next record, and why.

use crate::run::Result;

/// The file, below `testdata/`.
pub(super) const FILE: &str = "fence/CHANGES.md";
/// The text above the list.
pub(super) const HEAD: &str = "\
# Deliberate changes

Each line is a pattern over the names of `cases.txt` and the reason why these cases differ from what is recorded there; `*` stands for any text.
`cargo xtask fence check` accepts them, and fails for a line that fits no differing case. `cargo xtask fence record` takes all lines out.

";

/// One line of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) pattern: String,
    pub(super) reason: String,
}

impl Change {
    pub(super) fn fits(&self, name: &str) -> bool {
        fits(&self.pattern, name)
    }
}

/// Parses the lines ``- `PATTERN`: REASON``. Other lines are for people, and ignored.
pub(super) fn parse(text: &str) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("- ")) {
        let parts = line.strip_prefix("- `").and_then(|rest| rest.split_once("`: "));
        let Some((pattern, reason)) =
            parts.filter(|(pattern, reason)| !pattern.is_empty() && !reason.trim().is_empty())
        else {
            return Err(format!("testdata/{FILE}: write \"{line}\" as - `PATTERN`: REASON").into());
        };
        changes.push(Change { pattern: pattern.to_owned(), reason: reason.trim().to_owned() });
    }
    Ok(changes)
}

/// Checks whether a name matches a pattern, in which `*` stands for any text. A name that contains `*` also
/// matches itself.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return pattern == name };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text = format!("{HEAD}- `gguf/*: inspect @*`: names the family\n\n- `a`: b\n");
        let changes = parse(&text).unwrap();
        assert_eq!(changes.len(), 2);
        assert_eq!((&*changes[0].pattern, &*changes[0].reason), ("gguf/*: inspect @*", "names the family"));
        assert_eq!(parse(HEAD).unwrap(), []);
        for wrong in ["- a: b", "- `a`", "- `a`: ", "- ``: b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, expected) in [
            ("a: b", "a: b", true),
            ("a", "a: b", false),
            ("*", "a: b", true),
            ("a*", "a: b", true),
            ("*b", "a: b", true),
            ("*: *b", "a: b", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("extract @ * -o", "extract @ * -o", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_list_in_the_repository_is_well_formed() {
        if let Ok(text) = std::fs::read_to_string(crate::workspace::root().join("testdata").join(FILE)) {
            parse(&text).unwrap();
        }
    }
}
