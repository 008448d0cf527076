//! Patterns of tensor names.

mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use modelfmt_core::author::Shortened;

use self::pattern::Pattern;
use crate::wording::ParseError;

/// The maximum number of steps of all patterns together. One character of a name costs up to one visit of
/// each step.
const MAX_STEPS: usize = 1 << 18;

/// Patterns of tensor names, as in a shell: `*`, `?`, `[a-z]`, `{a,b}`. `*` and `?` also match dots and slashes, `**/` also matches
/// nothing, and a backslash makes the next character literal.
///
/// ```
/// let globs = modelfmt::model::Globs::new(["layers.*.weight", "{embed,head}.*"])?;
/// assert!(globs.is_match("layers.0.attention.weight") && globs.is_match("head.bias"));
/// assert!(!globs.is_match("layers.0.bias"));
/// # Ok::<(), modelfmt::wording::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Globs {
    patterns: Vec<String>,
    /// Patterns without wildcards, each with its positions in `patterns`.
    names: BTreeMap<String, Vec<usize>>,
    /// The other patterns, each with its position in `patterns`.
    others: Vec<(usize, Pattern)>,
}

impl Globs {
    /// Compiles patterns. An empty list matches no name.
    ///
    /// # Errors
    /// [`ParseError`] if a pattern is malformed, or if all patterns together have too many steps.
    pub fn new<P: Into<String>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, ParseError> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        let mut names = BTreeMap::<String, Vec<usize>>::new();
        let (mut others, mut steps) = (Vec::new(), 0);
        for (number, text) in patterns.iter().enumerate() {
            let wrong = |why: String| ParseError::new(format!("{:?}: {why}", Shortened(text)));
            check(text).map_err(|why| wrong(why.to_owned()))?;
            let pattern = Pattern::parse(text).map_err(wrong)?;
            if let Some(name) = pattern.literal() {
                names.entry(name).or_default().push(number);
                continue;
            }
            steps += pattern.steps();
            others.push((number, pattern));
        }
        if steps > MAX_STEPS {
            return Err(ParseError::new("too many alternatives; give fewer or simpler patterns"));
        }
        Ok(Self { patterns, names, others })
    }

    /// Checks whether one of the patterns matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.names.contains_key(name) || self.others.iter().any(|(_, pattern)| pattern.is_match(name))
    }

    /// Returns the positions of the patterns that match the whole name, ascending.
    pub fn matches(&self, name: &str) -> Vec<usize> {
        let mut found = self.names.get(name).cloned().unwrap_or_default();
        found.extend(
            self.others.iter().filter(|(_, pattern)| pattern.is_match(name)).map(|(number, _)| number),
        );
        found.sort_unstable();
        found
    }
}

/// Writes the patterns in quotation marks, joined by "or".
impl fmt::Display for Globs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pattern) in self.patterns.iter().enumerate() {
            write!(f, "{}{:?}", if number == 0 { "" } else { " or " }, Shortened(pattern))?;
        }
        Ok(())
    }
}

/// Checks whether a text has characters with a special meaning in a pattern.
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Returns a pattern that matches only this name.
#[cfg(not(target_arch = "wasm32"))]
pub fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if r"*?[]{},!-\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Refuses patterns that are longer or more deeply nested than any that is written by hand.
fn check(pattern: &str) -> Result<(), &'static str> {
    const MAX_LEN: usize = 16 << 10;
    const MAX_DEPTH: usize = 16;
    if pattern.len() > MAX_LEN {
        return Err("longer than 16 KiB");
    }
    let (mut depth, mut is_escaped) = (0usize, false);
    for c in pattern.bytes() {
        match c {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
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
