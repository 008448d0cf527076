//! Selects tensors by name patterns.

use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_rules::globs::Globs;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

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

    /// Returns the positions of the patterns that match, ascending.
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

    /// Fails for the first pattern that has matched nothing: it is probably a typing error.
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

    /// Returns the patterns that have matched nothing.
    fn unmatched(&self) -> impl Iterator<Item = &'a str> {
        let both = self.patterns.iter().zip(&self.matched);
        both.filter(|(_, matched)| !**matched).map(|(&pattern, _)| pattern)
    }
}

/// Selects tensors by their names.
pub(crate) struct Filter<'a> {
    include: Patterns<'a>,
    exclude: Patterns<'a>,
    /// The number of names so far, and how many of them were left out.
    seen: usize,
    left_out: usize,
}

impl<'a> Filter<'a> {
    pub(crate) fn new(options: &'a ConvertOptions) -> Result<Self> {
        let globs =
            |choice, patterns: &'a [String]| Patterns::new(choice, patterns.iter().map(String::as_str));
        Ok(Self {
            include: globs(Choice::Include, &options.tensors.include)?,
            exclude: globs(Choice::Exclude, &options.tensors.exclude)?,
            seen: 0,
            left_out: 0,
        })
    }

    /// Checks whether a name is selected. Does not count the name.
    pub(crate) fn would_take(&mut self, name: &str) -> bool {
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

    /// Fails if a pattern of `include` has matched nothing, or if all names were left out.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        if self.left_out > 0 && self.left_out == self.seen {
            return Err(model.nothing_selected(self.choices(), None));
        }
        self.include.check(model)
    }

    /// Returns notes about the number of tensors that are left out, and about patterns of `exclude` that have
    /// matched nothing.
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

    /// Returns the choices that have patterns.
    fn choices(&self) -> &'static [Choice] {
        match (self.include.patterns.is_empty(), self.exclude.patterns.is_empty()) {
            (_, true) => &[Choice::Include],
            (true, _) => &[Choice::Exclude],
            _ => &[Choice::Include, Choice::Exclude],
        }
    }
}
