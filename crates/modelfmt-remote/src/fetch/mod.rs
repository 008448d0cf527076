//! Gets files from URLs, goes on after a stop, and repairs damaged copies.
//!
//! What the target has already and is right stays. It is found out by the best that is known:
//!
//! | known | what is checked | if a part is wrong |
//! | --- | --- | --- |
//! | a BLAKE3 hash, and an outboard beside the file | pieces of 16 KiB | it is fetched and written in place |
//! | a hash of the whole file alone | the file | the file is fetched anew, and then replaces the wrong one |
//! | hashes in the file | chunks, tensors and pages | they are fetched, checked and written in place |
//! | an entity tag | which ranges came, of an interrupted fetch | |
//!
//! A new file is written to `.NAME.modelfmt-fetch` beside its target, and gets its name when it is complete and right. The same
//! call goes on with it after a stop, even if the process was killed. Into an existing file only bytes are written that were
//! checked, so a stop leaves nothing worse.
//!
//! Several URLs are mirrors of one file. With an outboard, each piece may come from any of them. One that sends wrong bytes, that is
//! much slower than another, or that no longer answers is named in [`Fetched::notes`]. Without an outboard, all bytes come from one
//! of them, and from another only if that fails, from the beginning.
//!
//! The URL of an index fetches its set, the URL of a file of a split of GGUF the split, `hf://OWNER/REPO` a repository,
//! and `s3://BUCKET/FOLDER/` a folder of a bucket with the folders in it. Names in
//! lists are checked: none leaves the target folder.
//!
//! Files of this machine are read and written by the thread that polls the future.
//!
//! ```no_run
//! use modelfmt_remote::fetch::{FetchOptions, fetch};
//! use modelfmt_remote::{Options, Store};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::new(Options::new());
//! let urls = ["https://example.org/m.gguf".parse()?, "s3://mirror/m.gguf".parse()?];
//! let hash = [7; 32]; // from a source that you trust
//! let done = fetch(&store, &urls, "m.gguf", &FetchOptions::new().pin(hash)).await?;
//! println!("{} bytes were there, {} came", done.kept, done.fetched);
//! # Ok(())
//! # }
//! ```

mod bucket;
mod context;
mod engine;
mod error;
mod hub;
mod intake;
mod local;
mod mirror;
mod names;
mod options;
mod outboard;
mod own;
mod part;
mod plan;
mod report;
mod selection;
mod set;
mod single;
mod stream;
mod target;
mod wanted;
mod whole;

use std::path::Path;

pub use self::error::FetchError;
pub use self::options::{FetchOptions, OnProgress};
pub use self::report::{CheckedBy, FetchProgress, FetchSource, Fetched};

use self::context::Context;
use self::error::Result;
use self::set::Member;
use self::wanted::Wanted;
use crate::error::{A_FOLDER, Error};
use crate::store::Store;
use crate::url::Location;

/// Fetches a file, a set or a repository.
///
/// `urls` are mirrors of one file. `out` is the path of the file. If it is a folder or ends with `/`, the file goes into it under
/// its own name. For a set or a repository, it is the folder.
///
/// # Errors
/// [`FetchError`]. Whatever is complete and right by then stays, and the same call goes on.
pub async fn fetch(
    store: &Store,
    urls: &[Location],
    out: impl AsRef<Path>,
    options: &FetchOptions<'_>,
) -> Result<Fetched> {
    let (cx, out) = (Context::new(store, options), out.as_ref());
    let Some(first) = urls.first() else {
        return Err(FetchError::Usage("there is no URL to fetch from".into()));
    };
    let is_listed = |url: &&Location| matches!(url, Location::Hf(_) | Location::Bucket(_)) && url.is_folder();
    if let Some(place) = urls.iter().find(is_listed) {
        let list = first.to_string();
        if urls.len() > 1 {
            return Err(FetchError::Usage(format!("{list}: a folder has no mirrors; name one URL").into()));
        }
        no_pin(options, &list)?;
        let members = match place {
            Location::Hf(at) => hub::members(&cx, at).await?,
            place => bucket::members(&cx, place).await?,
        };
        return several(&cx, out, &list, &members).await;
    }
    if let Some(folder) = urls.iter().find(|url| url.is_folder()) {
        return Err(Error::new(folder, A_FOLDER).into());
    }
    if !(options.include.is_empty() && options.exclude.is_empty()) {
        let why = "include and exclude are for the files of a folder: hf://OWNER/REPO, s3://BUCKET/FOLDER/";
        return Err(FetchError::Usage(why.into()));
    }
    let name = first.file_name();
    if let Some(files) = set::split_of(&name) {
        no_pin(options, &first.to_string())?;
        names::check(&first.to_string(), files.iter().map(String::as_str))?;
        let places = |file: &String| urls.iter().map(|url| url.sibling(file)).collect();
        let member = |file: &String| Member { places: places(file), name: file.clone(), sha256: None };
        let members: Vec<Member> = files.iter().map(member).collect();
        return several(&cx, out, &name, &members).await;
    }
    if let Some(index) = set::index(&cx, urls).await? {
        if out.is_file() {
            let why = "it is a file, and the URL is the index of several files; name a folder";
            return Err(FetchError::refused(out, why));
        }
        return index.fetch(&cx, out).await;
    }
    let is_in_folder = target::is_folder(out);
    if let Some(other) =
        urls.iter().find(|url| is_in_folder && options.pin.is_none() && url.file_name() != name)
    {
        let why = format!(
            "{first} and {other} have other names: several URLs are mirrors of one file; fetch each by itself, or name the file to write"
        );
        return Err(FetchError::Usage(why.into()));
    }
    let target = if is_in_folder { target::in_folder(out, &name)? } else { out.to_owned() };
    let wanted =
        Wanted { places: urls.to_vec(), target, pin: options.pin, sha256: None, before: None, is_in_folder };
    let (mut fetched, _) = single::fetch(&cx, &wanted).await?;
    fetched.notes = cx.take_notes();
    Ok(fetched)
}

fn no_pin(options: &FetchOptions<'_>, list: &str) -> Result<()> {
    match options.pin {
        Some(_) => {
            Err(FetchError::Usage(format!("{list}: a pin is of one file, and this is several").into()))
        }
        None => Ok(()),
    }
}

/// Fetches several files without an index.
async fn several(cx: &Context<'_>, out: &Path, list: &str, members: &[Member]) -> Result<Fetched> {
    if out.is_file() {
        return Err(FetchError::refused(out, "it is a file, and the URL is of several files; name a folder"));
    }
    let files = set::members(cx, out, list, members).await?;
    set::done(out, list)?;
    Ok(Fetched::of_files(out.to_owned(), files, cx.take_notes()))
}
