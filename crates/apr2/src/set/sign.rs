//! Other signatures in the manifest of a set that is sealed.

use modelfmt_core::edit::NewFile;
use modelfmt_core::value::{List, Value, json};
use modelfmt_core::{CommonFault, Part};

use super::SetIndex;
use crate::error::{EditError, SealFault, malformed, unfit};
use crate::seal::SigningKey;

impl SetIndex {
    /// What becomes of the manifest, of which `text` is the text, when these keys sign the set, besides those who have. `revision` can be
    /// chosen as long as nobody has signed.
    ///
    /// # Errors
    /// If the set is not sealed, has signatures of another revision, or `text` is not that of this manifest.
    #[cfg_attr(docsrs, doc(cfg(feature = "encrypt")))]
    pub fn sign(
        &self,
        text: &[u8],
        keys: &[SigningKey],
        revision: Option<u64>,
    ) -> Result<NewFile, EditError> {
        let unchangeable = |what| unfit(Part::new("the manifest"), CommonFault::Unchangeable(what));
        let seal = self
            .seal()
            .ok_or_else(|| unchangeable("the set is not sealed: it has no list of what its shards are"))?;
        let seal = seal.revised(revision);
        let seal = seal.ok_or_else(|| {
            unchangeable("the set has signatures already, which hold for its revision as it is")
        })?;
        let bad = |what: &str| malformed(Part::new("manifest"), 0, SealFault::Structure(what.to_owned()));
        let refused = |fault: SealFault| unfit(Part::new("manifest"), fault);
        let map = self.shard_map();
        let new = seal.signed_by(keys, self.shards().map(|shard| shard.path), &map).map_err(refused)?;
        let mut tree = json::parse(text).map_err(|_| bad("is not the JSON that was read before"))?;
        let Value::Object(manifest) = &mut tree else { return Err(bad("is no object").into()) };
        let Some(Value::Object(object)) = manifest.get_mut("seal") else {
            return Err(bad("has no `seal` any more").into());
        };
        let old = object.get("signatures").and_then(Value::as_array).cloned().unwrap_or_default();
        let new: Vec<Value> = new.into_iter().map(Value::from).collect();
        let id = |value: &Value| value.get("key_id").and_then(Value::as_str).map(str::to_owned);
        let is_ours = |value: &Value| new.iter().any(|own| id(own) == id(value));
        let mut all: List = old.iter().filter(|value| new.contains(value) || !is_ours(value)).collect();
        new.iter()
            .filter(|own| !old.iter().any(|value| value == **own))
            .for_each(|own| all.push(own.clone()));
        let mut file = NewFile::new();
        if all == old && object.get("revision").and_then(Value::as_u64) == Some(seal.revision()) {
            file.push(text);
            return Ok(file);
        }
        object.insert("revision", seal.revision());
        object.insert("signatures", Value::Array(all));
        let text = json::to_string_pretty(&tree);
        file.push(
            text.map_err(|error| unfit(Part::new("manifest"), CommonFault::Metadata(error.to_string())))?,
        );
        Ok(file)
    }
}
