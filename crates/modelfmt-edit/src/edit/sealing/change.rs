//! Changes the signatures inside an APR2 file, and changes who can open the file.

use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_write::edit::NewFile;

use crate::edit::EditMethod;
use crate::edit::fault::{failed, opened, unchanged};
use crate::edit::sealing::opened::{Opened, Resealed, expect_manifest, expect_readable};
use crate::edit::sealing::set;
use crate::edit::sealing::signers::{Signers, expect_intact};
use modelfmt_model::apr2::EditError;
use modelfmt_model::apr2::seal::{SealOptions, SigningKey};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::open::OpenOptions;

/// Adds signatures to an APR2 file, or to the manifest of a set, and keeps existing ones. In a set that is
/// not sealed, the shards are signed too, and all files of the set change together, or none does. The whole
/// model is verified first, because a signature vouches for all of its content. You can choose `revision`
/// only if there is no signature yet. To sign an encrypted file without a signature, pass a key in `options`
/// that opens it.
///
/// # Errors
/// [`Error::NotEditable`] for other formats, for a shard, and for a model that fails verification;
/// [`Error::Refused`] for files that cannot be signed; otherwise the errors of
/// [`edit`](fn@crate::edit::edit).
pub fn sign(
    path: impl AsRef<Path>,
    keys: &[SigningKey],
    revision: Option<u64>,
    options: &OpenOptions,
    work: &Execution<'_>,
) -> Result<Resealed> {
    let by = Signers { keys, revision };
    let opened = Opened::new(path.as_ref(), options)?;
    let Some(set) = opened.model.as_apr2_sharded() else {
        opened.expect_alone()?;
        expect_intact(&opened.model, work)?;
        let new = by.file(opened.reader()?, work);
        return write(opened, new);
    };
    if set.index().statement().is_none() {
        return set::sign(opened, by, work);
    }
    expect_intact(&opened.model, work)?;
    let text = std::fs::read(&opened.path);
    let text = text.map_err(|source| Error::Open { path: opened.path.clone(), source })?;
    let new = set.index().sign(&text, keys, revision);
    write(opened, new)
}

/// Changes who can open an encrypted file: afterwards only the recipients in `to` can. `options` must have a
/// key that opens the file. The signatures of the file stay valid. All files of a set change together, or
/// none does. People who could open the file before can still read copies of it, and also this file if they
/// kept its key. To exclude somebody, write the model to a new file.
///
/// # Errors
/// If the file cannot be opened with the keys, or cannot be written, or if the options are contradictory.
pub fn rekey(path: impl AsRef<Path>, to: &SealOptions, options: &OpenOptions) -> Result<Resealed> {
    let opened = Opened::new(path.as_ref(), options)?;
    if opened.model.as_apr2_sharded().is_some() {
        return set::rekey(opened, to);
    }
    opened.expect_alone()?;
    let reader = opened.reader()?;
    let new = reader.index().rekey(reader.source(), to);
    write(opened, new)
}

fn write(model: Opened, new: Result<NewFile, EditError>) -> Result<Resealed> {
    let Opened { path, version, model, mut notes } = model;
    let is_manifest = model.as_apr2_sharded().is_some();
    drop(model);
    let new = new.map_err(|error| failed(&path, error))?;
    let method = EditMethod::of(&new, &opened(&path)?);
    let method = method.map_err(|source| Error::Open { path: path.clone(), source })?;
    let mut changed_nbytes = 0;
    if method != EditMethod::Unchanged {
        match is_manifest {
            true => expect_manifest(&path, &new)?,
            false => expect_readable(&path, &new)?,
        }
        let changed = modelfmt_write::edit::patch(&path, &new, &version);
        changed_nbytes = changed.map_err(|source| unchanged(&path, source))?;
        notes.extend(modelfmt_model::stale_sidecars::notes(&path));
    }
    Ok(Resealed { path, method, changed_nbytes, notes })
}
