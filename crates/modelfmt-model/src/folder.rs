//! What the files of a folder are, and which of them is the model.
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
pub use crate::foreign_folder::foreign_folder;
#[cfg(not(target_arch = "wasm32"))]
use crate::foreign_folder::subfolders_with_models;
use crate::formats::capabilities::Contents;
#[cfg(feature = "gguf")]
use crate::formats::capabilities::SetNaming;
use crate::formats::{Format, InOrder, MAX_INDEX_JSON, Walk};
use crate::unrecognized::{self, Unrecognized};

/// What a file is, found out without opening it as a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Probe {
    /// Its format.
    pub format: Option<Format>,
    /// If it is a model that modelfmt does not read, such as one of PyTorch: which kind, and what helps.
    pub foreign: Option<&'static str>,
    /// The files that it names as its own, if it is the index of a set: paths relative to its folder.
    pub files: Vec<String>,
}

/// Looks at a file: at its first bytes, and through a JSON file for what makes it the index of a set. Memory does not depend on the
/// length of the file, but on that of the names in an index.
///
/// # Errors
/// If it cannot be read, or is no regular file.
#[cfg(not(target_arch = "wasm32"))]
pub fn probe(path: impl AsRef<Path>) -> io::Result<Probe> {
    let path = path.as_ref();
    probe_at(path, Box::new(FileSource::open(path)?))
}

/// Looks at a source; of the path only the file's name counts.
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

/// Whether a file of this format can be one of several that say in their names which of how many they are.
#[cfg(feature = "gguf")]
fn is_split_by_name(format: Format) -> bool {
    format.sharded().is_some_and(|set| set.properties().set_naming == SetNaming::Numbered)
}

/// The files of a split that follow this one, so that the first of them stands for all.
#[cfg(feature = "gguf")]
fn later_files(path: &Path, source: BoxSource, format: Format) -> Vec<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let later = modelfmt_gguf::later_files(&name);
    // The name alone may be that of a model by itself.
    let is_split = || modelfmt_gguf::Reader::from_source(source).is_ok_and(|file| file.index().is_split());
    if is_split_by_name(format) && !later.is_empty() && is_split() { later } else { Vec::new() }
}

#[cfg(not(feature = "gguf"))]
fn later_files(_: &Path, _: BoxSource, _: Format) -> Vec<String> {
    Vec::new()
}

/// Whether the name of a file says that it is a model. Content decides what a file is, but one with such a name is a
/// damaged model rather than none.
#[must_use]
pub fn is_model_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Format::from_file_name(&name).is_some()
}

/// Which of some files are models, found out without opening them as models.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FoundModels {
    /// The models, and the indexes of sets; files that an index names as its own are left out.
    pub models: Vec<PathBuf>,
    /// Models that do not count beside these: checkpoints of PyTorch beside safetensors, for example.
    pub passed_over: Vec<PathBuf>,
    /// A model of a kind that modelfmt does not read, and what helps.
    pub foreign: Option<(PathBuf, &'static str)>,
}

/// Looks at files by their paths, each of which `open` opens. A file that cannot be read is a model if its name says so: what is wrong
/// is found when it is opened.
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
            found.foreign = found.foreign.or(Some((path, hint)));
        }
    }
    let mut formats = formats.into_iter();
    let models = found.models.drain(..).zip(formats.by_ref()).filter(|(path, _)| !named.contains(path));
    (found.models, found.passed_over) = preferred(models.collect());
    found
}

/// What training writes beside a model: by its name, for by its content it is a checkpoint too.
const BESIDE: &[&str] = &["training_args", "optimizer", "scheduler", "scaler", "rng_state"];

/// Whether a file is called as what training writes beside a model.
fn is_beside(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    BESIDE.iter().any(|name| stem.starts_with(name))
}

/// The models that count among those of one folder, and those that do not, because they are there in a form that is only read: checkpoints and arrays
/// beside a model in a form of its own, and what training leaves beside a checkpoint.
fn preferred(models: Vec<(PathBuf, Format)>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let is_other = |format: &Format| format.properties().contents != Contents::Model;
    let has_own = models.iter().any(|(_, format)| !is_other(format));
    let has_checkpoint = models.iter().any(|(path, format)| is_other(format) && !is_beside(path));
    let (passed, kept): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|(path, format)| is_other(format) && (has_own || (has_checkpoint && is_beside(path))));
    let paths = |models: Vec<(PathBuf, Format)>| models.into_iter().map(|(path, _)| path).collect();
    (paths(kept), paths(passed))
}

/// How many folders are searched for the index of a set, that of the file included: no tool writes the files of a set deeper.
#[cfg(not(target_arch = "wasm32"))]
pub const FOLDERS_OF_INDEX: usize = 3;

/// The index of a set that names this file as one of its own, and stands in one of so many folders: that of the file, or one above it, where
/// the name has to be that of an index.
#[cfg(not(target_arch = "wasm32"))]
pub fn index_of(path: &Path, folders: usize) -> Option<PathBuf> {
    if folders == 0 {
        return None;
    }
    // Not what a link leads to: a cache of downloads has it elsewhere, without the index.
    let (given, path) = (path, std::path::absolute(path).ok()?);
    let found = path.ancestors().skip(1).take(folders).enumerate().find_map(|(up, folder)| {
        let own = path.strip_prefix(folder).ok()?;
        let is_json = |path: &Path| up == 0 && path.extension().is_some_and(|ending| ending == "json");
        let is_index = |path: &PathBuf| is_json(path) || is_index_name(path);
        let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let mut indexes: Vec<PathBuf> = entries.filter(is_index).filter(|path| path.is_file()).collect();
        indexes.sort_unstable();
        indexes.into_iter().find(|index| {
            // A path of a set may have components that mean nothing.
            let names = |file: &String| Path::new(file).components().filter(is_name).eq(own.components());
            *index != path && probe(index).is_ok_and(|probe| probe.files.iter().any(names))
        })
    })?;
    let is_beside = found.parent() == path.parent();
    Some(if is_beside { given.with_file_name(found.file_name()?) } else { found })
}

/// Whether a set's index may have such a name: that of APR2 is called as its files are.
#[cfg(not(target_arch = "wasm32"))]
fn is_index_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".apr") || (name.ends_with(".json") && Format::from_file_name(&name).is_some())
}

#[cfg(not(target_arch = "wasm32"))]
fn is_name(component: &std::path::Component<'_>) -> bool {
    !matches!(component, std::path::Component::CurDir)
}

/// The file that stands for a folder: the index of a set, or a model, if there is one of them and no other.
#[cfg(not(target_arch = "wasm32"))]
pub fn model_in(folder: &Path) -> Result<PathBuf> {
    models_in(folder)?.only(folder)
}

/// The models of a folder, found by their content.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn models_in(folder: &Path) -> Result<FoundModels> {
    let failed = |source| Error::Open { path: folder.to_owned(), source };
    let mut names = std::fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(failed)?;
    names.sort_unstable();
    let names = names.into_iter().filter(|name| !name.to_string_lossy().starts_with('.'));
    let paths = names.map(|name| folder.join(name)).filter(|path| path.is_file());
    let open = |path: &Path| Ok(Box::new(FileSource::open(path)?) as BoxSource);
    Ok(find_models(paths, open))
}

#[cfg(not(target_arch = "wasm32"))]
impl FoundModels {
    /// What to say of models that do not count; `None` if all do. What training leaves beside a checkpoint goes without saying.
    pub(crate) fn note(&self) -> Option<String> {
        let names = |paths: &[PathBuf]| {
            let names = paths.iter().filter(|path| !is_beside(path)).filter_map(|path| path.file_name());
            names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(", ")
        };
        let passed = names(&self.passed_over);
        let note = format!("{} is the model of the folder; not looked at: {passed}", names(&self.models));
        (!passed.is_empty()).then_some(note)
    }

    /// The one model of a folder.
    ///
    /// # Errors
    /// [`Error::NoModel`] says what there is instead: none, or several, which it names.
    pub fn only(self, folder: &Path) -> Result<PathBuf> {
        match (<[PathBuf; 1]>::try_from(self.models), self.foreign) {
            (Ok([model]), _) => Ok(model),
            (Err(models), _) if !models.is_empty() => Err(none(folder, Several(&models, folder).to_string())),
            (Err(_), foreign) => Err(none(folder, without_model(folder, foreign))),
        }
    }
}

/// What a folder without a model is.
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

/// Lists the models of a folder, those at the end left out if they are many; and the folder.
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
            // A shell finds no files at a URL.
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

/// What the names of the parts of one set have in common: what is before the number of the part, and what is after it. It is `None` for a name
/// that is not `STEM-00001-of-00002.safetensors`.
#[cfg(not(target_arch = "wasm32"))]
fn set_of_part(path: &Path) -> Option<(String, String)> {
    let name = path.file_name()?.to_str()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (start, rest) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = start.rsplit_once('-')?;
    (is_number(number) && is_number(rest)).then(|| (stem.to_owned(), format!("-of-{rest}.safetensors")))
}

/// Reads through a JSON file; what is no JSON is no index.
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
