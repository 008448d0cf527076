//! Refuses outputs that would replace input files or files of another set, and removes leftover files of a replaced set.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use modelfmt_core::source::folder_of;
use modelfmt_write::{AtomicFile, InputFiles, NewFiles, NewFolder, Overwrite, is_leftover};

use super::WrittenFile;
use super::listing;
#[cfg(feature = "gguf")]
use modelfmt_model::error::Error;
use modelfmt_model::error::Result;
use modelfmt_model::formats::Format;
#[cfg(feature = "gguf")]
use modelfmt_model::formats::capabilities::SetNaming;

/// The folder of an output, with the files in it (docs/formats/conversion.md#outputs).
pub(crate) struct OutputGuard {
    folder: PathBuf,
    /// The output, or its index.
    out: PathBuf,
    overwrite: Overwrite,
    inputs: InputFiles,
    /// The files that the index to be replaced names.
    old: BTreeSet<String>,
    /// The other indexes of the folder, each with its files. They are read only if a file would be replaced.
    others: OnceLock<Vec<(PathBuf, InputFiles)>>,
}

impl OutputGuard {
    /// Looks for a set whose index is `out`.
    pub(crate) fn new(out: &Path, overwrite: Overwrite, inputs: InputFiles) -> Self {
        let mut old = BTreeSet::new();
        if overwrite == Overwrite::Replace {
            old = listing::files_of(out);
            #[cfg(feature = "gguf")]
            old.extend(super::splits::files_of(out));
        }
        let (folder, out) = (folder_of(out).to_owned(), out.to_owned());
        Self { folder, out, overwrite, inputs, old, others: OnceLock::new() }
    }

    /// Also finds files that the target replaces under other names, such as a GGUF that is split into another
    /// number of files.
    ///
    /// # Errors
    /// [`Error::Exists`] if such a file may not be replaced.
    #[cfg_attr(
        not(feature = "gguf"),
        expect(unused_mut, unused_variables, reason = "nothing else is named so")
    )]
    pub(crate) fn of_target(mut self, target: Format) -> Result<Self> {
        #[cfg(feature = "gguf")]
        if target.properties().set_naming == SetNaming::Numbered {
            self.old.extend(super::splits::files_of_stem(&self.out));
            if let Some(existing) = self.old.first().filter(|_| self.overwrite == Overwrite::Refuse) {
                return Err(Error::Exists { path: self.folder.join(existing) });
            }
        }
        Ok(self)
    }

    /// Creates a single-file output.
    ///
    /// # Errors
    /// If the output cannot be created, or another file would be lost.
    pub(crate) fn create(&self) -> io::Result<AtomicFile> {
        self.check(&self.out)?;
        AtomicFile::create_protecting(&self.out, self.overwrite, &self.inputs)
    }

    /// Fails if [`create`](Self::create) would fail for a single-file output.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create), except for errors that occur only while a file is created.
    pub(crate) fn check_target(&self) -> io::Result<()> {
        self.check(&self.out)?;
        AtomicFile::check_target(&self.out, self.overwrite, &self.inputs)
    }

    /// Returns new files for an output that is a set.
    pub(crate) fn files(&self) -> GuardedFiles<'_> {
        let files = NewFolder::new(&self.folder, self.overwrite).protecting(self.inputs.clone());
        GuardedFiles { guard: self, files }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        // Creating a file fails for existing files that may not be replaced, and for input files.
        if self.overwrite == Overwrite::Refuse
            || fs::symlink_metadata(path).is_err()
            || self.inputs.contains(path)
        {
            return Ok(());
        }
        let Some(index) = self.other_with(path) else { return Ok(()) };
        let index = index.file_name().unwrap_or_default().display();
        let text = format!("it is a file of the set {index}, which would be broken; choose another name");
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Finds another index that names this file.
    fn other_with(&self, path: &Path) -> Option<PathBuf> {
        #[cfg(feature = "gguf")]
        {
            let is_old = |first: &PathBuf| {
                let name = first.file_name().and_then(|name| name.to_str());
                *first == self.out || name.is_some_and(|name| self.old.contains(name))
            };
            let first = super::splits::first_of(path).filter(|first| !is_old(first));
            if first.is_some() {
                return first;
            }
        }
        let others = self.others.get_or_init(|| self.others());
        others.iter().find(|(_, files)| files.contains(path)).map(|(index, _)| index.clone())
    }

    fn others(&self) -> Vec<(PathBuf, InputFiles)> {
        let own = InputFiles::new([&self.out]);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        // The leftover index of a killed writer does not count as an index.
        let is_other = |path: &PathBuf| !own.contains(path) && !is_leftover(path);
        let indexes = entries.map(|entry| entry.path()).filter(is_other);
        let listed = indexes.map(|index| {
            let files = listing::files_of(&index);
            (index, InputFiles::new(files.iter().map(|file| self.folder.join(file))))
        });
        listed.filter(|(_, files)| !files.is_empty()).collect()
    }

    /// Removes files of the replaced set that no longer belong to any set, and returns notes about them. An index can name any
    /// file, so only files with names that a writer gives to files of this set are removed.
    pub(crate) fn remove_stale(&self, written: &[WrittenFile]) -> Vec<String> {
        let _appearing = modelfmt_write::commit_guard();
        let new = InputFiles::new(
            written.iter().map(|file| self.folder.join(&file.path)).chain([self.out.clone()]),
        );
        let name = self.out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut notes = Vec::new();
        for file in self.old.iter().filter(|file| is_part_of(name, file)) {
            let path = self.folder.join(file);
            let is_file = fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_dir());
            let is_kept =
                new.contains(&path) || self.inputs.contains(&path) || self.other_with(&path).is_some();
            if !is_file || is_kept {
                continue;
            }
            notes.push(match fs::remove_file(&path) {
                Ok(()) => format!("{file:?} is removed: it belonged to the previous {name:?}"),
                Err(error) => {
                    format!("{file:?} belonged to the previous {name:?} and cannot be removed: {error}")
                }
            });
        }
        notes
    }
}

/// Fails if a new file at `out` would replace a folder, a device, one of `inputs`, a file that an index in the
/// same folder names, or a file that may not be replaced.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] for a file that may not be replaced; other errors for the others.
pub fn check_output(out: &Path, overwrite: Overwrite, inputs: InputFiles) -> io::Result<()> {
    OutputGuard::new(out, overwrite, inputs).check_target()
}

/// Returns the files that an index names and that belong to its set alone, that is, files with names that a
/// writer gives to files of this set. If another set replaces it, these files are left over unless the new
/// set has them. `text` is the text of the index; at most [`Limits::index_len`](modelfmt_core::Limits) bytes
/// of it are read. A split GGUF has no index, so the result is empty.
///
/// # Errors
/// If the text cannot be read.
pub fn files_of_index(name: &str, text: impl io::BufRead) -> io::Result<Vec<String>> {
    let named = listing::named_by(text, modelfmt_core::Limits::default().index_len)?;
    Ok(named.into_iter().filter(|file| is_part_of(name, file)).collect())
}

/// Checks whether a writer gives the name `file` to a file of the set whose index is `index`. Other writers
/// of AEROSETs do not name their files after the index.
fn is_part_of(index: &str, file: &str) -> bool {
    const ENDINGS: [&str; 4] = [".aeroset.json", ".safetensors.index.json", ".json", ".apr"];
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_aero = |name: &str| {
        let part = |name: &str| name.strip_prefix("part-")?.strip_suffix(".aero").map(is_number);
        name == "index.aero" || part(name) == Some(true)
    };
    let is_shard = |rest: &str| {
        let ends = [".safetensors", ".apr"];
        let numbers =
            rest.strip_prefix('-').and_then(|rest| ends.iter().find_map(|end| rest.strip_suffix(end)));
        let numbers = numbers.and_then(|numbers| numbers.split_once("-of-"));
        numbers.is_some_and(|(number, count)| is_number(number) && is_number(count))
    };
    let after = |stem: &str| {
        let rest = file.strip_prefix(stem)?;
        Some(rest.strip_prefix('.').is_some_and(is_aero) || is_shard(rest))
    };
    #[cfg(feature = "gguf")]
    if super::splits::is_part_of(index, file) {
        return true;
    }
    let mut stems = ENDINGS.iter().filter_map(|ending| index.strip_suffix(ending)).chain([index]);
    is_aero(file) || stems.any(|stem| !stem.is_empty() && after(stem) == Some(true))
}

/// New files of a folder that do not replace files of another set.
pub(crate) struct GuardedFiles<'a> {
    guard: &'a OutputGuard,
    files: NewFolder,
}

impl GuardedFiles<'_> {
    /// Flushes many small files together: see [`NewFolder::flushed_together`].
    pub(crate) fn flushed_together(mut self) -> Self {
        self.files = self.files.flushed_together();
        self
    }

    /// Waits until the bytes of all files are on disk: see [`NewFolder::flush`].
    pub(crate) fn flush(&self) -> io::Result<()> {
        self.files.flush()
    }

    /// Waits until the names of all files are on disk: see [`NewFolder::flush_names`].
    pub(crate) fn flush_names(&self) -> io::Result<()> {
        self.files.flush_names()
    }
}

impl NewFiles for GuardedFiles<'_> {
    type Output = AtomicFile;

    fn check(&self, path: &str) -> io::Result<()> {
        self.files.check(path)?;
        self.guard.check(&self.guard.folder.join(path))
    }

    fn create(&self, path: &str) -> io::Result<AtomicFile> {
        self.files.create(path)
    }
}

/// New files for the parts of a set, from [`PartPlan::folder`](crate::convert::PartPlan::folder). They replace
/// no input, and no file of another set.
pub struct PartFiles {
    guard: OutputGuard,
    files: NewFolder,
}

impl PartFiles {
    pub(crate) fn new(guard: OutputGuard) -> Self {
        let GuardedFiles { files, .. } = guard.files();
        Self { guard, files }
    }
}

impl std::fmt::Debug for PartFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartFiles({})", self.guard.folder.display())
    }
}

impl NewFiles for PartFiles {
    type Output = AtomicFile;

    fn check(&self, path: &str) -> io::Result<()> {
        self.guard.files().check(path)
    }

    fn create(&self, path: &str) -> io::Result<AtomicFile> {
        self.files.create(path)
    }
}

#[cfg(test)]
mod tests {
    use super::is_part_of;

    #[test]
    fn names_of_a_set_are_known() {
        for (index, file) in [
            ("m.aeroset.json", "m.index.aero"),
            ("m.aeroset.json", "m.part-0123.aero"),
            ("m.aeroset.json", "part-000.aero"),
            ("m.aeroset.json", "index.aero"),
            ("m.safetensors.index.json", "m-00001-of-00002.safetensors"),
            ("m.apr", "m-00001-of-00002.apr"),
            ("m.v2.json", "m.v2-00001-of-00002.apr"),
            ("manifest", "manifest-00001-of-00002.apr"),
            #[cfg(feature = "gguf")]
            ("m-00001-of-00002.gguf", "m-00003-of-00003.gguf"),
            #[cfg(feature = "gguf")]
            ("m.gguf", "m-00003-of-00003.gguf"),
        ] {
            assert!(is_part_of(index, file), "{index} {file}");
        }
        for (index, file) in [
            ("m.aeroset.json", "n.index.aero"),
            ("m.aeroset.json", "m.aero"),
            ("m.aeroset.json", "part-.aero"),
            ("m.safetensors.index.json", "m.safetensors"),
            ("m.safetensors.index.json", "mm-00001-of-00002.safetensors"),
            ("m.safetensors.index.json", "sub/m-00001-of-00002.safetensors"),
            (".apr", "-1-of-2.apr"),
            ("m.apr", "thesis.txt"),
            ("m-00001-of-00002.gguf", "mm-00002-of-00002.gguf"),
            ("m.gguf", "m.gguf"),
        ] {
            assert!(!is_part_of(index, file), "{index} {file}");
        }
    }
}
