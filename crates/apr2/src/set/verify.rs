//! Checks a sharded model: every shard by itself, and against the manifest.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use modelfmt_core::{
    Error, Execution, Fetch, FetchFiles, Report, VerifyLevel,
    author::{Crc, OpenSet, PIECE, ScanRange, Shortened, with_causes},
};

use super::{SetIndex, Shard};
use crate::index::Index;
use crate::reader::Reader;
use crate::verify;
use crate::wire::Flags;

/// What the checks of all shards found.
#[derive(Default)]
struct Found {
    structure: Vec<String>,
    crc: Vec<String>,
    shard_crcs: Vec<String>,
    lz4: Vec<String>,
    padding: Vec<String>,
    extents: Vec<String>,
    signature: Vec<String>,
    blocks: u64,
    is_signed: bool,
    is_compressed: bool,
    #[cfg(feature = "sign")]
    sealed: Sealed,
}

/// What the checks of sealed shards found.
#[cfg(feature = "sign")]
#[derive(Default)]
struct Sealed {
    digests: Vec<String>,
    encryption: Vec<String>,
    /// The tensors of all of them.
    tensors: usize,
    /// Whether digests were looked at.
    is_hashed: bool,
    is_encrypted: bool,
    /// Whether a shard has values that nothing decrypts that was given.
    is_locked: bool,
}

pub(super) async fn report<F: FetchFiles>(
    manifest: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut found = Found::default();
    manifest_itself(manifest, &mut found);
    let mut readers = Vec::with_capacity(manifest.shards().len());
    for (number, shard) in manifest.shards().enumerate() {
        let reader = set.shard(number).await;
        match &reader {
            Ok(reader) => one_shard(number, shard, reader, level, work, &mut found).await,
            Err(error) => {
                found.structure.push(format!("shard {:?}: {}", Shortened(shard.path), with_causes(error)));
                if level >= VerifyLevel::Full {
                    unreadable(set, number, shard, work, &mut found).await;
                }
            }
        }
        readers.push(reader.ok().map(|reader| &**reader.index()));
    }
    map(manifest, &readers, &mut found);
    found.report(level, manifest)
}

impl Found {
    fn report(self, level: VerifyLevel, manifest: &SetIndex) -> Report {
        let mut report = Report::new(level);
        let shards = format!("{} shards", manifest.shards().len());
        let tensors = format!("{} tensors in {shards}", manifest.names().len());
        report.add("structure", self.structure, tensors.clone());
        if level >= VerifyLevel::Full {
            report.add("crc", self.crc, shards.clone());
            report.add("shard-crcs", self.shard_crcs, shards);
            if self.is_compressed {
                report.add("lz4", self.lz4, format!("{} blocks", self.blocks));
            } else {
                report.add_absent("lz4", "no tensor is compressed");
            }
            report.add("padding", self.padding, "all gaps are zero");
        }
        report.add("extents", self.extents, tensors);
        add_signature(manifest, self.is_signed, self.signature, &mut report);
        #[cfg(feature = "sign")]
        self.sealed.add_to(&mut report);
        report
    }
}

/// The signers. They prove something only for keys that the caller has named, which opening has checked.
fn add_signature(manifest: &SetIndex, is_signed: bool, findings: Vec<String>, report: &mut Report) {
    #[cfg(feature = "sign")]
    if let Some((signers, is_checked)) = manifest.signers() {
        return match is_checked {
            true => report.add("signature", findings, signers),
            false => report.add_partial("signature", findings, format!("{signers}; not checked by any key")),
        };
    }
    #[cfg(not(feature = "sign"))]
    let _ = manifest;
    if is_signed {
        report.add_partial("signature", findings, "each shard is signed by itself, and not the set");
    } else {
        report.add_absent("signature", "no shard is signed");
    }
}

#[cfg(feature = "sign")]
impl Sealed {
    fn take(&mut self, section: &crate::seal::Section, of_shard: Option<verify::SealFindings>, file: &str) {
        let Some(found) = of_shard else { return };
        let named = |text: String| format!("shard {:?}: {text}", Shortened(file));
        self.digests.extend(found.digests.into_iter().map(named));
        self.encryption.extend(found.encryption.into_iter().map(named));
        self.tensors = self.tensors.saturating_add(section.body.extents.len());
        self.is_hashed = true;
        self.is_encrypted |= section.is_encrypted();
        self.is_locked |= section.is_locked();
    }

    fn add_to(self, report: &mut Report) {
        if !self.is_hashed {
            return;
        }
        let tensors = format!("{} tensors", self.tensors);
        report.add("digests", self.digests, tensors.clone());
        match (self.is_encrypted, self.is_locked) {
            (false, _) => report.add_absent("encryption", "no shard is encrypted"),
            (true, true) if self.encryption.is_empty() => report.add_absent("encryption", verify::LOCKED),
            _ => report.add("encryption", self.encryption, tensors),
        }
    }
}

fn manifest_itself(manifest: &SetIndex, found: &mut Found) {
    if manifest.apr_version().is_none() {
        found.structure.push("manifest: it has no apr_version".to_owned());
    }
    let mut first = HashMap::new();
    for (number, shard) in manifest.shards().enumerate() {
        if let Some(other) = first.insert(shard.path, number) {
            found.structure.push(format!(
                "manifest: shards {other} and {number} are the same file {:?}",
                Shortened(shard.path)
            ));
        }
        if shard.crc32.is_none() {
            found.structure.push(format!("manifest, shard {number}: crc32 is not 8 lower-case hex digits"));
        }
    }
}

/// The checks of one shard by itself, and its CRC.
async fn one_shard<S: Fetch>(
    number: usize,
    shard: Shard<'_>,
    reader: &Reader<S>,
    level: VerifyLevel,
    work: &Execution<'_>,
    found: &mut Found,
) {
    let index = reader.index();
    let file = Shortened(shard.path);
    let named = |text: String| format!("shard {file:?}: {text}");
    let of_shard = verify::findings(index, reader.source(), level, work).await;
    found.structure.extend(of_shard.structure.into_iter().map(named));
    found.extents.extend(of_shard.extents.into_iter().map(named));
    found.signature.extend(of_shard.signature.into_iter().map(named));
    found.is_signed |= index.flags().contains(Flags::SIGNED);
    found.is_compressed |= index.tensors.any_compressed() && !index.flags().contains(Flags::ENCRYPTED);
    #[cfg(feature = "sign")]
    if let Some(section) = index.seal.as_deref() {
        found.sealed.take(section, of_shard.sealed, shard.path);
    }
    // A shard sets SHARDED (docs/formats/apr2.md#shard-rules).
    if !index.flags().contains(Flags::SHARDED) {
        found.structure.push(format!("shard {number} {file:?}: the flag SHARDED is not set"));
    }
    let Some(pass) = of_shard.pass else { return };
    found.crc.extend(pass.crc.into_iter().map(named));
    found.lz4.extend(pass.lz4.into_iter().map(named));
    found.padding.extend(pass.padding.into_iter().map(named));
    found.blocks = found.blocks.saturating_add(pass.blocks);
    match pass.whole {
        Some(crc) => compare(shard, crc, found),
        None => found.shard_crcs.push(named("cannot be read to its end".to_owned())),
    }
}

/// The manifest's `crc32` is that of the whole file.
fn compare(shard: Shard<'_>, crc: Crc, found: &mut Found) {
    let file = Shortened(shard.path);
    if crc.len != shard.size {
        let (found_len, stated) = (crc.len, shard.size);
        found
            .shard_crcs
            .push(format!("shard {file:?}: it has {found_len} bytes, but the manifest says {stated}"));
    }
    match shard.crc32 {
        Some(stated) if stated == crc.value => {}
        Some(stated) => {
            let text = format!(
                "shard {file:?}: the manifest says {stated:#010x}, but its bytes give {:#010x}",
                crc.value
            );
            found.shard_crcs.push(text);
        }
        None => found.shard_crcs.push(format!("shard {file:?}: the manifest has no CRC to compare with")),
    }
}

/// The CRC of a shard that does not open as an APR2 file.
async fn unreadable<F: FetchFiles>(
    set: &OpenSet<SetIndex, F>,
    number: usize,
    shard: Shard<'_>,
    work: &Execution<'_>,
    found: &mut Found,
) {
    let named = |text: String| format!("shard {:?}: {text}", Shortened(shard.path));
    let source = match set.file(number).await {
        Ok(source) => source,
        Err(Error::Open { source: error, .. }) => {
            return found.shard_crcs.push(named(format!("cannot be opened: {error}")));
        }
        Err(error) => return found.shard_crcs.push(named(with_causes(&error))),
    };
    let mut crc = Crc::default();
    let scan = ScanRange::new(0..source.size(), PIECE, |_, bytes: &[u8]| Crc::of(bytes));
    match source.scan(&scan, work, |next| crc = crc.then(next)).await {
        Ok(()) => compare(shard, crc, found),
        Err(error) => found.shard_crcs.push(named(error.to_string())),
    }
}

/// Every tensor that the manifest maps to a shard is there, and the other way round.
fn map(manifest: &SetIndex, indexes: &[Option<&Index>], found: &mut Found) {
    for (position, name) in manifest.names().iter().enumerate() {
        let Some(home) = manifest.shard_of(position) else { continue };
        let Some(Some(index)) = indexes.get(home) else { continue }; // a shard that does not open is a finding
        if index.tensors().find(name).is_none() {
            let (file, name) = (manifest.shard(home).map_or("", |shard| shard.path), Shortened(name));
            let what = format!("it does not have tensor {name:?}, which the manifest maps to it");
            found.structure.push(format!("shard {:?}: {what}", Shortened(file)));
        }
    }
    let home = |name| manifest.names().find(name).and_then(|position| manifest.shard_of(position));
    for (number, (shard, index)) in manifest.shards().zip(indexes).enumerate() {
        let file = Shortened(shard.path);
        let tensors = index.iter().flat_map(|index| index.tensors());
        let mut strangers = tensors.filter(|tensor| home(tensor.name) != Some(number));
        // Many paths may lead to one file: a line for each tensor of each would be a product.
        for tensor in strangers.by_ref().take(MAX_UNMAPPED) {
            let what =
                format!("it has tensor {:?}, which the manifest does not map to it", Shortened(tensor.name));
            found.structure.push(format!("shard {file:?}: {what}"));
        }
        let more = strangers.count();
        if more > 0 {
            let what = format!("it has {more} more tensors that the manifest does not map to it");
            found.structure.push(format!("shard {file:?}: {what}"));
        }
    }
}

/// How many tensors of a shard are named that the manifest does not map to it.
const MAX_UNMAPPED: usize = 20;
