//! The seal in a manifest: the statements of all shards, signed together.

use modelfmt_core::value::{Object, Value};

use crate::error::SealFault;
use crate::seal::set::Purpose;
use crate::seal::set::{Signed, check, hash, label};
use crate::seal::{Access, Hash, SignatureInfo, VerifyingKey, hex};

/// The key `seal` of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct SetSeal {
    uuid: [u8; 16],
    revision: u64,
    pub(crate) statements: Vec<Hash>,
    signatures: Vec<Signed>,
}

fn structure(what: &str) -> SealFault {
    SealFault::Structure(format!("the manifest's `seal` {what}"))
}

fn bytes<const N: usize>(value: Option<&Value>) -> Option<[u8; N]> {
    let text = value?.as_str()?.as_bytes();
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    for (byte, [high, low]) in out.iter_mut().zip(text.as_chunks::<2>().0) {
        *byte = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
    }
    Some(out)
}

impl SetSeal {
    /// Checks the seal against the caller's demands. `shards` has the paths of the shards in the manifest,
    /// and `map` the shard number of each tensor. If the check succeeds, each shard can be checked against
    /// its statement in the seal.
    pub(super) fn check<'a>(
        &self,
        shards: impl ExactSizeIterator<Item = &'a str>,
        map: &[(&str, u32)],
        access: &Access,
    ) -> Result<(), SealFault> {
        let statement = self.statement(shards, map)?;
        if !access.signers.is_empty() || access.threshold > 0 {
            check(&self.signatures, &access.signers, access.threshold, &statement)?;
        }
        if access.statement.is_some_and(|demanded| demanded != statement) {
            let found = hex(&statement);
            return Err(SealFault::Set(format!("the statement is {found}, another is demanded")));
        }
        match access.min_revision.filter(|&least| self.revision < least) {
            Some(least) => Err(SealFault::Revision { found: self.revision, least }),
            None => Ok(()),
        }
    }

    /// Returns the keys that claim to have signed. Signatures by keys that the caller has named are valid,
    /// because they were checked.
    pub(super) fn signatures<'a>(
        &'a self,
        named: &'a [VerifyingKey],
    ) -> impl Iterator<Item = SignatureInfo> + 'a {
        self.signatures.iter().map(|signed| SignatureInfo {
            algorithm: 1,
            key_id: Some(signed.key_id),
            is_trusted: named.iter().any(|key| key.key_id() == signed.key_id),
        })
    }

    /// Formats the keys that claim to have signed. Signatures by keys that the caller has named are valid,
    /// because they were checked.
    pub(super) fn signers(&self, named: &[VerifyingKey]) -> String {
        let of = |signed: &Signed| match named.iter().any(|key| key.key_id() == signed.key_id) {
            true => format!("{} (named)", hex(&signed.key_id)),
            false => hex(&signed.key_id),
        };
        match &*self.signatures.iter().map(of).collect::<Vec<_>>() {
            [] => "nobody has signed".to_owned(),
            signers => format!("signed by {}", signers.join(", ")),
        }
    }

    pub(super) fn parse(object: &Object, shards: usize) -> Result<Self, SealFault> {
        match object.get("version").and_then(Value::as_u64) {
            Some(1) => {}
            Some(other) => {
                return Err(SealFault::Version(format!("version {other} of the manifest's `seal`")));
            }
            None => return Err(structure("has no version")),
        }
        let list = |key: &str| object.get(key).and_then(Value::as_array);
        let statements = list("statements").ok_or_else(|| structure("has no statements"))?;
        if statements.len() != shards {
            return Err(structure("does not have a statement for each shard"));
        }
        let mut signatures = Vec::new();
        for signature in list("signatures").ok_or_else(|| structure("has no signatures"))?.iter() {
            let record =
                signature.as_object().ok_or_else(|| structure("has a signature that is no object"))?;
            if record.get("alg").and_then(Value::as_str) != Some("ed25519") {
                continue; // others are skipped
            }
            let signed = bytes(record.get("key_id")).zip(bytes(record.get("signature")));
            let (key_id, signature) = signed.ok_or_else(|| structure("has a signature that is none"))?;
            signatures.push(Signed { key_id, signature });
            if signatures.len() > 512 {
                return Err(SealFault::Limit("a set has more than 512 signatures".to_owned()));
            }
        }
        let statements = statements.iter().map(|text| bytes(Some(&text))).collect::<Option<Vec<_>>>();
        Ok(Self {
            uuid: bytes(object.get("set_uuid")).ok_or_else(|| structure("has no set_uuid"))?,
            revision: object
                .get("revision")
                .and_then(Value::as_u64)
                .ok_or_else(|| structure("has no revision"))?,
            statements: statements.ok_or_else(|| structure("has a statement that is none"))?,
            signatures,
        })
    }

    /// Signs the shards of a set as one.
    pub(super) fn new(
        options: &crate::seal::SealOptions,
        statements: Vec<Hash>,
        shards: &[&str],
        map: &[(&str, u32)],
    ) -> Result<Self, SealFault> {
        let uuid = options.random.array()?;
        let mut seal = Self { uuid, revision: options.revision, statements, signatures: Vec::new() };
        let statement = seal.statement(shards.iter().copied(), map)?;
        let signed = options.signers.iter().filter_map(|key| key.sign(Purpose::Set, &statement).signed);
        seal.signatures = signed.collect();
        Ok(seal)
    }

    /// Returns the seal with another revision, or `None` if this would invalidate signatures.
    pub(super) fn revised(&self, revision: Option<u64>) -> Option<Self> {
        let revision = revision.unwrap_or(self.revision);
        let holds = revision == self.revision || self.signatures.is_empty();
        holds.then(|| Self { revision, ..self.clone() })
    }

    /// Returns the signatures of these keys.
    pub(super) fn signed_by<'a>(
        &self,
        keys: &[crate::seal::SigningKey],
        shards: impl ExactSizeIterator<Item = &'a str>,
        map: &[(&str, u32)],
    ) -> Result<Vec<Object>, SealFault> {
        let statement = self.statement(shards, map)?;
        let signed = keys.iter().filter_map(|key| key.sign(Purpose::Set, &statement).signed);
        Ok(signed.map(|signed| record(&signed)).collect())
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the statement of the set: the hash of everything that a signature covers.
    pub(super) fn statement<'a>(
        &self,
        shards: impl ExactSizeIterator<Item = &'a str>,
        map: &[(&str, u32)],
    ) -> Result<Hash, SealFault> {
        let mut out = label("set");
        let count = |n: usize| u32::try_from(n).map_err(|_| structure("has too many entries"));
        let name = |text: &str, out: &mut Vec<u8>| {
            let len = u16::try_from(text.len()).map_err(|_| structure("has a name that is too long"))?;
            out.extend(len.to_le_bytes());
            out.extend(text.as_bytes());
            Ok::<_, SealFault>(())
        };
        out.extend(self.uuid);
        out.extend(self.revision.to_le_bytes());
        out.extend(count(shards.len())?.to_le_bytes());
        for (file, statement) in shards.zip(&self.statements) {
            name(file, &mut out)?;
            out.extend(statement);
        }
        let mut sorted = map.to_vec();
        sorted.sort_unstable_by_key(|(name, _)| name.as_bytes());
        out.extend(count(sorted.len())?.to_le_bytes());
        for (tensor, shard) in sorted {
            name(tensor, &mut out)?;
            out.extend(shard.to_le_bytes());
        }
        Ok(hash(&[&out]))
    }

    pub(super) fn to_object(&self) -> Object {
        let mut object = Object::new();
        object.insert("version", 1u64);
        object.insert("set_uuid", hex(&self.uuid));
        object.insert("revision", self.revision);
        object
            .insert("statements", self.statements.iter().map(|statement| hex(statement)).collect::<Value>());
        object.insert("signatures", self.signatures.iter().map(record).collect::<Value>());
        object
    }
}

/// Returns the manifest's entry for a signature.
fn record(signed: &Signed) -> Object {
    Object::from_iter([
        ("alg", Value::from("ed25519")),
        ("key_id", Value::from(hex(&signed.key_id))),
        ("signature", Value::from(hex(&signed.signature))),
    ])
}
