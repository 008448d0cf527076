//! Verifies a set: its manifest, each shard by itself, and each shard against the manifest.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashMap;

use modelfmt_core::{
    Error, Execution, Fetch, FetchFiles, Report, VerifyLevel,
    author::{Crc, OpenSet, PIECE, ScanRange, ShardMap, Shortened, with_causes},
};

use super::{SetIndex, Shard};
use crate::index::Index;
use crate::verify::{Findings, Verified};
use crate::wire::Flags;

/// The findings about all shards.
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
}

/// Verifies a set without checking signatures, which only the flags of its shards can indicate.
pub(super) async fn report<F: FetchFiles>(
    manifest: &SetIndex,
    set: &OpenSet<SetIndex, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let (report, ()) = verify_set(manifest, set, level, work, add_signature).await;
    report
}

/// Verifies a set with this manifest. Returns the report and the results of the shards' seals. `signature`
/// adds the check of signatures to the report. It is called with whether a shard has the flag SIGNED, and
/// with the findings so far.
pub async fn verify_set<M, F>(
    manifest: &SetIndex,
    set: &OpenSet<M, F>,
    level: VerifyLevel,
    work: &Execution<'_>,
    signature: impl FnOnce(&mut Report, bool, Vec<String>),
) -> (Report, <M::Index as Verified>::Seals)
where
    M: ShardMap,
    M::Index: Verified,
    F: FetchFiles,
{
    let (mut found, mut seals) = (Found::default(), <M::Index as Verified>::Seals::default());
    manifest_itself(manifest, &mut found);
    let mut readers = Vec::with_capacity(manifest.shards().len());
    for (number, shard) in manifest.shards().enumerate() {
        let reader = set.shard(number).await;
        match &reader {
            Ok(reader) => {
                let (index, source) = (&**reader.index(), reader.source());
                let checks = index.findings(source, level, work, shard.path, &mut seals).await;
                one_shard(number, shard, index.plain(), checks, &mut found);
            }
            Err(error) => {
                found.structure.push(format!("shard {:?}: {}", Shortened(shard.path), with_causes(error)));
                if level >= VerifyLevel::Full {
                    unreadable(set, number, shard, work, &mut found).await;
                }
            }
        }
        readers.push(reader.ok().map(|reader| reader.index().plain()));
    }
    map(manifest, &readers, &mut found);
    (found.report(level, manifest, signature), seals)
}

impl Found {
    fn report(
        self,
        level: VerifyLevel,
        manifest: &SetIndex,
        signature: impl FnOnce(&mut Report, bool, Vec<String>),
    ) -> Report {
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
        signature(&mut report, self.is_signed, self.signature);
        report
    }
}

/// Adds the check of signatures for a set whose manifest has no signature.
pub fn add_signature(report: &mut Report, is_signed: bool, findings: Vec<String>) {
    if is_signed {
        report.add_partial("signature", findings, "each shard is signed by itself, and not the set");
    } else {
        report.add_absent("signature", "no shard is signed");
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

/// Adds the findings about a single shard to `found`.
fn one_shard(number: usize, shard: Shard<'_>, index: &Index, of_shard: Findings, found: &mut Found) {
    let file = Shortened(shard.path);
    let named = |text: String| format!("shard {file:?}: {text}");
    found.structure.extend(of_shard.structure.into_iter().map(named));
    found.extents.extend(of_shard.extents.into_iter().map(named));
    found.signature.extend(of_shard.signature.into_iter().map(named));
    found.is_signed |= index.flags().contains(Flags::SIGNED);
    found.is_compressed |= index.tensors.any_compressed() && !index.flags().contains(Flags::ENCRYPTED);
    // Every shard has the flag SHARDED (docs/formats/apr2.md#shard-rules).
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

/// Compares the manifest's `crc32` with the CRC of the whole file.
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

/// Computes the CRC of a shard that cannot be opened as an APR2 file.
async fn unreadable<M: ShardMap, F: FetchFiles>(
    set: &OpenSet<M, F>,
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

/// Checks that every tensor in the manifest is in its shard, and that every tensor of a shard is in the
/// manifest.
fn map(manifest: &SetIndex, indexes: &[Option<&Index>], found: &mut Found) {
    for (position, name) in manifest.names().iter().enumerate() {
        let Some(shard) = manifest.shard_of(position) else { continue };
        let Some(Some(index)) = indexes.get(shard) else { continue }; // a shard that does not open is a finding
        if index.tensors().find(name).is_none() {
            let (file, name) = (manifest.shard(shard).map_or("", |shard| shard.path), Shortened(name));
            let what = format!("it does not have tensor {name:?}, which the manifest maps to it");
            found.structure.push(format!("shard {:?}: {what}", Shortened(file)));
        }
    }
    let shard_of = |name| manifest.names().find(name).and_then(|position| manifest.shard_of(position));
    for (number, (shard, index)) in manifest.shards().zip(indexes).enumerate() {
        let file = Shortened(shard.path);
        let tensors = index.iter().flat_map(|index| index.tensors());
        let mut unmapped = tensors.filter(|tensor| shard_of(tensor.name) != Some(number));
        // Many paths may lead to the same file. The cap keeps the number of findings from growing with paths
        // × tensors.
        for tensor in unmapped.by_ref().take(MAX_UNMAPPED) {
            let what =
                format!("it has tensor {:?}, which the manifest does not map to it", Shortened(tensor.name));
            found.structure.push(format!("shard {file:?}: {what}"));
        }
        let more = unmapped.count();
        if more > 0 {
            let what = format!("it has {more} more tensors that the manifest does not map to it");
            found.structure.push(format!("shard {file:?}: {what}"));
        }
    }
}

/// The most unmapped tensors of a shard that get a finding of their own.
const MAX_UNMAPPED: usize = 20;
