//! The bytes of a TIDX.

use crate::error::Hex;
use crate::msgpack::{put_array, put_map, put_str, put_uint};

/// An entry to be written.
pub(crate) struct NewEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) dtype: u64,
    pub(crate) shape: &'a [u64],
    pub(crate) shard_id: u64,
    pub(crate) data_off: u64,
    pub(crate) data_len: u64,
    /// `quant_id` and `ggml_type`.
    pub(crate) quant: Option<(u64, u32)>,
    /// `quant_params` of a codec that is not known, as MessagePack.
    pub(crate) quant_params: Option<&'a [u8]>,
    pub(crate) hash_b3: Option<[u8; 32]>,
}

/// Writes the head of a TIDX for so many entries.
pub(crate) fn put_head(out: &mut Vec<u8>, entries: u32) {
    put_map(out, 1);
    put_str(out, "tensors");
    put_array(out, entries);
}

impl NewEntry<'_> {
    /// DECISIONS, AERO, "TIDX entry that we write".
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let params = u32::from(self.quant_params.is_some());
        put_map(out, 7 + 2 * u32::from(self.quant.is_some()) + params + u32::from(self.hash_b3.is_some()));
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
            ("flags", 0),
        ] {
            put_str(out, key);
            put_uint(out, number);
        }
        if let Some((id, ggml_type)) = self.quant {
            put_str(out, "quant_id");
            put_uint(out, id);
            put_str(out, "quant_params");
            put_map(out, 1);
            put_str(out, "ggml_type");
            put_uint(out, u64::from(ggml_type));
        }
        if let Some(params) = self.quant_params {
            put_str(out, "quant_params");
            out.extend_from_slice(params);
        }
        if let Some(hash) = self.hash_b3 {
            put_str(out, "hash_b3");
            put_str(out, &Hex::new(hash).to_string());
        }
    }
}
