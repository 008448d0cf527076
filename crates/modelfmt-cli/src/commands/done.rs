//! Lists of the models of a folder that are done, so that they are not done again.
//!
//! Each line is a JSON object: the model (`input`), the kind of work and its options (`options`), and the
//! size and modification time of each file (`files`). If all of these are unchanged, the model is skipped.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use modelfmt::value::json;
use modelfmt::{Object, Value};

use crate::failure::{Failure, Result};

/// A list in a file, to which lines are appended.
#[derive(Debug)]
pub(super) struct DoneList {
    path: PathBuf,
    /// The last line about each model, by its name.
    entries: HashMap<String, Value>,
}

impl DoneList {
    /// Reads the list in a file, which need not exist. A line that cannot be read is ignored, and its model is done again.
    pub(super) fn read(path: PathBuf) -> Self {
        const MAX_LEN: u64 = 256 << 20;
        let mut text = String::new();
        let read = File::open(&path).and_then(|list| list.take(MAX_LEN).read_to_string(&mut text));
        let lines = read.map_or("", |_| &*text).lines();
        let entry = |line: &str| {
            let entry = Value::Object(json::parse_object(line.as_bytes()).ok()?);
            Some((entry.get("input")?.as_str()?.to_owned(), entry))
        };
        Self { path, entries: lines.filter_map(entry).collect() }
    }

    /// Makes an empty list, without reading the file.
    pub(super) fn unread(path: PathBuf) -> Self {
        Self { path, entries: HashMap::new() }
    }

    /// Returns the entry of a model if it was done with the same options and its files are unchanged.
    pub(super) fn find(&self, input: &str, job: &Object) -> Option<&Value> {
        let entry = self.entries.get(input)?;
        let is_same = entry.get("options") == job.get("options") && entry.get("files") == job.get("files");
        (is_same && job.get("files").is_some_and(is_known)).then_some(entry)
    }

    /// Adds a line.
    pub(super) fn add(&self, input: &str, mut job: Object) -> Result {
        job.insert("input", input);
        let line = json::to_string(&Value::Object(job)).unwrap_or_default();
        let written = OpenOptions::new().create(true).append(true).open(&self.path);
        let written = written.and_then(|mut list| list.write_all(format!("{line}\n").as_bytes()));
        written.map_err(|source| Failure::Job(modelfmt::Error::Write { path: self.path.clone(), source }))
    }
}

/// Returns the job of a model: the work that `how` describes, with these files.
pub(super) fn job(how: &str, files: impl Iterator<Item = PathBuf>) -> Object {
    let how = blake3::hash(
        format!("{} {how} {}", env!("CARGO_PKG_VERSION"), crate::policy::fingerprint()).as_bytes(),
    );
    Object::from_iter([("options", Value::from(how.to_hex().to_string())), ("files", states(files))])
}

/// Returns path, size and modification time of files; null for a file whose state is unknown.
pub(super) fn states(paths: impl Iterator<Item = PathBuf>) -> Value {
    let state = |path: PathBuf| -> Option<Object> {
        let metadata = path.metadata().ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
        let path = path.to_str()?;
        let entry = [("path", Value::from(path)), ("size", metadata.len().into())];
        let mut entry = Object::from_iter(entry);
        entry.insert("modified", modified.to_string());
        Some(entry)
    };
    paths.map(|path| state(path).map_or(Value::Null, Value::Object)).collect()
}

/// Checks whether the state of every file is known.
pub(super) fn is_known(states: &Value) -> bool {
    states.as_array().is_some_and(|files| files.iter().all(|file| file.as_object().is_some()))
}
