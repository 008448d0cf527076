//! The attacks of docs/formats/apr2.md#attacks, each on the test vectors and on files by our own writer.
//!
//! `signed` is the column for callers that name the signer's key, `encrypted` the column for readers that
//! have only a key. Each test has the name of its row. The attacker's tool is `Parts`: it takes a file apart,
//! and repairs everything that can be repaired without a secret, or, with `put_macs_right`, with the file's
//! key.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "this is test code")]

mod encrypted;
mod sets;
mod signed;

use std::fs;

use apr2::author::{Entry, HEADER_LEN, Header};
use apr2::{Compression, Flags, Metadata, Plan, WriteOptions};
use modelfmt_core::author::{Crc, Cursor};
use modelfmt_core::value::{Object, json};
use modelfmt_core::{DType, Execution, VerifyLevel};
use modelfmt_write::{MemoryFile, TensorSpec};

use crate::error::{Error, Fault};
use crate::reader::{OpenOptions, Reader};
use crate::seal::derive::FileKeys;
use crate::seal::digest::Digester;
use crate::seal::wire::{Body, Trailer};
use crate::seal::{Access, Identity, Passphrase, RawKey, SealOptions, SigningKey, hash, tail};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Returns a secret of the vectors, decoded from its hex digits.
fn secret<const N: usize>(path: [&str; 3]) -> [u8; N] {
    let text = fs::read(testkit::testdata("seal/vectors.json")).unwrap();
    let vectors: Object = json::parse(&text).unwrap().into_object();
    let [first, second, third] = path;
    let mut value = vectors.get(first).unwrap().as_object().unwrap().get(second).unwrap();
    if !third.is_empty() {
        value = value.as_object().unwrap().get(third).unwrap();
    }
    hex(value.as_str().unwrap()).try_into().unwrap()
}

fn alice() -> SigningKey {
    SigningKey::from_bytes(&secret(["sign", "alice", "secret"]))
}

fn mallory() -> SigningKey {
    SigningKey::from_bytes(&secret(["sign", "mallory", "secret"]))
}

fn carol() -> Identity {
    Identity::from_bytes(&secret(["x25519", "carol", "secret"]))
}

fn eve() -> Identity {
    Identity::from_bytes(&secret(["x25519", "eve", "secret"]))
}

fn raw_key() -> RawKey {
    RawKey::from_bytes(&secret(["raw", "kms/1", ""]))
}

fn passphrase() -> Passphrase {
    Passphrase::from_bytes("correct horse é世".as_bytes()).unwrap()
}

fn vector(name: &str) -> Vec<u8> {
    fs::read(testkit::testdata("seal").join(name)).unwrap()
}

/// A file, and the demands and keys of the caller in its column.
struct Subject {
    name: &'static str,
    bytes: Vec<u8>,
    access: Access,
}

/// Writes a file with our own writer: the tensors of the vectors, and a tensor that takes several segments
/// when compressed.
fn ours(seal: &SealOptions, compression: Compression) -> Vec<u8> {
    let vector = vector("signed.apr");
    let reader: Reader<_> = Reader::from_source(&vector[..]).unwrap();
    let mut values: Vec<Vec<u8>> =
        reader.tensors().iter().map(|info| reader.tensor(info.name).unwrap().bytes().to_vec()).collect();
    let mut specs: Vec<TensorSpec<'_>> = reader.tensors().iter().map(TensorSpec::from).collect();
    // Half of each byte is noise, so that it compresses, but not to almost nothing.
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 28).to_le_bytes()[0]
    };
    let mut noisy: Vec<u8> = (0..30_000).map(|_| noise()).collect();
    noisy.resize(60_000, 0);
    specs.push(TensorSpec::new("noisy", DType::U8, vec![60_000]));
    values.push(noisy);
    let metadata = Metadata::new("attacked", Object::default());
    let plan = Plan::new(specs, &metadata, &WriteOptions::new().compression(compression)).unwrap();
    let mut seal = seal.clone();
    (seal.page, seal.segment) = (1 << 12, 1 << 12);
    let file = MemoryFile::new();
    seal.write(&plan, &values, &file, &Execution::default()).unwrap();
    file.into_bytes().to_vec()
}

/// Returns files that alice has signed. Some are also encrypted, and the caller may or may not have a key.
fn signed() -> Vec<Subject> {
    let both = SealOptions::new().sign(alice()).recipient(carol().recipient()).revision(7);
    let trust = || Access::new().trust(alice().verifying_key());
    let lz4 = Compression::Lz4;
    let subject = |name, bytes, access| Subject { name, bytes, access };
    vec![
        subject("vector, signed", vector("signed.apr"), trust()),
        subject("vector, both", vector("signed-and-encrypted.apr"), trust()),
        subject("vector, both, with key", vector("signed-and-encrypted.apr"), trust().open_with(carol())),
        subject("ours, signed", ours(&SealOptions::new().sign(alice()).revision(7), lz4), trust()),
        subject("ours, both", ours(&both, Compression::None), trust()),
        subject("ours, both, with key", ours(&both, lz4), trust().open_with(carol())),
        subject("ours, hidden", ours(&both.hide_index(true), lz4), trust().open_with(carol())),
    ]
}

/// Returns files that nobody has signed, and that the caller can open.
fn encrypted() -> Vec<Subject> {
    let access = Access::new;
    let lz4 = Compression::Lz4;
    let for_carol = SealOptions::new().recipient(carol().recipient());
    let subject = |name, bytes, access| Subject { name, bytes, access };
    vec![
        subject("vector, recipient", vector("encrypted-recipient.apr"), access().open_with(carol())),
        subject("vector, passphrase", vector("encrypted-passphrase.apr"), access().open_with(passphrase())),
        subject("vector, raw key", vector("encrypted-key.apr"), access().open_with(raw_key())),
        subject("ours, recipient", ours(&for_carol, lz4), access().open_with(carol())),
        subject("ours, not compressed", ours(&for_carol, Compression::None), access().open_with(carol())),
        subject("ours, hidden", ours(&for_carol.hide_index(true), lz4), access().open_with(carol())),
        subject(
            "ours, raw key",
            ours(&SealOptions::new().raw_key(raw_key(), "kms/1"), lz4),
            access().open_with(raw_key()),
        ),
    ]
}

fn open(bytes: &[u8], access: &Access) -> Result<Reader<Vec<u8>>, Error> {
    OpenOptions::new().with_extension(access.clone()).open_source(bytes.to_vec())
}

/// Returns the name of the check that fails; `structure` for the rules of the draft.
fn name(error: &Error) -> String {
    match error {
        Error::Malformed { fault: Fault::Seal(fault), .. } => {
            fault.to_string().split(':').next().unwrap().to_owned()
        }
        Error::Malformed { .. } | Error::Truncated { .. } | Error::Limit { .. } => "structure".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns the first check that fails while the file is opened and read.
fn read(bytes: &[u8], access: &Access) -> String {
    let all = || {
        let reader = open(bytes, access)?;
        for position in 0..reader.tensors().len() {
            if reader.index().seal().is_some_and(|seal| seal.is_locked()) {
                break;
            }
            let nbytes = reader.tensor(position)?.bytes().len() as u64;
            reader.read_range(position, nbytes / 2..nbytes)?;
        }
        Ok(())
    };
    all().map_or_else(|error| name(&error), |()| "ok".to_owned())
}

/// Returns the first check that fails while the file is opened and verified.
fn verified(bytes: &[u8], access: &Access) -> String {
    let reader = match open(bytes, access) {
        Ok(reader) => reader,
        Err(error) => return name(&error),
    };
    let report = reader.verify(VerifyLevel::Full);
    let order = ["SealDigest", "SealPages", "SealSegment", "SealGap", "SealCrc"];
    let found = order.iter().find(|name| report.errors.iter().any(|error| error.contains(**name)));
    match found {
        Some(name) => (*name).to_owned(),
        None if report.is_ok() => "ok".to_owned(),
        None => report.errors.join("; "),
    }
}

/// Asserts that a check with one of these names detects the attack, both when reading and when verifying.
#[track_caller]
fn refused(subject: &Subject, bytes: &[u8], what: &str, by: &[&str]) {
    for (how, found) in
        [("read", read(bytes, &subject.access)), ("verified", verified(bytes, &subject.access))]
    {
        assert!(by.contains(&found.as_str()), "{}, {what}, {how}: {found}, not {by:?}", subject.name);
    }
}

/// An entry of the index.
#[derive(Clone, Debug)]
struct Listed {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    offset: u64,
    size: u64,
    raw_size: u64,
    flags: u32,
}

/// A file taken apart.
#[derive(Clone)]
struct Parts {
    header: Header,
    metadata: Vec<u8>,
    /// Empty if the index is sealed.
    listed: Vec<Listed>,
    /// The bytes from the start of the data to the seal section.
    data: Vec<u8>,
    body: Body,
    sealed_index: Vec<u8>,
    pages: Vec<u8>,
    signatures: Vec<u8>,
    keys: Vec<u8>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let header = Header::decode(&mut Cursor::new(&bytes[..32], 0), Flags::from_file).unwrap();
        let part =
            |at: u64, len: u64| &bytes[usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap()];
        let len = bytes.len() as u64;
        let (data_at, is_encrypted) = (u64::from(header.data_offset), header.flags.bits() & 16 != 0);
        let trailer = Trailer::decode(part(len - 64, 48), len, data_at, is_encrypted).unwrap();
        let body_bytes = part(trailer.seal_offset, trailer.body_size);
        let body = Body::decode(body_bytes, &trailer, data_at, is_encrypted).unwrap();
        let index = part(header.index_offset.into(), header.index_size.into());
        let mut c = Cursor::new(index, 0);
        let count = c.u32("count").unwrap();
        c.u32("reserved").unwrap();
        let listed = (0..count).map(|_| {
            let entry = Entry::decode(&mut c).unwrap();
            let (name, dims) = (entry.name.to_owned(), entry.dims.collect());
            let Entry { dtype, offset, size, raw_size, flags, .. } = entry;
            Listed { name, dtype, dims, offset, size, raw_size, flags }
        });
        Self {
            listed: listed.collect(),
            header,
            metadata: part(32, header.metadata_size.into()).to_vec(),
            data: part(data_at, trailer.seal_offset - data_at).to_vec(),
            sealed_index: body_bytes[usize::try_from(body.sealed_index_at).unwrap()..].to_vec(),
            pages: part(trailer.pages_at(), trailer.pages_size).to_vec(),
            signatures: part(trailer.signatures_at(), trailer.signatures_size.into()).to_vec(),
            keys: part(trailer.keys_at(), trailer.keys_size.into()).to_vec(),
            body,
        }
    }

    fn is_hidden(&self) -> bool {
        self.body.is_index_sealed()
    }

    fn position(&self, name: &str) -> usize {
        let names = ["a.weight", "big", "empty", "runs", "edge", "q", "noisy"];
        names.iter().position(|known| *known == name).unwrap()
    }

    /// Returns the stored bytes of a tensor.
    fn stored(&mut self, name: &str) -> &mut [u8] {
        let extent = self.body.extents[self.position(name)];
        let at = usize::try_from(extent.offset).unwrap();
        &mut self.data[at..at + usize::try_from(extent.size).unwrap()]
    }

    /// Exchanges the stored bytes of two tensors, one segment each.
    fn swap(&mut self, first: (&str, usize), second: (&str, usize)) {
        let len = if self.body.segment > 0 { 4112 } else { 4096 };
        let take = |parts: &mut Self, (name, number): (&str, usize)| {
            parts.stored(name)[number * len..][..len].to_vec()
        };
        let (a, b) = (take(self, first), take(self, second));
        assert_ne!(a, b);
        self.stored(first.0)[first.1 * len..][..len].copy_from_slice(&b);
        self.stored(second.0)[second.1 * len..][..len].copy_from_slice(&a);
    }

    /// Drops the last segment of a tensor, or the same number of bytes if it has no segments.
    fn drop_last(&mut self, name: &str) {
        let (position, len) = (self.position(name), if self.body.segment > 0 { 4112 } else { 4096 });
        let size = self.body.extents[position].size;
        let left = (size - 1) / len * len;
        let from = usize::try_from(left).unwrap();
        self.stored(name)[from..].fill(0);
        self.body.extents[position].size = left;
        let end = self.body.extents.iter().map(|extent| extent.offset + extent.size).max().unwrap();
        self.data.truncate(usize::try_from(end.next_multiple_of(64)).unwrap());
        if let Some(listed) = self.listed.get_mut(position) {
            listed.size = left;
            if listed.raw_size == 0 {
                listed.dims = vec![left / len * 4096];
            }
        }
    }

    /// Recomputes the digests and the page tables from the stored bytes.
    fn put_digests_right(&mut self) {
        self.pages.clear();
        for extent in &mut self.body.extents {
            let at = usize::try_from(extent.offset).unwrap();
            let mut digester = Digester::new(extent.size, self.body.page);
            digester.update(&self.data[at..at + usize::try_from(extent.size).unwrap()]);
            let (digest, nodes) = digester.finish();
            extent.digest = digest;
            self.pages.extend(nodes.iter().flatten());
        }
    }

    fn index(&self) -> Vec<u8> {
        let mut out = u32::try_from(self.listed.len()).unwrap().to_le_bytes().to_vec();
        out.extend([0; 4]);
        for Listed { name, dtype, dims, offset, size, raw_size, flags } in &self.listed {
            let (dtype, offset, size, raw_size, flags) = (*dtype, *offset, *size, *raw_size, *flags);
            Entry { name, dtype, dims: &dims[..], offset, size, raw_size, flags }.encode(&mut out);
        }
        out
    }

    /// Returns the header, the index and the body as a signature covers them, with the place of the seal
    /// section.
    fn front(&self) -> (Header, Vec<u8>, Vec<u8>) {
        let index = self.index();
        let mut header = self.header;
        header.metadata_size = u32::try_from(self.metadata.len()).unwrap();
        header.index_offset = 32 + header.metadata_size;
        header.index_size = u32::try_from(index.len()).unwrap();
        header.data_offset = (header.index_offset + header.index_size).next_multiple_of(64);
        let seal_offset = u64::from(header.data_offset) + self.data.len() as u64;
        (header, index, self.body.encode(seal_offset, &self.sealed_index))
    }

    fn statement(&self) -> [u8; 32] {
        let (header, index, body) = self.front();
        hash::statement(&header.encode(), &self.metadata, &index, &body)
    }

    /// Recomputes both MACs, which needs the file's key.
    fn put_macs_right(&mut self, keys: &FileKeys) {
        let statement = self.statement();
        let slots = self.keys.len() - 64;
        let mac = keys.mac("statement mac", &statement);
        self.keys[slots..slots + 32].copy_from_slice(&mac);
        let mac = keys.mac("keys mac", &self.keys[..slots + 32]);
        self.keys[slots + 32..].copy_from_slice(&mac);
    }

    /// Builds the file, with offsets, sizes, a trailer and CRCs that fit its parts.
    fn join(&self) -> Vec<u8> {
        let (header, index, body) = self.front();
        let mut out = header.encode().to_vec();
        assert_eq!(out.len() as u64, HEADER_LEN);
        out.extend(&self.metadata);
        out.extend(index);
        out.resize(usize::try_from(header.data_offset).unwrap(), 0);
        out.extend(&self.data);
        let trailer = Trailer {
            seal_offset: out.len() as u64,
            body_size: body.len() as u64,
            pages_size: self.pages.len() as u64,
            signatures_size: 0,
            keys_size: 0,
            prefix_crc32: 0,
        };
        out.extend(body);
        out.extend(&self.pages);
        out.extend(tail::encode(&trailer, &self.signatures, &self.keys, Crc::of(&out)).unwrap());
        out
    }
}

/// Returns the keys of a file that can be opened.
fn keys_of(subject: &Subject) -> FileKeys {
    let reader = open(&subject.bytes, &subject.access).unwrap();
    reader.index().seal.as_deref().unwrap().keys.clone().unwrap()
}

/// Files that were not attacked pass, even after they were taken apart and put together again.
#[test]
fn what_is_not_attacked_is_good() {
    for subject in signed().iter().chain(&encrypted()) {
        let parts = Parts::of(&subject.bytes);
        assert!(parts.join() == subject.bytes, "{}", subject.name);
        let mut again = parts.clone();
        again.put_digests_right();
        assert!(again.join() == subject.bytes, "{}", subject.name);
        refused(subject, &subject.bytes, "as it is", &["ok"]);
    }
    for subject in encrypted() {
        let mut parts = Parts::of(&subject.bytes);
        parts.put_macs_right(&keys_of(&subject));
        assert!(parts.join() == subject.bytes, "{}", subject.name);
    }
}

/// Returns files whose names, shapes, dtypes or extents are swapped, with everything repaired that needs no
/// secret.
fn swapped(parts: &Parts) -> Vec<(&'static str, Vec<u8>)> {
    let mut names = parts.clone();
    let name = std::mem::replace(&mut names.listed[0].name, "other".to_owned());
    names.listed[5].name = name;
    let mut shapes = parts.clone();
    shapes.listed[0].dims.reverse();
    let mut dtypes = parts.clone();
    dtypes.listed[0].dtype = DType::I32; // as many bytes as f32
    let mut extents = parts.clone();
    // The first and the fifth entry are exchanged, and their values stay in place.
    extents.listed.swap(0, 4);
    extents.body.extents.swap(0, 4);
    extents.put_digests_right();
    [("names", names), ("shapes", shapes), ("dtypes", dtypes), ("extents", extents)]
        .map(|(what, parts)| (what, parts.join()))
        .into()
}

fn add_slot(parts: &mut Parts, slot: crate::seal::keys_section::Slot) {
    use crate::seal::keys_section::{KeysSection, encode};
    let mut section = KeysSection::decode(&parts.keys).unwrap();
    section.slots.push(slot);
    parts.keys = encode(&section.slots, &section.statement_mac);
    parts.keys.extend(section.keys_mac);
}

/// Adds a slot to the file that wraps this key for a recipient.
fn with_slot_for(bytes: &[u8], recipient: &crate::seal::Recipient, file_key: &[u8; 32]) -> Parts {
    let mut parts = Parts::of(bytes);
    let keys = FileKeys::new(zeroize::Zeroizing::new(*file_key), parts.body.uuid);
    let options = SealOptions::new().recipient(recipient.clone());
    for slot in options.slots(&keys).unwrap() {
        add_slot(&mut parts, slot);
    }
    parts
}

/// A wrong CRC in the trailer, with a footer CRC that fits it. Only `verify` checks it.
#[test]
fn crc_of_the_trailer_changed() {
    for subject in signed().iter().chain(&encrypted()) {
        let mut bytes = subject.bytes.clone();
        let footer = bytes.len() - 16;
        bytes[footer - 8] ^= 1;
        let crc = Crc::of(&bytes[..footer]).value;
        bytes[footer..footer + 4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(read(&bytes, &subject.access), "ok", "{}", subject.name);
        let report = open(&bytes, &subject.access).unwrap().verify(VerifyLevel::Full);
        let [only] = &report.errors[..] else { panic!("{}: {:?}", subject.name, report.errors) };
        assert!(only.contains("prefix_crc32") && only.contains("SealCrc"), "{}: {only}", subject.name);
        assert!(only.contains(&format!("byte {}", footer - 8)), "{}: {only}", subject.name);
    }
}
