//! Opens files of every format by name, from any source.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use modelfmt_core::source::{BoxSource, Files, SharedFiles, shared_files};
use modelfmt_core::{Container, Source};

/// Describes the content of the file or set with this name like the dumps of golden files, or says that it is
/// refused, as the native build must too.
///
/// # Panics
/// If the file does not exist, or its values cannot be read.
#[must_use]
pub fn describe(name: &str, files: &SharedFiles) -> String {
    let source = files.open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    match open_source(name, source, files) {
        Ok(container) => testkit::dump(&*container),
        Err(_) => "refused\n".to_owned(),
    }
}

/// Opens the file with this name. A set finds its other files in the same folder of `files`.
///
/// # Panics
/// If it cannot be opened.
#[must_use]
pub fn open(name: &str, files: &SharedFiles) -> Box<dyn Container> {
    let source = files.open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    open_source(name, source, files).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Opens a file from `source`, as if it were the file with this name in `files`.
///
/// # Errors
/// The errors of the format's reader.
pub fn open_source(
    name: &str,
    source: BoxSource,
    files: &SharedFiles,
) -> Result<Box<dyn Container>, Box<dyn std::error::Error>> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = shared_files(Below { files: Arc::clone(files), folder: folder.to_owned() });
    open_as(name, source, beside)
}

/// Checks whether [`open`] knows the name's extension.
#[must_use]
pub fn is_model(name: &str) -> bool {
    const ENDINGS: &[&str] = &[
        ".aero",
        ".aeroset.json",
        ".mag",
        ".oinf",
        ".apr",
        ".safetensors",
        ".safetensors.index.json",
        ".gguf",
    ];
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns the names of all models below a folder, except for the conformance suite, which has its own tests.
///
/// # Errors
/// If a folder cannot be listed.
pub fn models_below(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type()?.is_dir() {
                if path != "conformance" {
                    folders.push(path);
                }
            } else if is_model(&path) {
                names.insert(path);
            }
        }
    }
    Ok(names)
}

fn open_as(
    name: &str,
    source: BoxSource,
    beside: SharedFiles,
) -> Result<Box<dyn Container>, Box<dyn std::error::Error>> {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_json = !source.is_empty() && *source.read(0..1)? == *b"{";
    Ok(match ending {
        "aero" => Box::new(aero::Reader::from_source(source)?),
        "apr" if is_json => {
            Box::new(apr2::SetReader::from_source(&source, beside, &apr2::OpenOptions::new())?)
        }
        // At this position, the draft's header of 32 bytes and aprender's of 64 bytes both have the offset of
        // the metadata.
        "apr" if source.len() > 16 && *source.read(12..13)? == [64] => {
            Box::new(apr::Reader::from_source(source)?)
        }
        "apr" => Box::new(apr2::Reader::from_source(source)?),
        "mag" => Box::new(mag::Reader::from_source(source)?),
        "oinf" => Box::new(oinf::Reader::from_source(source)?),
        "safetensors" => Box::new(modelfmt_safetensors::Reader::from_source(source)?),
        "gguf" => Box::new(modelfmt_gguf::Reader::from_source(source)?),
        "json" if name.ends_with(".aeroset.json") => {
            Box::new(aero::SetReader::from_source(&source, beside, &aero::OpenOptions::new())?)
        }
        "json" => Box::new(modelfmt_safetensors::SetReader::from_source(
            &source,
            beside,
            &modelfmt_safetensors::OpenOptions::new(),
        )?),
        _ => return Err("an unknown ending".into()),
    })
}

/// The files of one folder of a larger collection.
#[derive(Clone, Debug)]
pub struct Below<F> {
    /// All files.
    pub files: F,
    /// The folder's path, without a slash at its end.
    pub folder: String,
}

impl<F: Files> Files for Below<F> {
    type Source = F::Source;

    fn open(&self, path: &str) -> io::Result<F::Source> {
        self.files.open(&format!("{}/{path}", self.folder))
    }
}
