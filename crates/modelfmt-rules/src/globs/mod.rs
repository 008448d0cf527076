//! Patterns of tensor names.

mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use modelfmt_core::author::Shortened;

use self::pattern::Pattern;
use crate::wording::ParseError;

/// Steps of all patterns together: what each character of a name may cost.
const MAX_STEPS: usize = 1 << 18;

/// Patterns of tensor names, as a shell has them: `*`, `?`, `[a-z]`, `{a,b}`. `*` and `?` also stand for dots and slashes, `**/` also
/// for nothing, and a backslash takes the next character as it is.
///
/// ```
/// let globs = modelfmt::model::Globs::new(["layers.*.weight", "{embed,head}.*"])?;
/// assert!(globs.is_match("layers.0.attention.weight") && globs.is_match("head.bias"));
/// assert!(!globs.is_match("layers.0.bias"));
/// # Ok::<(), modelfmt::wording::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Globs {
    patterns: Vec<String>,
    /// The numbers of those that are names.
    names: BTreeMap<String, Vec<usize>>,
    /// The others with their numbers.
    others: Vec<(usize, Pattern)>,
}

impl Globs {
    /// Compiles patterns; without any, no name matches.
    ///
    /// # Errors
    /// If a pattern is malformed, or matching them would take too much.
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

    /// Whether one of the patterns matches the whole name.
    #[must_use]
    pub fn is_match(&self, name: &str) -> bool {
        self.names.contains_key(name) || self.others.iter().any(|(_, pattern)| pattern.is_match(name))
    }

    /// The numbers of the patterns that match, ascending.
    pub fn matches(&self, name: &str) -> Vec<usize> {
        let mut found = self.names.get(name).cloned().unwrap_or_default();
        found.extend(
            self.others.iter().filter(|(_, pattern)| pattern.is_match(name)).map(|(number, _)| number),
        );
        found.sort_unstable();
        found
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
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// A pattern that matches this name alone.
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

/// Refuses what nobody writes by hand.
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
