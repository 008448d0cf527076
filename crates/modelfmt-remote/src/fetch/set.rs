//! Fetches several files: the files of a set, which its index names, of a split GGUF, or of a Hugging Face
//! repository.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use modelfmt::folder::probe;
use modelfmt::modelfmt_write::Overwrite;
use modelfmt_core::Fetch as _;
use modelfmt_core::value::{Value, json};
use modelfmt_write::{AtomicFile, Output as _, Sink as _};

use super::context::Context;
use super::error::{FetchError, Result};
use super::mirror::Mirrors;
use super::names::{self, ENDING};
use super::one_file;
use super::report::{CheckedBy, Fetched};
use super::target::in_folder;
use super::wanted::{Previous, Wanted, hash_of, stamp_of};
use crate::url::Location;
use crate::web::hash_of_hex;

/// The maximum length of the index of a set.
const MAX_INDEX: u64 = 64 << 20;

/// One of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The path in the folder.
    pub(super) name: String,
    pub(super) places: Vec<Location>,
    pub(super) sha256: Option<[u8; 32]>,
}

/// Returns the names of all files of the split GGUF that this name belongs to: `NAME-00001-of-00003.gguf`.
pub(super) fn split_of(name: &str) -> Option<Vec<String>> {
    let stem = name.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let parse = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok()).flatten();
    let (number, count) = (parse(number)?, parse(count)?);
    let is_one = (1..=count).contains(&number);
    is_one.then(|| (1..=count).map(|number| format!("{base}-{number:05}-of-{count:05}.gguf")).collect())
}

/// The index of a set: its bytes, and the files that it names.
pub(super) struct Index {
    name: String,
    bytes: Vec<u8>,
    members: Vec<Member>,
    checked_by: Option<CheckedBy>,
    requests: u64,
}

/// Reads a file that may be the index of a set, from the first URL that responds. `None` if it is not an
/// index.
pub(super) async fn index(cx: &Context<'_>, places: &[Location]) -> Result<Option<Index>> {
    let Some(name) = places.first().map(Location::file_name).filter(|name| may_be_index(name)) else {
        return Ok(None);
    };
    let before = cx.store.traffic().requests;
    let mirrors = Mirrors::open(cx, places, cx.store.options().front).await?;
    let is_json = |bytes: &[u8]| bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let mut all = mirrors.all.iter();
    let Some(mirror) = all.find(|mirror| mirror.size() <= MAX_INDEX && is_json(mirror.object.front())) else {
        return Ok(None);
    };
    let bytes = mirror.object.fetch(0..mirror.size()).await;
    let bytes = bytes.map_err(|error| match crate::error::Error::within(&error) {
        Some(error) => FetchError::Remote(error.clone()),
        None => FetchError::local(Path::new(&mirror.name))(error),
    })?;
    let bytes = bytes.to_vec();
    let local = |error| FetchError::local(Path::new("a temporary file"))(error);
    let mut file = tempfile::NamedTempFile::new().map_err(local)?;
    file.write_all(&bytes).map_err(local)?;
    let named = probe(file.path()).map_err(local)?.files;
    if named.is_empty() {
        return Ok(None);
    }
    let list = mirror.name.clone();
    names::check(&list, named.iter().map(String::as_str).chain([name.as_str()]))?;
    let hashes = hashes_in(&bytes);
    let member = |file: String| {
        let places = places.iter().map(|place| place.sibling(&file)).collect();
        Member { sha256: hashes.get(&file).copied(), places, name: file }
    };
    let members = named.into_iter().map(member).collect();
    let checked_by = match cx.pin(cx.judge(places)?, cx.options.pin, places)? {
        Some(pin) if blake3_tree::hash(&bytes) != pin => {
            let why = "the index does not have the hash of the pin";
            return Err(FetchError::Wrong { url: list.into(), why: why.into() });
        }
        Some(_) => Some(CheckedBy::B3),
        None => mirror.tag().map(|_| CheckedBy::Etag),
    };
    let requests = cx.store.traffic().requests.saturating_sub(before);
    Ok(Some(Index { name, bytes, members, checked_by, requests }))
}

fn may_be_index(name: &str) -> bool {
    name.ends_with(".json") || name.ends_with(".apr")
}

/// Returns the SHA-256s of files that an index states.
fn hashes_in(bytes: &[u8]) -> BTreeMap<String, [u8; 32]> {
    let Ok(index) = json::parse(bytes) else { return BTreeMap::new() };
    let lists = index.as_object().into_iter().flat_map(|object| object.iter().map(|(_, value)| value));
    let files = lists.filter_map(Value::as_array).flat_map(|list| list.iter());
    let hash = |file: &Value| {
        let file = file.as_object()?;
        Some((file.get("path")?.as_str()?.to_owned(), hash_of_hex(file.get("sha256")?.as_str()?)?))
    };
    files.filter_map(|file| hash(&file)).collect()
}

impl Index {
    /// Fetches the files of the set, and then writes the index, which completes the set.
    pub(super) async fn fetch(self, cx: &Context<'_>, folder: &Path) -> Result<Fetched> {
        let path = in_folder(folder, &self.name)?;
        let is_there = fs::symlink_metadata(&path).is_ok();
        let has_len = fs::metadata(&path).is_ok_and(|found| found.len() == self.bytes.len() as u64);
        let is_same = has_len && fs::read(&path).is_ok_and(|bytes| bytes == self.bytes);
        if is_there && !is_same && !cx.options.force {
            let why = "it exists and differs from the index at the URL; --force replaces it";
            return Err(FetchError::refused(&path, why));
        }
        let mut files = members(cx, folder, &self.name, &self.members).await?;
        let size = self.bytes.len() as u64;
        cx.add_to_total(size);
        cx.count_written(size)?;
        if !is_same {
            write(&path, &self.bytes).map_err(FetchError::local(&path))?;
        }
        done(folder, &self.name)?;
        let (kept, fetched) = if is_same { (size, 0) } else { (0, size) };
        let (checked_by, requests) = (self.checked_by, self.requests);
        files.push(Fetched { path, size, kept, fetched, checked_by, requests, ..Fetched::default() });
        Ok(Fetched::of_files(folder.to_owned(), files, cx.take_notes()))
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let file = AtomicFile::create(path, Overwrite::Replace)?;
    file.write_at(0, bytes)?;
    file.commit()
}

/// Fetches files into a folder, one after the other. Complete files are recorded until all are complete, so
/// that the same call can continue.
pub(super) async fn members(
    cx: &Context<'_>,
    folder: &Path,
    list: &str,
    members: &[Member],
) -> Result<Vec<Fetched>> {
    let mut record = Record::open(folder, list)?;
    let mut files = Vec::new();
    for member in members {
        let target = in_folder(folder, &member.name)?;
        // A file that was changed after it arrived belongs to somebody else.
        let is_unchanged = |previous: &&Previous| stamp_of(&target).is_ok_and(|now| now == previous.stamp);
        let previous = record.done.get(&member.name).filter(is_unchanged).cloned();
        let (places, sha256) = (member.places.clone(), member.sha256);
        let wanted = Wanted { places, target, pin: None, sha256, previous, is_in_folder: true };
        let (fetched, tag) = one_file::fetch(cx, &wanted).await?;
        let tag = tag.map(|tag| hash_of(&tag)).unwrap_or_default();
        let stamp = stamp_of(&wanted.target)?;
        record.add(&member.name, Previous { size: fetched.size, tag, stamp })?;
        files.push(fetched);
    }
    Ok(files)
}

/// Removes the record of complete files: all files are complete.
pub(super) fn done(folder: &Path, list: &str) -> Result<()> {
    let path = Record::path(folder, list);
    super::part::remove(&path).map_err(FetchError::local(&path))
}

/// The record of the complete files of a set, while others are incomplete.
struct Record {
    path: PathBuf,
    file: File,
    done: BTreeMap<String, Previous>,
}

impl Record {
    fn path(folder: &Path, list: &str) -> PathBuf {
        let name: String = hash_of(list).chars().take(16).collect();
        folder.join(format!(".{name}{ENDING}-set"))
    }

    fn open(folder: &Path, list: &str) -> Result<Self> {
        fs::create_dir_all(folder).map_err(FetchError::local(folder))?;
        let path = Self::path(folder, list);
        let local = || FetchError::local(&path);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(FetchError::refused(&path, "it is not a regular file"));
        }
        let text = fs::read(&path).unwrap_or_default();
        let done = String::from_utf8_lossy(&text).lines().filter_map(parse).collect();
        let file = OpenOptions::new().append(true).create(true).open(&path).map_err(local())?;
        Ok(Self { done, file, path: path.clone() })
    }

    fn add(&mut self, name: &str, previous: Previous) -> Result<()> {
        if self.done.get(name) == Some(&previous) {
            return Ok(());
        }
        let tag = if previous.tag.is_empty() { "-" } else { &previous.tag };
        let text = format!("{} {tag} {} {name}", previous.size, previous.stamp);
        let check = hash_of(&text);
        // If a kill has cut off a line, the next line must not be lost with it.
        let line = format!("\n{check} {text}\n");
        self.file.write_all(line.as_bytes()).map_err(FetchError::local(&self.path))?;
        self.done.insert(name.to_owned(), previous);
        Ok(())
    }
}

fn parse(line: &str) -> Option<(String, Previous)> {
    let (check, text) = line.split_once(' ')?;
    if hash_of(text) != check {
        return None;
    }
    let mut words = text.splitn(4, ' ');
    let (size, tag, stamp, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let tag = if tag == "-" { "" } else { tag };
    let previous = Previous { size: size.parse().ok()?, tag: tag.to_owned(), stamp: stamp.to_owned() };
    Some((name.to_owned(), previous))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_known_by_their_names() {
        let names = |count| (1..=count).map(|n| format!("a-{n:05}-of-{count:05}.gguf")).collect::<Vec<_>>();
        assert_eq!(split_of("a-00002-of-00003.gguf"), Some(names(3)));
        for none in [
            "a.gguf",
            "a-00004-of-00003.gguf",
            "a-00000-of-00003.gguf",
            "a-2-of-3.gguf",
            "a-00001-of-00003.safetensors",
        ] {
            assert_eq!(split_of(none), None, "{none}");
        }
    }

    #[test]
    fn complete_files_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let previous = |size, tag: &str| Previous { size, tag: tag.to_owned(), stamp: "1-2".to_owned() };
        let mut record = Record::open(folder.path(), "list").unwrap();
        record.add("a b", previous(5, "t")).unwrap();
        record.add("no tag", previous(6, "")).unwrap();
        record.file.write_all(b"abc cut").unwrap();
        record.add("c", previous(7, "x")).unwrap();
        let found = Record::open(folder.path(), "list").unwrap().done;
        assert_eq!(found.len(), 3);
        assert_eq!(
            (&found["a b"], &found["no tag"], &found["c"]),
            (&previous(5, "t"), &previous(6, ""), &previous(7, "x"))
        );
        assert!(Record::open(folder.path(), "other").unwrap().done.is_empty());
        done(folder.path(), "list").unwrap();
        assert!(Record::open(folder.path(), "list").unwrap().done.is_empty());
    }

    #[test]
    fn an_index_may_state_hashes() {
        let hash = "0a".repeat(32);
        let text = format!(
            "{{\"x\": 1, \"parts\": [{{\"path\": \"a\", \"sha256\": \"{hash}\"}}, {{\"path\": \"b\"}}]}}"
        );
        assert_eq!(hashes_in(text.as_bytes()), BTreeMap::from([("a".to_owned(), [10; 32])]));
        assert!(hashes_in(b"[]").is_empty() && hashes_in(b"{").is_empty());
    }
}
