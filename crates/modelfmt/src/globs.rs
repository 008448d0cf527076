//! Patterns of tensor names.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use modelfmt_core::author::Shortened;

/// Patterns of tensor names, as a shell has them: `*`, `?`, `[a-z]`, `{a,b}`. `*` and `?` also stand for dots and slashes, and
/// a backslash takes the next character as it is.
///
/// ```
/// let globs = modelfmt::Globs::new(["layers.*.weight", "{embed,head}.*"])?;
/// assert!(globs.is_match("layers.0.attention.weight") && globs.is_match("head.bias"));
/// assert!(!globs.is_match("layers.0.bias"));
/// # Ok::<(), modelfmt::GlobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Globs {
    set: GlobSet,
    patterns: Vec<String>,
}

impl Globs {
    /// Compiles patterns; without any, no name matches.
    ///
    /// # Errors
    /// If a pattern is malformed, or matching them would take too much.
    pub fn new<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        let mut set = GlobSetBuilder::new();
        for pattern in &patterns {
            let wrong = |why: String| GlobError { pattern: Some(pattern.clone()), why };
            check(pattern).map_err(|why| wrong(why.to_owned()))?;
            // A backslash escapes on every system: these are names of tensors, not paths.
            let glob = GlobBuilder::new(pattern).backslash_escape(true).build();
            set.add(glob.map_err(|error| wrong(error.kind().to_string()))?);
        }
        // What is left to go wrong is the size of the state machine, which several patterns may share.
        let too_large = |_| GlobError {
            pattern: patterns.first().filter(|_| patterns.len() == 1).cloned(),
            why: "too many alternatives; give several simpler patterns".to_owned(),
        };
        let set = set.build().map_err(too_large)?;
        Ok(Self { set, patterns })
    }

    /// Whether one of the patterns matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.set.is_match(name)
    }

    /// The numbers of the patterns that match, ascending.
    pub(crate) fn matches(&self, name: &str) -> Vec<usize> {
        self.set.matches(name)
    }
}

/// The patterns, in quotation marks.
impl fmt::Display for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pattern) in self.patterns.iter().enumerate() {
            write!(f, "{}{:?}", if number == 0 { "" } else { " or " }, Shortened(pattern))?;
        }
        Ok(())
    }
}

/// Whether text has characters that mean something in a pattern.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// A pattern that matches this name alone.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if r"*?[]{},!-\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Refuses what would exhaust the stack: braces are compiled by recursion.
fn check(pattern: &str) -> Result<(), &'static str> {
    const MAX_LEN: usize = 16 << 10;
    const MAX_DEPTH: usize = 16;
    if pattern.len() > MAX_LEN {
        return Err("longer than 16 KiB");
    }
    let mut depth = 0usize;
    for c in pattern.bytes() {
        match c {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err("braces are nested deeper than 16");
        }
    }
    Ok(())
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobError {
    pattern: Option<String>,
    why: String,
}

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "{:?}: {}", Shortened(pattern), self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for GlobError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bombs_are_errors() {
        let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        for (bomb, why) in [
            (nested(17), "nested"),
            (nested(8_000), "nested"),
            ("{".repeat(16_000), "nested"),
            ("*".repeat(20_000), "16 KiB"),
            ("[".to_owned(), "unclosed"),
            ("{a".to_owned(), "unclosed"),
            ("a}".to_owned(), "unopened"),
            ("\\".to_owned(), "dangling"),
        ] {
            let error = Globs::new([bomb]).unwrap_err().to_string();
            assert!(error.contains(why) && error.len() < 500, "{error}");
        }
        // Each alone would do.
        let many = (0..60).map(|n| format!("{}{n}", "{?,??,???}".repeat(1_500)));
        let error = Globs::new(many).unwrap_err().to_string();
        assert!(error.contains("simpler"), "{error}");
        assert!(Globs::new([nested(16)]).unwrap().is_match("a"));
    }

    #[test]
    fn whole_names_match_across_dots_and_slashes() {
        let matches = |glob: &str, name: &str| Globs::new([glob]).unwrap().is_match(name);
        for (glob, name) in [
            ("*.weight", "a/b.c/d.weight"),
            ("*.weight", ".weight"),
            ("*", ""),
            ("a?b", "a/b"),
            ("*/*", "a/"),
            ("x.*", "x..."),
            ("x\\*", "x*"),
            ("\\{a\\}", "{a}"),
            ("?", "\n"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [("*.weight", "weight"), ("a", "ab"), ("x\\*", "xy"), ("", "a")] {
            assert!(!matches(glob, name), "{glob} {name}");
        }
        assert!(!Globs::new(Vec::<String>::new()).unwrap().is_match(""));
    }
}
