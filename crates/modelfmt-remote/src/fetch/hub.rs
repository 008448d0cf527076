//! Lists the files of a Hugging Face repository.

use modelfmt_core::value::{Object, Value, json};

use super::context::Context;
use super::error::{FetchError, Result};
use super::selection;
use super::set::Member;
use crate::error::{Error, Fault};
use crate::url::{HfFile, Location};
use crate::web::{Page, hash_of_hex};

/// The maximum number of responses for a list, and of files in it.
const PAGES: usize = 100;
const MOST: usize = 100_000;
/// A list of files.
type Listing = std::result::Result<Vec<Listed>, Fault>;

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    /// The path in the repository.
    path: String,
    sha256: Option<[u8; 32]>,
}

/// Returns the files to fetch from a folder of a repository.
pub(super) async fn members(cx: &Context<'_>, at: &HfFile) -> Result<Vec<Member>> {
    let place = Location::Hf(at.clone());
    let failed = |fault| FetchError::Remote(Error::new(&place, fault));
    let listed = match tree(cx, at).await {
        // Some servers support only the older way to list files.
        Err(Fault::NotFound(_)) => siblings(cx, at).await.map_err(failed)?,
        listed => listed.map_err(failed)?,
    };
    let within = |file: Listed| {
        let name = file.path.strip_prefix(&at.file)?.to_owned();
        (!name.is_empty()).then_some(Member {
            name,
            places: vec![place.sibling(file.path.strip_prefix(&at.file)?)],
            sha256: file.sha256,
        })
    };
    selection::members(cx, &place, listed.into_iter().filter_map(within).collect())
}

/// Reads the list of files page by page.
async fn tree(cx: &Context<'_>, at: &HfFile) -> Listing {
    let web = cx.store.hub(at, |at, endpoint| {
        let mut url = at.tree(endpoint);
        url.set_query(Some("recursive=true"));
        url
    })?;
    let (mut files, mut next) = (Vec::new(), None);
    for _ in 0..PAGES {
        let permit = cx.store.request_permit().await;
        let Page { bytes, next: after } = web.page(next.take(), &cx.store.stall_limit()).await?;
        drop(permit);
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

/// Parses an entry of the paged list; `None` for a folder.
fn listed(file: &Object) -> std::result::Result<Option<Listed>, Fault> {
    if file.get("type").and_then(Value::as_str) == Some("directory") {
        return Ok(None);
    }
    let path = file.get("path").and_then(Value::as_str).ok_or(NO_LIST)?.to_owned();
    let sha256 = file.get("lfs").and_then(Value::as_object).and_then(|lfs| lfs.get("oid"));
    let sha256 = sha256.and_then(Value::as_str).and_then(hash_of_hex);
    Ok(Some(Listed { path, sha256 }))
}

/// Reads the list of files from the server's information about the repository.
async fn siblings(cx: &Context<'_>, at: &HfFile) -> Listing {
    let web = cx.store.hub(at, HfFile::info)?;
    let permit = cx.store.request_permit().await;
    let page = web.page(None, &cx.store.stall_limit()).await?;
    drop(permit);
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
