//! The content of a model besides its tensors, in terms that all formats share.

use modelfmt_core::AnyError;
use modelfmt_core::value::{Object, Value};

use super::any_reader::AnyReader;
use modelfmt_rules::wording::unsupported::Unsupported;

/// Reads the content of a model besides its tensors.
pub(crate) type ReadCommonMetadata = fn(&dyn AnyReader) -> Result<CommonMetadata, AnyError>;

/// The content of a model besides its tensors.
#[derive(Debug, Default)]
pub struct CommonMetadata {
    /// The keys of the metadata and their plain values.
    pub keys: Object,
    /// The metadata bit for bit, instead of `keys`, if only its own format has such value types.
    pub native: Option<Object>,
    /// The name of the model, if it is not under a key that all formats share.
    pub name: Option<String>,
    /// The architecture of the model, if it is not under such a key.
    pub architecture: Option<String>,
    /// For a set, the keys that its files have and its index does not; `None` for other models.
    pub files: Option<Vec<String>>,
    /// What plain values do not show, if the format has value types of its own.
    pub types: Option<ValueTypes>,
    /// Whether shapes were in ggml's order, and have been reversed.
    pub shapes_reversed: bool,
    /// Members of the manifest that are not made anew.
    pub manifest: Object,
    /// Parts that only a file of the same format can hold.
    pub own: Vec<Unsupported>,
    /// Parts that only a set of the same format can hold.
    pub own_set: Vec<Unsupported>,
    /// Parts that no target can hold.
    pub losses: Vec<Unsupported>,
}

/// The properties of typed metadata that plain values do not show.
#[derive(Debug, Default)]
pub struct ValueTypes {
    /// The types of values that would get another type, by key.
    pub types: Object,
    /// Values that JSON cannot hold bit for bit, as they are in the file, by key.
    pub stored: Object,
    /// The keys in their order, if there are several.
    pub keys: Vec<String>,
}

impl CommonMetadata {
    /// Reads the content of a model whose metadata consists of keys and values only.
    ///
    /// # Errors
    /// If the metadata does not decode, or a file of a set is missing.
    pub(crate) fn keys_of(opened: &dyn AnyReader) -> Result<Self, AnyError> {
        Ok(Self { keys: opened.flat_metadata()?, ..Self::default() })
    }

    /// The name for a lost key in the index of a set.
    #[allow(dead_code, reason = "formats with such an index use it")]
    pub(crate) const INDEX_KEY: &str = "key of the set's index";

    /// Adds a key of the metadata that is lost.
    #[allow(dead_code, reason = "formats of sets use it")]
    pub(crate) fn lose(&mut self, key: &str, why: impl Into<std::sync::Arc<str>>) {
        self.losses.push(Unsupported::loss("metadata key", key, why));
    }
}

/// Returns the text under a key, if it has one.
#[allow(dead_code, reason = "with few formats switched on none is asked for")]
pub(crate) fn text(keys: &Object, key: &str) -> Option<String> {
    keys.get(key).and_then(Value::as_str).map(str::to_owned)
}
