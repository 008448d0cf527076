//! Writes hub folders: the weights, and the files next to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use modelfmt_core::Execution;
use modelfmt_write::{AnyWriteError, Discard, InputFiles, NewFiles, Output, Overwrite, Sink, replacement_of};

use super::output::dry_run::DryRunFiles;
use super::output::guard::OutputGuard;
use super::output::{WrittenFile, write};
use super::{ConversionPlan, Converted};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_rules::wording::Note;

/// The names of the weights: a single file, or the index of several files.
const WEIGHTS: [&str; 2] = ["model.safetensors", "model.safetensors.index.json"];

/// Old weights under another name.
struct Aside {
    name: &'static str,
    /// A hidden path in the same folder. If the program is killed, the next writer of the weights removes it.
    hidden: PathBuf,
}

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
    overwrite: Overwrite,
    /// The old weights that were moved away before the new files appeared.
    aside: Mutex<Vec<Aside>>,
}

impl ConversionPlan<'_> {
    /// Writes a hub folder, which is created if it does not exist. Its files appear when all are complete,
    /// the weights last. In a folder that has a model already, its safetensors files are moved away first, so
    /// that they are never beside the config of another model. If the first new file cannot appear, they come
    /// back, and nothing new is left behind. If a later one cannot, the error says where they are.
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
        Ok(Place { folder, last, name, guard, index, inputs, overwrite, aside: Mutex::default() })
    }

    fn write_hub_files(&mut self, place: &Place, work: &Execution<'_>) -> Result<Converted> {
        let files = place.guard.files();
        let mut beside = Vec::new();
        for (name, _) in &self.beside {
            files.check(name).map_err(|source| place.failed(name, source))?;
        }
        // Create the weights first: their lock keeps other writers away.
        let appearing = Appearing { files: &files, place, beside: Mutex::default() };
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

    /// Returns whether there is a file at a path that may be removed.
    fn has_old(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()) && !self.inputs.contains(path)
    }

    /// Moves away the weights of the model that was in the folder before: the single file, and the index,
    /// without which the files of a set are no model.
    fn put_weights_aside(&self) -> io::Result<()> {
        for name in WEIGHTS.into_iter().filter(|_| self.overwrite == Overwrite::Replace) {
            let path = self.folder.join(name);
            if self.has_old(&path) {
                let hidden = replacement_of(&path);
                fs::rename(&path, &hidden).map_err(|error| self.put_weights_back(error, false))?;
                self.lock_aside().push(Aside { name, hidden });
            }
        }
        Ok(())
    }

    /// Moves the old weights back after an error, and returns the error. If files beside them are new already,
    /// they stay where they are, and the error says where.
    fn put_weights_back(&self, error: io::Error, is_changed: bool) -> io::Error {
        let mut kept = Vec::new();
        for Aside { name, hidden } in std::mem::take(&mut *self.lock_aside()) {
            if is_changed || fs::rename(&hidden, self.folder.join(name)).is_err() {
                kept.push(format!("the old {name} is {}", hidden.display()));
            }
        }
        match kept.is_empty() {
            true => error,
            false => io::Error::new(error.kind(), format!("{error}; {}", kept.join("; "))),
        }
    }

    /// Removes the old weights, after the new ones have appeared.
    fn remove_aside(&self) {
        for aside in &*self.lock_aside() {
            let _ = fs::remove_file(&aside.hidden); // if this fails, the next writer of the weights removes it
        }
    }

    fn lock_aside(&self) -> MutexGuard<'_, Vec<Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the remaining files of the model that was in the folder before, and returns notes about them.
    fn remove_others(&self, written: &[WrittenFile]) -> Vec<Note> {
        let mut notes = self.index.remove_stale(written);
        let is_written = |name: &str| written.iter().any(|file| file.path == name);
        for name in WEIGHTS.into_iter().chain(ABOUT_WEIGHTS).filter(|name| !is_written(name)) {
            let path = self.folder.join(name);
            let is_removed = self.lock_aside().iter().any(|aside| aside.name == name);
            if !is_removed && !self.has_old(&path) {
                continue;
            }
            let removed = if is_removed { Ok(()) } else { fs::remove_file(&path) };
            notes.push(match removed {
                Ok(()) => format!("{name:?} is removed: it belonged to the model that was in the folder before"),
                Err(error) => format!("{name:?} belonged to the model that was in the folder before and cannot be removed: {error}"),
            });
        }
        notes.into_iter().map(Note::from).collect()
    }
}

/// New files of which one appears last, after all others.
struct Appearing<'a, N: NewFiles<Output: Send>> {
    files: &'a N,
    place: &'a Place,
    /// Complete files that appear just before the last one.
    beside: Mutex<Vec<N::Output>>,
}

/// A file of [`Appearing`].
struct File<'a, O> {
    file: O,
    /// For the last file: the files that appear before it, and where they do.
    before: Option<(&'a Mutex<Vec<O>>, &'a Place)>,
}

impl<N: NewFiles<Output: Send>> Appearing<'_, N> {
    fn before(&self, path: &str) -> Option<(&Mutex<Vec<N::Output>>, &Place)> {
        (path == self.place.name).then_some((&self.beside, self.place))
    }
}

impl<'a, N: NewFiles<Output: Send>> NewFiles for &'a Appearing<'_, N> {
    type Output = File<'a, N::Output>;

    fn check(&self, path: &str) -> io::Result<()> {
        self.files.check(path)
    }

    fn create(&self, path: &str) -> io::Result<Self::Output> {
        Ok(File { file: self.files.create(path)?, before: self.before(path) })
    }

    fn create_to_read_back(&self, path: &str) -> io::Result<Self::Output> {
        Ok(File { file: self.files.create_to_read_back(path)?, before: self.before(path) })
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

    fn commit(mut self) -> io::Result<()> {
        if let Some((before, place)) = self.before {
            self.file.finish()?;
            let files = std::mem::take(&mut *before.lock().unwrap_or_else(PoisonError::into_inner));
            // If the program is killed from here on, the folder has no weights.
            place.put_weights_aside()?;
            let mut is_changed = false;
            let committed = self.file.remove_old().and_then(|()| {
                // The names are on the disk now.
                for file in files {
                    file.commit()?;
                    is_changed = true;
                }
                self.file.commit()
            });
            committed.map_err(|error| place.put_weights_back(error, is_changed))?;
            place.remove_aside();
            return Ok(());
        }
        self.file.commit()
    }
}

#[cfg(test)]
mod tests {
    use modelfmt_write::NewFolder;

    use super::*;

    /// New files of which one cannot appear, as if the program were killed just before.
    struct Stops(NewFolder, &'static str);

    struct StopsHere<O>(O, bool);

    impl NewFiles for Stops {
        type Output = StopsHere<<NewFolder as NewFiles>::Output>;

        fn check(&self, path: &str) -> io::Result<()> {
            self.0.check(path)
        }

        fn create(&self, path: &str) -> io::Result<Self::Output> {
            Ok(StopsHere(self.0.create(path)?, path == self.1))
        }
    }

    impl<O: Sink> Sink for StopsHere<O> {
        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, bytes)
        }

        fn name(&self) -> String {
            self.0.name()
        }
    }

    impl<O: Output> Output for StopsHere<O> {
        fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read_back(offset, out)
        }

        fn finish(&mut self) -> io::Result<()> {
            self.0.finish()
        }

        fn remove_old(&self) -> io::Result<()> {
            self.0.remove_old()
        }

        fn commit(self) -> io::Result<()> {
            if self.1 { Err(io::Error::other("stopped")) } else { self.0.commit() }
        }
    }

    #[test]
    fn weights_are_never_beside_the_config_of_another_model() {
        let [single, index] = WEIGHTS;
        for (name, old) in [(single, single), (single, index), (index, single), (index, index)] {
            for stop in ["config.json", "tokenizer.json", name, ""] {
                let folder = tempfile::tempdir().unwrap();
                let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
                for name in [old, "config.json", "tokenizer.json"] {
                    fs::write(folder.path().join(name), "old").unwrap();
                }
                let last = folder.path().join(name);
                let guard = |path: &Path| OutputGuard::new(path, Overwrite::Replace, InputFiles::default());
                let place = Place {
                    folder: folder.path().to_owned(),
                    name,
                    guard: guard(&last),
                    index: guard(&folder.path().join(index)),
                    last,
                    inputs: InputFiles::default(),
                    overwrite: Overwrite::Replace,
                    aside: Mutex::default(),
                };
                let files = Stops(NewFolder::new(folder.path(), Overwrite::Replace), stop);
                let beside = ["config.json", "tokenizer.json"].map(|name| {
                    let mut file = files.create(name).unwrap();
                    file.write_at(0, b"new").unwrap();
                    file.finish().unwrap();
                    file
                });
                let appearing = Appearing { files: &files, place: &place, beside: Mutex::new(beside.into()) };
                let weights = (&appearing).create(name).unwrap();
                weights.write_at(0, b"new").unwrap();
                assert_eq!(weights.commit().is_ok(), stop.is_empty());
                let found = WEIGHTS.map(read).into_iter().flatten().collect::<Vec<_>>();
                let (expected, config): (&[&str], _) = match stop {
                    "" => (&["new"], "new"),
                    "config.json" => (&["old"], "old"),
                    _ => (&[], "new"),
                };
                let case = format!("{name} instead of {old}, stopped at {stop:?}");
                assert!(
                    found == expected && read("config.json").as_deref() == Some(config),
                    "{case}: {found:?}"
                );
                let hidden = replacement_of(&folder.path().join(old)).exists();
                assert_eq!(hidden, expected.is_empty(), "{case}: the old weights are not lost");
            }
        }
    }

    #[test]
    fn old_weights_that_are_read_stay() {
        let folder = tempfile::tempdir().unwrap();
        let [single, index] = WEIGHTS.map(|name| folder.path().join(name));
        fs::write(&single, "read").unwrap();
        fs::write(&index, "old").unwrap();
        let inputs = InputFiles::new([&single]);
        let guard = || OutputGuard::new(&index, Overwrite::Replace, inputs.clone());
        let place = Place {
            folder: folder.path().to_owned(),
            last: index.clone(),
            name: "model.safetensors.index.json",
            guard: guard(),
            index: guard(),
            inputs: inputs.clone(),
            overwrite: Overwrite::Replace,
            aside: Mutex::default(),
        };
        place.put_weights_aside().unwrap();
        assert!(single.exists() && !index.exists());
    }
}
