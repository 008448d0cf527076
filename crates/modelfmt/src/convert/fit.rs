//! What does not fit a target, and what helps.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use modelfmt_core::Shortened;

/// Something of the source that the target cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// What kind of thing it is: `tensor`, `metadata key`, `chunk`; or the option that asks for what the target lacks.
    pub kind: Cow<'static, str>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Why it does not fit.
    pub why: String,
    /// The options that would resolve it, if any would.
    pub help: Option<Cow<'static, str>>,
}

impl Unsupported {
    /// Of an option.
    pub(super) fn option(option: String, why: String) -> Self {
        Self { kind: option.into(), name: None, why, help: None }
    }

    /// Of a tensor.
    pub(super) fn tensor(name: &str, why: impl Into<String>, help: Option<Cow<'static, str>>) -> Self {
        Self { kind: "tensor".into(), name: Some(name.to_owned()), why: why.into(), help }
    }

    /// Of tensors that share their bytes.
    pub(super) fn ties(why: String) -> Self {
        let help = Some("--allow-ties".into());
        Self { kind: "tensors over the same bytes".into(), name: None, why, help }
    }

    /// Of metadata, which `--lossy` drops.
    pub(crate) fn loss(kind: &'static str, name: &str, why: impl Into<String>) -> Self {
        let help = Some("--lossy".into());
        Self { kind: kind.into(), name: Some(name.to_owned()), why: why.into(), help }
    }

    /// What it is, with its name: `tensor "w"`.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {:?}", self.kind, Shortened(name)),
            None => self.kind.clone().into_owned(),
        }
    }

    /// Puts those together that differ in their name alone, in the order of the first of each.
    #[must_use]
    pub fn grouped(unsupported: &[Self]) -> Vec<UnsupportedGroup<'_>> {
        let mut groups: Vec<UnsupportedGroup<'_>> = Vec::new();
        let mut places = HashMap::new();
        for item in unsupported {
            let Self { kind, why, help, .. } = item;
            let place = *places.entry((kind, why, help)).or_insert(groups.len());
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
        write!(f, "{}: {}", self.what(), self.why)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

/// Items of one kind, for one reason, that the same options would resolve.
///
/// It prints in one line: `40 tensors: gguf's q4_k is not in mag (--dequantize f32): "a", "b", "c" and 37 more`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedGroup<'a> {
    /// At least one.
    unsupported: Vec<&'a Unsupported>,
}

impl<'a> UnsupportedGroup<'a> {
    /// The items, in the order in which they were found.
    #[must_use]
    pub fn unsupported(&self) -> &[&'a Unsupported] {
        &self.unsupported
    }
}

impl fmt::Display for UnsupportedGroup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.unsupported.split_first() else { return Ok(()) };
        if rest.is_empty() {
            return first.fmt(f);
        }
        write!(f, "{} {}s: {}", self.unsupported.len(), first.kind, first.why)?;
        if let Some(help) = &first.help {
            write!(f, " ({help})")?;
        }
        let names = self.unsupported.iter().filter_map(|item| item.name.as_deref());
        write!(f, ": {}", Examples::of(names))
    }
}

/// Prints the first names and how many more there are.
pub(super) struct Examples<'a> {
    shown: Vec<&'a str>,
    more: usize,
}

impl<'a> Examples<'a> {
    pub(super) fn of(names: impl IntoIterator<Item = &'a str>) -> Self {
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
    use super::*;

    #[test]
    fn unsupported_items_that_differ_in_name_alone_are_one_line() {
        let why = "gguf's q4_k is not in mag";
        let blocks = |name: &str| Unsupported::tensor(name, why, Some("--dequantize f32".into()));
        let mut unsupported: Vec<Unsupported> = ["a", "b", "c", "d", "e"].map(blocks).into();
        unsupported.insert(2, Unsupported::loss("metadata key", "k", "no"));
        unsupported.push(Unsupported::option("--cast bf16".to_owned(), "mag has no bf16".to_owned()));
        let lines: Vec<String> = Unsupported::grouped(&unsupported).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                r#"5 tensors: gguf's q4_k is not in mag (--dequantize f32): "a", "b", "c" and 2 more"#,
                r#"metadata key "k": no (--lossy)"#,
                "--cast bf16: mag has no bf16",
            ]
        );
        assert_eq!(Unsupported::grouped(&unsupported)[0].unsupported().len(), 5);
    }
}
