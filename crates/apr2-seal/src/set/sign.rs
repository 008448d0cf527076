//! Changes the signatures in the manifest of a sealed set.

use modelfmt_core::value::{List, Object, Value, json};
use modelfmt_core::{CommonFault, Part};
use modelfmt_write::edit::NewFile;

use super::SetIndex;
use super::seal::SetSeal;
use crate::error::{EditError, SealFault, malformed, unfit};
use crate::seal::{SealOptions, SigningKey};

impl SetIndex {
    /// Adds signatures of the set by these keys to the existing ones, and returns the new manifest. `text` is
    /// the text of the old manifest. You can choose `revision` as long as nobody has signed.
    ///
    /// # Errors
    /// If the set is not sealed or has signatures of another revision, or if `text` is not the text of this
    /// manifest.
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
        let seal = seal.ok_or_else(|| unchangeable("the signatures of the set cover its revision"))?;
        let refused = |fault: SealFault| unfit(Part::new("manifest"), fault);
        let map = self.shard_map();
        let new = seal.signed_by(keys, self.shards().map(|shard| shard.path), &map).map_err(refused)?;
        let mut manifest = self.object(text)?;
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
        if all == old && object.get("revision").and_then(Value::as_u64) == Some(seal.revision()) {
            let mut file = NewFile::new();
            file.push(text);
            return Ok(file);
        }
        object.insert("revision", seal.revision());
        object.insert("signatures", Value::Array(all));
        written(&Value::Object(manifest))
    }

    /// Changes the lengths of the shards, and returns the new manifest. The statements about their content
    /// stay the same.
    ///
    /// # Errors
    /// If `text` is not the text of this manifest, or if there are not as many lengths as shards.
    pub fn resized(&self, text: &[u8], lens: &[u64]) -> Result<NewFile, EditError> {
        let mut manifest = self.object(text)?;
        self.resize(&mut manifest, lens)?;
        written(&Value::Object(manifest))
    }

    /// Changes the lengths and statements of the shards, signs the set with these keys, and returns the new
    /// manifest. This makes another set, for which old signatures are not valid.
    ///
    /// # Errors
    /// If the manifest does not list these files, or if the system has no randomness.
    pub fn sign_anew(
        &self,
        text: &[u8],
        shards: &[(u64, [u8; 32])],
        keys: &[SigningKey],
        revision: u64,
    ) -> Result<NewFile, EditError> {
        let refused = |fault: SealFault| unfit(Part::new("manifest"), fault);
        let mut manifest = self.object(text)?;
        let (lens, statements): (Vec<u64>, Vec<[u8; 32]>) = shards.iter().copied().unzip();
        self.resize(&mut manifest, &lens)?;
        let options = keys.iter().cloned().fold(SealOptions::new().revision(revision), SealOptions::sign);
        let paths: Vec<&str> = self.shards().map(|shard| shard.path).collect();
        let seal = SetSeal::new(&options, statements, &paths, &self.shard_map()).map_err(refused)?;
        manifest.insert("seal", seal.to_object());
        written(&Value::Object(manifest))
    }

    /// Parses the manifest's text again.
    fn object(&self, text: &[u8]) -> Result<Object, EditError> {
        let parsed = json::parse_object(text).ok().filter(|_| text.len() as u64 == self.text_len());
        parsed.ok_or_else(|| bad("is not the JSON that was read before").into())
    }

    fn resize(&self, manifest: &mut Object, lens: &[u64]) -> Result<(), EditError> {
        let Some(Value::Array(shards)) = manifest.get("shards").cloned() else {
            return Err(bad("has no shards any more").into());
        };
        if shards.len() != lens.len() || lens.len() != self.shards().len() {
            return Err(bad("has another number of shards").into());
        }
        let resized = shards.iter().zip(lens).map(|(shard, &len)| match shard {
            Value::Object(mut shard) => {
                shard.insert("size", len);
                shard.insert("crc32", format!("{:08x}", apr2::shard_crc(len)));
                Value::Object(shard)
            }
            other => other,
        });
        manifest.insert("shards", resized.collect::<Value>());
        Ok(())
    }
}

fn bad(what: &str) -> crate::error::Error {
    malformed(Part::new("manifest"), 0, SealFault::Structure(what.to_owned()))
}

fn written(tree: &Value) -> Result<NewFile, EditError> {
    let text = json::to_string_pretty(tree);
    let text =
        text.map_err(|error| unfit(Part::new("manifest"), CommonFault::Metadata(error.to_string())))?;
    let mut file = NewFile::new();
    file.push(text);
    Ok(file)
}
