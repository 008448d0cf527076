//! Writes hub folders: the weights, and the files next to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use modelfmt_core::Execution;
use modelfmt_write::{AnyWriteError, Discard, InputFiles, NewFiles, Output, Overwrite, Sink};

use super::output::dry_run::DryRunFiles;
use super::output::guard::OutputGuard;
use super::output::{WrittenFile, write};
use super::{ConversionPlan, Converted};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_rules::wording::Note;

/// The names of the weights: a single file, or the index of several files.
const WEIGHTS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];

/// Where a folder is written.
struct Place {
    folder: PathBuf,
    /// The file of the weights that appears last, and its name.
    last: PathBuf,
    name: &'static str,
    guard: OutputGuard,
    /// The index that may already exist, with its files.
    index: OutputGuard,
    inputs: InputFiles,
}

impl ConversionPlan<'_> {
    /// Writes a hub folder, which is created if it does not exist. Its files appear when all are complete,
    /// the weights last. After an error nothing is left behind.
    pub(super) fn write_hub_folder(mut self, out: &Path, work: &Execution<'_>) -> Result<Converted> {
        let place = self.hub_place(out)?;
        self.expect_room(&place.folder)?;
        let failed = |source| Error::Write { path: place.folder.clone(), source };
        let is_new = match fs::create_dir(&place.folder) {
            Ok(()) => true,
            Err(_) if place.folder.is_dir() => false,
            Err(source) => return Err(failed(source)),
        };
        let written = self.write_hub_files(&place, work);
        if is_new && written.is_err() {
            // This call created the folder. If another process has put something into it, removing the folder
            // fails and it stays.
            for name in self.beside.iter().map(|(name, _)| name.as_str()).chain([place.name]) {
                let _ = fs::remove_file(place.folder.join(name));
            }
            let _ = fs::remove_dir(&place.folder);
        }
        let mut converted = written?;
        converted.notes.extend(place.remove_others(&converted.files));
        for file in converted.files.iter().map(|file| place.folder.join(&file.path)) {
            if self.options.output.outboard {
                let overwrite = self.options.output.overwrite;
                converted.notes.push(modelfmt_model::outboard::of_output(&file, overwrite, work)?);
            }
        }
        Ok(converted)
    }

    /// Does everything that [`write_hub_folder`](Self::write_hub_folder) does, but writes nothing.
    pub(super) fn dry_run_hub_folder(mut self, out: &Path, work: &Execution<'_>) -> Result<Converted> {
        let programs = self.programs();
        let place = self.hub_place(out)?;
        if !modelfmt_core::source::folder_of(&place.folder).is_dir() {
            return Err(Error::Write { path: place.folder, source: io::ErrorKind::NotFound.into() });
        }
        self.expect_room(&place.folder)?;
        let files = DryRunFiles(place.guard.files());
        for (name, _) in &self.beside {
            files.check(name).map_err(|source| place.failed(name, source))?;
        }
        let mut converted = if self.target.is_set() {
            self.write_to_folder(&place.folder, place.name, &files, work)?
        } else {
            files.check(place.name).map_err(|source| place.failed(place.name, source))?;
            self.write_one(&place.last, &Discard::default(), work)?
        };
        self.list_beside(&mut converted);
        Ok(Converted { programs: Some(programs), ..converted })
    }

    /// Finds where to write the folder. Fails if it may not be written there.
    fn hub_place(&self, out: &Path) -> Result<Place> {
        let folder = out.to_owned();
        let overwrite = self.options.output.overwrite;
        match fs::read_dir(&folder) {
            Ok(mut entries) => {
                if overwrite == Overwrite::Refuse && entries.next().is_some() {
                    return Err(Error::Exists { path: folder });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Write { path: folder, source }),
        }
        let inputs =
            InputFiles::new(self.model.read_paths().into_iter().chain(super::named_files(&self.options)));
        let [single, index] = WEIGHTS;
        let name = if self.target.is_set() { index } else { single };
        let last = folder.join(name);
        let guard = OutputGuard::new(&last, overwrite, inputs.clone());
        let index = OutputGuard::new(&folder.join(index), overwrite, inputs.clone());
        Ok(Place { folder, last, name, guard, index, inputs })
    }

    fn write_hub_files(&mut self, place: &Place, work: &Execution<'_>) -> Result<Converted> {
        let files = place.guard.files();
        let mut beside = Vec::new();
        for (name, _) in &self.beside {
            files.check(name).map_err(|source| place.failed(name, source))?;
        }
        // Create the weights first: their lock keeps other writers away.
        let appearing = Appearing { files: &files, last: place.name, beside: Mutex::default() };
        let one = if self.target.is_set() {
            None
        } else {
            files.check(place.name).map_err(|source| place.failed(place.name, source))?;
            Some((&appearing).create(place.name).map_err(|source| place.failed(place.name, source))?)
        };
        for (name, bytes) in &self.beside {
            let failed = |source| place.failed(name, source);
            let mut file = files.create(name).map_err(failed)?;
            file.write_at(0, bytes).map_err(failed)?;
            file.finish().map_err(failed)?;
            beside.push(file);
        }
        *appearing.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
        let mut converted = match &one {
            None => self.write_to_folder(&place.folder, place.name, &&appearing, work)?,
            Some(file) => self.write_one(&place.last, file, work)?,
        };
        if let Some(file) = one {
            let _appearing = modelfmt_write::commit_guard();
            file.commit().map_err(|source| place.failed(place.name, source))?;
        }
        self.list_beside(&mut converted);
        Ok(converted)
    }

    fn list_beside(&self, converted: &mut Converted) {
        let beside = self.beside.iter();
        converted.files.extend(
            beside.map(|(name, bytes)| WrittenFile { path: name.clone(), nbytes: bytes.len() as u64 }),
        );
    }
}

impl Place {
    fn failed(&self, name: &str, source: io::Error) -> Error {
        let path = self.folder.join(name);
        write::failed(&path, AnyWriteError::Write { path: path.display().to_string(), source })
    }

    /// Removes the remaining files of the model that was in the folder before, and returns notes about them.
    fn remove_others(&self, written: &[WrittenFile]) -> Vec<Note> {
        let mut notes = self.index.remove_stale(written);
        let is_written = |name: &str| written.iter().any(|file| file.path == name);
        for name in WEIGHTS.into_iter().chain(ABOUT_WEIGHTS).filter(|name| !is_written(name)) {
            let path = self.folder.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) && !self.inputs.contains(&path)
            {
                notes.push(match fs::remove_file(&path) {
                    Ok(()) => format!("{name:?} is removed: it belonged to the model that was in the folder before"),
                    Err(error) => format!("{name:?} belonged to the model that was in the folder before and cannot be removed: {error}"),
                });
            }
        }
        notes.into_iter().map(Note::from).collect()
    }
}

/// New files of which one appears last, after all others.
struct Appearing<'a, N: NewFiles<Output: Send>> {
    files: &'a N,
    last: &'static str,
    /// Complete files that appear just before the last one.
    beside: Mutex<Vec<N::Output>>,
}

/// A file of [`Appearing`].
struct File<'a, O> {
    file: O,
    /// For the last file: the files that appear before it.
    before: Option<&'a Mutex<Vec<O>>>,
}

impl<'a, N: NewFiles<Output: Send>> NewFiles for &'a Appearing<'_, N> {
    type Output = File<'a, N::Output>;

    fn check(&self, path: &str) -> io::Result<()> {
        self.files.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Self::Output> {
        let file = self.files.create(path)?;
        Ok(File { file, before: (path == self.last).then_some(&self.beside) })
    }

    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        let file = self.files.create_to_read_back(path)?;
        Ok(File { file, before: (path == self.last).then_some(&self.beside) })
    }
}

impl<O: Sink + Send> Sink for File<'_, O> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn name(&self) -> String {
        self.file.name()
    }
}

impl<O: Output + Send> Output for File<'_, O> {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_back(offset, out)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }

    fn remove_old(&self) -> io::Result<()> {
        self.file.remove_old()
    }

    fn commit(self) -> io::Result<()> {
        if let Some(before) = self.before {
            let files = std::mem::take(&mut *before.lock().unwrap_or_else(PoisonError::into_inner));
            files.into_iter().try_for_each(Output::commit)?;
        }
        self.file.commit()
    }
}
