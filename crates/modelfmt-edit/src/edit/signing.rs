//! The signatures of an edited file or set. Old signatures do not cover the change; new ones can be made.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use modelfmt_core::source::{BoxSource, folder_of};
use modelfmt_core::{Execution, Limits};
use modelfmt_write::edit::{FileChange, NewFile, Preview};

use super::fault::{failed, opened};
use super::{EditMethod, EditOptions, Target};
use crate::edit::sealing::signers::{SignedShard, Signers, expect_intact};
use modelfmt_convert::convert::ConvertOptions;
use modelfmt_model::apr2::SetIndex;
use modelfmt_model::apr2::seal::SigningKey;
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::open::OpenOptions;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

/// The keys that sign the changed file. The module `unsigned` has the same functions for builds without signatures.
#[derive(Clone, Debug)]
pub(super) struct Signing {
    keys: Vec<SigningKey>,
    revision: Option<u64>,
    open: OpenOptions,
}

impl Signing {
    /// Takes the keys from the options. The revision stays as it is unless the options have another.
    pub(super) fn new(model: &Model, options: &EditOptions) -> Result<Option<Self>> {
        if options.sign.is_empty() {
            return match options.revision {
                Some(_) => Err(Error::usage(
                    Choice::Sign,
                    "is needed with a revision, because the revision is part of a signature",
                )),
                None => Ok(None),
            };
        }
        if !model.format().properties().embedded_signatures {
            let why =
                format!("only APR2 is signed inside while it is edited, and this is {}", model.format());
            return Err(Error::NotEditable { path: model.path().to_owned(), why });
        }
        let revision = match model.as_apr2_sharded() {
            Some(set) => set.index().revision(),
            None => model.as_apr2().and_then(|reader| reader.index().seal()).map(|seal| seal.revision()),
        };
        let revision = options.revision.or(revision);
        Ok(Some(Self { keys: options.sign.clone(), revision, open: options.open.clone() }))
    }

    fn by(&self) -> Signers<'_> {
        Signers { keys: &self.keys, revision: self.revision }
    }

    /// Fails for a model that is not intact, because such a model must not be signed.
    pub(super) fn expect_intact(&self, path: &Path, work: &Execution<'_>) -> Result<()> {
        expect_intact(&self.open.open(path)?, work)
    }

    /// Sets the options of a conversion so that it signs its output. A signature vouches for all of the
    /// content, so the model at `path` is verified first.
    pub(super) fn sign_output(
        &self,
        path: &Path,
        options: &mut ConvertOptions,
        work: &Execution<'_>,
    ) -> Result<()> {
        self.expect_intact(path, work)?;
        options.apr2.seal = Some(self.by().options());
        Ok(())
    }

    /// Returns the file as it will be, with its signatures. The present file is verified first.
    pub(super) fn sign_file(&self, path: &Path, new: &NewFile, work: &Execution<'_>) -> Result<NewFile> {
        self.expect_intact(path, work)?;
        let signed = self.by().file(&preview(path, new)?, work);
        Ok(signed.map_err(|error| failed(path, error))?.after(new))
    }

    /// Signs a set if only its manifest changes. Existing signatures are kept.
    pub(super) fn add_to_set(&self, path: &Path, work: &Execution<'_>) -> Result<u64> {
        let Self { keys, revision, open } = self;
        Ok(crate::edit::sealing::sign(path, keys, *revision, open, work)?.changed_nbytes)
    }

    /// Signs all shards as they will be. Returns the manifest, made from `text`, with the signatures of the
    /// set. The set at `path` is verified first.
    pub(super) fn sign_set(
        &self,
        path: &Path,
        shards: &mut [FileChange],
        text: &[u8],
        work: &Execution<'_>,
    ) -> Result<NewFile> {
        self.expect_intact(path, work)?;
        let folder = folder_of(path);
        let mut stated = HashMap::new();
        for shard in shards {
            let path = folder.join(&shard.name);
            let signed = self.by().shard(&preview(&path, &shard.new)?, work);
            let (new, of_shard) = signed.map_err(|error| failed(&path, error))?;
            shard.new = new.after(&shard.new);
            stated.insert(shard.name.clone(), of_shard);
        }
        let set = SetIndex::parse(text, &Limits::default());
        let set = set.map_err(|error| failed(path, error))?;
        let stated: Vec<SignedShard> =
            set.shards().filter_map(|shard| stated.get(shard.path).copied()).collect();
        self.by().manifest(&set, text, &stated).map_err(|error| failed(path, error))
    }
}

/// Returns whether a file, or one of the files of a set, has a seal section.
pub(super) fn is_sealed(model: &Model) -> bool {
    let Some(set) = model.as_apr2_sharded() else {
        return model.as_apr2().is_some_and(|reader| reader.index().seal().is_some());
    };
    let mut shards = 0..model.container().file_paths().len();
    shards.any(|number| set.shard(number).is_ok_and(|shard| shard.index().seal().is_some()))
}

/// Returns the function that removes the signatures of shards that the edit itself does not change, if the
/// set is or will be signed: the signatures belong to the old set.
pub(super) fn signature_stripper(
    model: &Model,
    signing: Option<&Signing>,
) -> Option<fn(&Path) -> Result<NewFile>> {
    let is_signed = model.as_apr2_sharded().is_some_and(|set| set.index().statement().is_some());
    (is_signed || signing.is_some()).then_some(without_signatures)
}

fn without_signatures(path: &Path) -> Result<NewFile> {
    let reader =
        modelfmt_model::apr2::Reader::from_source(opened(path)?).map_err(|error| failed(path, error))?;
    reader.index().without_signatures(reader.source()).map_err(|error| failed(path, error))
}

/// Opens a file as it will be after the edit.
fn preview(path: &Path, new: &NewFile) -> Result<modelfmt_model::apr2::Reader<BoxSource>> {
    let preview: BoxSource = Box::new(Preview::new(new.clone(), opened(path)?));
    modelfmt_model::apr2::Reader::from_source(preview).map_err(|error| failed(path, error))
}

/// Returns a note about the signatures that are removed from a changed model, if there are any.
pub(super) fn note(
    model: &Model,
    target: &Target,
    method: EditMethod,
    signing: Option<&Signing>,
) -> Option<Note> {
    let mut gone = match method {
        EditMethod::Unchanged => Vec::new(),
        _ => removed(model, target, method == EditMethod::Written),
    };
    let ours: Vec<[u8; 32]> =
        signing.iter().flat_map(|by| &by.keys).map(|key| key.verifying_key().key_id()).collect();
    gone.retain(|id| id.is_none_or(|id| !ours.contains(&id)));
    let gone = gone.into_iter().map(|id| match id {
        Some(id) => format!("the key {}", blake3::Hash::from_bytes(id).to_hex()),
        None => "a key of an unknown type".to_owned(),
    });
    let gone: Vec<String> = gone.collect();
    let (those, are, they, cover) = match gone.len() {
        0 => return None,
        1 => ("signature", "is", "it", "does"),
        _ => ("signatures", "are", "they", "do"),
    };
    let text = format!(
        "{those} of {} {are} removed, because {they} {cover} not cover the change",
        gone.join(" and ")
    );
    Some(match signing {
        Some(_) => Note::from(format!("the {text}")),
        None => Note::of(&[Choice::Sign], format!("signs the file anew; the {text}")),
    })
}

/// Returns the keys of the removed signatures, each once; `None` means a signature of an unknown type. Shards
/// can have signatures even if the set has none.
fn removed(model: &Model, target: &Target, is_rewritten: bool) -> Vec<Option<[u8; 32]>> {
    let mut all = Vec::new();
    match (model.as_apr2_sharded(), target) {
        (Some(set), Target::Set(edit)) => {
            if edit.changes_files() || is_rewritten {
                all.extend(set.index().signatures());
            }
            let names = model.container().file_paths().into_iter().enumerate();
            let changed = names.filter(|(_, name)| is_rewritten || edit.changes_file(name));
            let shards = changed.filter_map(|(number, _)| set.shard(number).ok()?.index().seal());
            shards.for_each(|seal| all.extend(seal.signatures()));
        }
        _ => {
            let seal = model.as_apr2().and_then(|reader| reader.index().seal());
            all.extend(seal.iter().flat_map(|seal| seal.signatures()));
        }
    }
    let mut seen = HashSet::new();
    all.into_iter().map(|signature| signature.key_id).filter(|id| seen.insert(*id)).collect()
}
