//! Encodes a TIDX.

use modelfmt_core::value::Object;

use crate::error::Hex;
use crate::msgpack::{encode, put_array, put_map, put_str, put_uint};

/// An entry to write.
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: u64,
    pub(crate) shape: &'a [u64],
    pub(crate) shard_id: u64,
    pub(crate) data_off: u64,
    pub(crate) data_len: u64,
    /// The `quant_id` and the `ggml_type`.
    pub(crate) quant: Option<(u64, u32)>,
    /// The `quant_params` as MessagePack, replacing those that `quant` implies.
    pub(crate) quant_params: Option<&'a [u8]>,
    /// The caller's additions.
    pub(crate) extra: Option<&'a EntryExtra>,
    pub(crate) hash_b3: Option<[u8; 32]>,
}

/// Additions to an entry: flags, which version 0.1 writes as 0, and keys that are not in the specification.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryExtra {
    pub(crate) flags: u64,
    /// The pairs as MessagePack.
    pub(crate) pairs: Pairs,
}

/// Pairs of a map as MessagePack, without its head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) count: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Pairs {
    pub(crate) fn of(object: &Object) -> Result<Self, String> {
        let mut pairs = Self { count: u32::try_from(object.len()).unwrap_or(u32::MAX), bytes: Vec::new() };
        for (key, value) in object {
            put_str(&mut pairs.bytes, key);
            // The head of a map with one pair takes one byte, and so does the empty key.
            let one = encode(&Object::from_iter([("", value.clone())]))?;
            pairs.bytes.extend(one.get(2..).unwrap_or_default());
        }
        Ok(pairs)
    }
}

/// Writes the head of a TIDX with `entries` entries.
pub(crate) fn put_head(out: &mut Vec<u8>, entries: u32, extra: &Pairs) {
    put_map(out, extra.count.saturating_add(1));
    out.extend_from_slice(&extra.bytes);
    put_str(out, "tensors");
    put_array(out, entries);
}

impl NewEntry<'_> {
    /// Writes the keys, always in the same order, so that equal tensors give equal bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (flags, pairs) = self.extra.map_or((0, None), |extra| (extra.flags, Some(&extra.pairs)));
        let params = u32::from(self.quant.is_some() || self.quant_params.is_some());
        let keys = [self.quant.is_some(), self.hash_b3.is_some()];
        let rest = keys.into_iter().map(u32::from).fold(params, u32::saturating_add);
        put_map(out, rest.saturating_add(7).saturating_add(pairs.map_or(0, |pairs| pairs.count)));
        put_str(out, "name");
        put_str(out, self.name);
        put_str(out, "dtype");
        put_uint(out, self.dtype);
        put_str(out, "shape");
        put_array(out, u32::try_from(self.shape.len()).unwrap_or(u32::MAX));
        for &dim in self.shape {
            put_uint(out, dim);
        }
        for (key, number) in [
            ("shard_id", self.shard_id),
            ("data_off", self.data_off),
            ("data_len", self.data_len),
            ("flags", flags),
        ] {
            put_str(out, key);
            put_uint(out, number);
        }
        if let Some((id, _)) = self.quant {
            put_str(out, "quant_id");
            put_uint(out, id);
        }
        if let Some(params) = self.quant_params {
            put_str(out, "quant_params");
            out.extend_from_slice(params);
        } else if let Some((_, ggml_type)) = self.quant {
            put_str(out, "quant_params");
            put_map(out, 1);
            put_str(out, "ggml_type");
            put_uint(out, u64::from(ggml_type));
        }
        if let Some(hash) = self.hash_b3 {
            put_str(out, "hash_b3");
            put_str(out, &Hex::new(hash).to_string());
        }
        out.extend_from_slice(pairs.map_or(&[], |pairs| &pairs.bytes));
    }
}
