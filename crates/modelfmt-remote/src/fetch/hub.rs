//! The files of a repository of Hugging Face.

use std::collections::BTreeSet;

use modelfmt::model::Globs;
use modelfmt_core::value::{Object, Value, json};

use super::context::Context;
use super::error::{FetchError, Result};
use super::names;
use super::set::Member;
use crate::error::{Error, Fault};
use crate::url::{HfFile, Location};
use crate::web::{Page, hash_of_hex};

/// The most responses that a list may take, and the most files that it may have.
const PAGES: usize = 100;
const MOST: usize = 100_000;
/// Weights in forms that a repository has beside safetensors.
const OTHER_FORMS: [&str; 6] = [".bin", ".pth", ".pt", ".onnx", ".h5", ".msgpack"];

/// A list of files.
type Listing = std::result::Result<Vec<Listed>, Fault>;

/// A file of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    /// The path in the repository.
    path: String,
    sha256: Option<[u8; 32]>,
}

/// The files of a folder of a repository that are to be fetched.
pub(super) async fn members(cx: &Context<'_>, at: &HfFile) -> Result<Vec<Member>> {
    let place = Location::Hf(at.clone());
    let failed = |fault| FetchError::Remote(Error::new(&place, fault));
    let listed = match tree(cx, at).await {
        // Some servers have only the older way to list files.
        Err(Fault::NotFound(_)) => siblings(cx, at).await.map_err(failed)?,
        listed => listed.map_err(failed)?,
    };
    let within = |file: Listed| {
        let name = file.path.strip_prefix(&at.file)?.to_owned();
        (!name.is_empty()).then_some((name, file))
    };
    let listed: Vec<(String, Listed)> = listed.into_iter().filter_map(within).collect();
    names::check(&place.to_string(), listed.iter().map(|(name, _)| name.as_str()))?;
    let names: Vec<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
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
        return Err(failed(why));
    }
    let member = |number: &usize| {
        let (name, file) = listed.get(*number)?;
        let place = Location::Hf(HfFile { file: file.path.clone(), ..at.clone() });
        Some(Member { name: name.clone(), places: vec![place], sha256: file.sha256 })
    };
    Ok(chosen.iter().filter_map(member).collect())
}

/// The numbers of the files that are to be fetched, and of those that are left out because their weights are there in safetensors.
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
    // Weights in another form are the same only if the safetensors are in their folder, or in one above.
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

/// The list in pages.
async fn tree(cx: &Context<'_>, at: &HfFile) -> Listing {
    let web = cx.store.hub(at, |at, endpoint| {
        let mut url = at.tree(endpoint);
        url.set_query(Some("recursive=true"));
        url
    })?;
    let (mut files, mut next) = (Vec::new(), None);
    for _ in 0..PAGES {
        let turn = cx.store.turn().await;
        let Page { bytes, next: after } = cx.store.patience().watch(web.page(next.take())).await?;
        drop(turn);
        let list = json::parse(&bytes).ok();
        let list = list.as_ref().and_then(Value::as_array).ok_or(NO_LIST)?;
        for file in list {
            files.extend(file.as_object().ok_or(NO_LIST).and_then(listed)?);
        }
        if files.len() > MOST {
            break;
        }
        if let Some(commit) = web.commit() {
            cx.store.note_commit_of(at, commit);
        }
        next = after;
        if next.is_none() {
            return Ok(files);
        }
    }
    Err(Fault::TooManyFiles(MOST))
}

const NO_LIST: Fault = Fault::Answer("it is not a list of files");

/// A file of the list in pages; `None` for a folder.
fn listed(file: &Object) -> std::result::Result<Option<Listed>, Fault> {
    if file.get("type").and_then(Value::as_str) == Some("directory") {
        return Ok(None);
    }
    let path = file.get("path").and_then(Value::as_str).ok_or(NO_LIST)?.to_owned();
    let sha256 = file.get("lfs").and_then(Value::as_object).and_then(|lfs| lfs.get("oid"));
    let sha256 = sha256.and_then(Value::as_str).and_then(hash_of_hex);
    Ok(Some(Listed { path, sha256 }))
}

/// The list as a part of what the server says of the repository.
async fn siblings(cx: &Context<'_>, at: &HfFile) -> Listing {
    let web = cx.store.hub(at, HfFile::info)?;
    let turn = cx.store.turn().await;
    let page = cx.store.patience().watch(web.page(None)).await?;
    drop(turn);
    let info = json::parse(&page.bytes).ok();
    let info = info.as_ref().and_then(Value::as_object).ok_or(NO_LIST)?;
    let files =
        info.get("siblings").and_then(Value::as_array).filter(|files| files.len() <= MOST).ok_or(NO_LIST)?;
    let commit = info.get("sha").and_then(Value::as_str);
    if let Some(commit) =
        commit.filter(|text| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        cx.store.note_commit_of(at, commit);
    }
    let of_sibling = |file: &Value| {
        let file = file.as_object()?;
        let sha256 = file.get("lfs").and_then(Value::as_object).and_then(|lfs| lfs.get("sha256"));
        let sha256 = sha256.and_then(Value::as_str).and_then(hash_of_hex);
        Some(Listed { path: file.get("rfilename")?.as_str()?.to_owned(), sha256 })
    };
    files.iter().map(|file| of_sibling(&file).ok_or(NO_LIST)).collect()
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
        // What is not fetched stands for nothing, and neither does what is in a folder below.
        assert_eq!(names(&all, &[], &["*.safetensors"]).0, ["config.json", "m.bin", "onnx/m.onnx"]);
        assert_eq!(
            names(&["m.bin", "1_Dense/m.safetensors", "1_Dense/m.bin"], &[], &[]).0,
            ["m.bin", "1_Dense/m.safetensors"]
        );
    }
}
