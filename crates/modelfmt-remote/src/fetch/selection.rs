//! Selects the files of a listed folder that are fetched.

use std::collections::BTreeSet;

use modelfmt::model::Globs;

use super::context::Context;
use super::error::{FetchError, Result};
use super::names;
use super::set::Member;
use crate::error::{Error, Fault};
use crate::url::Location;

/// The extensions of weights that a repository may have in addition to safetensors.
const OTHER_FORMS: [&str; 6] = [".bin", ".pth", ".pt", ".onnx", ".h5", ".msgpack"];

/// Selects the files to fetch from the listed files of a folder.
pub(super) fn members(cx: &Context<'_>, place: &Location, listed: Vec<Member>) -> Result<Vec<Member>> {
    let names: Vec<&str> = listed.iter().map(|member| &*member.name).collect();
    names::check(&place.to_string(), names.iter().copied())?;
    let (chosen, skipped) = chosen(&names, &cx.options.include, &cx.options.exclude)?;
    if !skipped.is_empty() {
        let first: Vec<&str> =
            skipped.iter().map(|number| names.get(*number).copied().unwrap_or_default()).take(3).collect();
        cx.note(format!(
            "{place}: {} files with weights in other forms than safetensors are left out ({}{}); --include GLOB fetches them",
            skipped.len(),
            first.join(", "),
            if skipped.len() > first.len() { ", …" } else { "" }
        ));
    }
    if chosen.is_empty() {
        let why = if names.is_empty() {
            Fault::NotFound(404)
        } else {
            Fault::Folder("no file in it is to be fetched")
        };
        return Err(FetchError::Remote(Error::new(place, why)));
    }
    let chosen: BTreeSet<usize> = chosen.into_iter().collect();
    let listed = listed.into_iter().enumerate().filter(|(number, _)| chosen.contains(number));
    Ok(listed.map(|(_, member)| member).collect())
}

/// Returns the numbers of the files to fetch, and of the files that are left out because their weights exist
/// as safetensors.
fn chosen(names: &[&str], include: &[String], exclude: &[String]) -> Result<(Vec<usize>, Vec<usize>)> {
    let globs = |patterns: &[String]| {
        Globs::new(patterns.iter().cloned()).map_err(|error| FetchError::Usage(error.to_string().into()))
    };
    let (included, excluded) = (globs(include)?, globs(exclude)?);
    let is_hidden = |name: &str| name.split('/').any(|component| component.starts_with('.'));
    let is_asked_for = |name: &str| {
        let is_included = if include.is_empty() { !is_hidden(name) } else { included.is_match(name) };
        is_included && !excluded.is_match(name)
    };
    // Weights in another format are the same only if the safetensors are in the same folder, or in a folder
    // above it.
    let folder = |name: &str| name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let safetensors = names.iter().filter(|name| name.ends_with(".safetensors") && is_asked_for(name));
    let safetensors: BTreeSet<String> = safetensors.map(|name| folder(name)).collect();
    let has_safetensors = |name: &str| {
        let above = name.match_indices('/').filter_map(|(at, _)| name.get(..=at));
        std::iter::once("").chain(above).any(|folder| safetensors.contains(folder))
    };
    let is_other = |name: &str| OTHER_FORMS.iter().any(|ending| name.ends_with(ending));
    let (mut chosen, mut skipped) = (Vec::new(), Vec::new());
    for (number, name) in names.iter().enumerate() {
        if !is_asked_for(name) {
            continue;
        }
        if include.is_empty() && is_other(name) && has_safetensors(name) {
            skipped.push(number);
        } else {
            chosen.push(number);
        }
    }
    Ok((chosen, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str], include: &[&str], exclude: &[&str]) -> (Vec<String>, usize) {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (chosen, skipped) = chosen(names, &owned(include), &owned(exclude)).unwrap();
        (chosen.iter().map(|number| names[*number].to_owned()).collect(), skipped.len())
    }

    #[test]
    fn weights_come_in_one_form() {
        let all = [".gitattributes", "config.json", "m.safetensors", "m.bin", "onnx/m.onnx", "a/.b/c"];
        assert_eq!(names(&all, &[], &[]), (vec!["config.json".to_owned(), "m.safetensors".to_owned()], 2));
        assert_eq!(names(&["config.json", "m.bin"], &[], &[]).0, ["config.json", "m.bin"]);
        assert_eq!(
            names(&all, &["*.bin", ".git*"], &[]),
            (vec![".gitattributes".to_owned(), "m.bin".to_owned()], 0)
        );
        assert_eq!(names(&all, &[], &["*.json"]).0, ["m.safetensors"]);
        assert!(chosen(&[], &["[".to_owned()], &[]).is_err());
        // Safetensors that are excluded, or are in a subfolder, do not make other weights redundant.
        assert_eq!(names(&all, &[], &["*.safetensors"]).0, ["config.json", "m.bin", "onnx/m.onnx"]);
        assert_eq!(
            names(&["m.bin", "1_Dense/m.safetensors", "1_Dense/m.bin"], &[], &[]).0,
            ["m.bin", "1_Dense/m.safetensors"]
        );
    }
}
