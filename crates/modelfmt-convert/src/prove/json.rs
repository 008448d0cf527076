//! The object that `modelfmt prove --json` prints.

use modelfmt_core::value::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Proof, ProvedKey, ProvedTensor};

impl Serialize for Proof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("ok", &self.is_ok)?;
        map.serialize_entry("tensors", &self.tensors)?;
        map.serialize_entry("metadata", &self.metadata)?;
        map.end()
    }
}

impl Serialize for ProvedTensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("steps", &self.steps)?;
        map.serialize_entry("result", self.result.name())?;
        map.serialize_entry("blocks", &self.blocks)?;
        map.serialize_entry("different", &self.different)?;
        // NaN and infinities are written as text, as in all JSON output of this project.
        map.serialize_entry("max_abs", &self.max_abs.map_or(Value::Null, Value::from))?;
        map.serialize_entry("variant", &self.variant)?;
        map.end()
    }
}

impl Serialize for ProvedKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("result", self.result.name())?;
        map.end()
    }
}
