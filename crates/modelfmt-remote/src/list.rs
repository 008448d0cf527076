//! Lists the files in a folder, if the server can.

use object_store::list::PaginatedListOptions;

use modelfmt_core::value::{Object, Value, json};

use crate::bucket::fault_of;
use crate::error::{Error, Fault, Result};
use crate::store::Store;
use crate::url::{Bucket, HfFile, Location};
use crate::web::Page;

/// The maximum number of files of a folder that are listed.
const MOST: usize = 10_000;
/// The maximum number of responses for a list.
const PAGES: usize = 100;
/// The fault for a server that cannot list files.
const UNLISTED: Fault = Fault::Folder(
    "it is a folder, and a web server does not say which files are in it; name the file, or the index of a set",
);

impl Store {
    /// Returns the names of the files in a folder, in order; names of subfolders end with `/`. Buckets and
    /// Hugging Face can list files, web servers cannot.
    ///
    /// # Errors
    /// [`Fault::Folder`] if the server cannot list files, [`Fault::TooManyFiles`] if there are more than
    /// 10,000 files; otherwise the errors of [`open`](Self::open).
    pub async fn list(&self, folder: &Location) -> Result<Vec<String>> {
        let folder = folder.as_folder();
        let listed = match &folder {
            Location::Bucket(at) => self.list_bucket(at).await,
            Location::Hf(at) => self.list_repository(at).await,
            Location::Web(_) => Err(UNLISTED),
            Location::File(_) => Err(Fault::Local),
        };
        let mut names = listed.map_err(|fault| Error::new(&folder, fault))?;
        names.sort_unstable();
        Ok(names)
    }

    async fn list_bucket(&self, at: &Bucket) -> Result<Vec<String>, Fault> {
        let store = self.listable(at)?;
        let mut names = Vec::new();
        let mut page_token = None;
        for _ in 0..PAGES {
            let _permit = self.request_permit().await;
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = store.list_paginated(Some(&at.key), options);
            let page =
                self.stall_limit().watch(async { page.await.map_err(|error| fault_of(&error)) }).await?;
            let within =
                |path: &str| Some(path.strip_prefix(&at.key)?.to_owned()).filter(|name| !name.is_empty());
            let files = page.result.objects.iter().filter_map(|object| within(object.location.as_ref()));
            let folders = page.result.common_prefixes.iter().filter_map(|path| within(path.as_ref()));
            names.extend(files.chain(folders.map(|name| name + "/")));
            page_token = page.page_token;
            if page_token.is_none() && names.len() <= MOST {
                return Ok(names);
            }
            if names.len() > MOST {
                break;
            }
        }
        Err(Fault::TooManyFiles(MOST))
    }

    async fn list_repository(&self, at: &HfFile) -> Result<Vec<String>, Fault> {
        let web = self.hub(at, HfFile::tree)?;
        let (mut names, mut next) = (Vec::new(), None);
        for _ in 0..PAGES {
            let _permit = self.request_permit().await;
            let Page { bytes, next: after } = web.page(next.take(), &self.stall_limit()).await?;
            let unknown = || Fault::Answer("it is not a list of files");
            let files = json::parse(&bytes).ok().as_ref().and_then(Value::as_array).map(|files| {
                files.iter().filter_map(|file| name_of(file.as_object()?, &at.file)).collect::<Vec<_>>()
            });
            names.extend(files.ok_or_else(unknown)?);
            next = after;
            if next.is_none() && names.len() <= MOST {
                return Ok(names);
            }
            if names.len() > MOST {
                break;
            }
        }
        Err(Fault::TooManyFiles(MOST))
    }
}

/// Returns the name in `folder` of a file or folder that Hugging Face lists by its path in the repository.
fn name_of(file: &Object, folder: &str) -> Option<String> {
    let name = file.get("path")?.as_str()?.strip_prefix(folder)?.to_owned();
    let is_folder = file.get("type").and_then(Value::as_str) == Some("directory");
    Some(if is_folder { name + "/" } else { name })
}
