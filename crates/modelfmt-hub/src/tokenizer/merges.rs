//! The merges of a BPE tokenizer.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::{HashMap, HashSet};

use modelfmt_value::{List, Value};

use super::error::{fault, quoted};
use super::vocabulary::{Kind, Vocabulary};
use crate::MapError;

/// The two tokens of a merge.
pub(super) type Merge = (String, String);

/// Reads the merges of a `tokenizer.json`: texts with a space in them, or pairs.
pub(super) fn of_list(file: &str, list: &List) -> Result<Vec<Merge>, MapError> {
    let bad = |number: usize| {
        fault(file, format!("merge {number} is neither two tokens with a space between nor a pair"))
    };
    let merge = |(number, value): (usize, Value)| {
        let pair = match &value {
            Value::String(text) => two(text),
            Value::Array(pair) => match pair.texts().unwrap_or_default()[..] {
                [first, second] => Some((first.to_owned(), second.to_owned())),
                _ => None,
            },
            _ => None,
        };
        pair.ok_or_else(|| bad(number))
    };
    list.iter().enumerate().map(merge).collect()
}

/// Reads the merges of a `merges.txt`: one per line, after a line that states the version.
pub(super) fn of_text(file: &str, text: &str) -> Result<Vec<Merge>, MapError> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(number, line)| !(line.is_empty() || *number == 0 && line.starts_with("#version")));
    let bad = |number: usize| fault(file, format!("line {} is not two tokens", number.saturating_add(1)));
    lines.map(|(number, line)| two(line).ok_or_else(|| bad(number))).collect()
}

fn two(text: &str) -> Option<Merge> {
    let (first, second) = text.split_once(' ')?;
    (!first.is_empty() && !second.is_empty() && !second.contains(' '))
        .then(|| (first.to_owned(), second.to_owned()))
}

/// Fails for a merge if one of its tokens, or the token that it makes, is not in the vocabulary.
pub(super) fn check(file: &str, merges: &[Merge], vocabulary: &Vocabulary) -> Result<(), MapError> {
    for (number, (first, second)) in merges.iter().enumerate() {
        let both = format!("{first}{second}");
        let missing = [first, second, &both].into_iter().find(|text| vocabulary.id(text).is_none());
        if let Some(text) = missing {
            return Err(fault(
                file,
                format!("merge {number} has the token {}, which the vocabulary has not", quoted(text)),
            ));
        }
    }
    Ok(())
}

/// Returns the merges in GGUF's form.
pub(super) fn lines(file: &str, merges: Vec<Merge>) -> Result<Vec<String>, MapError> {
    let line = |(number, (first, second)): (usize, Merge)| {
        // llama.cpp looks for the space from the second byte on.
        if first.get(1..).is_some_and(|rest| rest.contains(' ')) {
            let why =
                format!("merge {number} has a space in the token {}, and GGUF cannot say so", quoted(&first));
            return Err(fault(file, why));
        }
        Ok(format!("{first} {second}"))
    };
    merges.into_iter().enumerate().map(line).collect()
}

/// Gives each token that merges make a score that falls with the rank of its first merge. llama.cpp joins any
/// two neighbours that make a token, the one with the best score first. The result is the same if every such
/// pair is a merge.
pub(super) fn score(file: &str, merges: &[Merge], vocabulary: &mut Vocabulary) -> Result<(), MapError> {
    let mut ranks: HashMap<String, u32> = HashMap::with_capacity(merges.len());
    for (first, second) in merges {
        let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        ranks.entry(format!("{first}{second}")).or_insert(next);
    }
    let pairs: HashSet<(&str, &str)> =
        merges.iter().map(|(first, second)| (first.as_str(), second.as_str())).collect();
    let is_part = |text: &str| text.chars().nth(1).is_none() || ranks.contains_key(text);
    let normal = || vocabulary.iter().filter(|token| token.kind == Kind::Normal);
    if let Some((first, second)) = normal().find_map(|token| {
        unmerged(&token.text, |pair| !pairs.contains(&pair) && is_part(pair.0) && is_part(pair.1))
    }) {
        return Err(fault(
            file,
            format!(
                "{} and {} are not merged although they make a token, and llama.cpp would merge them; with its \
                 tokenizer.model the tokenizer can be written",
                quoted(first),
                quoted(second)
            ),
        ));
    }
    for token in vocabulary.iter_mut() {
        if let Some(rank) = ranks.get(&token.text) {
            token.score = -(*rank as f32);
        }
    }
    Ok(())
}

/// Returns the first two parts of a token that pass the test. A token that is too long to be split passes as
/// a whole.
fn unmerged(text: &str, test: impl Fn((&str, &str)) -> bool) -> Option<(&str, &str)> {
    /// No token of SentencePiece is that long, and the work grows with the square of the length.
    const MAX_LEN: usize = 256;
    if text.len() > MAX_LEN {
        return Some((text, ""));
    }
    let mut parts = text.char_indices().skip(1).filter_map(|(at, _)| text.split_at_checked(at));
    parts.find(|pair| test(*pair))
}
