//! Items that a target cannot hold, and what helps.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use modelfmt_core::author::Shortened;

use super::{Choice, FieldNames, Remedy, Words};

/// Something in the source that the target cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// The kind of the item.
    pub subject: Subject,
    /// The name of the item, if it has one; for a choice, the dtype or preset that was requested.
    pub name: Option<String>,
    /// Why it does not fit. The text is shared, because a file may have a million keys with the same reason.
    pub why: Arc<str>,
    /// The remedy, if there is one.
    pub remedy: Option<Remedy>,
}

/// A kind of item that a target cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// A part of the source, such as `tensor`, `metadata key` or `chunk`.
    Part(&'static str),
    /// A choice that the target does not support.
    Choice(Choice),
}

impl Unsupported {
    /// Makes an item for a choice that the target does not support.
    pub fn choice(choice: Choice, what: impl fmt::Display, why: String, remedy: Option<Remedy>) -> Self {
        Self { subject: Subject::Choice(choice), name: Some(what.to_string()), why: why.into(), remedy }
    }

    /// Makes an item for a tensor that does not fit.
    pub fn tensor(name: &str, why: impl Into<Arc<str>>, remedy: Option<Remedy>) -> Self {
        Self { subject: Subject::Part("tensor"), name: Some(name.to_owned()), why: why.into(), remedy }
    }

    /// Makes an item for tensors that share their bytes.
    pub fn ties(why: String) -> Self {
        let subject = Subject::Part("tensors over the same bytes");
        Self { subject, name: None, why: why.into(), remedy: Some(Remedy::AllowTies) }
    }

    /// Makes an item for metadata that does not fit and can be dropped.
    pub fn loss(kind: &'static str, name: &str, why: impl Into<Arc<str>>) -> Self {
        let (name, why) = (Some(name.to_owned()), why.into());
        Self { subject: Subject::Part(kind), name, why, remedy: Some(Remedy::Lossy) }
    }

    /// Sets the remedy of the item.
    #[must_use]
    pub fn with_remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Returns the kind and the name of the item, such as `tensor "w"`.
    #[must_use]
    pub fn what(&self) -> String {
        self.what_in(&FieldNames)
    }

    fn what_in(&self, words: &dyn Words) -> String {
        match (&self.subject, &self.name) {
            (Subject::Part(kind), Some(name)) => format!("{kind} {:?}", Shortened(name)),
            (Subject::Part(kind), None) => (*kind).to_owned(),
            (Subject::Choice(choice), Some(dtype)) => format!("{} {dtype}", words.choice(*choice)),
            (Subject::Choice(choice), None) => words.choice(*choice).to_owned(),
        }
    }

    /// Returns the item in one line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        format!("{}: {}{}", self.what_in(words), self.why, self.help(words))
    }

    fn help(&self, words: &dyn Words) -> String {
        let help = |remedy: Remedy| format!(" ({}{})", words.remedy(remedy), remedy.effect());
        self.remedy.map_or_else(String::new, help)
    }

    /// Groups the items that differ only in their name, in the order in which each group first occurs.
    #[must_use]
    pub fn grouped(unsupported: &[Self]) -> Vec<UnsupportedGroup<'_>> {
        let mut groups: Vec<UnsupportedGroup<'_>> = Vec::new();
        let mut places = HashMap::new();
        for item in unsupported {
            let Self { subject, why, remedy, .. } = item;
            let place = *places.entry((subject, why, remedy)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.unsupported.push(item),
                None => groups.push(UnsupportedGroup { unsupported: vec![item] }),
            }
        }
        groups
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}

/// Items of one kind with the same reason and the same remedy.
///
/// It prints as one line, such as `40 tensors: gguf's q4_k is not in mag (dequantize to f32): "a", "b", "c" and 37 more`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedGroup<'a> {
    /// The items, at least one.
    unsupported: Vec<&'a Unsupported>,
}

impl<'a> UnsupportedGroup<'a> {
    /// Returns the items, in the order in which they were found.
    #[must_use]
    pub fn unsupported(&self) -> &[&'a Unsupported] {
        &self.unsupported
    }

    /// Returns the group in one line, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        self.line(words, |item| item.help(words))
    }

    /// Returns the group in one line without the remedy, for items that were dropped.
    #[must_use]
    pub fn without_remedy(&self) -> String {
        self.line(&FieldNames, |_| String::new())
    }

    fn line(&self, words: &dyn Words, help: impl Fn(&Unsupported) -> String) -> String {
        let Some((first, rest)) = self.unsupported.split_first() else { return String::new() };
        let help = help(first);
        match first.subject {
            Subject::Part(kind) if !rest.is_empty() => {
                let names = Examples::of(self.unsupported.iter().filter_map(|item| item.name.as_deref()));
                format!("{} {kind}s: {}{help}: {names}", self.unsupported.len(), first.why)
            }
            _ => format!("{}: {}{help}", first.what_in(words), first.why),
        }
    }
}

impl fmt::Display for UnsupportedGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}

/// Displays the first names and the number of the others.
pub struct Examples<'a> {
    shown: Vec<&'a str>,
    more: usize,
}

impl<'a> Examples<'a> {
    /// Takes the first of these names.
    pub fn of(names: impl IntoIterator<Item = &'a str>) -> Self {
        const SHOWN: usize = 3;
        let mut names = names.into_iter();
        let shown = names.by_ref().take(SHOWN).collect();
        Self { shown, more: names.count() }
    }
}

impl fmt::Display for Examples<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.shown.iter().enumerate() {
            write!(f, "{}{:?}", if number > 0 { ", " } else { "" }, Shortened(name))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use modelfmt_core::DType;

    use super::*;

    #[test]
    fn unsupported_items_that_differ_in_name_alone_are_one_line() {
        let why = "gguf's q4_k is not in mag";
        let blocks = |name: &str| Unsupported::tensor(name, why, Some(Remedy::Dequantize(DType::F32)));
        let mut unsupported: Vec<Unsupported> = ["a", "b", "c", "d", "e"].map(blocks).into();
        unsupported.insert(2, Unsupported::loss("metadata key", "k", "no"));
        unsupported.push(Unsupported::choice(Choice::Cast, DType::BF16, "mag has no bf16".to_owned(), None));
        let lines: Vec<String> = Unsupported::grouped(&unsupported).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                r#"5 tensors: gguf's q4_k is not in mag (dequantize to f32): "a", "b", "c" and 2 more"#,
                r#"metadata key "k": no (lossy)"#,
                "cast bf16: mag has no bf16",
            ]
        );
        assert_eq!(Unsupported::grouped(&unsupported)[0].unsupported().len(), 5);
    }
}
