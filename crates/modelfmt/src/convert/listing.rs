//! Which files the index of a set names, whatever the format, and without a tree of it in memory.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use modelfmt_core::Limits;
use modelfmt_core::source::check_relative;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The files that the index at `path` names, relative to its folder; none if it is no index.
pub(super) fn files_of(path: &Path) -> BTreeSet<String> {
    read(path).unwrap_or_default()
}

fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    let metadata = path.metadata()?;
    // What is larger, no reader takes for an index.
    if !metadata.is_file() || metadata.len() > Limits::default().index_len {
        return Ok(BTreeSet::new());
    }
    let mut file = BufReader::new(File::open(path)?);
    let is_object = file.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !is_object {
        return Ok(BTreeSet::new());
    }
    let mut names = BTreeSet::new();
    let mut json = serde_json::Deserializer::from_reader(file.take(metadata.len()));
    // What stands before a fault is still named: a broken index is somebody's too.
    let _ = Names { inside: Inside::Index, names: &mut names }.deserialize(&mut json);
    Ok(names)
}

/// What a value of an index is.
#[derive(Clone, Copy)]
enum Inside {
    /// The index itself.
    Index,
    /// A list of files, or one: objects whose `path` or `file` is a name.
    Files,
    /// An object whose values are names.
    Map,
    /// A name.
    Name,
}

impl Inside {
    /// What the value under a key is, if it matters.
    fn of(self, key: &str) -> Option<Self> {
        match (self, key) {
            // AEROSET; APR2; safetensors.
            (Self::Index, "parts" | "global_tidx" | "shards") => Some(Self::Files),
            (Self::Index, "weight_map") => Some(Self::Map),
            (Self::Files, "path" | "file") | (Self::Map, _) => Some(Self::Name),
            _ => None,
        }
    }
}

/// Collects names from a value.
struct Names<'a> {
    inside: Inside,
    names: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names of files")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if matches!(self.inside, Inside::Name) && check_relative(name).is_ok() {
            let components: Vec<&str> = name.split('/').filter(|&component| component != ".").collect();
            self.names.insert(components.join("/"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { inside, names } = self;
        while list.next_element_seed(Names { inside, names: &mut *names })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.inside.of(&key) {
                Some(inside) => map.next_value_seed(Names { inside, names: &mut *self.names })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "this is test code")]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_index_names_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let listed = |text: &str| {
            std::fs::write(&path, text).unwrap();
            files_of(&path).into_iter().collect::<Vec<_>>()
        };
        let aeroset = r#" {"format": {"path": "no"}, "parts": [{"path": "./a", "shards": [0]}, {"path": "b"}], "global_tidx": {"path": "c"}}"#;
        assert_eq!(listed(aeroset), ["a", "b", "c"]);
        assert_eq!(
            listed(r#"{"shards": [{"file": "x", "size": 1}, null, 3], "tensor_shard_map": {"w": 0}}"#),
            ["x"]
        );
        assert_eq!(
            listed(r#"{"metadata": {"a": [1.5, true]}, "weight_map": {"w": "y", "v": "y", "u": "../z"}}"#),
            ["y"]
        );
        assert_eq!(listed(r#"{"weight_map": {"w": "y", "v": "#), ["y"], "broken further on");
        for none in ["", "[]", "null", "x", "{}", r#"{"parts": "a", "shards": 7, "path": "b"}"#] {
            assert!(listed(none).is_empty(), "{none}");
        }
        let deep = format!("{}{}", r#"{"parts": "#, "[".repeat(100_000));
        assert!(listed(&deep).is_empty());
        assert!(files_of(folder.path()).is_empty() && files_of(&folder.path().join("missing")).is_empty());
    }
}
