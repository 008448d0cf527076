//! Writes a text about models to a file, or prints it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_write::{AtomicFile, InputFiles, Output as _, Sink as _};
use modelfmt::{Error, Model};

use crate::args::OpenArgs;
use crate::failure::{Failure, Result};
use crate::{policy, secrets, streams};

/// Fails if an output is one of the files that an option names and that are read: keys, metadata, the policy.
pub(super) fn expect_no_input(output: &Path, named: impl IntoIterator<Item = PathBuf>) -> Result {
    if !InputFiles::new(named.into_iter().chain(policy::path())).contains(output) {
        return Ok(());
    }
    let why = "it is a file that an option names, and must not be overwritten; choose another name";
    let source = io::Error::new(io::ErrorKind::InvalidInput, why);
    Err(Failure::Job(Error::Write { path: output.to_owned(), source }))
}

/// The destination of a text. A file appears when it is complete.
pub(super) struct Written<'a>(Option<(&'a Path, AtomicFile)>);

impl<'a> Written<'a> {
    /// Begins the output before anything is read for it. The output must not be one of the files that are
    /// read: models and the files next to them, keys, signatures, the policy.
    pub(super) fn begin(path: &'a Path, force: bool, models: &[&Model], open: &OpenArgs) -> Result<Self> {
        if streams::is_dash(path) {
            return Ok(Self(None));
        }
        let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
        let keys = secrets::files_of(open).into_iter().chain(policy::path());
        let inputs = InputFiles::new(models.iter().flat_map(|model| model.read_paths()).chain(keys));
        let file =
            AtomicFile::create_protecting(path, overwrite, &inputs).map_err(|error| failed(path, error))?;
        Ok(Self(Some((path, file))))
    }

    /// Writes the whole text, and prints that with `what` it is about.
    pub(super) fn finish(self, text: &str, what: &str, begun: Instant, quiet: bool) -> Result {
        let Some((path, file)) = self.0 else {
            return super::print(|out| Ok(out.write_all(text.as_bytes())?));
        };
        file.write_at(0, text.as_bytes()).map_err(|error| failed(path, error))?;
        file.commit().map_err(|error| failed(path, error))?;
        if !quiet {
            super::say_written(&path.display().to_string(), what, text.len() as u64, begun);
        }
        Ok(())
    }
}

fn failed(path: &Path, source: io::Error) -> Failure {
    let path = path.to_owned();
    Failure::Job(match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path },
        _ => Error::Write { path, source },
    })
}
