//! Changes the signatures or keys of a set: every shard and the manifest change together, or none does.

use modelfmt_core::Execution;
use modelfmt_core::source::{BoxSource, FileVersion, folder_of};
use modelfmt_write::edit::{FileChange, NewFile, change_several};

use crate::edit::EditMethod;
use crate::edit::fault::{failed, unchanged, version};
use crate::edit::sealing::opened::{Opened, Resealed, expect_manifest, expect_readable};
use crate::edit::sealing::signers::{SignedShard, Signers, expect_intact};
use modelfmt_model::apr2::seal::SealOptions;
use modelfmt_model::apr2::{EditError, SetIndex};
use modelfmt_model::error::{Error, Result};

/// Signs the shards of a set and the set itself. The whole set is verified first.
pub(super) fn sign(opened: Opened, by: Signers<'_>, work: &Execution<'_>) -> Result<Resealed> {
    let versions = versions(&opened)?;
    expect_intact(&opened.model, work)?;
    let manifest = |set: &SetIndex, text: &[u8], stated: &[SignedShard]| by.manifest(set, text, stated);
    change(opened, versions, |shard| by.shard(shard, work), manifest)
}

/// Writes new key slots into each shard.
pub(super) fn rekey(opened: Opened, to: &SealOptions) -> Result<Resealed> {
    let versions = versions(&opened)?;
    let to = to.clone().for_set();
    let shard = |shard: &Shard| {
        let new = shard.index().rekey(shard.source(), &to)?;
        let len = new.len();
        Ok((new, len))
    };
    change(opened, versions, shard, SetIndex::resized)
}

type Shard = modelfmt_model::apr2::Reader<BoxSource>;

/// Returns the versions of the shards. Call this before any of them is read.
fn versions(opened: &Opened) -> Result<Vec<FileVersion>> {
    let folder = folder_of(&opened.path);
    let names = opened.model.container().file_paths();
    names.iter().map(|name| version(&folder.join(name))).collect()
}

/// Changes all files of a set together. `shard` makes a new shard and the entry for it that the manifest will
/// have.
fn change<T>(
    opened: Opened,
    versions: Vec<FileVersion>,
    shard: impl Fn(&Shard) -> Result<(NewFile, T), EditError>,
    manifest: impl FnOnce(&SetIndex, &[u8], &[T]) -> Result<NewFile, EditError>,
) -> Result<Resealed> {
    let Opened { path, version, model, mut notes } = opened;
    let Some(set) = model.as_apr2_sharded() else {
        return Err(Error::NotEditable { path, why: "it is no longer a set".to_owned() });
    };
    let folder = folder_of(&path).to_owned();
    let names = model.container().file_paths();
    let (mut changes, mut stated) = (Vec::with_capacity(names.len() + 1), Vec::with_capacity(names.len()));
    for (number, (name, before)) in names.iter().zip(versions).enumerate() {
        let place = folder.join(name);
        let reader = set.shard(number).map_err(|error| failed(&place, error))?;
        let (new, of_shard) = shard(reader).map_err(|error| failed(&place, error))?;
        expect_readable(&place, &new)?;
        changes.push(FileChange { name: name.clone(), new, before });
        stated.push(of_shard);
    }
    let text = std::fs::read(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
    let text = manifest(set.index(), &text, &stated).map_err(|error| failed(&path, error))?;
    expect_manifest(&path, &text)?;
    drop(model);
    let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    changes.push(FileChange { name: own, new: text, before: version });
    let changed_nbytes =
        change_several(&path, &changes, &|_| true).map_err(|source| unchanged(&path, source))?;
    for path in names.iter().map(|name| folder.join(name)).chain([path.clone()]) {
        notes.extend(modelfmt_model::stale_sidecars::notes(&path));
    }
    notes.dedup();
    Ok(Resealed { path, method: EditMethod::InPlace, changed_nbytes, notes })
}
