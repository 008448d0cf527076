//! Signatures inside a file that is edited. Old ones do not cover the change; new ones can be made.

use std::path::Path;

use apr2::seal::{SealOptions, SigningKey};
use modelfmt_core::edit::{NewFile, Preview};
use modelfmt_core::source::{BoxSource, FileSource};
use modelfmt_core::{Execution, VerifyLevel};

use super::fault::failed;
use super::{Edit, EditMethod, EditOptions};
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::Model;
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
        if model.format() != Format::Apr2 {
            let why =
                format!("only an APR2 file is signed while it is edited, and this is {}", model.format());
            return Err(Error::NotEditable { path: model.path().to_owned(), why });
        }
        let seal = model.as_apr2().and_then(|reader| reader.index().seal());
        let revision = options.revision.or_else(|| seal.map(|seal| seal.revision()));
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
        let unfit = |error: apr2::EditError| failed(path, error.into());
        let reader = apr2::Reader::from_source(preview).map_err(|error| unfit(error.into()))?;
        let signed = reader.index().sign(reader.source(), &self.keys, self.revision, work).map_err(unfit)?;
        Ok(signed.after(new))
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
    let seal = model.as_apr2()?.index().seal().filter(|_| method != EditMethod::Unchanged)?;
    let is_ours = |id: &[u8; 32]| {
        signing.is_some_and(|by| by.keys.iter().any(|key| key.verifying_key().key_id() == *id))
    };
    let gone = seal.signatures().map(|signature| signature.key_id);
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
