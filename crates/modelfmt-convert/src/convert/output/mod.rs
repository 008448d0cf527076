//! The files of an output: their names, their lengths, and when they may appear.

#[cfg(not(target_arch = "wasm32"))]
pub(super) mod dry_run;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod guard;
#[cfg(not(target_arch = "wasm32"))]
mod listing;
#[cfg(all(feature = "gguf", not(target_arch = "wasm32")))]
mod splits;
pub(super) mod write;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use modelfmt_write::{AnyWriteError, BoxError, NewFiles, Output, Sink};

use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::SetNaming;
use modelfmt_rules::wording::Choice;

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// The name of the file, without its folder.
    pub path: String,
    /// Its size in bytes.
    pub nbytes: u64,
}

/// A sink that records how much is written.
pub(super) struct Counted<S> {
    sink: S,
    len: Arc<AtomicU64>,
}

impl<S: Sink> Counted<S> {
    pub(super) fn new(sink: S) -> Self {
        Self { sink, len: Arc::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }
}

impl<S: Sink> Sink for Counted<S> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.len.fetch_max(offset.saturating_add(bytes.len() as u64), Ordering::Relaxed);
        self.sink.write_at(offset, bytes)
    }

    fn name(&self) -> String {
        self.sink.name()
    }
}

/// Checks that all values match the digests in their source. Output may appear only after that.
type Finish<'a> = &'a (dyn Fn() -> Result<(), BoxError> + Sync);

/// A file of a set, which appears only if all values of the set pass the check.
pub(super) struct CheckedFile<'a, O> {
    file: Counted<O>,
    finish: Finish<'a>,
    /// Whether this is the index, which is finished after all other files.
    is_index: bool,
}

impl<O> CheckedFile<'_, O> {
    fn check(&self) -> io::Result<()> {
        (self.finish)().map_err(io::Error::other)
    }
}

impl<O: Sink> Sink for CheckedFile<'_, O> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn name(&self) -> String {
        self.file.name()
    }
}

/// Every call that changes a file name waits for the check. The check reads nothing the second time.
impl<O: Output> Output for CheckedFile<'_, O> {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.sink.read_back(offset, out)
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_index {
            self.check()?;
        }
        self.file.sink.finish()
    }

    fn remove_old(&self) -> io::Result<()> {
        self.check()?;
        self.file.sink.remove_old()
    }

    fn commit(self) -> io::Result<()> {
        self.check()?;
        self.file.sink.commit()
    }
}

/// New files, with a record of their names and lengths.
pub(super) struct Recorded<'a, N> {
    files: &'a N,
    index_name: &'a str,
    finish: Finish<'a>,
    made: Mutex<Vec<(String, Arc<AtomicU64>)>>,
}

impl<'a, N: NewFiles> Recorded<'a, N> {
    pub(super) fn new(files: &'a N, index_name: &'a str, finish: Finish<'a>) -> Self {
        Self { files, index_name, finish, made: Mutex::default() }
    }

    pub(super) fn into_files(self) -> Vec<WrittenFile> {
        let made = self.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        let file = |(path, len): (String, Arc<AtomicU64>)| {
            let nbytes = len.load(Ordering::Relaxed);
            WrittenFile { path, nbytes }
        };
        made.into_iter().map(file).collect()
    }
}

impl<'a, N: NewFiles> NewFiles for Recorded<'a, N> {
    type Output = CheckedFile<'a, N::Output>;

    fn check(&self, path: &str) -> io::Result<()> {
        self.files.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Self::Output> {
        Ok(self.checked_file(path, self.files.create(path)?))
    }

    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        Ok(self.checked_file(path, self.files.create_to_read_back(path)?))
    }
}

impl<'a, N: NewFiles> Recorded<'a, N> {
    fn checked_file(&self, path: &str, file: N::Output) -> CheckedFile<'a, N::Output> {
        let file = Counted::new(file);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.push((path.to_owned(), Arc::clone(&file.len)));
        CheckedFile { file, finish: self.finish, is_index: path == self.index_name }
    }
}

/// Returns the name of a set's index for the requested path; `None` if the target is a single file.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn file_name(target: Format, out: &Path) -> Result<Option<String>> {
    if !target.is_set() {
        return Ok(None);
    }
    let invalid = |text: &str| Error::Write {
        path: out.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, text),
    };
    let name = out.file_name().ok_or_else(|| invalid("the path has no file name"))?;
    let text = "the files of a set are named after it, and an index names files in UTF-8; choose such a name";
    index_name(target, name.to_str().ok_or_else(|| invalid(text))?).map(Some)
}

/// Returns the name of a set's index, made from the requested name.
pub(super) fn index_name(target: Format, name: &str) -> Result<String> {
    match target.properties().set_naming {
        // Other tools look for this name.
        SetNaming::Ending(ending, of_file) => {
            let stem = name.strip_suffix(ending).or_else(|| name.strip_suffix(of_file));
            let stem = stem.filter(|stem| !stem.is_empty()).ok_or_else(|| {
                let why =
                    format!("the index of safetensors in several files is named STEM{ending}, not {name:?}");
                Error::usage(Choice::Output, why)
            })?;
            Ok(format!("{stem}{ending}"))
        }
        // The names of the files contain their count, which is known only after planning all of them. This is their stem.
        #[cfg(feature = "gguf")]
        SetNaming::Numbered => {
            let stem = modelfmt_gguf::SplitName::parse(name).map(|name| name.stem);
            let stem = stem.unwrap_or_else(|| name.strip_suffix(".gguf").unwrap_or(name));
            if stem.is_empty() {
                let why = format!(
                    "the files of a split are named STEM-00001-of-00002.gguf, and {name:?} has no stem"
                );
                return Err(Error::usage(Choice::Output, why));
            }
            Ok(stem.to_owned())
        }
        _ => Ok(name.to_owned()),
    }
}

/// Returns the same error with the folder of the file, if the error names a file.
pub(super) fn within(folder: &Path, error: AnyWriteError) -> AnyWriteError {
    match error {
        // An error about a file that was created already has the whole path.
        AnyWriteError::Write { path, source } if !Path::new(&path).starts_with(folder) => {
            AnyWriteError::Write { path: folder.join(path).display().to_string(), source }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_folder_once() {
        let named = |folder: &str, path: &str| {
            let source = io::ErrorKind::StorageFull.into();
            match within(Path::new(folder), AnyWriteError::Write { path: path.to_owned(), source }) {
                AnyWriteError::Write { path, .. } => path,
                other => other.to_string(),
            }
        };
        // If a file cannot be created, the error has the requested name; if it cannot be written, the error
        // has its path.
        for folder in ["out", ".", "/out"] {
            let whole = Path::new(folder).join("part-000.aero").display().to_string();
            assert_eq!((named(folder, "part-000.aero"), named(folder, &whole)), (whole.clone(), whole));
        }
        assert_eq!(named("", "m"), "m");
    }
}
