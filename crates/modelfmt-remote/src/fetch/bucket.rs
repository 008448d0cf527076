//! Lists the files in a folder of a bucket, including those in subfolders.

use super::context::Context;
use super::error::{FetchError, Result};
use super::selection;
use super::set::Member;
use crate::error::{Error, Fault};
use crate::url::Location;

/// The maximum number of folders that are listed, and of files in all of them.
const FOLDERS: usize = 1000;
const MOST: usize = 100_000;

/// Returns the files to fetch.
pub(super) async fn members(cx: &Context<'_>, place: &Location) -> Result<Vec<Member>> {
    let (mut listed, mut folders, mut next) = (Vec::new(), vec![String::new()], 0);
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let at = if folder.is_empty() { place.clone() } else { place.sibling(&folder) };
        for name in cx.store.list(&at).await? {
            let name = format!("{folder}{name}");
            match name.ends_with('/') {
                true => folders.push(name),
                false => {
                    listed.push(Member { places: vec![place.sibling(&name)], name, sha256: None });
                }
            }
        }
        if listed.len() > MOST || folders.len() > FOLDERS {
            return Err(FetchError::Remote(Error::new(place, Fault::TooManyFiles(MOST))));
        }
    }
    selection::members(cx, place, listed)
}
