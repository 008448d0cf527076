//! Which tensors an option is for: patterns of names, and types by pattern.

use modelfmt_core::DType;

use crate::choice::Choice;
use crate::convert::options::{ConvertOptions, TypeRule};
use crate::error::{Error, Result};
use crate::globs::Globs;
use crate::model::Model;
use crate::words::Note;

/// The patterns of one option, and which of them have matched.
struct Patterns<'a> {
    choice: Choice,
    patterns: Vec<&'a str>,
    globs: Globs,
    matched: Vec<bool>,
}

impl<'a> Patterns<'a> {
    fn new(choice: Choice, patterns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let patterns: Vec<&str> = patterns.into_iter().collect();
        let globs =
            Globs::new(patterns.iter().copied()).map_err(|error| Error::usage(choice, error.to_string()))?;
        let matched = vec![false; patterns.len()];
        Ok(Self { choice, patterns, globs, matched })
    }

    /// The numbers of the patterns that match, ascending.
    fn matches(&mut self, name: &str) -> Vec<usize> {
        if self.patterns.is_empty() {
            return Vec::new();
        }
        let found = self.globs.matches(name);
        for &number in &found {
            self.matched.get_mut(number).into_iter().for_each(|matched| *matched = true);
        }
        found
    }

    /// An error for the first pattern that has matched nothing: it is a slip of the pen.
    fn check(&self, model: &Model) -> Result<()> {
        match self.unmatched().next() {
            None => Ok(()),
            Some(pattern) => Err(Error::NoMatch {
                path: model.path().to_owned(),
                choice: self.choice,
                pattern: pattern.to_owned(),
            }),
        }
    }

    /// The patterns that have matched nothing.
    fn unmatched(&self) -> impl Iterator<Item = &'a str> {
        let both = self.patterns.iter().zip(&self.matched);
        both.filter(|(_, matched)| !**matched).map(|(&pattern, _)| pattern)
    }
}

/// The rules of one option: what becomes of the tensors whose names match a pattern, or of all.
pub(super) struct Rules<'a, T = DType> {
    rules: Vec<(Option<&'a str>, T)>,
    patterns: Patterns<'a>,
    /// The rules that have a pattern, in its order.
    named: Vec<usize>,
}

impl<'a> Rules<'a> {
    pub(super) fn types(choice: Choice, rules: &'a [TypeRule]) -> Result<Self> {
        Self::new(choice, rules.iter().map(|rule| (rule.glob.as_deref(), rule.dtype)))
    }
}

impl<'a, T: Copy> Rules<'a, T> {
    pub(super) fn new(choice: Choice, rules: impl IntoIterator<Item = (Option<&'a str>, T)>) -> Result<Self> {
        let rules: Vec<_> = rules.into_iter().collect();
        let named = rules.iter().enumerate().filter_map(|(number, (glob, _))| Some((number, (*glob)?)));
        let (named, patterns): (Vec<usize>, Vec<&str>) = named.unzip();
        Ok(Self { rules, patterns: Patterns::new(choice, patterns)?, named })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The last rule that takes the tensor. `takes_all` says whether a rule without a pattern takes it.
    pub(super) fn find(&mut self, name: &str, takes_all: bool) -> Option<T> {
        let by_name = self.patterns.matches(name).last().and_then(|&at| self.named.get(at)).copied();
        let by_all = self.rules.iter().rposition(|(glob, _)| takes_all && glob.is_none());
        Some(self.rules.get(by_name.max(by_all)?)?.1)
    }

    pub(super) fn check(&self, model: &Model) -> Result<()> {
        self.patterns.check(model)
    }
}

/// Which names are taken.
pub(super) struct Filter<'a> {
    include: Patterns<'a>,
    exclude: Patterns<'a>,
    /// How many names there were, and how many of them were left out.
    seen: usize,
    left_out: usize,
}

impl<'a> Filter<'a> {
    pub(super) fn new(options: &'a ConvertOptions) -> Result<Self> {
        let globs =
            |choice, patterns: &'a [String]| Patterns::new(choice, patterns.iter().map(String::as_str));
        Ok(Self {
            include: globs(Choice::Include, &options.include)?,
            exclude: globs(Choice::Exclude, &options.exclude)?,
            seen: 0,
            left_out: 0,
        })
    }

    /// Whether a name is taken, without counting it.
    pub(super) fn would_take(&mut self, name: &str) -> bool {
        let is_included = self.include.patterns.is_empty() || !self.include.matches(name).is_empty();
        let is_excluded = !self.exclude.matches(name).is_empty(); // asked in any case, so that each pattern is known to match
        is_included && !is_excluded
    }

    pub(super) fn takes(&mut self, name: &str) -> bool {
        let takes = self.would_take(name);
        self.seen = self.seen.saturating_add(1);
        self.left_out = self.left_out.saturating_add(usize::from(!takes));
        takes
    }

    /// Refuses a pattern that includes nothing, and patterns that leave nothing.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        if self.left_out > 0 && self.left_out == self.seen {
            return Err(model.nothing_selected(self.choices(), None));
        }
        self.include.check(model)
    }

    /// How many tensors are left out, if any are, and which patterns leave out none.
    pub(super) fn notes(&self) -> Vec<Note> {
        let Self { seen, left_out, .. } = self;
        let choices = self.choices();
        let leave = if choices.len() > 1 { "leave" } else { "leaves" };
        let count =
            (*left_out > 0).then(|| Note::of(choices, format!("{leave} out {left_out} of {seen} tensors")));
        let unmatched = self
            .exclude
            .unmatched()
            .map(|pattern| Note::of(&[Choice::Exclude], format!("{pattern}: no tensor has a matching name")));
        count.into_iter().chain(unmatched).collect()
    }

    /// Those that have patterns.
    fn choices(&self) -> &'static [Choice] {
        match (self.include.patterns.is_empty(), self.exclude.patterns.is_empty()) {
            (_, true) => &[Choice::Include],
            (true, _) => &[Choice::Exclude],
            _ => &[Choice::Include, Choice::Exclude],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_takes_a_tensor_wins() {
        let rules: Vec<TypeRule> =
            ["*.weight=f16", "bf16", "a.*=F32", "x=y=i8"].map(|text| text.parse().unwrap()).into();
        let mut compiled = Rules::types(Choice::Cast, &rules).unwrap();
        assert_eq!(compiled.find("a.weight", true), Some(DType::F32));
        assert_eq!(compiled.find("b.weight", true), Some(DType::BF16));
        assert_eq!(compiled.find("b.weight", false), Some(DType::F16));
        assert_eq!(compiled.find("b.bias", true), Some(DType::BF16));
        assert_eq!(compiled.find("b.bias", false), None);
        assert_eq!(compiled.find("x=y", false), Some(DType::I8));
        assert!(Rules::types(Choice::Cast, &[]).unwrap().find("a", true).is_none());
        assert!("*.weight=f17".parse::<TypeRule>().is_err() && "=f16".parse::<TypeRule>().is_ok());
    }
}
