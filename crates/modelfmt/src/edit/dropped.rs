//! An edit that removes tensors: the file is converted into its own format.

use std::path::Path;

use modelfmt_core::Execution;
use modelfmt_core::edit::NewFile;
use modelfmt_core::source::FileVersion;
use modelfmt_core::write::{AtomicFile, Output, Overwrite};

use super::{Edit, EditMethod, Edited, check};
use crate::choice::Choice;
use crate::convert::{Conversion, ConvertOptions};
use crate::error::{Error, Result};
use crate::globs::escaped;
#[cfg(feature = "seal")]
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
        let model = check::preview(&self.path, new)?;
        let exclude = self.drop.iter().map(|name| escaped(name)).collect();
        let mut options = ConvertOptions { exclude, ..ConvertOptions::default() };
        if let Some(same) = self.format.driver().and_then(|driver| driver.same) {
            same(model.opened(), &mut options);
        }
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
        let dropped = self.drop.len();
        // The caller did not ask the conversion to exclude anything; `dropped` says how many tensors are gone.
        let about_edit = |note: &Note| !note.choices.contains(&Choice::Exclude);
        let mut notes: Vec<Note> =
            self.notes.into_iter().chain(converted.notes.into_iter().filter(about_edit)).collect();
        notes.extend(crate::beside::of_before(out));
        Ok(Edited {
            path: out.to_owned(),
            method: EditMethod::Written,
            nbytes,
            changed_nbytes: nbytes,
            set: self.set,
            unset: self.unset,
            renamed: self.renamed,
            dropped,
            notes,
        })
    }
}
