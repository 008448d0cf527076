//! Extracts tensors to separate files: `.npy`, `.npz`, or their bytes, unchanged or in another dtype.

mod folder;
mod names;
#[cfg(feature = "extract-npy")]
mod npy;
#[cfg(feature = "extract-npy")]
mod npz;
mod prepared;
#[cfg(feature = "extract-npy")]
mod zip;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::path::Path;

use modelfmt_core::{DType, Execution};
use modelfmt_write::{InputFiles, Output, Overwrite, Sink};

use crate::convert::output::guard::OutputGuard;
#[cfg(feature = "safetensors")]
use crate::convert::{Clipped, Conversion};
use crate::convert::{ConvertOptions, ScaleRule, TypeRule, schemes};
use modelfmt_model::error::{Error, Result};
use modelfmt_model::formats::Format;
use modelfmt_model::model::{Globs, Model};
use modelfmt_model::tied_weights::{Ties, check_reading};
use modelfmt_rules::globs::escaped;
use modelfmt_rules::wording::Note;
use prepared::Prepared;

/// The file format for one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtractAs {
    /// numpy's file format, version 1.0, for the dtypes that numpy has.
    #[cfg(feature = "extract-npy")]
    Npy,
    /// The values alone: little-endian, row-major, decompressed.
    Bin,
}

impl ExtractAs {
    /// Returns the format for a file name with the extension `.npy` or `.bin`.
    #[must_use]
    pub fn for_output(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            #[cfg(feature = "extract-npy")]
            "npy" => Some(Self::Npy),
            "bin" => Some(Self::Bin),
            _ => None,
        }
    }

    /// Returns the extension of its files.
    const fn ending(self) -> &'static str {
        match self {
            #[cfg(feature = "extract-npy")]
            Self::Npy => ".npy",
            Self::Bin => ".bin",
        }
    }
}

/// The output format for several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtractAllAs {
    /// A folder with a file for each tensor, named after it. Characters that a file name cannot have are percent-encoded.
    Folder(ExtractAs),
    /// numpy's archive of arrays: a zip without compression.
    #[cfg(feature = "extract-npy")]
    Npz,
    /// A safetensors file with these tensors. It also has the metadata that safetensors can hold.
    #[cfg(feature = "safetensors")]
    Safetensors,
}

impl ExtractAllAs {
    /// Returns the format for a file name: `.npz`, `.safetensors`, or, if it ends with a slash, a folder of
    /// `.npy` files.
    #[must_use]
    pub fn for_output(name: &str) -> Option<Self> {
        match name.rsplit_once('.') {
            #[cfg(feature = "extract-npy")]
            _ if name.ends_with(['/', std::path::MAIN_SEPARATOR]) => Some(Self::Folder(ExtractAs::Npy)),
            #[cfg(feature = "extract-npy")]
            Some((_, "npz")) => Some(Self::Npz),
            #[cfg(feature = "safetensors")]
            Some((_, "safetensors")) => Some(Self::Safetensors),
            _ => None,
        }
    }
}

/// How a tensor is extracted. The default changes no value, replaces no file, and checks what it reads.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// The dtype to cast to, for numbers of any dtype; blocks are decoded first. The
    /// [`convert`](mod@crate::convert) module describes what a cast does to values. With [several
    /// tensors](extract_all), only floats and blocks are cast.
    pub cast: Option<DType>,
    /// Decodes quantized blocks and [weights that are stored as several tensors](decoded) to f32, f16 or
    /// bf16. Applies the scales of a weight in small floats, and scales and zero points that the file has for
    /// a tensor, like [`TypeRule::dequantize`].
    pub dequantize: Option<DType>,
    /// Which tensor holds the scales, if the names do not show it.
    pub scales: Vec<ScaleRule>,
    /// Whether an existing file is replaced.
    pub overwrite: Overwrite,
    /// Copies values without checking them against the hashes and checksums of the source file.
    pub no_verify: bool,
}

/// The result of an extraction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// The number of tensors that were written.
    pub tensors: usize,
    /// The size of the output in bytes.
    pub nbytes: u64,
    /// Notes for standard error about what was not checked and how values changed.
    pub notes: Vec<Note>,
    /// A warning if values were beyond the range of the dtype that they were cast to, and became the end of
    /// the range or an infinity.
    pub clipped: Option<String>,
}

/// Decodes the weights that `names` (names or patterns) select and that are stored as several tensors, such
/// as those of GPTQ, if [`dequantize`](ExtractOptions::dequantize) is set. In the result each is one tensor
/// with the name of the weight. Returns the model itself if there are no such weights. The functions of this
/// module call this function.
///
/// # Errors
/// [`Error::Unsupported`] if such a weight cannot be decoded, or another error if the model cannot be read.
pub fn decoded<'m, N: AsRef<str>>(
    model: &'m Model,
    names: &[N],
    options: &ExtractOptions,
) -> Result<Cow<'m, Model>> {
    let Some(dtype) = options.dequantize else { return Ok(Cow::Borrowed(model)) };
    let target = Format::Safetensors;
    let mut conversion = ConvertOptions::default();
    for name in names.iter().map(AsRef::as_ref) {
        let patterns = [Some(escaped(name)), Some(name.to_owned()).filter(|name| Globs::new([name]).is_ok())];
        let rules = patterns.into_iter().flatten().map(|glob| TypeRule::dequantize(dtype).matching(glob));
        conversion.types.rules.extend(rules);
    }
    Ok(schemes::decoded(model, target, target.capabilities(), &conversion, None)?.0)
}

/// Writes one tensor to `path`, in pieces. The file appears when it is complete, and only if the values match the hashes and
/// checksums in the source file.
///
/// # Errors
/// [`Error::NoSuchTensor`]; [`Error::NotExtractable`] if the tensor has no data, numpy lacks its dtype, or it
/// cannot be cast or dequantized; [`Error::Usage`] for a dtype that values cannot have; [`Error::Values`] for
/// values that cannot be converted; [`Error::Exists`] and [`Error::Write`] if the file cannot be written;
/// [`Error::Damaged`] if values do not match their hashes or checksums; [`Error::File`] if the tensor cannot
/// be read.
pub fn extract(
    model: &Model,
    name: &str,
    path: impl AsRef<Path>,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let path = path.as_ref();
    let model = &*decoded(model, &[name], options)?;
    let prepared = Prepared::new(model, &[model.find(name)?], kind, options)?;
    let file = create(model, path, options)?;
    let extracted = prepared.write_first(&file, options, work)?;
    file.commit().map_err(not_written(path))?;
    Ok(extracted)
}

/// Writes one tensor into a sink.
///
/// # Errors
/// If there is no such tensor, or it cannot be read or written. The caller then discards what was written to the sink.
pub fn extract_to_sink(
    model: &Model,
    name: &str,
    sink: &dyn Sink,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let model = &*decoded(model, &[name], options)?;
    Prepared::new(model, &[model.find(name)?], kind, options)?.write_first(sink, options, work)
}

/// Writes several tensors, each given by its name or, if no tensor has that name, by a pattern as in
/// [`Globs`]. The output appears only when all of it is complete. Tensors without data that a pattern matches
/// are left out, with a note.
///
/// ```
/// use modelfmt::{Execution, Model, View};
/// use modelfmt::extract::{ExtractAllAs, ExtractAs, ExtractOptions, extract_all};
///
/// # let folder = tempfile::tempdir()?;
/// # let (path, out) = (folder.path().join("model.safetensors"), folder.path().join("out"));
/// let (w, b) = ([1.0f32, 2.0], [3.0f32]);
/// modelfmt::save(&path, [("fc.w", View::new(&w, [2])?), ("fc/b", View::new(&b, [1])?)], &Default::default())?;
/// let model = Model::open(&path)?;
/// let (options, work) = (ExtractOptions::default(), Execution::default());
/// extract_all(&model, &["fc*"], &out, ExtractAllAs::Folder(ExtractAs::Bin), &options, &work)?;
/// assert_eq!(std::fs::read(out.join("fc.w.bin"))?.len(), 8);
/// assert!(out.join("fc%2Fb.bin").exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If there is no such tensor, or it cannot be read or written; [`Error::NothingSelected`] if a pattern
/// matches no name; [`Error::Unsupported`] if safetensors cannot hold a dtype.
pub fn extract_all<N: AsRef<str>>(
    model: &Model,
    names: &[N],
    path: impl AsRef<Path>,
    kind: ExtractAllAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let path = path.as_ref();
    let model = &*decoded(model, names, options)?;
    let (positions, notes) = chosen(model, names)?;
    let mut extracted = match kind {
        ExtractAllAs::Folder(kind) => {
            folder::write(&Prepared::new(model, &positions, kind, options)?, path, kind, options, work)?
        }
        #[cfg(feature = "extract-npy")]
        ExtractAllAs::Npz => {
            let prepared = Prepared::new(model, &positions, ExtractAs::Npy, options)?;
            let archive = npz::Npz::new(prepared)?;
            let file = create(model, path, options)?;
            let extracted = archive.write(&file, options, work)?;
            file.commit().map_err(not_written(path))?;
            extracted
        }
        #[cfg(feature = "safetensors")]
        ExtractAllAs::Safetensors => safetensors(model, &positions, path, options, work)?,
    };
    extracted.notes.splice(0..0, notes);
    Ok(extracted)
}

/// Returns the positions of the tensors that match these names and patterns, each once.
fn chosen<N: AsRef<str>>(model: &Model, names: &[N]) -> Result<(Vec<usize>, Vec<Note>)> {
    model.expect_tensors()?;
    let has_data = |position: usize| model.info(position).map(|info| info.has_data);
    let (mut positions, mut without_data) = (Vec::new(), 0usize);
    for name in names {
        let mut matching = Vec::new();
        model.named(name.as_ref(), &mut matching)?;
        let is_name = matching
            .iter()
            .any(|&position| model.info(position).is_ok_and(|info| info.name == name.as_ref()));
        for position in matching {
            // A tensor without data that is given by its name is refused later, with an error that names it.
            if is_name || has_data(position)? {
                positions.push(position);
            } else {
                without_data += 1;
            }
        }
    }
    let mut seen = HashSet::with_capacity(positions.len());
    positions.retain(|&position| seen.insert(position));
    if positions.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
        return Err(model.nothing_selected(&[], Some(names.join(" or "))));
    }
    // Tensors that share bytes are each written separately.
    let ties = Ties::of(model, positions.iter().copied())?;
    check_reading(ties.groups.iter().map(|&group| ties.stored(group)), ties.size(model), model)?;
    let s = if without_data == 1 { "" } else { "s" };
    let note =
        (without_data > 0).then(|| Note::from(format!("{without_data} tensor{s} without data left out")));
    Ok((positions, note.into_iter().collect()))
}

#[cfg(feature = "safetensors")]
fn safetensors(
    model: &Model,
    positions: &[usize],
    path: &Path,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let mut conversion = ConvertOptions::default();
    for &position in positions {
        conversion.tensors.include.push(escaped(model.info(position)?.name));
    }
    conversion.types.rules.extend(options.dequantize.map(TypeRule::dequantize));
    conversion.types.rules.extend(options.cast.map(TypeRule::cast));
    conversion.types.scales.clone_from(&options.scales);
    conversion.output.overwrite = options.overwrite;
    conversion.no_verify = options.no_verify;
    conversion.tensors.allow_ties = true; // the bytes to be read were counted
    conversion.metadata.lossy = true;
    let converted =
        Conversion::new(model, path).to(Format::Safetensors).options(&conversion).execution(work).write()?;
    let mut notes = converted.notes;
    notes.retain(|note| note.choices != [modelfmt_rules::wording::Choice::Include]);
    if !converted.dropped.is_empty() {
        let (count, s) = (converted.dropped.len(), if converted.dropped.len() == 1 { "" } else { "s" });
        notes.push(Note::from(format!("{count} metadata key{s} that safetensors cannot hold left out")));
    }
    let nbytes = converted.files.iter().fold(0u64, |sum, file| sum.saturating_add(file.nbytes));
    let clipped = (!converted.clipped.is_empty()).then(|| Clipped::lines(&converted.clipped).join("; "));
    Ok(Extracted { tensors: converted.tensors, nbytes, notes, clipped })
}

fn create(model: &Model, path: &Path, options: &ExtractOptions) -> Result<impl Output> {
    let inputs = InputFiles::new(model.read_paths());
    OutputGuard::new(path, options.overwrite, inputs).create().map_err(not_written(path))
}

fn not_written(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.clone() },
        _ => Error::Write { path: path.clone(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "extract-npy")]
    fn endings_choose() {
        assert_eq!(ExtractAs::for_output("a.b/w.npy"), Some(ExtractAs::Npy));
        assert_eq!(ExtractAs::for_output("w.bin"), Some(ExtractAs::Bin));
        assert_eq!(ExtractAs::for_output("w"), None);
        assert_eq!(ExtractAllAs::for_output("a.npz"), Some(ExtractAllAs::Npz));
        assert_eq!(ExtractAllAs::for_output("a.npz/"), Some(ExtractAllAs::Folder(ExtractAs::Npy)));
        assert_eq!(ExtractAllAs::for_output("w.npy"), None);
    }
}
