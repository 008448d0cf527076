//! What a model says besides its tensors, in terms that all formats share.

use modelfmt_core::AnyError;
use modelfmt_core::value::{Object, Value};

use super::opened::Opened;
use crate::unsupported::Unsupported;

/// Tells what a model says.
pub(crate) type SaidOf = fn(&dyn Opened) -> Result<Said, AnyError>;

/// What a model says besides its tensors.
#[derive(Debug, Default)]
pub struct Said {
    /// The keys of its metadata and their plain values.
    pub keys: Object,
    /// The metadata in place of `keys`, with every bit, where only its own format has such kinds of values.
    pub native: Option<Object>,
    /// The name of the model, where it is not said by a key that all formats know.
    pub name: Option<String>,
    /// Its architecture, in the same way.
    pub architecture: Option<String>,
    /// The keys that the files of a set have and its index does not; of other models `None`.
    pub files: Option<Vec<String>>,
    /// What plain values do not tell, where the format has types of its own for them.
    pub types: Option<ValueTypes>,
    /// Whether shapes were in ggml's order, and have been turned.
    pub is_turned: bool,
    /// What the manifest of a file says beyond what is made again.
    pub manifest: Object,
    /// What only a file of the same format can hold.
    pub own: Vec<Unsupported>,
    /// What only a set of the same format can hold.
    pub own_set: Vec<Unsupported>,
    /// What no target can hold.
    pub losses: Vec<Unsupported>,
}

/// What plain values do not tell.
#[derive(Debug, Default)]
pub struct ValueTypes {
    /// The types of values that would get others, by key.
    pub types: Object,
    /// Values that JSON does not have bit for bit, as they are in the file, by key.
    pub stored: Object,
    /// The keys in their order, if there are several.
    pub keys: Vec<String>,
}

impl Said {
    /// What a model says whose metadata is keys and values, and nothing else.
    ///
    /// # Errors
    /// If it does not decode, or a file of a set is missing.
    pub(crate) fn keys_of(opened: &dyn Opened) -> Result<Self, AnyError> {
        Ok(Self { keys: opened.flat_metadata()?, ..Self::default() })
    }

    /// What a loss calls a key of the index of a set.
    #[allow(dead_code, reason = "formats with such an index use it")]
    pub(crate) const INDEX_KEY: &str = "key of the set's index";

    /// Adds a key of the metadata that is lost.
    #[allow(dead_code, reason = "formats of sets use it")]
    pub(crate) fn lose(&mut self, key: &str, why: impl Into<std::sync::Arc<str>>) {
        self.losses.push(Unsupported::loss("metadata key", key, why));
    }
}

/// The text under a key, if it has one.
#[allow(dead_code, reason = "with few formats switched on none is asked for")]
pub(crate) fn text(keys: &Object, key: &str) -> Option<String> {
    keys.get(key).and_then(Value::as_str).map(str::to_owned)
}
