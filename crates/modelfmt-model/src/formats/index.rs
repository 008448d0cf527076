//! The JSON that lists the files of a set: how it is recognized, and which files it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::{self, BufReader};

use modelfmt_core::Source;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::de::Read;

use super::Format;
use super::entry::{Detection, IndexJson};

/// Returns the format of the set if the source is its index. The source is read in pieces and not kept in
/// memory.
///
/// # Errors
/// If the source cannot be read.
pub(super) fn detect(source: &(impl Source + ?Sized)) -> io::Result<Option<Format>> {
    let mut walk = Walk::default();
    let read = match source.as_slice() {
        Some(text) => walk.object(Deserializer::from_slice(text)),
        None => walk.object(Deserializer::from_reader(InOrder::new(source))),
    };
    match read {
        Ok(()) => Ok(walk.detected().map(|(format, _)| format)),
        Err(error) if error.is_io() => Err(error.into()),
        Err(_) => Ok(None),
    }
}

const PIECE: usize = 64 << 10;

/// Reads a source from its beginning to its end.
pub struct InOrder<'s, S: ?Sized> {
    source: &'s S,
    at: u64,
}

impl<'s, S: Source + ?Sized> InOrder<'s, S> {
    /// Makes a reader that reads in pieces.
    pub(crate) fn new(source: &'s S) -> BufReader<Self> {
        BufReader::with_capacity(PIECE, Self { source, at: 0 })
    }
}

impl<S: Source + ?Sized> io::Read for InOrder<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.source.len().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let len = out.len().min(left);
        if let Some(out) = out.get_mut(..len) {
            self.source.read_into(self.at, out)?;
        }
        self.at = self.at.saturating_add(len as u64);
        Ok(len)
    }
}

/// The top level of a JSON object, as far as an index needs it. Memory use depends on the file names in it,
/// if they are collected, and not on its length.
#[derive(Debug, Default)]
pub struct Walk {
    /// The keys that were found, of those that identify an index.
    keys: BTreeSet<&'static str>,
    /// The names under `format` that were found, of those that identify an index.
    names: BTreeSet<&'static str>,
    /// The extensions of listed files that were found, of those that identify an index.
    endings: BTreeSet<&'static str>,
    /// Whether file names are collected.
    lists: bool,
    /// The file names under each key that lists files.
    files: BTreeMap<&'static str, HashSet<String>>,
}

impl Walk {
    /// Reads a JSON object and collects the files that it names. The second member says whether it is a complete JSON object; what
    /// comes before a fault is kept.
    pub fn through(reader: impl io::Read) -> (Self, bool) {
        let mut walk = Self { lists: true, ..Self::default() };
        let is_whole = walk.object(Deserializer::from_reader(reader)).is_ok();
        (walk, is_whole)
    }

    fn object<'de, R: Read<'de>>(&mut self, mut json: Deserializer<R>) -> serde_json::Result<()> {
        json.deserialize_map(self).and_then(|()| json.end())
    }

    /// Returns the format of the set whose index this is.
    fn detected(&self) -> Option<(Format, &'static IndexJson)> {
        let is_match = |index: &IndexJson| {
            index.keys.iter().all(|key| self.keys.contains(key))
                && index.name.is_none_or(|name| self.names.contains(name))
                && (index.endings.is_empty()
                    || index.endings.iter().any(|ending| self.endings.contains(ending)))
        };
        // Of two formats with the same keys, the one that also needs extensions takes precedence.
        let matching = || indexes().filter(|(_, index)| is_match(index));
        matching().find(|(_, index)| !index.endings.is_empty()).or_else(|| matching().next())
    }

    /// Returns the format of the set, and the files that this format lists. A file that is listed only under
    /// keys of other formats is a model of its own.
    pub(crate) fn into_index(mut self) -> Option<(Format, HashSet<String>)> {
        let (format, index) = self.detected()?;
        let files = index.files.iter().filter_map(|(key, _)| self.files.remove(key));
        Some((format, files.flatten().collect()))
    }

    /// Returns the files that the index names under the keys of any format.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn into_files(self) -> impl Iterator<Item = String> {
        self.files.into_values().flatten()
    }
}

/// Returns the extension of a file name, if it identifies an index.
fn known_ending(name: &str) -> Option<&'static str> {
    let all = indexes().flat_map(|(_, index)| index.endings);
    all.copied().find(|ending| name.ends_with(ending))
}

fn indexes() -> impl Iterator<Item = (Format, &'static IndexJson)> {
    Format::ALL.iter().filter_map(|&format| match &format.entry().detection {
        Detection::Index(index) => Some((format, index)),
        _ => None,
    })
}

impl<'de> Visitor<'de> for &mut Walk {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let known = indexes().flat_map(|(_, index)| index.keys).find(|known| **known == key);
            self.keys.extend(known);
            let listed = indexes().flat_map(|(_, index)| index.files).find(|(listed, _)| *listed == key);
            let has_endings =
                || indexes().any(|(_, index)| !index.endings.is_empty() && index.keys.contains(&&*key));
            if let Some(&(listed, of)) = listed.filter(|_| self.lists || has_endings()) {
                let Walk { files, endings, lists, .. } = &mut *self;
                let mut files = lists.then(|| files.entry(listed).or_default());
                let take = &mut |text: &str| {
                    endings.extend(known_ending(text));
                    if let Some(files) = files.as_mut().filter(|files| !files.contains(text)) {
                        files.insert(text.to_owned());
                    }
                };
                map.next_value_seed(Texts { take, of })?;
            } else if key == "format" {
                let take = &mut |text: &str| {
                    self.names
                        .extend(indexes().filter_map(|(_, index)| index.name).find(|name| *name == text));
                };
                map.next_value_seed(Texts { take, of: Some("name") })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Passes all strings in a value to `take`, without keys. If `of` is given, takes only the value under that
/// key from objects.
struct Texts<'a> {
    take: &'a mut dyn FnMut(&str),
    of: Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.of.is_none() {
            (self.take)(text);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Texts { take: &mut *self.take, of: self.of })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if self.of.is_none_or(|of| of == key) {
                map.next_value_seed(Texts { take: &mut *self.take, of: None })?;
            } else {
                map.next_value::<IgnoredAny>()?;
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
