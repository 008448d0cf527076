//! Edits that write all values again: those that remove tensors, and those of a model of several files into a new one. The edited model
//! is converted into its own format.

use std::path::{Path, PathBuf};

use modelfmt_core::Execution;
use modelfmt_core::edit::NewFile;
use modelfmt_core::source::{FileVersion, Folder};
use modelfmt_core::write::{AtomicFile, Output, Overwrite};

use super::{Edit, EditMethod, Edited, check};
use crate::choice::Choice;
use crate::convert::{Conversion, ConvertOptions};
use crate::error::{Error, Result};
use crate::globs::escaped;
use crate::model::Model;
use crate::words::Note;

impl Edit {
    /// Writes the file with all other changes, without the tensors that are removed.
    pub(super) fn write_without(
        self,
        new: &NewFile,
        before: &FileVersion,
        out: &Path,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<Edited> {
        let model = check::preview(&self.path, check::old(&self.path)?, new)?;
        #[cfg_attr(not(feature = "seal"), allow(unused_mut, reason = "there are no signatures"))]
        let mut options = self.options(&model);
        #[cfg(feature = "seal")]
        if let Some(signing) = &self.signing {
            super::expect_intact(&Model::open(&self.path)?, work)?;
            options.seal = Some(signing.options());
        }
        let conversion = Conversion::new(&model, self.format, &options)?;
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Exists { path: out.to_owned() },
            _ => Error::Write { path: out.to_owned(), source },
        };
        let is_same = modelfmt_core::write::InputFiles::new([&self.path]).contains(out);
        let resolved = if is_same { std::fs::canonicalize(out).map_err(failed)? } else { out.to_owned() };
        let file = AtomicFile::create(resolved, overwrite).map_err(failed)?;
        let converted = conversion.write_to_sink(&file, work)?;
        drop(model);
        if *before != super::fault::version(&self.path)? {
            return Err(Error::file(self.path, modelfmt_core::AnyError::Changed));
        }
        file.commit().map_err(failed)?;
        let nbytes = std::fs::metadata(out).map_err(failed)?.len();
        let mut notes = converted.notes;
        notes.extend(crate::beside::of_before(out));
        Ok(self.written(out.to_owned(), nbytes, notes))
    }

    /// Writes a set like the one that there would be, under another name, without the tensors that go.
    pub(super) fn write_set(
        self,
        model: &Model,
        out: &Path,
        overwrite: Overwrite,
        work: &Execution<'_>,
    ) -> Result<Edited> {
        let folder = Folder::containing(&self.path).path().to_owned();
        let mut options = self.options(model);
        options.overwrite = overwrite;
        options.inputs = model.container().file_paths().iter().map(|name| folder.join(name)).collect();
        let lengths = options.inputs.iter().filter_map(|path| std::fs::metadata(path).ok());
        options.shard_size = lengths.map(|metadata| metadata.len()).max();
        options.inputs.push(self.path.clone());
        #[cfg(feature = "seal")]
        if let Some(signing) = &self.signing {
            super::expect_intact(&Model::open(&self.path)?, work)?;
            options.seal = Some(signing.options());
        }
        let conversion = Conversion::new(model, self.format, &options)?;
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let index = out.with_file_name(conversion.index_name(&name)?);
        let converted = conversion.write(out, work)?;
        let nbytes = converted.files.iter().map(|file| file.nbytes).sum();
        Ok(self.written(index, nbytes, converted.notes))
    }

    /// What makes a conversion into the same format alike, without the tensors that go.
    fn options(&self, model: &Model) -> ConvertOptions {
        let exclude = self.drop.iter().map(|name| escaped(name)).collect();
        let mut options = ConvertOptions { exclude, ..ConvertOptions::default() };
        if let Some(same) = self.format.driver().and_then(|driver| driver.same) {
            same(model.opened(), &mut options);
        }
        options
    }

    fn written(self, path: PathBuf, nbytes: u64, converted: Vec<Note>) -> Edited {
        // The caller did not ask the conversion to exclude anything; `dropped` says how many tensors are gone.
        let about_edit = |note: &Note| !note.choices.contains(&Choice::Exclude);
        Edited {
            path,
            method: EditMethod::Written,
            nbytes,
            changed_nbytes: nbytes,
            set: self.set,
            unset: self.unset,
            renamed: self.renamed,
            dropped: self.drop.len(),
            notes: self.notes.into_iter().chain(converted.into_iter().filter(about_edit)).collect(),
        }
    }
}
