//! Changes the metadata of a file and the names of its tensors. The values stay as they are.

use std::collections::BTreeMap;
use std::fmt;

use modelfmt_core::value::Object;
use modelfmt_core::{CommonFault, Part, Source};
use modelfmt_write::edit::NewFile;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{EditError, Error, Fault};
use crate::index::Index;
use crate::layout::push_metadata;
use crate::wire::{self, LEN_SIZE, METADATA};

impl Index {
    /// Renames tensors (`names` maps positions to new names), replaces the file's `__metadata__` with
    /// `metadata` if given, and returns the new content of the file. Empty metadata removes the key. `source`
    /// reads the file. The rest of the header and the values stay as they are.
    ///
    /// The header keeps its length if the new text fits; spaces fill it up. The file can then be changed in
    /// place.
    ///
    /// # Errors
    /// [`EditError::Read`] if the header cannot be read; [`EditError::Write`] for metadata with values other
    /// than strings, for a name that occurs twice or is `__metadata__`, and for a header that becomes longer
    /// than readers accept.
    pub fn edit(
        &self,
        source: &impl Source,
        names: &BTreeMap<usize, String>,
        metadata: Option<&Object>,
    ) -> Result<NewFile, EditError> {
        let range = LEN_SIZE..LEN_SIZE.saturating_add(self.header_len);
        let text = source.read(range.clone()).map_err(|error| EditError::io(&range, error))?;
        self.tensors.renamed(names, |offset| offset).map_err(|fault| unfit(Part::new("header"), fault))?;
        let json = rewritten(&text, names, metadata)?;
        let padded = wire::padded_len(json.len() as u64).unwrap_or(u64::MAX);
        let len = if json.len() as u64 <= self.header_len { self.header_len } else { padded };
        if len > wire::MAX_HEADER_LEN.max(self.header_len) {
            let fault = Fault::HeaderTooLong { len, max: wire::MAX_HEADER_LEN };
            return Err(unfit(Part::new("header"), fault));
        }
        let mut head = len.to_le_bytes().to_vec();
        head.extend(json);
        // The JSON is already in memory, so this only adds the padding.
        head.resize(usize::try_from(LEN_SIZE.saturating_add(len)).unwrap_or(head.len()), b' ');
        let mut file = NewFile::new();
        file.push(head);
        file.keep(range.end..self.file_len);
        Ok(file)
    }
}

fn unfit(part: Part, fault: impl Into<Fault>) -> EditError {
    crate::WriteError::unsupported(part, fault).into()
}

/// Returns the header's text with other names and metadata. Entries are copied unchanged.
fn rewritten(
    text: &[u8],
    names: &BTreeMap<usize, String>,
    metadata: Option<&Object>,
) -> Result<Vec<u8>, EditError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let entries = deserializer.deserialize_map(Entries).map_err(|error| {
        let fault = CommonFault::Metadata(error.to_string()).into();
        Error::Malformed { part: Part::new("header"), at: LEN_SIZE, fault }
    })?;
    let mut json = vec![b'{'];
    let has_place = entries.iter().any(|(name, _)| name == METADATA);
    if let Some(metadata) = metadata.filter(|metadata| !has_place && !metadata.is_empty()) {
        push_metadata(&mut json, metadata)?;
    }
    let mut position = 0;
    for (name, value) in &entries {
        let comma = if json.len() > 1 { &b","[..] } else { b"" };
        let (name, given) = match &**name {
            METADATA => (METADATA, metadata),
            name => {
                let name = names.get(&position).map_or(name, String::as_str);
                if name == METADATA {
                    return Err(unfit(Part::entry("tensor", position as u64), Fault::ReservedName));
                }
                position += 1;
                (name, None)
            }
        };
        match given {
            Some(given) if given.is_empty() => continue,
            Some(given) => {
                json.extend_from_slice(comma);
                push_metadata(&mut json, given)?;
            }
            None => {
                json.extend_from_slice(comma);
                wire::push_string(&mut json, name);
                json.push(b':');
                json.extend_from_slice(value.get().as_bytes());
            }
        }
    }
    json.push(b'}');
    Ok(json)
}

/// The keys of the header and the texts of their values, in order.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_write::edit::Preview;

    fn file(header: &str) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1, 2, 3]].concat()
    }

    const HEADER: &str = r#"{"a":{"dtype":"U8","x":[ 1.50 ],"shape":[1],"data_offsets":[0,1]}, "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"__metadata__":{"k":"v"}}      "#;

    fn edit(names: &[(usize, &str)], metadata: Option<&Object>) -> Result<(NewFile, Vec<u8>), EditError> {
        edit_of(HEADER, names, metadata)
    }

    fn edit_of(
        header: &str,
        names: &[(usize, &str)],
        metadata: Option<&Object>,
    ) -> Result<(NewFile, Vec<u8>), EditError> {
        let bytes = file(header);
        let reader = crate::Reader::from_source(bytes.clone())?;
        let names = names.iter().map(|(position, name)| (*position, (*name).to_owned())).collect();
        let new = reader.index().edit(&bytes, &names, metadata)?;
        let preview = Preview::new(new.clone(), bytes);
        let after = preview.read(0..preview.len()).unwrap().to_vec();
        Ok((new, after))
    }

    #[test]
    fn entries_are_copied_as_they_are() {
        let (new, after) = edit(&[(1, "a\"b")], None).unwrap();
        assert!(new.is_in_place());
        let expected = HEADER.replace(r#", "b""#, r#","a\"b""#).trim_end().to_owned();
        assert!(after[8..].starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(&after));
        assert_eq!(after.len(), file(HEADER).len());
    }

    #[test]
    fn a_header_grows_where_there_is_no_room() {
        let metadata = Object::from_iter([("k", "long".repeat(9))]);
        let (new, after) = edit(&[], Some(&metadata)).unwrap();
        assert!(!new.is_in_place());
        let reader = crate::Reader::from_source(after).unwrap();
        assert_eq!(reader.index().metadata(), Some(&metadata));
        assert_eq!(reader.tensor("b").unwrap().bytes(), [2, 3]);
        assert_eq!(reader.index().header_len() % 8, 0);
        let (new, after) = edit(&[], Some(&Object::new())).unwrap();
        assert!(new.is_in_place());
        assert_eq!(crate::Reader::from_source(after).unwrap().index().metadata(), None);
    }

    #[test]
    fn metadata_is_added_where_there_was_none() {
        let header = HEADER.replace(r#","__metadata__":{"k":"v"}"#, "");
        let metadata = Object::from_iter([("k", "v")]);
        let (_, after) = edit_of(&header, &[], Some(&metadata)).unwrap();
        let reader = crate::Reader::from_source(after).unwrap();
        assert_eq!(reader.index().metadata(), Some(&metadata));
        assert_eq!(reader.tensor("b").unwrap().bytes(), [2, 3]);
        // Empty metadata removes the key.
        let (_, after) = edit_of(&header, &[], Some(&Object::new())).unwrap();
        assert_eq!(crate::Reader::from_source(after).unwrap().index().metadata(), None);
    }

    #[test]
    fn a_header_that_fits_exactly_stays_in_place() {
        let header = edit(&[], None).unwrap().1;
        let text = str::from_utf8(&header[8..header.len() - 3]).unwrap().trim_end().to_owned();
        let longer = text.replace(r#"{"k":"v"}"#, r#"{"k":"vw"}"#);
        assert!(edit_of(&text, &[], None).unwrap().0.is_in_place());
        let metadata = Object::from_iter([("k", "vw")]);
        let (new, after) = edit_of(&text, &[], Some(&metadata)).unwrap();
        assert!(!new.is_in_place() && after[8..].starts_with(longer.as_bytes()));
    }

    #[test]
    fn what_cannot_be_read_is_not_made() {
        for (names, metadata, expected) in [
            (&[(0, "b")][..], None, "twice"),
            (&[(0, "__metadata__")], None, "__metadata__"),
            (&[], Some(Object::from_iter([("k", 1)])), "string"),
        ] {
            let error = edit(names, metadata.as_ref()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
