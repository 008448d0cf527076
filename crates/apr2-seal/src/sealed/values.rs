//! Reads the values of sealed files. Unlike in other files, the bytes are checked and decrypted first.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;

use apr2::author::{self, Sealing, entry_part, identity};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{Bytes, Execution, Fetch, author::FileIndex as _};

use crate::error::{Error, Result, malformed};
use crate::index::Index;
use crate::seal::read::{Plain, locked, sealed};
use crate::seal::{Seal, Section, SignatureInfo, SlotInfo, hex};

/// Adds the signatures, whether a key that the caller named has signed, and who can open the file.
pub(crate) fn details(seal: Seal<'_>, details: &mut Object) {
    signed(&seal.statement(), seal.revision(), seal.signatures(), details);
    if !seal.is_encrypted() {
        return;
    }
    let recipient = |slot: SlotInfo| {
        let mut object = Object::from_iter([("type", Value::from(slot.kind_name()))]);
        object.insert("key_id", slot.id.map(|id| hex(&id)));
        Value::from(object)
    };
    let mut encryption = Object::from_iter([("cipher", Value::from("aes-256-gcm"))]);
    encryption.insert("recipients", seal.slots().map(recipient).collect::<Value>());
    encryption.insert("is_open", !seal.is_locked());
    encryption.insert("hides_index", seal.has_sealed_index());
    encryption.insert("tensors", seal.tensor_count());
    details.insert("encryption", encryption);
}

/// Adds the statement, the revision and the signatures, and for each signature whether it is by a key that
/// the caller named.
pub(crate) fn signed(
    statement: &[u8; 32],
    revision: u64,
    signatures: impl Iterator<Item = SignatureInfo>,
    details: &mut Object,
) {
    let signature = |signature: SignatureInfo| {
        let algorithm = if signature.algorithm == 1 { "ed25519" } else { "unknown" };
        let mut object = Object::from_iter([("algorithm", Value::from(algorithm))]);
        object.insert("key_id", signature.key_id.map(|id| hex(&id)));
        object.insert("is_named", signature.is_trusted);
        Value::from(object)
    };
    details.insert("statement", hex(statement));
    details.insert("revision", revision);
    details.insert("signatures", signatures.map(signature).collect::<Value>());
}

/// Returns the tensor at a position as a source of checked plaintext.
pub(crate) fn plain<'a, S: Fetch>(
    index: &Index,
    section: &'a Section,
    source: &'a S,
    position: usize,
) -> Result<Plain<'a, S>> {
    let info = index.tensors().info(position).ok_or_else(|| Error::no_such_position(position))?;
    let identity = identity(info.name, info.dtype, info.shape);
    let at = index.tensors().offset(position).unwrap_or(0); // every tensor has one
    Plain::new(source, section, position, &identity)
        .map_err(|fault| malformed(entry_part(position, info.name), at, fault))
}

/// Converts the error of a read, which may be a failed check.
fn convert_error(index: &Index, position: usize, error: Error) -> Error {
    let name = index.tensors().info(position).map_or("", |info| info.name);
    sealed(error, position, name)
}

/// Returns the values of a tensor. They are borrowed if they are in memory unchanged.
pub(crate) async fn read<'s, S: Fetch>(
    index: &Index,
    section: &Section,
    source: &'s S,
    position: usize,
    work: Option<&Execution<'_>>,
) -> Result<Bytes<'s>> {
    let plain = plain(index, section, source, position)?;
    let (at, len) = plain.place();
    let convert = |error| convert_error(index, position, error);
    if is_in_place(index, source) {
        let checked = plain.check_in_memory(0..len).await;
        checked.map_err(|source| convert(Error::Io { at, len, source }))?;
        return index.plain.read(source, position, work).await;
    }
    let bytes = index.plain.read(&plain, position, work).await.map_err(convert)?;
    refuse_locked(index, section, position)?;
    bytes.into_owned().map(Bytes::Owned).map_err(|source| Error::Io { at, len, source })
}

/// Fills `out` with the values of a tensor from byte `offset` on.
pub(crate) async fn read_into(
    index: &Index,
    section: &Section,
    source: &impl Fetch,
    position: usize,
    offset: u64,
    out: &mut [u8],
) -> Result<()> {
    let plain = plain(index, section, source, position)?;
    let read = index.plain.read_into(&plain, position, offset, out).await;
    read.map_err(|error| convert_error(index, position, error))?;
    refuse_locked(index, section, position)
}

/// Returns the stored bytes that are read for a range of values. For an encrypted tensor these are all its
/// bytes, because only decrypting shows which are needed.
pub(crate) async fn stored_range(
    index: &Index,
    section: &Section,
    source: &impl Fetch,
    position: usize,
    values: Range<u64>,
) -> Result<Range<u64>> {
    if !matches!(author::sealing(&index.plain), Sealing::Encrypted { .. }) {
        let plain = plain(index, section, source, position)?;
        let range = index.plain.stored_range(&plain, position, values).await;
        return range.map_err(|error| convert_error(index, position, error));
    }
    let stored = author::stored(&index.plain, position).ok_or_else(|| Error::no_such_position(position))?;
    Ok(stored.offset..stored.end())
}

/// Returns whether values are borrowed from memory, where they have been checked.
fn is_in_place(index: &Index, source: &impl Fetch) -> bool {
    source.memory().is_some() && matches!(author::sealing(&index.plain), Sealing::Signed)
}

/// Refuses to read a tensor without a key, even an empty one, for which no byte would be decrypted.
fn refuse_locked(index: &Index, section: &Section, position: usize) -> Result<()> {
    if !section.is_locked() {
        return Ok(());
    }
    let name = index.tensors().info(position).map_or("", |info| info.name);
    let at = index.tensors().offset(position).unwrap_or(0);
    Err(malformed(entry_part(position, name), at, locked()))
}
