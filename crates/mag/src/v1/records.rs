//! Encodes the header and the records of a file of version 1.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Part, TensorTable};

use crate::checksum::{Checksum, Running};
use crate::error::{Fault, WriteError};
use crate::metadata::Numbers;
use crate::v1::wire::{FileHeader, MetadataRecord, TensorRecord, code_of};

/// Returns the length of the header and the records in bytes.
pub(crate) fn len(tensors: &TensorTable, numbers: &Numbers) -> u64 {
    let entries: u64 = numbers.iter().map(|(key, _)| (key.len() as u64).saturating_add(16)).sum();
    let tensors = tensors.iter().map(|t| {
        (t.shape.len() as u64).saturating_mul(8).saturating_add(24).saturating_add(t.name.len() as u64)
    });
    (FileHeader::LEN as u64).saturating_add(entries).saturating_add(tensors.sum::<u64>())
}

/// Encodes the header and the records, with their checksum.
pub(crate) fn encode(
    tensors: &TensorTable,
    numbers: &Numbers,
    checksum: Checksum,
) -> Result<Vec<u8>, WriteError> {
    let count = |n: usize, what| {
        u32::try_from(n).map_err(|_| WriteError::Unsupported { part: Part::new(what), fault: Fault::TooMany })
    };
    let mut header = FileHeader {
        checksum: 0,
        num_tensors: count(tensors.len(), "tensors")?,
        num_meta_kv: count(numbers.len(), "metadata entries")?,
    };
    let mut head = Vec::new();
    header.encode(&mut head);
    for (key, value) in numbers.iter() {
        MetadataRecord { key, value }.encode(&mut head);
    }
    for (position, info) in tensors.iter().enumerate() {
        let record = TensorRecord {
            key: info.name,
            dtype: info.dtype,
            numel: info.elements(),
            offset: tensors.offset(position).unwrap_or_default(),
            shape: info.shape.iter().copied(),
        };
        record.encode(code_of(info.dtype).unwrap_or_default(), &mut head);
    }
    let (front, records) = head.split_at(head.len().min(FileHeader::LEN));
    let mut running = Running::new(FileHeader::around_checksum(front));
    running.update(records);
    header.checksum = running.value(checksum);
    let mut front = Vec::new();
    header.encode(&mut front);
    head.splice(..front.len(), front);
    Ok(head)
}
