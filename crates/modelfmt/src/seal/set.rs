//! Sets: every shard changes, and the manifest with them; all of them or none.

use apr2::seal::{SealOptions, SigningKey};
use apr2::{EditError, SetIndex};
use modelfmt_core::Execution;
use modelfmt_core::edit::{FileChange, NewFile, Preview, change_several};
use modelfmt_core::source::{BoxSource, FileVersion, Folder};

use super::opened::{Opened, Resealed};
use crate::edit::EditMethod;
use crate::error::{Error, Result};

/// A shard as it will be.
struct Changed {
    new: NewFile,
    /// What a signature of it vouches for.
    statement: Option<[u8; 32]>,
}

/// Signs the shards of a set and the set. All of it is verified first.
pub(super) fn sign(
    opened: Opened,
    keys: &[SigningKey],
    revision: u64,
    work: &Execution<'_>,
) -> Result<Resealed> {
    let versions = versions(&opened)?;
    crate::edit::expect_intact(&opened.model, work)?;
    let shard = |reader: &apr2::Reader<BoxSource>| {
        let new = reader.index().sign(reader.source(), keys, Some(revision), work)?;
        let preview = apr2::Reader::from_source(Preview::new(new.clone(), reader.source()))?;
        let statement = preview.index().seal().map(|seal| seal.statement());
        Ok(Changed { new, statement })
    };
    change(opened, versions, shard, |set, text, shards| {
        let shards = shards.iter().map(|shard| Some((shard.new.len(), shard.statement?)));
        let shards = shards.collect::<Option<Vec<_>>>().unwrap_or_default(); // each has been signed
        set.sign_anew(text, &shards, keys, revision)
    })
}

/// Writes other slots into each shard.
pub(super) fn rekey(opened: Opened, to: &SealOptions) -> Result<Resealed> {
    let versions = versions(&opened)?;
    let shard = |reader: &apr2::Reader<BoxSource>| {
        let new = reader.index().rekey(reader.source(), to)?;
        Ok(Changed { new, statement: None })
    };
    change(opened, versions, shard, |set, text, shards| {
        set.resized(text, &shards.iter().map(|shard| shard.new.len()).collect::<Vec<_>>())
    })
}

/// The versions of the shards, before any of them is read.
fn versions(opened: &Opened) -> Result<Vec<FileVersion>> {
    let folder = Folder::containing(&opened.path);
    let version = |name: String| {
        let path = folder.path().join(name);
        FileVersion::of(&path).map_err(|source| Error::Open { path, source })
    };
    opened.model.container().file_paths().into_iter().map(version).collect()
}

fn change(
    opened: Opened,
    versions: Vec<FileVersion>,
    shard: impl Fn(&apr2::Reader<BoxSource>) -> Result<Changed, EditError>,
    manifest: impl Fn(&SetIndex, &[u8], &[Changed]) -> Result<NewFile, EditError>,
) -> Result<Resealed> {
    let Opened { path, version, model, mut notes } = opened;
    let Some(set) = model.as_apr2_sharded() else {
        return Err(Error::NotEditable { path, why: "it is no longer a set".to_owned() });
    };
    let folder = Folder::containing(&path).path().to_owned();
    let (names, mut shards) = (model.container().file_paths(), Vec::with_capacity(versions.len()));
    for (number, name) in names.iter().enumerate() {
        let failed = |error: EditError| crate::edit::failed(&folder.join(name), error.into());
        let reader = set.shard(number).map_err(|error| failed(error.into()))?;
        shards.push(shard(reader).map_err(failed)?);
    }
    let text = std::fs::read(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
    let text = manifest(set.index(), &text, &shards);
    let text = text.map_err(|error| crate::edit::failed(&path, error.into()))?;
    drop(model);
    let mut changes: Vec<FileChange> = Vec::with_capacity(names.len() + 1);
    for ((name, before), shard) in names.iter().zip(versions).zip(shards) {
        changes.push(FileChange { name: name.clone(), new: shard.new, before });
    }
    let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    changes.push(FileChange { name: own, new: text, before: version });
    let changed_nbytes = change_several(&path, &changes, &|_| true)
        .map_err(|source| Error::Write { path: path.clone(), source })?;
    for path in names.iter().map(|name| folder.join(name)).chain([path.clone()]) {
        notes.extend(crate::beside::of_before(&path));
    }
    notes.dedup();
    Ok(Resealed { path, method: EditMethod::InPlace, changed_nbytes, notes })
}
