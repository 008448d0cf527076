//! The JSON manifest: the shards, and the shard of each tensor.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::CommonFault;
use modelfmt_core::source::SetPaths;
use modelfmt_core::value::{KeyError, Object, ParseOptions, Value, json};
use modelfmt_core::{Limits, Part, author::NameTable};

use crate::error::{Error, Fault, Result, malformed};

/// The content of a manifest: the shards, and the tensors in the order of its `tensor_shard_map`.
#[derive(Clone, Debug)]
pub struct SetIndex {
    apr_version: Option<String>,
    shards: Vec<Entry>,
    names: NameTable,
    /// For each tensor, the number of its shard.
    shard_of: Vec<u32>,
    len: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    file: String,
    size: u64,
    crc32: Option<u32>,
}

/// The manifest's description of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard<'a> {
    /// The path, relative to the manifest's folder and always inside it.
    pub path: &'a str,
    /// The size of the file in bytes.
    pub size: u64,
    /// The CRC-32 of the whole file, or `None` if the manifest has anything but 8 lower-case hex digits.
    ///
    /// A shard ends in its own CRC, so this number depends only on the shard's length. Like the shard's own
    /// CRC, it detects damage. It does not detect that the shard was replaced by another intact shard of the
    /// same length; the tensors of the shard do.
    pub crc32: Option<u32>,
}

impl SetIndex {
    /// Parses the JSON text of a manifest. Skips keys that the specification does not name.
    ///
    /// # Errors
    /// If the text is not JSON, lacks a key, names a tensor or a file twice, maps a tensor to a shard that it does not list, or
    /// has a path that leads out of its folder.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self> {
        Self::parse_with(text, limits, |_, _| Ok(()))
    }

    /// Does the same as [`parse`](Self::parse), and calls `also` with the manifest and the number of its
    /// shards before reading the map of tensors.
    pub(crate) fn parse_with(
        text: &[u8],
        limits: &Limits,
        also: impl FnOnce(&Object, usize) -> Result<()>,
    ) -> Result<Self> {
        Limits::check("the length of the manifest", text.len() as u64, limits.index_len)?;
        let depth = u32::try_from(limits.depth).unwrap_or(u32::MAX);
        let tree = json::parse_with(text, ParseOptions::new().with_max_depth(depth));
        let tree = tree
            .map_err(|error| bad(error.offset().unwrap_or(0) as u64, format!("is not good JSON: {error}")))?;
        let Value::Object(object) = &tree else {
            return Err(bad(0, format!("expected a JSON object, found {}", tree.kind())));
        };
        if !object.required_bool("sharded").map_err(key)? {
            return Err(bad(0, "key `sharded` is false: this is not a manifest".to_owned()));
        }
        let mut manifest = Self {
            apr_version: object.optional_str("apr_version").map_err(key)?.map(str::to_owned),
            shards: shards(object, limits)?,
            names: NameTable::default(),
            shard_of: Vec::new(),
            len: text.len() as u64,
        };
        also(object, manifest.shards.len())?;
        let map = object.required_object("tensor_shard_map").map_err(key)?;
        Limits::check("the number of tensors", map.len() as u64, limits.tensors)?;
        for (name, shard) in map {
            manifest.list(name, shard, limits)?;
        }
        Ok(manifest)
    }

    /// Adds a tensor that a shard lists but the manifest does not.
    pub(crate) fn found_in(&mut self, name: &str, shard: u32) -> Result<(), CommonFault> {
        self.names.push(name)?;
        self.shard_of.push(shard);
        Ok(())
    }

    fn list(&mut self, name: &str, shard: &Value, limits: &Limits) -> Result<()> {
        Limits::check("the length of a name", name.len() as u64, limits.name_len)?;
        let part = || Part::entry("tensor_shard_map", self.names.len() as u64).with_name(name);
        let expected =
            || key(KeyError::new(name, "the number of a shard", Some(shard)).within("tensor_shard_map"));
        let shard = shard.as_u64().ok_or_else(expected)?;
        let shards = self.shards.len() as u64;
        let number = u32::try_from(shard).ok().filter(|_| shard < shards);
        let number = number.ok_or_else(|| malformed(part(), 0, Fault::NoSuchShard { shard, shards }))?;
        let refused = part();
        self.names.push(name).map_err(|error| malformed(refused, 0, CommonFault::from(error)))?;
        self.shard_of.push(number);
        Ok(())
    }

    /// Returns the version that the manifest states, such as `2.0.0`.
    #[must_use]
    pub fn apr_version(&self) -> Option<&str> {
        self.apr_version.as_deref()
    }

    /// Returns the names of the tensors, in order.
    #[must_use]
    pub const fn names(&self) -> &NameTable {
        &self.names
    }

    /// Returns the number of the shard that has the tensor at a position.
    #[must_use]
    pub fn shard_of(&self, position: usize) -> Option<usize> {
        self.shard_of.get(position).map(|&number| number as usize)
    }

    /// Returns the shards, in order.
    pub fn shards(&self) -> impl ExactSizeIterator<Item = Shard<'_>> {
        self.shards.iter().map(Entry::shard)
    }

    /// Returns the shard with this number, counted from 0.
    #[must_use]
    pub fn shard(&self, number: usize) -> Option<Shard<'_>> {
        self.shards.get(number).map(Entry::shard)
    }

    /// Returns the length of the manifest's text in bytes.
    #[must_use]
    pub const fn text_len(&self) -> u64 {
        self.len
    }
}

impl Entry {
    fn shard(&self) -> Shard<'_> {
        Shard { path: &self.file, size: self.size, crc32: self.crc32 }
    }
}

fn shards(object: &Object, limits: &Limits) -> Result<Vec<Entry>> {
    let list = object.required_array("shards").map_err(key)?;
    let (stated, listed) = (object.required_u64("shard_count").map_err(key)?, list.len() as u64);
    if stated != listed {
        return Err(malformed(
            Part::new("manifest").with_field("shard_count"),
            0,
            Fault::ShardCount { stated, listed },
        ));
    }
    if list.is_empty() {
        return Err(bad(0, "lists no shards, and the metadata is that of the first".to_owned()));
    }
    Limits::check("the number of shards", listed, limits.entries)?;
    let mut paths = SetPaths::default();
    let shard = |(number, value): (usize, Value)| {
        let within = |error: KeyError| key(error.within(format!("shards[{number}]")));
        let object = value
            .as_object()
            .ok_or_else(|| key(KeyError::new(format!("shards[{number}]"), "an object", Some(&value))))?;
        let file = object.required_str("file").map_err(within)?;
        paths.add(file).map_err(|fault| {
            malformed(Part::entry("shard", number as u64), 0, Fault::Path { path: file.to_owned(), fault })
        })?;
        Ok(Entry {
            file: file.to_owned(),
            size: object.required_u64("size").map_err(within)?,
            crc32: parse_crc(object.required_str("crc32").map_err(within)?),
        })
    };
    list.iter().enumerate().map(shard).collect()
}

/// Parses a CRC of 8 lower-case hex digits (docs/formats/apr2.md#manifest-rules).
fn parse_crc(text: &str) -> Option<u32> {
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 8 && text.bytes().all(is_digit)).then(|| u32::from_str_radix(text, 16).ok())?
}

#[allow(clippy::needless_pass_by_value)] // so that it goes into map_err as it is
fn key(error: KeyError) -> Error {
    bad(0, error.to_string())
}

fn bad(at: u64, text: String) -> Error {
    malformed(Part::new("manifest"), at, CommonFault::Metadata(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SetIndex> {
        SetIndex::parse(text.as_bytes(), &Limits::default())
    }

    const GOOD: &str = r#"{"apr_version":"2.0.0","sharded":true,"shard_count":2,"shards":[
        {"file":"m-00001-of-00002.apr","size":100,"crc32":"0000abcd"},{"file":"sub/x.apr","size":5,"crc32":"ABCD"}],
        "tensor_shard_map":{"a":1,"b":0},"other":null}"#;

    #[test]
    fn a_manifest_lists_shards_and_tensors() {
        let manifest = parse(GOOD).unwrap();
        let first = Shard { path: "m-00001-of-00002.apr", size: 100, crc32: Some(0xabcd) };
        assert_eq!(manifest.shard(0), Some(first));
        assert_eq!(manifest.shard(1).unwrap().crc32, None);
        assert!(manifest.names().iter().eq(["a", "b"]));
        assert_eq!(
            (manifest.shard_of(0), manifest.shard_of(1), manifest.shard_of(2)),
            (Some(1), Some(0), None)
        );
        assert_eq!((manifest.names().find("b"), manifest.apr_version()), (Some(1), Some("2.0.0")));
    }

    #[test]
    fn what_a_manifest_may_not_say_is_refused() {
        for (from, to) in [
            ("\"sharded\":true", "\"sharded\":false"),
            ("\"shard_count\":2", "\"shard_count\":3"),
            ("\"shard_count\":2", "\"shard_count\":18446744073709551615"),
            ("sub/x.apr", "../x.apr"),
            ("sub/x.apr", "/x.apr"),
            ("sub/x.apr", "C:x.apr"),
            ("\"a\":1", "\"a\":2"),
            ("\"a\":1", "\"a\":-1"),
            ("\"a\":1", "\"b\":1"),
            ("\"size\":5,", ""),
            ("\"other\":null", "\"shards\":[]"),
            ("\"crc32\":\"ABCD\"", "\"crc32\":5"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            assert!(matches!(parse(&text), Err(Error::Malformed { .. })), "{to}");
        }
        assert!(parse("[]").is_err() && parse("").is_err());
        let none = r#"{"sharded":true,"shard_count":0,"shards":[],"tensor_shard_map":{}}"#;
        assert!(parse(none).is_err());
    }
}
