//! One tensor into a file of its own: `.npy`, or its bytes, as they are or in another type.

use std::io;
use std::path::{Path, PathBuf};

use modelfmt_core::write::{FillError, InputFiles, Output, Overwrite, Region, Segment, Sink};
use modelfmt_core::{
    AnyError, CommonFault, DType, Execution, Part,
    author::{Extent, Shortened},
};
#[cfg(feature = "npy")]
use modelfmt_core::{Kind, Small};

use crate::convert::guard::Guard;
use crate::convert::single::Single;
use crate::convert::transform::Values;
use crate::convert::{ConvertOptions, ScaleRule, TypeRule};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::words::{Note, Remedy};

/// What a tensor is extracted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExtractAs {
    /// numpy's file format, version 1.0, for the types that numpy has.
    #[cfg(feature = "npy")]
    Npy,
    /// The values alone: little-endian, row-major, decompressed.
    Bin,
}

impl ExtractAs {
    /// What a file name asks for: `.npy` or `.bin`.
    #[must_use]
    pub fn of_output(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            #[cfg(feature = "npy")]
            "npy" => Some(Self::Npy),
            "bin" => Some(Self::Bin),
            _ => None,
        }
    }
}

/// How a tensor is extracted. The default changes no value, replaces no file, and checks what it reads.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExtractOptions {
    /// The type that it gets, whatever numbers it holds; blocks are decoded first. "Casts" on the page of
    /// [`convert`](mod@crate::convert) says what that does to values.
    pub cast: Option<DType>,
    /// Decodes quantized blocks to f32, f16 or bf16, and applies the scales of a weight in small floats, and scales and zero points
    /// that its file has for it, as [`ConvertOptions::dequantize`] does.
    pub dequantize: Option<DType>,
    /// Which tensor holds the scales, where the names do not tell.
    pub scales: Vec<ScaleRule>,
    /// Whether a file that exists is replaced.
    pub overwrite: Overwrite,
    /// Takes values as they are, without checking them by the hashes and checksums of their own file.
    pub no_verify: bool,
}

/// What an extraction did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// The size of what was written, in bytes.
    pub nbytes: u64,
    /// What was not checked, and what became of values: for standard error.
    pub notes: Vec<Note>,
    /// That values are beyond the range of the type which they were cast to, and became its end or an infinity.
    pub clipped: Option<String>,
}

/// Writes one tensor to `path`, in pieces. The file appears when it is complete, and only if the values are what the hashes
/// and checksums of their own file say of them.
///
/// # Errors
/// [`Error::NoSuchTensor`]; [`Error::NotExtractable`] if it has no data, numpy has no such type, or it cannot be cast or
/// dequantized; [`Error::Usage`] for a type that values cannot have; [`Error::Values`] for values that cannot be converted;
/// [`Error::Exists`] and [`Error::Write`] if it cannot be written; [`Error::Damaged`]; [`Error::File`] if it cannot be read.
pub fn extract(
    model: &Model,
    name: &str,
    path: impl AsRef<Path>,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let path = path.as_ref();
    let write = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned() },
        _ => Error::Write { path: path.to_owned(), source },
    };
    let prepared = Prepared::new(model, name, kind, options)?;
    let inputs = InputFiles::new(model.input_paths());
    let file = Guard::new(path, options.overwrite, inputs).create().map_err(write)?;
    let extracted = prepared.write(&file, options, work)?;
    file.commit().map_err(write)?;
    Ok(extracted)
}

/// Writes one tensor into a sink.
///
/// # Errors
/// As [`extract`]; what has been written by then is for the sink's owner to discard.
pub fn extract_to_sink(
    model: &Model,
    name: &str,
    sink: &dyn Sink,
    kind: ExtractAs,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    Prepared::new(model, name, kind, options)?.write(&sink, options, work)
}

/// A tensor that can be extracted: everything is chosen and checked, and nothing is written.
struct Prepared<'a> {
    model: &'a Model,
    name: &'a str,
    /// What stands before the values.
    header: Vec<u8>,
    /// The bytes of the values.
    nbytes: u64,
    single: Single,
}

impl<'a> Prepared<'a> {
    fn new(model: &'a Model, name: &'a str, kind: ExtractAs, options: &ExtractOptions) -> Result<Self> {
        let position = model.find(name)?;
        let info = model.info(position)?;
        let refused = |why: String, remedy: Option<Remedy>| Error::NotExtractable {
            path: model.path().to_owned(),
            name: name.to_owned(),
            why,
            remedy,
        };
        if !info.has_data {
            return Err(refused("it is declared without data".to_owned(), None));
        }
        let mut conversion = ConvertOptions::default();
        conversion.cast.extend(options.cast.map(TypeRule::from));
        conversion.dequantize.extend(options.dequantize.map(TypeRule::from));
        conversion.scales.clone_from(&options.scales);
        let single = Single::new(model, position, &conversion)?;
        let single = single.map_err(|unsupported| refused(unsupported.why, unsupported.remedy))?;
        let header = match kind {
            ExtractAs::Bin => Vec::new(),
            #[cfg(feature = "npy")]
            ExtractAs::Npy => {
                let Some(code) = npy_type(single.dtype) else {
                    let why = format!("numpy has no type {}; extract to .bin", single.dtype);
                    return Err(refused(why, npy_remedy(single.dtype)));
                };
                npy_header(code, info.shape).map_err(|error| refused(error.to_string(), None))?
            }
        };
        // Rows that are filled up to whole blocks have a length that dtype and shape do not say.
        let own =
            if single.dtype == info.dtype { Some(info.nbytes) } else { single.dtype.nbytes(info.shape) };
        Ok(Self { model, name, header, nbytes: own.unwrap_or_default(), single })
    }

    fn write(self, sink: &impl Sink, options: &ExtractOptions, work: &Execution<'_>) -> Result<Extracted> {
        let Self { model, name, header, nbytes, single } = self;
        let write = |source| Error::Write { path: PathBuf::from(sink.name()), source };
        let values = Values::new(model, &single.tensors, !options.no_verify)?;
        sink.write_at(0, &header).map_err(write)?;
        let begin = header.len() as u64;
        let extent = Extent::new(begin, nbytes, u64::MAX).map_err(|fault| no_room(model, fault))?;
        let segments = [Segment { tensor: 0, extent }];
        let region = Region { extent, fill: 0, segments: &segments };
        let done = region.write(&values, sink, work, |_, _| (), drop);
        done.map_err(|error| match (values.kept(), error) {
            (Some(reading), _) => reading,
            (None, FillError::Write { source, .. }) => write(source),
            (None, FillError::Cancelled) => model.failed(AnyError::Cancelled),
            (None, FillError::Data { source, .. }) => {
                Error::Values { path: model.path().to_owned(), tensor: name.to_owned(), source }
            }
        })?;
        values.finish(work)?;
        let beyond =
            |_| format!("tensor {:?} has values beyond the range of {}", Shortened(name), single.dtype);
        Ok(Extracted {
            nbytes: begin.saturating_add(nbytes),
            clipped: values.clipped().next().map(beyond),
            notes: single.notes.into_iter().chain(values.notes().iter().cloned().map(Note::from)).collect(),
        })
    }
}

fn no_room(model: &Model, fault: CommonFault) -> Error {
    let basic = modelfmt_core::CommonError::Malformed { part: Part::new("output"), at: 0, fault };
    model.failed(modelfmt_core::Error::<CommonFault>::from(basic))
}

/// What makes a type one that numpy has.
#[cfg(feature = "npy")]
fn npy_remedy(dtype: DType) -> Option<Remedy> {
    let cast = |to| Some(Remedy::Cast { to, by_name: false });
    match dtype.kind() {
        Kind::Quantized if ggml_quant::can_decode(dtype) => Some(Remedy::Dequantize(DType::F32)),
        Kind::Float => cast(DType::F32),
        Kind::Int if Small::of(dtype).is_some() => cast(DType::I8),
        Kind::UInt if Small::of(dtype).is_some() => cast(DType::U8),
        _ => None,
    }
}

/// numpy's name for a type, little-endian.
#[cfg(feature = "npy")]
const fn npy_type(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::U16 => "<u2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I64 => "<i8",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        _ => return None,
    })
}

#[cfg(feature = "npy")]
fn npy_header(code: &str, shape: &[u64]) -> io::Result<Vec<u8>> {
    use npyz::{DType, WriteOptions, WriterBuilder};
    let invalid = |error: npyz::ParseTypeStrError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut header = Vec::new();
    let options = WriteOptions::new_header_only().dtype(DType::Plain(code.parse().map_err(invalid)?));
    options.shape(shape).writer(&mut header).write_header_only()?;
    Ok(header)
}

#[cfg(all(test, feature = "npy"))]
mod tests {
    use super::*;

    #[test]
    fn headers_are_what_numpy_reads() {
        let header = npy_header("<f4", &[2, 3]).unwrap();
        assert!(header.starts_with(b"\x93NUMPY\x01\x00"), "{header:?}");
        assert_eq!(header.len() % 16, 0);
        let text = String::from_utf8_lossy(&header[10..]);
        assert!(text.contains("'descr': '<f4'") && text.contains("'shape': (2, 3"), "{text}");
        assert!(npy_header("<f8", &[]).is_ok());
    }

    #[test]
    fn endings_choose() {
        assert_eq!(ExtractAs::of_output("a.b/w.npy"), Some(ExtractAs::Npy));
        assert_eq!(ExtractAs::of_output("w.bin"), Some(ExtractAs::Bin));
        assert_eq!(ExtractAs::of_output("w"), None);
    }
}
