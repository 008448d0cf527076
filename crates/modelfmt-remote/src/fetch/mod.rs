//! Gets files from URLs, continues a fetch that was stopped, and repairs damaged copies.
//!
//! Correct parts of an existing target are kept. The strongest information that is available decides which
//! parts are correct:
//!
//! | known | what is checked | if a part is wrong |
//! | --- | --- | --- |
//! | a BLAKE3 hash, and an outboard next to the file | pieces of 16 KiB | fetched and written in place |
//! | only a hash of the whole file | the file | fetched again as a whole, to replace the wrong file |
//! | hashes in the file | chunks, tensors and pages | fetched, checked and written in place |
//! | an entity tag | which ranges of an interrupted fetch have arrived | |
//!
//! A new file is written to `.NAME.modelfmt-fetch` next to its target, and gets its name when it is complete
//! and correct. After a stop, the same call continues, even if the process was killed. Only checked bytes are
//! written into an existing file, so a stop makes nothing worse.
//!
//! Several URLs are mirrors of one file. With an outboard, each piece may come from any of them. A mirror
//! that sends wrong bytes, is much slower than another mirror, or no longer responds is named in
//! [`Fetched::notes`]. Without an outboard, all bytes come from one mirror; if it fails, another mirror is
//! used from the beginning.
//!
//! The URL of an index fetches its set, the URL of a file of a split GGUF fetches the whole split,
//! `hf://OWNER/REPO` fetches a repository, and `s3://BUCKET/FOLDER/` fetches a folder of a bucket with its
//! subfolders. Names in lists are checked: none can lead out of the target folder.
//!
//! Local files are read and written by the thread that polls the future.
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
mod one_file;
mod options;
mod outboard;
mod own_hashes;
mod part;
mod plan;
mod report;
mod selection;
mod set;
mod stream;
mod target;
mod unproved;
mod wanted;

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
/// `urls` are mirrors of one file. `out` is the path of the file. If it is a folder or ends with `/`, the
/// file keeps its own name in this folder. For a set or a repository, `out` is the folder.
///
/// # Errors
/// [`FetchError`]. Everything that is complete and correct by then is kept, and the same call continues the
/// fetch.
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
    let wanted = Wanted {
        places: urls.to_vec(),
        target,
        pin: options.pin,
        sha256: None,
        previous: None,
        is_in_folder,
    };
    let (mut fetched, _) = one_file::fetch(&cx, &wanted).await?;
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
