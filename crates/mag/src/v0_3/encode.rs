//! Encodes the header and the manifest of a file of version 0.3.

use std::fmt::Write as _;

use modelfmt_core::value::json::{to_string, to_string_with_bare_words};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    CommonFault, Part, TensorTable,
    author::{Extent, align_up},
};

use crate::dtypes::code_of;
use crate::error::WriteError;
use crate::options::ManifestOptions;
use crate::v0_3::json::{MAGNETRON, MANIFEST_VERSION, METADATA, SNAPSHOT, TIMESTAMP};
use crate::v0_3::wire::{HEADER_LEN, Header};
use crate::v1::wire::MAX_DIM;
use crate::version::{PAGE, Version};

/// Encodes the header and the manifest of a file whose values take `values_len` bytes. Also returns the
/// offset of the values, which is at least `at_least`. Tensor offsets count from there.
pub(crate) fn encode(
    tensors: &TensorTable,
    metadata: &Object,
    options: &ManifestOptions,
    (at_least, values_len): (u64, u64),
) -> Result<(Vec<u8>, u64), WriteError> {
    let unsupported = |part, fault| WriteError::Unsupported { part, fault };
    let front = Object::from_iter([
        (MANIFEST_VERSION, Value::from(1)),
        (TIMESTAMP, options.timestamp.as_str().into()),
        (MAGNETRON, options.magnetron_version.as_str().into()),
        (SNAPSHOT, Version::V0_3.name().into()),
        (METADATA, metadata.clone().into()),
    ]);
    let mut text = to_string_with_bare_words(&front).map_err(|error| {
        unsupported(Part::new("metadata"), CommonFault::Metadata(error.message().to_owned()).into())
    })?;
    text.pop(); // the brace that closes the object, which goes on
    text.push_str(",\"tensor_map\":{");
    for (position, info) in tensors.iter().enumerate() {
        let (id, dtype) = code_of(info.dtype).unwrap_or_default(); // the planner has refused other types
        let shape: Vec<_> = info.shape.iter().map(u64::to_string).collect();
        let (comma, name) = (if position > 0 { "," } else { "" }, Value::from(info.name));
        let name = to_string(&name).unwrap_or_default(); // a string does not nest
        let offset = tensors.offset(position).unwrap_or_default();
        let (shape, nbytes) = (shape.join(","), info.nbytes);
        let _ = write!(
            text,
            r#"{comma}{name}:{{"shape":[{shape}],"dtype":"{dtype}","dtype_id":{id},"offset":{offset},"nbytes":{nbytes}}}"#
        ); // a String takes all of it
    }
    text.push_str("}}");
    let place = |begin, len| Extent::new(begin, len, MAX_DIM);
    let manifest = place(HEADER_LEN, text.len() as u64);
    let values = manifest.and_then(|manifest| {
        let begin =
            align_up(manifest.end().saturating_add(options.reserve).max(at_least), PAGE).unwrap_or(u64::MAX);
        Ok((manifest, place(begin, values_len)?))
    });
    let (manifest, values) = values.map_err(|fault| unsupported(Part::new("the model"), fault.into()))?;
    let mut head = Vec::with_capacity(text.len().saturating_add(64));
    Header { is_big_endian: false, manifest, values }.encode(&mut head);
    head.extend(text.as_bytes());
    Ok((head, values.offset()))
}
