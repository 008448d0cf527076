//! Edits that rewrite all values: edits that remove tensors, and edits that write a model of several files to
//! a new output. The edited model is converted into its own format.

use std::path::{Path, PathBuf};

use modelfmt_core::source::{FileVersion, folder_of};
use modelfmt_core::{AnyError, Execution};
use modelfmt_write::edit::{NewFile, hold};
use modelfmt_write::{AtomicFile, Discard, Output, Overwrite};

use super::fault::{opened, unchanged, version};
use super::set::SetEdit;
use super::{Edit, EditMethod, Edited, check, through_link};
use modelfmt_convert::convert::{Conversion, ConversionPlan, ConvertOptions, Converted};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::model::Model;
use modelfmt_model::open::OpenOptions;
use modelfmt_rules::globs::escaped;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Note;

/// The number of bytes that are checked at once.
const PIECE: u64 = 4 << 20;

/// A file or set that was rewritten.
pub(super) struct Written {
    /// The file; for a set, its index.
    path: PathBuf,
    nbytes: u64,
    /// The notes of the conversion.
    notes: Vec<Note>,
}

impl Written {
    fn of(path: PathBuf, converted: Converted) -> Self {
        let nbytes = converted.files.iter().map(|file| file.nbytes).sum();
        Self { path, nbytes, notes: converted.notes }
    }
}

impl Edit {
    /// Writes the file with all other changes, and without the tensors that are removed.
    pub(super) fn write_without(
        &self,
        new: &NewFile,
        before: &FileVersion,
        out: &Path,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<Written> {
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path: out.to_owned() },
            _ => Error::Write { path: out.to_owned(), source },
        };
        let is_same = modelfmt_write::InputFiles::new([&self.path]).contains(out);
        let resolved = if is_same { std::fs::canonicalize(out).map_err(failed)? } else { out.to_owned() };
        let (model, options) = self.source(new, work)?;
        let conversion = Conversion::to_format(&model, self.format).options(&options).plan()?;
        let file = AtomicFile::create(resolved, overwrite).map_err(failed)?;
        let converted = conversion.write_to_sink(&file, work)?;
        drop(model);
        // While this lock is held, no other process edits the file.
        let _lock = match is_same {
            true => Some(hold(&self.path, before).map_err(|source| unchanged(&self.path, source))?),
            false if *before != version(&self.path)? => {
                return Err(Error::EditConflict { path: self.path.clone() });
            }
            false => None,
        };
        file.commit().map_err(failed)?;
        let nbytes = std::fs::metadata(out).map_err(failed)?.len();
        let mut notes = converted.notes;
        notes.extend(is_same.then(|| through_link(out)).flatten());
        notes.extend(modelfmt_model::stale_sidecars::notes(out));
        Ok(Written { path: out.to_owned(), nbytes, notes })
    }

    /// Does the same as `write_without`, but writes nothing.
    pub(super) fn rehearse_without(
        &self,
        new: &NewFile,
        path: PathBuf,
        work: &Execution<'_>,
    ) -> Result<Written> {
        let (model, options) = self.source(new, work)?;
        let converted = Conversion::to_format(&model, self.format)
            .options(&options)
            .plan()?
            .write_to_sink(&Discard::default(), work)?;
        Ok(Written::of(path, converted))
    }

    /// Returns the model to convert, which is the file with all other changes, and the options of the
    /// conversion.
    fn source(&self, new: &NewFile, work: &Execution<'_>) -> Result<(Model, ConvertOptions)> {
        let model = check::preview(&self.path, opened(&self.path)?, new)?;
        let options = self.options(&model, work)?;
        Ok((model, options))
    }

    /// Writes the changed set under another name, without the tensors that are removed. `write` runs the
    /// conversion.
    pub(super) fn write_set(
        &self,
        edit: &SetEdit,
        out: &Path,
        overwrite: Overwrite,
        work: &Execution<'_>,
        write: impl FnOnce(ConversionPlan<'_>) -> Result<Converted>,
    ) -> Result<Written> {
        let model = edit.preview(&self.path, work)?;
        let folder = folder_of(&self.path);
        let mut options = self.options(&model, work)?;
        options.output.overwrite = overwrite;
        options.output.inputs = model.container().file_paths().iter().map(|name| folder.join(name)).collect();
        let lengths = options.output.inputs.iter().filter_map(|path| std::fs::metadata(path).ok());
        options.output.shard_size = lengths.map(|metadata| metadata.len()).max();
        options.output.inputs.push(self.path.clone());
        let conversion = Conversion::to_format(&model, self.format).options(&options).plan()?;
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let path = out.with_file_name(conversion.index_name(&name)?);
        Ok(Written::of(path, write(conversion)?))
    }

    /// Returns the options of a conversion into the same format that leaves out the removed tensors and keeps
    /// everything else. If the output will be signed, the edited model is verified first. If it loses its
    /// digests, the tensors that stay are checked first.
    fn options(&self, model: &Model, work: &Execution<'_>) -> Result<ConvertOptions> {
        let exclude = self.drop.iter().map(|name| escaped(name)).collect();
        let mut options = ConvertOptions::default();
        options.tensors.exclude = exclude;
        if let Some(same) = self.format.fns().and_then(|fns| fns.same) {
            same(model.opened(), &mut options);
        }
        match &self.signing {
            Some(signing) => signing.sign_output(&self.path, &mut options, work)?,
            None => self.loses_seal.as_ref().map_or(Ok(()), |open| self.expect_intact_values(open, work))?,
        }
        Ok(options)
    }

    /// Reads every tensor that stays from the present file, whose seal section has their digests. The edited
    /// model has only new checksums, or none, so damage would go unnoticed there.
    fn expect_intact_values(&self, open: &OpenOptions, work: &Execution<'_>) -> Result<()> {
        let model = open.open(&self.path)?;
        let kept = (0..model.tensor_count()).filter(|position| self.dropped.binary_search(position).is_err());
        let kept: Vec<usize> = kept.collect();
        let check = |piece: &mut Vec<u8>, number: u64| {
            let position = usize::try_from(number).ok().and_then(|number| kept.get(number));
            let Some(&position) = position else { return Ok(()) };
            let (mut at, nbytes) = (0, model.info(position)?.nbytes);
            while at < nbytes {
                let len = PIECE.min(nbytes - at);
                piece.resize(usize::try_from(len).unwrap_or_default(), 0);
                model.read_into(position, at, piece)?;
                if work.advance(len).is_break() {
                    return Err(Error::file(self.path.clone(), AnyError::Cancelled));
                }
                at += len;
            }
            Ok(())
        };
        work.map(kept.len() as u64, Vec::new, check).map(drop)
    }

    /// Returns the result, after the model was rewritten.
    pub(super) fn rewritten(mut self, written: Written) -> Edited {
        let Written { path, nbytes, mut notes } = written;
        // The caller did not ask the conversion to exclude anything; `dropped` says how many tensors are gone. The notes of the
        // plan describe what happens to signatures.
        let is_known = |choice: &Choice| match choice {
            Choice::Exclude => true,
            Choice::Sign => !self.drop.is_empty(),
            _ => false,
        };
        notes.retain(|note| !note.choices.iter().any(is_known));
        self.method = EditMethod::Written;
        self.result(path, (nbytes, nbytes), notes)
    }
}
