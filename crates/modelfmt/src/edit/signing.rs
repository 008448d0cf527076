//! Signatures inside a file or set that is edited. Old ones do not cover the change; new ones can be made.

use std::collections::HashMap;
use std::path::Path;

use apr2::seal::{SealOptions, SigningKey};
use apr2::{EditError, SetIndex};
use modelfmt_core::edit::{FileChange, NewFile, Preview};
use modelfmt_core::source::{BoxSource, FileSource, Folder};
use modelfmt_core::{Execution, Limits, VerifyLevel};

use super::fault::failed;
use super::set::SetEdit;
use super::{Edit, EditMethod, EditOptions, file_of};
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::Model;
use crate::open::OpenOptions;
use crate::words::Note;

/// Who signs the changed file.
#[derive(Clone, Debug)]
pub(super) struct Signing {
    pub(super) keys: Vec<SigningKey>,
    pub(super) revision: Option<u64>,
}

impl Signing {
    /// What the options ask for. The revision stays unless another is asked for.
    pub(super) fn new(model: &Model, options: &EditOptions) -> Result<Option<Self>> {
        if options.sign.is_empty() {
            return match options.revision {
                Some(_) => {
                    Err(Error::usage(Choice::Sign, "is needed for a revision, which a signer vouches for"))
                }
                None => Ok(None),
            };
        }
        if !matches!(model.format(), Format::Apr2 | Format::Apr2Sharded) {
            let why =
                format!("only APR2 is signed inside while it is edited, and this is {}", model.format());
            return Err(Error::NotEditable { path: model.path().to_owned(), why });
        }
        let revision = match model.as_apr2_sharded() {
            Some(set) => set.index().revision(),
            None => model.as_apr2().and_then(|reader| reader.index().seal()).map(|seal| seal.revision()),
        };
        let revision = options.revision.or(revision);
        Ok(Some(Self { keys: options.sign.clone(), revision }))
    }

    /// The same for a file that is written again.
    pub(super) fn options(&self) -> SealOptions {
        let options = SealOptions::new().revision(self.revision.unwrap_or_default());
        self.keys.iter().cloned().fold(options, SealOptions::sign)
    }

    /// The file as it will be, with its signatures. A signature vouches for the whole content, so the file is verified first.
    pub(super) fn file(&self, path: &Path, new: &NewFile, work: &Execution<'_>) -> Result<NewFile> {
        expect_intact(&Model::open(path)?, work)?;
        let unread = |source| Error::Open { path: path.to_owned(), source };
        let preview: BoxSource = Box::new(Preview::new(new.clone(), FileSource::open(path).map_err(unread)?));
        let unfit = |error: EditError| failed(path, error.into());
        let reader = apr2::Reader::from_source(preview).map_err(|error| unfit(error.into()))?;
        let signed = reader.index().sign(reader.source(), &self.keys, self.revision, work).map_err(unfit)?;
        Ok(signed.after(new))
    }
}

/// Whether the manifest of a set is signed, or lists what its shards are.
pub(super) fn is_signed_set(model: &Model) -> bool {
    model.as_apr2_sharded().is_some_and(|set| set.index().statement().is_some())
}

/// A shard without its signatures: they are not of the set as it will be.
pub(super) fn unsigned(path: &Path) -> Result<NewFile> {
    let source = FileSource::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    let unfit = |error: EditError| failed(path, error.into());
    let reader = apr2::Reader::from_source(source).map_err(|error| unfit(error.into()))?;
    reader.index().without_signatures(reader.source()).map_err(unfit)
}

impl Signing {
    /// Signs the shards as they will be, all of them; the manifest whose text is `text`, with the signatures of the set.
    fn set(
        &self,
        path: &Path,
        shards: &mut [FileChange],
        text: &[u8],
        work: &Execution<'_>,
    ) -> Result<NewFile> {
        expect_intact(&Model::open(path)?, work)?;
        let folder = Folder::containing(path).path().to_owned();
        let mut signed = HashMap::new();
        for shard in shards {
            let path = folder.join(&shard.name);
            let unfit = |error: EditError| failed(&path, error.into());
            let preview = |new: &NewFile| {
                let old =
                    FileSource::open(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
                let source: BoxSource = Box::new(Preview::new(new.clone(), old));
                apr2::Reader::from_source(source).map_err(|error| unfit(error.into()))
            };
            let reader = preview(&shard.new)?;
            let new = reader.index().sign(reader.source(), &self.keys, self.revision, work).map_err(unfit)?;
            shard.new = new.after(&shard.new);
            let statement = preview(&shard.new)?.index().seal().map(|seal| seal.statement());
            signed.insert(shard.name.clone(), (shard.new.len(), statement.unwrap_or_default()));
        }
        let unfit = |error: EditError| failed(path, error.into());
        let set = SetIndex::parse(text, &Limits::default()).map_err(|error| unfit(error.into()))?;
        let shards: Vec<_> = set.shards().filter_map(|shard| signed.get(shard.path).copied()).collect();
        set.sign_anew(text, &shards, &self.keys, self.revision.unwrap_or_default()).map_err(unfit)
    }
}

/// Refuses to sign a model that is not intact.
pub(crate) fn expect_intact(model: &Model, work: &Execution<'_>) -> Result<()> {
    match model.verify_with(VerifyLevel::Full, work).errors.first() {
        None => Ok(()),
        Some(finding) => {
            let why = format!("it is not intact, and so it is not signed: {finding}");
            Err(Error::NotEditable { path: model.path().to_owned(), why })
        }
    }
}

impl Edit {
    /// Changes the files of a set, and signs it if that was asked for; returns the bytes that were written.
    pub(super) fn write_several(&self, edit: &SetEdit, work: &Execution<'_>) -> Result<u64> {
        match &self.signing {
            // What is signed stays as it is; the manifest says a little more.
            Some(by) if edit.nbytes() == 0 => {
                expect_intact(&Model::open(&self.path)?, work)?;
                let unsigned = match edit.is_unchanged() {
                    true => 0,
                    false => edit.write(&self.path, work, |_, text| Ok(file_of(text)))?,
                };
                let signed = crate::seal::sign(&self.path, &by.keys, by.revision, &OpenOptions::new(), work)?;
                Ok(signed.changed_nbytes.saturating_add(unsigned))
            }
            Some(by) => edit.write(&self.path, work, |shards, text| by.set(&self.path, shards, &text, work)),
            None => edit.write(&self.path, work, |_, text| Ok(file_of(text))),
        }
    }

    /// The file as it will be.
    pub(super) fn signed(&self, new: &NewFile, work: &Execution<'_>) -> Result<NewFile> {
        match &self.signing {
            Some(signing) => signing.file(&self.path, new, work),
            None => Ok(new.clone()),
        }
    }
}

/// What becomes of the signatures of a file that changes.
pub(super) fn note(model: &Model, method: EditMethod, signing: Option<&Signing>) -> Option<Note> {
    let is_ours = |id: &[u8; 32]| {
        signing.is_some_and(|by| by.keys.iter().any(|key| key.verifying_key().key_id() == *id))
    };
    let all: Vec<_> = match model.as_apr2_sharded() {
        _ if method == EditMethod::Unchanged => return None,
        Some(set) => set.index().signatures().collect(),
        None => model.as_apr2()?.index().seal()?.signatures().collect(),
    };
    let gone = all.iter().map(|signature| signature.key_id);
    let gone = gone.filter(|id| !id.as_ref().is_some_and(is_ours)).map(|id| match id {
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
