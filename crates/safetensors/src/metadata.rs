//! The strings of `__metadata__`, kept as flat text. They become an object on first use, because an object of
//! short strings takes several times as much memory.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::OnceLock;

use modelfmt_core::value::Object;
use modelfmt_core::{CommonFault, author::NameTable};

/// Strings by key, in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    keys: NameTable,
    /// All values, one after another. `ends` has the end of each.
    values: String,
    ends: Vec<u32>,
    object: OnceLock<Object>,
}

impl Metadata {
    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds a key and its value.
    ///
    /// # Errors
    /// [`Fault::Duplicate`] if the key is already present, [`Fault::TooManyNames`] beyond 4 GiB.
    pub(crate) fn push(&mut self, key: &str, value: &str) -> Result<(), CommonFault> {
        let end = self.values.len().saturating_add(value.len());
        let end = u32::try_from(end).map_err(|_| CommonFault::TooManyNames)?;
        self.keys.push(key)?;
        self.values.push_str(value);
        self.ends.push(end);
        Ok(())
    }

    /// Releases reserved memory that is not needed.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.keys.shrink_to_fit();
        self.values.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns the metadata as an object, which is kept.
    pub(crate) fn object(&self) -> &Object {
        self.object.get_or_init(|| self.made())
    }

    /// Returns a new object for the caller. The metadata does not keep a copy of it.
    pub(crate) fn to_object(&self) -> Object {
        self.object.get().cloned().unwrap_or_else(|| self.made())
    }

    fn made(&self) -> Object {
        let starts = std::iter::once(&0).chain(&self.ends);
        let values = starts.zip(&self.ends).map(|(&start, &end)| start as usize..end as usize);
        let text = |range| self.values.get(range).unwrap_or_default();
        self.keys.iter().zip(values).map(|(key, range)| (key, text(range))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_in_their_order() {
        let mut metadata = Metadata::default();
        assert!(metadata.object.get().is_none() && metadata.clone().object().is_empty());
        for (key, value) in [("b", "1"), ("", ""), ("a", "重み"), ("c", "")] {
            metadata.push(key, value).unwrap();
        }
        assert_eq!(metadata.push("a", "2"), Err(CommonFault::Duplicate("a".to_owned())));
        metadata.shrink_to_fit();
        let texts: Vec<_> =
            metadata.object().iter().map(|(key, value)| (key, value.as_str().unwrap())).collect();
        assert_eq!(texts, [("b", "1"), ("", ""), ("a", "重み"), ("c", "")]);
        assert_eq!(metadata.len(), 4);
    }
}
