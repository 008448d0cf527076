//! Numbers for modules whose names match a pattern, as PEFT's config has them. The patterns are untrusted:
//! the memory of all of them together is bounded, and so is the time to match them.

use modelfmt_core::author::Shortened;
use modelfmt_core::value::{Object, Value};
use regex_lite::{Regex, RegexBuilder};

const MAX_PATTERNS: usize = 1 << 14;
const MAX_PATTERN_LEN: usize = 1 << 12;
/// The maximum sizes in bytes of a compiled pattern. A pattern counts as the smallest that suffices.
const SIZES: [usize; 4] = [1 << 12, 1 << 14, 1 << 16, 1 << 18];
/// The maximum sum of these sizes.
const MAX_MEMORY: usize = 1 << 24;
/// The number of bytes of a compiled pattern that one character of a name is compared with at a time.
const STATE_LEN: u64 = 32;
/// The maximum number of comparisons with characters of names.
const MAX_WORK: u64 = 1 << 31;

/// The patterns of a key, in the order of the file; the first that matches counts.
pub(super) struct Patterns {
    key: &'static str,
    all: Vec<(Pattern, f64)>,
}

/// A pattern for the end of a name, from a dot on.
enum Pattern {
    /// The name itself, where a dot stands for any character.
    Name(String),
    Regex {
        regex: Regex,
        /// How many comparisons it takes per character of a name.
        cost: u64,
    },
}

impl Patterns {
    /// Reads the patterns of a key. As in PEFT, each is a regular expression.
    pub(super) fn read(config: &Object, key: &'static str) -> Result<Self, String> {
        let patterns = match config.get(key) {
            None | Some(Value::Null) => return Ok(Self { key, all: Vec::new() }),
            Some(Value::Object(patterns)) if patterns.len() <= MAX_PATTERNS => patterns,
            Some(Value::Object(_)) => return Err(format!("it has more than {MAX_PATTERNS} patterns")),
            Some(other) => return Err(format!("it is {}, not an object", other.kind())),
        };
        let mut memory = MAX_MEMORY;
        let all = patterns.iter().map(|(pattern, value)| {
            let number = value.as_f64().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| format!("{:?} has no finite number", Shortened(pattern)))?;
            Ok((Pattern::parse(pattern, &mut memory)?, number))
        });
        Ok(Self { key, all: all.collect::<Result<_, String>>()? })
    }

    /// Returns the number for a module. `work` counts comparisons.
    pub(super) fn number(&self, module: &str, work: &mut u64) -> Result<Option<f64>, String> {
        for (pattern, number) in &self.all {
            let is_match = pattern.is_match(module, work);
            if *work > MAX_WORK {
                return Err(format!(
                    "`{}`: comparing its patterns with the names of all modules takes too long; give it fewer or shorter patterns",
                    self.key
                ));
            }
            if is_match {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }
}

impl Pattern {
    /// Compiles a pattern. `memory` is what all patterns may still take.
    fn parse(pattern: &str, memory: &mut usize) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN_LEN {
            return Err(format!("a pattern is longer than {MAX_PATTERN_LEN} bytes"));
        }
        if pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')) {
            return Ok(Self::Name(pattern.to_owned()));
        }
        let text = format!(r"^(?:.*\.)?(?:{pattern})$");
        let mut failed = None;
        for size in SIZES {
            match RegexBuilder::new(&text).size_limit(size).build() {
                Ok(regex) => {
                    *memory = memory.checked_sub(size).ok_or_else(|| {
                        format!("its patterns take more than {MAX_MEMORY} bytes of memory together; give it fewer or shorter patterns, or the names of the modules")
                    })?;
                    return Ok(Self::Regex { regex, cost: size as u64 / STATE_LEN });
                }
                Err(error) => failed = Some(error),
            }
        }
        let why = failed.map(|error| error.to_string()).unwrap_or_default();
        Err(format!("{:?} is no pattern that is known: {why}", Shortened(pattern)))
    }

    fn is_match(&self, module: &str, work: &mut u64) -> bool {
        match self {
            Self::Name(name) => {
                let mut rest = module.chars();
                for wanted in name.chars().rev() {
                    *work = work.saturating_add(1);
                    let is_same = |found: char| found == wanted || (wanted == '.' && found != '\n');
                    if !rest.next_back().is_some_and(is_same) {
                        return false;
                    }
                }
                matches!(rest.next_back(), None | Some('.'))
            }
            Self::Regex { regex, cost } => {
                let len = (module.len() as u64).saturating_add(1);
                *work = work.saturating_add(cost.saturating_mul(len));
                *work <= MAX_WORK && regex.is_match(module)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(patterns: impl IntoIterator<Item = (String, f64)>) -> Result<Patterns, String> {
        let patterns: Object = patterns.into_iter().map(|(key, number)| (key, Value::from(number))).collect();
        Patterns::read(&Object::from_iter([("alpha_pattern", Value::Object(patterns))]), "alpha_pattern")
    }

    #[test]
    fn names_match_as_regular_expressions_do() {
        for pattern in ["q_proj", "attn.q_proj", "a.q_proj", "proj", "", ".", "x.y-z", "..q_proj"] {
            let name = Pattern::parse(pattern, &mut 0).unwrap();
            assert!(matches!(name, Pattern::Name(_)));
            let regex = Regex::new(&format!(r"^(?:.*\.)?(?:{pattern})$")).unwrap();
            for module in
                ["q_proj", "attn.q_proj", "self_attn.q_proj", "attnxq_proj", "é.q_proj", "x.y-z", "", "."]
            {
                assert_eq!(name.is_match(module, &mut 0), regex.is_match(module), "{pattern:?} {module:?}");
            }
        }
    }

    #[test]
    fn all_patterns_together_are_bounded() {
        // Each takes more than 128 KiB.
        let large = |count: usize| (0..count).map(|number| (format!("a{{5000}}{number}"), 1.0));
        assert!(read(large(MAX_MEMORY / (1 << 18))).is_ok());
        let error = read(large(MAX_MEMORY / (1 << 18) + 1)).err().unwrap();
        assert!(error.contains("take more than 16777216 bytes of memory together"), "{error}");
        let error = read([("a{5000}b{5000}".to_owned(), 1.0)]).err().unwrap();
        assert!(error.contains("is no pattern that is known"), "{error}");
        // As many names as there may be take no such memory.
        assert!(read((0..MAX_PATTERNS).map(|number| (format!("layers.{number}.q_proj"), 1.0))).is_ok());
    }

    #[test]
    fn the_work_for_all_modules_is_bounded() {
        let patterns = read((0..8).map(|number| (format!("a{{5000}}{number}"), 1.0))).unwrap();
        let (mut work, mut modules) = (0, 0);
        let error = loop {
            match patterns.number(&"b".repeat(60_000), &mut work) {
                Ok(found) => assert_eq!(found, None),
                Err(error) => break error,
            }
            modules += 1;
        };
        assert!(
            modules < 8 && error.contains("`alpha_pattern`: comparing its patterns"),
            "{modules} {error}"
        );
    }
}
