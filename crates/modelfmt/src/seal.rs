//! Changes the signatures inside an APR2 file, and who can open it, in place.
//!
//! No tensor is written again. An interrupted change is undone in the same way as an [edit](mod@crate::edit). A model of any format is sealed for the
//! first time by a conversion: [`ConvertOptions::seal`](crate::ConvertOptions::seal).
//!
//! ```
//! use modelfmt::apr2::seal::{Access, SigningKey};
//! use modelfmt::{Execution, Format, Object, OpenOptions, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! let metadata = Object::from_iter([("model_type", "tiny")]);
//! modelfmt::save_as(Format::Apr2, &path, [("w", View::new(&[1.0f32, 2.0], [2])?)], &metadata)?;
//!
//! let alice = SigningKey::from_bytes(&[1; 32]); // from a file, really
//! modelfmt::seal::sign(&path, &[alice.clone()], None, &OpenOptions::new(), &Execution::default())?;
//!
//! let access = Access::new().trust(alice.verifying_key());
//! assert!(OpenOptions::new().access(access).open(&path)?.tensor("w").is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};

use apr2::EditError;
use apr2::seal::{SealOptions, SigningKey};
use modelfmt_core::edit::NewFile;
use modelfmt_core::source::{FileSource, FileVersion};
use modelfmt_core::{Execution, Source as _};

use crate::edit::EditMethod;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::model::Model;
use crate::open::OpenOptions;
use crate::words::Note;

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resealed {
    /// The file; for a set, its manifest.
    pub path: PathBuf,
    /// How: [`EditMethod::Unchanged`] if everything was there already, else [`EditMethod::InPlace`].
    pub method: EditMethod,
    /// The bytes that were written.
    pub changed_nbytes: u64,
    /// Notes for the user, for standard error.
    pub notes: Vec<Note>,
}

/// Adds signatures inside an APR2 file, or in the manifest of a sealed set, to those that are there. All of it is verified first, because a signature
/// vouches for the whole content. `revision` can be chosen as long as nobody has signed. A file that is encrypted and has no signature yet must be
/// open: then `options` have a key.
///
/// # Errors
/// [`Error::NotEditable`] for other formats, and for a model that does not pass verification; [`Error::Refused`] for files that cannot be signed,
/// such as a shard, or a set that is not sealed; otherwise as [`edit`](fn@crate::edit()).
pub fn sign(
    path: impl AsRef<Path>,
    keys: &[SigningKey],
    revision: Option<u64>,
    options: &OpenOptions,
    work: &Execution<'_>,
) -> Result<Resealed> {
    let Opened { path, version, model, notes } = Opened::new(path.as_ref(), options)?;
    crate::edit::expect_intact(&model, work)?;
    let new = match (model.as_apr2(), model.as_apr2_sharded()) {
        (Some(reader), _) => reader.index().sign(reader.source(), keys, revision, work),
        (_, Some(set)) => {
            let text = std::fs::read(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
            set.index().sign(&text, keys, revision)
        }
        _ => return Err(not_apr2(path, model.format())),
    };
    write(path, &version, new, notes)
}

/// Changes who can open an encrypted file: only those whom `to` names. `options` must have a key that opens it. Its signatures stay valid. People who
/// could open the file can still read copies of it, and this one too if they kept its key: to shut somebody out, write the model into a new file.
///
/// # Errors
/// As [`sign`]; [`Error::NotEditable`] for a set, whose manifest has the sizes of its files.
pub fn rekey(path: impl AsRef<Path>, to: &SealOptions, options: &OpenOptions) -> Result<Resealed> {
    let Opened { path, version, model, notes } = Opened::new(path.as_ref(), options)?;
    match model.as_apr2() {
        Some(reader) => write(path, &version, reader.index().rekey(reader.source(), to), notes),
        None if model.format() == Format::Apr2Sharded => {
            let why = "its files would change one after the other, and its manifest with them; seal it into a new set";
            Err(Error::NotEditable { path, why: why.to_owned() })
        }
        None => Err(not_apr2(path, model.format())),
    }
}

/// A model that is about to change.
struct Opened {
    path: PathBuf,
    /// The version of the file that is read.
    version: FileVersion,
    model: Model,
    notes: Vec<Note>,
}

impl Opened {
    fn new(path: &Path, options: &OpenOptions) -> Result<Self> {
        let path = if path.is_dir() { crate::folder::model_in(path)? } else { path.to_owned() };
        let notes = crate::edit::recovered(&path)?.into_iter().collect();
        let version = FileVersion::of(&path).map_err(|source| Error::Open { path: path.clone(), source })?;
        let model = options.open(&path)?;
        Ok(Self { path, version, model, notes })
    }
}

fn not_apr2(path: PathBuf, format: Format) -> Error {
    let why = format!("only APR2 files have signatures and keys inside, and this is {format}");
    Error::NotEditable { path, why }
}

fn write(
    path: PathBuf,
    before: &FileVersion,
    new: Result<NewFile, EditError>,
    mut notes: Vec<Note>,
) -> Result<Resealed> {
    let new = new.map_err(|error| crate::edit::failed(&path, error.into()))?;
    let unread = |source| Error::Open { path: path.clone(), source };
    let old = FileSource::open(&path).map_err(unread)?;
    let patches = new.patches(&old).map_err(unread)?;
    let is_same = new.len() == old.len() && patches.is_some_and(|patches| patches.is_empty());
    let (method, changed_nbytes) = match is_same {
        true => (EditMethod::Unchanged, 0),
        false => {
            let changed = modelfmt_core::edit::patch(&path, &new, before);
            (EditMethod::InPlace, changed.map_err(|source| Error::Write { path: path.clone(), source })?)
        }
    };
    if !is_same {
        notes.extend(crate::beside::of_before(&path));
    }
    Ok(Resealed { path, method, changed_nbytes, notes })
}
