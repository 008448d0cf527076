//! The index of a set: `model.aeroset.json`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::source::SetPaths;
use modelfmt_core::value::{KeyError, Object, ParseOptions, Value, json};
use modelfmt_core::{CommonFault, Limits, Part};

use crate::chunks::malformed;
use crate::error::{Fault, Result};
use crate::hex::from_hex;
use crate::index::Index;

/// The number of the file that lists all tensors. The parts follow it.
pub(super) const HEAD: usize = 0;

/// The decoded index of a set.
#[derive(Clone, Debug)]
pub struct SetIndex {
    version: (u64, u64),
    model: Object,
    parts: Vec<SetPart>,
    global: SetFile,
    base_url: Option<String>,
    cache: Option<Value>,
    text_len: u64,
    /// The part of each shard, sorted by shard.
    shards: Vec<(u64, u32)>,
    /// The index of the file that lists all tensors, once that file is open.
    tensors: Option<Arc<Index>>,
}

/// A file of a set, as the set's index lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetFile {
    /// Its path, relative to the set's folder and always inside it.
    pub path: String,
    /// The SHA-256 of the file. `None` if the index does not have 64 hex digits, which `verify` reports.
    pub sha256: Option<[u8; 32]>,
    /// Its size according to the index.
    pub size: u64,
}

/// A part of a set: a file with shards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetPart {
    /// The file.
    pub file: SetFile,
    /// The numbers of its shards in the whole set.
    pub shards: Vec<u64>,
}

impl SetIndex {
    /// Parses the text of an index.
    ///
    /// # Errors
    /// If it is not JSON, is not an index of version 0.1 or 0.2, lacks a key, lists a file twice, or has a
    /// path that leads out of the set's folder.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        let depth = u32::try_from(limits.depth).unwrap_or(u32::MAX);
        let tree = json::parse_with(text, ParseOptions::new().with_max_depth(depth)).map_err(|error| {
            malformed(part(), error.offset().unwrap_or(0) as u64, CommonFault::Metadata(error.to_string()))
        })?;
        let Value::Object(tree) = tree else {
            return Err(fault(Fault::Set(format!("it is {} and not an object", tree.kind()))));
        };
        let list = tree.required_array("parts").map_err(|error| key(&error))?;
        Limits::check("the number of parts", list.len() as u64, limits.entries)?;
        let mut parts = Vec::with_capacity(list.len());
        let mut paths = SetPaths::default();
        for (number, value) in list.iter().enumerate() {
            parts.push(part_of(&value, &mut paths).map_err(|error| error.in_part(number))?);
        }
        let mut shards: Vec<(u64, u32)> = (0u32..)
            .zip(&parts)
            .flat_map(|(number, part)| part.shards.iter().map(move |&shard| (shard, number)))
            .collect();
        shards.sort_unstable();
        let global = tree.required_object("global_tidx").map_err(|error| key(&error))?;
        let global = file_of(global, &mut paths).map_err(|error| error.within("global_tidx"))?;
        Ok(Self {
            version: version_of(&tree)?,
            model: tree.optional_object("model").map_err(|error| key(&error))?.cloned().unwrap_or_default(),
            base_url: tree.optional_str("base_url").map_err(|error| key(&error))?.map(str::to_owned),
            cache: tree.get("cache").filter(|cache| !cache.is_null()).cloned(),
            text_len: text.len() as u64,
            parts,
            global,
            shards,
            tensors: None,
        })
    }

    /// Returns the major and minor version.
    #[must_use]
    pub const fn version(&self) -> (u64, u64) {
        self.version
    }

    /// Returns the `name` and `architecture` of the model.
    #[must_use]
    pub const fn model(&self) -> &Object {
        &self.model
    }

    /// Returns the parts.
    #[must_use]
    pub fn parts(&self) -> &[SetPart] {
        &self.parts
    }

    /// Returns the file that lists the tensors, usually `index.aero`.
    #[must_use]
    pub const fn global_tidx(&self) -> &SetFile {
        &self.global
    }

    /// Returns the URL prefix from which the files can be fetched. This crate never fetches anything
    /// (docs/formats/aero.md#opening-and-checking-a-set).
    #[must_use]
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// Returns the index's advice on caching fetched files.
    #[must_use]
    pub const fn cache(&self) -> Option<&Value> {
        self.cache.as_ref()
    }

    /// Returns the part that holds a shard: the first part that lists it.
    #[must_use]
    pub fn part_of_shard(&self, shard: u64) -> Option<usize> {
        let first = self.shards.partition_point(|&(other, _)| other < shard);
        self.shards.get(first).filter(|(other, _)| *other == shard).map(|&(_, part)| part as usize)
    }

    /// Returns the shards that are listed more than once, each with two of the parts that list it.
    pub(super) fn twice_listed(&self) -> impl Iterator<Item = (u64, u32, u32)> {
        let pairs = self.shards.iter().zip(self.shards.iter().skip(1));
        pairs.filter(|((a, _), (b, _))| a == b).map(|(&(shard, first), &(_, second))| (shard, first, second))
    }

    /// Returns all files except the index itself.
    pub(super) fn files(&self) -> impl Iterator<Item = &SetFile> {
        std::iter::once(&self.global).chain(self.parts.iter().map(|part| &part.file))
    }

    /// Returns the index of the file that lists all tensors, or `None` if the set's index was only parsed.
    #[must_use]
    pub const fn tensors(&self) -> Option<&Arc<Index>> {
        self.tensors.as_ref()
    }

    pub(super) fn set_tensors(&mut self, tensors: Arc<Index>) {
        self.tensors = Some(tensors);
    }

    /// Returns a file of the set as a `Part` for errors.
    pub(super) fn file_part(&self, number: usize) -> Part {
        Part::named("file of the set", self.file(number).map_or("", |file| &file.path))
    }

    /// Returns a file of the set by number. File 0 lists all tensors.
    pub(super) fn file(&self, number: usize) -> Option<&SetFile> {
        match number.checked_sub(1) {
            None => Some(self.global_tidx()),
            Some(part) => self.parts().get(part).map(|part| &part.file),
        }
    }

    /// Returns the `hash_b3` of a tensor in the global tensor index.
    pub(super) fn hash(&self, position: usize) -> Result<Option<[u8; 32]>> {
        let Some(index) = self.tensors() else { return Ok(None) };
        index.tensors.hash(position).map_err(|fault| {
            let name = index.tensors().info(position).map_or("", |info| info.name);
            malformed(Part::named("tensor", name).with_field("hash_b3"), 0, fault)
        })
    }

    pub(super) const fn text_len(&self) -> u64 {
        self.text_len
    }
}

fn part() -> Part {
    Part::new("index of the set")
}

fn fault(fault: Fault) -> crate::Error {
    malformed(part(), 0, fault)
}

fn key(error: &KeyError) -> crate::Error {
    fault(Fault::Set(error.to_string()))
}

/// Reads the version, which must be [0, 1] or [0, 2].
fn version_of(tree: &Object) -> Result<(u64, u64)> {
    let format = tree.required_object("format").map_err(|error| key(&error))?;
    let name = format.required_str("name").map_err(|error| key(&error.within("format")))?;
    if name != "AEROSET" {
        return Err(fault(Fault::Set(format!("format.name is {name:?} and not \"AEROSET\""))));
    }
    let version = format.required_array("version").map_err(|error| key(&error.within("format")))?;
    let numbers: Vec<_> = version.iter().take(3).map(|number| number.as_u64()).collect();
    match numbers[..] {
        [Some(0), Some(minor @ (1 | 2))] => Ok((0, minor)),
        _ => Err(fault(Fault::Set("format.version is not known; only [0, 1] and [0, 2] are".to_owned()))),
    }
}

/// The reason why a file's entry in the index is invalid.
enum FileFault {
    Key(KeyError),
    Other(Fault),
}

impl FileFault {
    fn in_part(self, number: usize) -> crate::Error {
        self.within(&format!("parts[{number}]"))
    }

    fn within(self, place: &str) -> crate::Error {
        match self {
            Self::Key(error) => key(&error.within(place)),
            Self::Other(other) => fault(other),
        }
    }
}

fn part_of(value: &Value, paths: &mut SetPaths) -> Result<SetPart, FileFault> {
    let Value::Object(object) = value else {
        return Err(FileFault::Other(Fault::Set(format!("a part is {} and not an object", value.kind()))));
    };
    let shards = object.required_array("shards").map_err(FileFault::Key)?;
    let number = |shard: Value| {
        let what = || Fault::Set(format!("a shard is {} and not its number", shard.kind()));
        shard.as_u64().ok_or_else(|| FileFault::Other(what()))
    };
    Ok(SetPart {
        file: file_of(object, paths)?,
        shards: shards.iter().map(number).collect::<Result<_, _>>()?,
    })
}

fn file_of(object: &Object, paths: &mut SetPaths) -> Result<SetFile, FileFault> {
    let path = object.required_str("path").map_err(FileFault::Key)?;
    // Refuses a set with a path that leads out of its folder.
    paths.add(path).map_err(|fault| FileFault::Other(Fault::Path { path: path.to_owned(), fault }))?;
    Ok(SetFile {
        path: path.to_owned(),
        // Hex digits of either case are accepted.
        sha256: object
            .required_str("sha256")
            .ok()
            .and_then(|text| from_hex(text.to_ascii_lowercase().as_bytes())),
        size: object.required_u64("size_bytes").map_err(FileFault::Key)?,
    })
}
