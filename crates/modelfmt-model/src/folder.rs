//! Finds out what the files of a folder are, and which of them is the model.
//!
//! ```
//! use modelfmt::Format;
//! use modelfmt::folder::probe;
//!
//! let found = probe("../../testdata/reference/one-shard.aero")?; // reads a few bytes
//! assert_eq!(found.format, Some(Format::Aero));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::HashSet;
#[cfg(not(target_arch = "wasm32"))]
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use modelfmt_core::Source;
use modelfmt_core::source::BoxSource;
#[cfg(not(target_arch = "wasm32"))]
use modelfmt_core::source::FileSource;

#[cfg(not(target_arch = "wasm32"))]
use crate::error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use crate::foreign_folder::subfolders_with_models;
#[cfg(not(target_arch = "wasm32"))]
pub use crate::foreign_folder::{foreign_folder, foreign_kind};
use crate::formats::capabilities::Contents;
#[cfg(feature = "gguf")]
use crate::formats::capabilities::SetNaming;
use crate::formats::{Format, InOrder, MAX_INDEX_JSON, Walk};
#[cfg(not(target_arch = "wasm32"))]
use crate::open::OpenOptions;
use crate::unrecognized::{self, Unrecognized};
#[cfg(not(target_arch = "wasm32"))]
pub use modelfmt_rules::wording::unrecognized::PICKLES;

/// What a file is, without opening it as a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Probe {
    /// The format of the file, if it is known.
    pub format: Option<Format>,
    /// For a model that modelfmt does not read, such as some files of PyTorch: its kind, and what helps.
    pub foreign: Option<&'static str>,
    /// For the index of a set, the files of the set: paths relative to its folder.
    pub files: Vec<String>,
}

/// Detects what a file is from its first bytes, or, for JSON, from the keys of the index of a set. Memory use
/// depends on the length of the names in an index, not on the length of the file.
///
/// # Errors
/// If the file cannot be read, or is not a regular file.
#[cfg(not(target_arch = "wasm32"))]
pub fn probe(path: impl AsRef<Path>) -> io::Result<Probe> {
    let path = path.as_ref();
    probe_at(path, Box::new(FileSource::open(path)?))
}

/// Detects what a source is. Of the path, only the file name is used.
fn probe_at(path: &Path, source: BoxSource) -> io::Result<Probe> {
    let first = source.read(0..source.len().min(Format::PROBE_LEN))?;
    if let Some(format) = Format::from_first_bytes(&first, source.len()) {
        drop(first);
        return Ok(Probe {
            format: Some(format),
            files: later_files(path, source, format),
            ..Probe::default()
        });
    }
    if let Some(format) = Format::of_archive(&first, &source)? {
        return Ok(Probe { format: Some(format), ..Probe::default() });
    }
    let is_json = first.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_json && source.len() <= MAX_INDEX_JSON {
        return Ok(index(InOrder::new(&source)));
    }
    drop(first);
    let Unrecognized { hint, is_model } = unrecognized::look(&source)?;
    Ok(Probe { foreign: is_model.then_some(hint), ..Probe::default() })
}

/// Checks whether files of this format can be parts of a split that have their number and the count in their
/// names.
#[cfg(feature = "gguf")]
fn is_split_by_name(format: Format) -> bool {
    format.sharded().is_some_and(|set| set.properties().set_naming == SetNaming::Numbered)
}

/// Returns the files of a split that follow this one. The first file stands for the whole split.
#[cfg(feature = "gguf")]
fn later_files(path: &Path, source: BoxSource, format: Format) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let later = modelfmt_gguf::later_files(&name);
    // A model that is not split may have such a name.
    let is_split = || modelfmt_gguf::Reader::from_source(source).is_ok_and(|file| file.index().is_split());
    if is_split_by_name(format) && !later.is_empty() && is_split() { later } else { Vec::new() }
}

#[cfg(not(feature = "gguf"))]
fn later_files(_: &Path, _: BoxSource, _: Format) -> Vec<String> {
    Vec::new()
}

/// Checks whether a file has the name of a model. The content decides what a file is, but an unrecognized
/// file with such a name counts as a damaged model.
#[must_use]
pub fn is_model_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Format::from_file_name(&name).is_some()
}

/// The models among some files, found without opening them as models.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FoundModels {
    /// The models and the indexes of sets. Files that an index names as its own are left out.
    pub models: Vec<PathBuf>,
    /// Models that are ignored in favor of `models`, such as PyTorch checkpoints beside safetensors.
    pub passed_over: Vec<PathBuf>,
    /// Models of kinds that modelfmt does not read, and what helps.
    pub foreign: Vec<(PathBuf, &'static str)>,
}

/// Finds the models among the files at `paths`, opened by `open`. A file that cannot be read counts as a
/// model if it has the name of one; opening it then reports the error.
pub fn find_models(
    paths: impl IntoIterator<Item = PathBuf>,
    open: impl Fn(&Path) -> io::Result<BoxSource>,
) -> FoundModels {
    let (mut found, mut named) = (FoundModels::default(), HashSet::new());
    let mut formats = Vec::new();
    for path in paths {
        let probe = open(&path).and_then(|source| probe_at(&path, source)).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(""));
        named.extend(probe.files.iter().map(|file| folder.join(file)));
        let by_name = || Format::from_file_name(&path.file_name()?.to_string_lossy());
        if let Some(format) = probe.format.or_else(by_name) {
            formats.push(format);
            found.models.push(path);
        } else if let Some(hint) = probe.foreign {
            found.foreign.push((path, hint));
        }
    }
    let mut formats = formats.into_iter();
    let models = found.models.drain(..).zip(formats.by_ref()).filter(|(path, _)| !named.contains(path));
    (found.models, found.passed_over) = preferred(models.collect());
    found
}

/// Beginnings of the names of files that training writes beside a model. By their content they are checkpoints, too.
const TRAINING_FILES: &[&str] = &["training_args", "optimizer", "scheduler", "scaler", "rng_state"];

/// Checks whether a file has the name of one that training writes beside a model.
fn is_training_file(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    TRAINING_FILES.iter().any(|name| stem.starts_with(name))
}

/// Returns the models of one folder that count, and those that are ignored. Checkpoints and arrays are
/// ignored beside a model in a format that is made for models. Files that training writes are ignored beside
/// a checkpoint.
fn preferred(models: Vec<(PathBuf, Format)>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let is_other = |format: &Format| format.properties().contents != Contents::Model;
    let has_own = models.iter().any(|(_, format)| !is_other(format));
    let has_checkpoint = models.iter().any(|(path, format)| is_other(format) && !is_training_file(path));
    let (passed, kept): (Vec<_>, Vec<_>) = models.into_iter().partition(|(path, format)| {
        is_other(format) && (has_own || (has_checkpoint && is_training_file(path)))
    });
    let paths = |models: Vec<(PathBuf, Format)>| models.into_iter().map(|(path, _)| path).collect();
    (paths(kept), paths(passed))
}

/// The number of folders to search for the index of a set, including the folder of the file. No tool writes the files of a set
/// deeper.
#[cfg(not(target_arch = "wasm32"))]
pub const FOLDERS_OF_INDEX: usize = 3;

/// Finds the index of a set that names this file as one of its own. Searches this many folders: the folder of
/// the file and those above it, where only files with the name of an index are read.
#[cfg(not(target_arch = "wasm32"))]
pub fn index_of(path: &Path, folders: usize) -> Option<PathBuf> {
    if folders == 0 {
        return None;
    }
    // Links are not followed: a download cache keeps the linked file elsewhere, without the index.
    let (given, path) = (path, std::path::absolute(path).ok()?);
    let found = path.ancestors().skip(1).take(folders).enumerate().find_map(|(up, folder)| {
        let own = path.strip_prefix(folder).ok()?;
        let is_json = |path: &Path| up == 0 && path.extension().is_some_and(|ending| ending == "json");
        let is_index = |path: &PathBuf| is_json(path) || is_index_name(path);
        let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let mut indexes: Vec<PathBuf> = entries.filter(is_index).filter(|path| path.is_file()).collect();
        indexes.sort_unstable();
        indexes.into_iter().find(|index| {
            // A path in an index may have `.` components.
            let names = |file: &String| Path::new(file).components().filter(is_name).eq(own.components());
            *index != path && probe(index).is_ok_and(|probe| probe.files.iter().any(names))
        })
    })?;
    let is_same_folder = found.parent() == path.parent();
    Some(if is_same_folder { given.with_file_name(found.file_name()?) } else { found })
}

/// Checks whether the index of a set can have this name. The index of an APR2 set has the same extension as
/// its files.
#[cfg(not(target_arch = "wasm32"))]
fn is_index_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".apr") || (name.ends_with(".json") && Format::from_file_name(&name).is_some())
}

#[cfg(not(target_arch = "wasm32"))]
fn is_name(component: &std::path::Component<'_>) -> bool {
    !matches!(component, std::path::Component::CurDir)
}

#[cfg(not(target_arch = "wasm32"))]
impl OpenOptions {
    /// Detects what a file is, like [`probe`](fn@probe). A file that the policy of these options refuses is
    /// not read.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a regular file.
    pub fn probe(&self, path: impl AsRef<Path>) -> io::Result<Probe> {
        if self.may_look_at(path.as_ref()) { probe(path) } else { Ok(Probe::default()) }
    }

    /// Finds the model of a folder: the only index of a set or model file in it. A file that the policy of
    /// these options refuses is not read; only its name says whether it is a model.
    ///
    /// # Errors
    /// [`Error::NoModel`]; [`Error::Open`].
    pub fn model_in(&self, folder: &Path) -> Result<PathBuf> {
        models_in(folder, self)?.only(folder)
    }

    /// Finds the files that [`model_in`](Self::model_in) passes over: checkpoints and arrays beside a model,
    /// what training writes beside a checkpoint, and other pickles. `torch.load` may run code in these files.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn others_in(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let FoundModels { passed_over, foreign, .. } = models_in(folder, self)?;
        let pickles = foreign.into_iter().filter(|(_, hint)| foreign_kind(hint) == PICKLES);
        Ok(passed_over.into_iter().chain(pickles.map(|(path, _)| path)).collect())
    }

    #[cfg(feature = "policy")]
    fn may_look_at(&self, path: &Path) -> bool {
        self.judge_place(path).is_ok()
    }

    #[cfg(not(feature = "policy"))]
    #[allow(clippy::unused_self, reason = "as with the feature")]
    const fn may_look_at(&self, _: &Path) -> bool {
        true
    }
}

/// Returns the models in a folder, found by their content.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn models_in(folder: &Path, options: &OpenOptions) -> Result<FoundModels> {
    let failed = |source| Error::Open { path: folder.to_owned(), source };
    let mut names = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    names.sort_unstable();
    let names = names.into_iter().filter(|name| !name.to_string_lossy().starts_with('.'));
    let paths = names.map(|name| folder.join(name)).filter(|path| path.is_file());
    let open = |path: &Path| match options.may_look_at(path) {
        true => Ok(Box::new(FileSource::open(path)?) as BoxSource),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    };
    Ok(find_models(paths, open))
}

#[cfg(not(target_arch = "wasm32"))]
impl FoundModels {
    /// Returns a note about models that are ignored; `None` if there are none. Files that training writes
    /// beside a checkpoint are not mentioned.
    pub(crate) fn note(&self) -> Option<String> {
        let names = |paths: &[PathBuf]| {
            let names =
                paths.iter().filter(|path| !is_training_file(path)).filter_map(|path| path.file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(", ")
        };
        let passed = names(&self.passed_over);
        let note = format!("{} is the model of the folder; not looked at: {passed}", names(&self.models));
        (!passed.is_empty()).then_some(note)
    }

    /// Returns the model, if the folder has exactly one.
    ///
    /// # Errors
    /// [`Error::NoModel`] if there is no model, or if there are several, which the error names.
    pub fn only(self, folder: &Path) -> Result<PathBuf> {
        match (<[PathBuf; 1]>::try_from(self.models), self.foreign.into_iter().next()) {
            (Ok([model]), _) => Ok(model),
            (Err(models), _) if !models.is_empty() => Err(none(folder, Several(&models, folder).to_string())),
            (Err(_), foreign) => Err(none(folder, without_model(folder, foreign))),
        }
    }
}

/// Returns the message for a folder without a model.
#[cfg(not(target_arch = "wasm32"))]
fn without_model(folder: &Path, foreign: Option<(PathBuf, &'static str)>) -> String {
    match (foreign_folder(folder), foreign) {
        (Some(hint), _) => hint.to_owned(),
        (None, Some((path, hint))) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("it is a folder without a model that modelfmt reads; of {name}: {hint}")
        }
        (None, None) => {
            let why = || "it is a folder without a model file; name a file, or the index of a set".to_owned();
            subfolders_with_models(folder).unwrap_or_else(why)
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn none(folder: &Path, why: String) -> Error {
    Error::NoModel { path: folder.to_owned(), why }
}

/// Displays the models of a folder; of many, only the first. The second field is the folder.
#[cfg(not(target_arch = "wasm32"))]
struct Several<'a>(&'a [PathBuf], &'a Path);

#[cfg(not(target_arch = "wasm32"))]
impl fmt::Display for Several<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "it is a folder with {} models; name one of them: ", self.0.len())?;
        for (number, path) in self.0.iter().take(SHOWN).enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            write!(f, "{}{name}", if number == 0 { "" } else { ", " })?;
        }
        if let more @ 1.. = self.0.len().saturating_sub(SHOWN) {
            write!(f, " and {more} more")?;
        }
        let mut sets = self.0.iter().map(|path| set_of_part(path));
        match sets.next().flatten() {
            // A shell cannot match a pattern against a URL.
            Some(first)
                if sets.all(|set| set.as_ref() == Some(&first))
                    && !self.1.to_string_lossy().contains("://") =>
            {
                f.write_str(". These are the parts of one model without its index; ")?;
                write!(
                    f,
                    "`convert` joins them if you give it all of them: {}/*{}",
                    self.1.display(),
                    first.1
                )
            }
            _ => Ok(()),
        }
    }
}

/// Returns the text before and after the number in the name of a part of a set. The names of all parts have
/// this text in common. `None` if the name does not have the form `STEM-00001-of-00002.safetensors`.
#[cfg(not(target_arch = "wasm32"))]
fn set_of_part(path: &Path) -> Option<(String, String)> {
    let name = path.file_name()?.to_str()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (start, rest) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = start.rsplit_once('-')?;
    (is_number(number) && is_number(rest)).then(|| (stem.to_owned(), format!("-of-{rest}.safetensors")))
}

/// Reads a JSON file as the index of a set. A file that is not valid JSON is not an index.
fn index(reader: impl io::Read) -> Probe {
    let (walk, is_whole) = Walk::through(reader);
    match walk.into_index().filter(|_| is_whole) {
        Some((format, files)) => {
            Probe { format: Some(format), foreign: None, files: files.into_iter().collect() }
        }
        None => Probe::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> (Option<Format>, Vec<String>) {
        let mut found = index(json.as_bytes());
        found.files.sort();
        (found.format, found.files)
    }

    #[test]
    fn an_index_names_its_files() {
        let weights =
            r#"{"metadata":{"source":"x"},"weight_map":{"a":"m1","b":"m2","c":"m1","d":null,"e":7}}"#;
        assert_eq!(of(weights), (Some(Format::SafetensorsSharded), vec!["m1".to_owned(), "m2".to_owned()]));
        let set = r#"{"format":{"name":"AEROSET","version":[0,1]},"model":{"name":"x"},
            "parts":[{"path":"p","sha256":"5"}],"global_tidx":{"path":"g","sha256":"6"}}"#;
        assert_eq!(of(set), (Some(Format::AeroSet), ["g", "p"].map(str::to_owned).to_vec()));
        let more =
            set.replacen('{', r#"{"weight_map":{"a":"x"},"shards":["y",{"file":"z"}],"apr_version":"2","#, 1);
        assert_eq!(of(&more), of(set));
        let manifest = r#"{"apr_version":"2.0.0","shards":[{"file":"s","size":1,"note":"x"},"y"],"tensor_shard_map":{"a":0}}"#;
        assert_eq!(of(manifest), (Some(Format::Apr2Sharded), vec!["s".to_owned()]));
        let nested = format!("{{\"weight_map\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for other in ["{}", "[]", "{\"weight_map\":{}", "{\"weight_map\":{}} x", "{\"shards\":[]}", &nested] {
            assert_eq!(of(other), (None, Vec::new()));
        }
    }
}
