//! Finds the models below a folder.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use modelfmt::OpenOptions;
use modelfmt::wording::Printable;

use crate::failure::say;
use crate::{policy, stop};

/// The maximum depth of folders. Links that lead back to an entered folder are already skipped before this.
const MAX_DEPTH: usize = 100;

/// The files below a folder. Hidden files and folders are left out.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The models, each once, in the order of their paths. A set is listed by its index, without the files
    /// that the index names.
    pub(crate) models: Vec<PathBuf>,
    /// Models of kinds that cannot be read, each with its kind.
    pub(crate) foreign: Vec<(PathBuf, &'static str)>,
    /// Files and folders that could not be read, and why.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
    /// The number of other files.
    pub(crate) others: usize,
}

/// Finds the models below a folder. Follows links.
pub(crate) fn walk(folder: &Path) -> Found {
    let mut walk = Walk { options: policy::open_options(), ..Walk::default() };
    let mut folders = HashSet::new();
    let entries = WalkDir::new(folder).follow_links(true).max_depth(MAX_DEPTH).sort_by_file_name();
    for entry in entries.into_iter().filter_entry(|entry| is_new(entry, &mut folders)) {
        if stop::is_asked() {
            break;
        }
        match entry {
            Ok(entry) if entry.file_type().is_dir() => {
                walk.enter(entry.path());
                if entry.depth() == MAX_DEPTH {
                    let why = format!("more than {MAX_DEPTH} folders deep; name it to have it verified");
                    walk.found.unreadable.push((entry.into_path(), why));
                }
            }
            Ok(entry) => walk.add(entry.path(), entry.path_is_symlink()),
            Err(error) => walk.failed(&error),
        }
    }
    walk.finish()
}

/// Checks whether an entry should be visited. Skips hidden entries, and folders that were already entered:
/// links could lead to the same folders again and again, in very many ways.
fn is_new(entry: &DirEntry, folders: &mut HashSet<PathBuf>) -> bool {
    if entry.depth() > 0 && entry.file_name().to_string_lossy().starts_with('.') {
        return false;
    }
    !entry.file_type().is_dir() || entry.path().canonicalize().map_or(true, |path| folders.insert(path))
}

#[derive(Default)]
struct Walk {
    /// The policy of the run decides which files may be read.
    options: OpenOptions,
    found: Found,
    /// The models by their real paths, each with the path by which it is opened, and whether that is a link.
    models: BTreeMap<PathBuf, (PathBuf, bool)>,
    named: HashSet<PathBuf>,
    /// The last foreign model folder that was entered. Its files are not reported one by one.
    foreign: Option<PathBuf>,
}

impl Walk {
    fn enter(&mut self, folder: &Path) {
        if let Some(hint) = modelfmt::folder::foreign_folder(folder).filter(|_| !self.is_in_foreign(folder)) {
            self.found.foreign.push((folder.to_owned(), hint));
            self.foreign = Some(folder.to_owned());
        }
    }

    fn is_in_foreign(&self, path: &Path) -> bool {
        self.foreign.as_ref().is_some_and(|foreign| path.starts_with(foreign))
    }

    fn add(&mut self, path: &Path, is_link: bool) {
        let look = match self.options.probe(path) {
            Ok(look) => look,
            Err(_) if !path.is_file() => return self.found.others += 1, // a pipe, a device
            Err(error) => {
                return self.found.unreadable.push((path.to_owned(), format!("cannot be opened: {error}")));
            }
        };
        let parent = path.parent().unwrap_or(Path::new("."));
        self.named.extend(look.files.iter().filter_map(|file| parent.join(file).canonicalize().ok()));
        if look.format.is_some() || modelfmt::folder::is_model_name(path) {
            // In a cache whose files are links, an index finds its files only by the path of the link.
            let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let known = self.models.entry(real).or_insert_with(|| (path.to_owned(), is_link));
            if is_link && !known.1 {
                *known = (path.to_owned(), is_link);
            }
        } else if let Some(hint) = look.foreign.filter(|_| !self.is_in_foreign(path)) {
            self.found.foreign.push((path.to_owned(), hint));
        } else {
            self.found.others += 1;
        }
    }

    fn failed(&mut self, error: &walkdir::Error) {
        let Some(path) = error.path().filter(|_| error.loop_ancestor().is_none()) else { return };
        let missing = error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if missing && !modelfmt::folder::is_model_name(path) {
            self.found.others += 1; // a link to nothing
            return;
        }
        let why =
            error.io_error().map_or_else(|| error.to_string(), |error| format!("cannot be opened: {error}"));
        self.found.unreadable.push((path.to_owned(), why));
    }

    fn finish(mut self) -> Found {
        let models = self.models.into_iter().filter(|(real, _)| !self.named.contains(real));
        self.found.models = models.map(|(_, (path, _))| path).collect();
        self.found.models.sort_unstable();
        self.found
    }
}

/// Prints once for each kind which models cannot be read, and what helps.
pub(crate) fn say_foreign(foreign: &[(PathBuf, &'static str)]) {
    for (hint, paths) in by_hint(foreign) {
        let Some(first) = paths.first() else { continue };
        let first = first.display().to_string();
        match paths.len() {
            1 => say(format_args!("note: {}: skipped: {}", Printable(&first), Printable(hint))),
            many => say(format_args!(
                "note: {} skipped, the first is {}: {}",
                files(many, ""),
                Printable(&first),
                Printable(hint)
            )),
        }
    }
}

/// Returns the paths of each kind, in the order of the first of each.
fn by_hint<'f>(foreign: &'f [(PathBuf, &'static str)]) -> Vec<(&'static str, Vec<&'f Path>)> {
    let mut kinds: Vec<(&'static str, Vec<&Path>)> = Vec::new();
    for (path, hint) in foreign {
        match kinds.iter_mut().find(|(known, _)| known == hint) {
            Some((_, paths)) => paths.push(path),
            None => kinds.push((hint, vec![path])),
        }
    }
    kinds
}

/// The number of skipped files of each kind, printed with the most frequent kind first.
#[derive(Default)]
pub(crate) struct Skipped {
    /// The numbers by the name of the kind.
    foreign: BTreeMap<&'static str, usize>,
    others: usize,
}

impl Skipped {
    pub(crate) fn add(&mut self, found: &Found) {
        self.others += found.others;
        for (_, hint) in &found.foreign {
            *self.foreign.entry(modelfmt::folder::foreign_kind(hint)).or_default() += 1;
        }
    }
}

/// Prints text such as `46 other files skipped: 44 of TFLite, 2 of ONNX`.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.others + self.foreign.values().sum::<usize>();
        write!(f, "{} skipped", files(all, "other "))?;
        let mut kinds: Vec<_> = self.foreign.iter().collect();
        kinds.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        for (at, (kind, number)) in kinds.iter().enumerate() {
            write!(f, "{} {number} of {kind}", if at == 0 { ":" } else { "," })?;
        }
        match self.others {
            others if others > 0 && !kinds.is_empty() => write!(f, ", {others} that are no models"),
            _ => Ok(()),
        }
    }
}

/// Returns text such as `1 file` or `2 other files`.
pub(crate) fn files(number: usize, which: &str) -> String {
    format!("{number} {which}file{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_files_are_counted_by_kind() {
        let mut skipped = Skipped::default();
        assert_eq!(skipped.to_string(), "0 other files skipped");
        skipped.others = 1;
        assert_eq!(skipped.to_string(), "1 other file skipped");
        skipped.foreign = BTreeMap::from([("ONNX", 2), ("TFLite", 44)]);
        assert_eq!(
            skipped.to_string(),
            "47 other files skipped: 44 of TFLite, 2 of ONNX, 1 that are no models"
        );
        skipped.others = 0;
        assert_eq!(skipped.to_string(), "46 other files skipped: 44 of TFLite, 2 of ONNX");
    }
}
