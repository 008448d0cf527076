//! One tensor into a file of its own: `.npy`, or its bytes as they are.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use modelfmt_core::write::{
    BoxError, FillError, InputFiles, Output, Overwrite, Region, Segment, Sink, TensorData,
};
use modelfmt_core::{AnyError, CommonFault, Execution, Part, author::Extent};
#[cfg(feature = "npy")]
use modelfmt_core::{DType, Kind};

use crate::checked::Checked;
use crate::convert::guard::Guard;
use crate::error::{Error, Result};
use crate::model::Model;
#[cfg(feature = "npy")]
use crate::words::Remedy;

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

/// How a tensor is extracted. The default replaces no file, and checks what it reads.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExtractOptions {
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
    /// What was not checked, and why: for standard error.
    pub notes: Vec<String>,
}

/// Writes one tensor to `path`, in pieces. The file appears when it is complete, and only if the values are what the hashes
/// and checksums of their own file say of them.
///
/// # Errors
/// [`Error::NoSuchTensor`]; [`Error::NotExtractable`] if it has no data, or numpy has no such type; [`Error::Exists`] and
/// [`Error::Write`] if it cannot be written; [`Error::Damaged`]; [`Error::File`] if it cannot be read.
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
    let header = header(model, model.find(name)?, kind)?;
    let inputs = InputFiles::new(model.input_paths());
    let file = Guard::new(path, options.overwrite, inputs).create().map_err(write)?;
    let extracted = write_tensor(model, name, &header, &file, options, work)?;
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
    let header = header(model, model.find(name)?, kind)?;
    write_tensor(model, name, &header, &sink, options, work)
}

fn write_tensor(
    model: &Model,
    name: &str,
    header: &[u8],
    sink: &impl Sink,
    options: &ExtractOptions,
    work: &Execution<'_>,
) -> Result<Extracted> {
    let write = |source| Error::Write { path: PathBuf::from(sink.name()), source };
    let position = model.find(name)?;
    let values = Checked::new(model, &[position], !options.no_verify)?;
    sink.write_at(0, header).map_err(write)?;
    let (begin, nbytes) =
        (header.len() as u64, model.container().info(position).map_or(0, |info| info.nbytes));
    let extent = Extent::new(begin, nbytes, u64::MAX).map_err(|fault| no_room(model, fault))?;
    let segments = [Segment { tensor: position, extent }];
    let region = Region { extent, fill: 0, segments: &segments };
    let done = region.write(&Values(&values), sink, work, |_, _| (), drop);
    done.map_err(|error| match (values.kept(), error) {
        (Some(reading), _) => reading,
        (None, FillError::Write { source, .. }) => write(source),
        (None, FillError::Cancelled) => model.failed(AnyError::Cancelled),
        (None, FillError::Data { source, .. }) => {
            Error::Values { path: model.path().to_owned(), tensor: name.to_owned(), source }
        }
    })?;
    values.finish(work)?;
    Ok(Extracted { nbytes: begin.saturating_add(nbytes), notes: values.notes().to_vec() })
}

fn no_room(model: &Model, fault: CommonFault) -> Error {
    let basic = modelfmt_core::CommonError::Malformed { part: Part::new("output"), at: 0, fault };
    model.failed(modelfmt_core::Error::<CommonFault>::from(basic))
}

/// A model's tensors as they are, for writers.
struct Values<'a>(&'a Checked<'a>);

impl TensorData for Values<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        self.0.read_into(tensor, offset, out).map_err(|error| self.0.keep(error).into())
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        self.0.borrow(tensor, range)
    }
}

fn header(model: &Model, position: usize, kind: ExtractAs) -> Result<Vec<u8>> {
    let info = model.info(position)?;
    let refused = |why: String, remedy| Error::NotExtractable {
        path: model.path().to_owned(),
        name: info.name.to_owned(),
        why,
        remedy,
    };
    if !info.has_data {
        return Err(refused("it is declared without data".to_owned(), None));
    }
    match kind {
        ExtractAs::Bin => Ok(Vec::new()),
        #[cfg(feature = "npy")]
        ExtractAs::Npy => {
            let Some(code) = npy_type(info.dtype) else {
                let remedy = match info.dtype.kind() {
                    Kind::Quantized if ggml_quant::can_decode(info.dtype) => {
                        Some(Remedy::Dequantize(DType::F32))
                    }
                    Kind::Float => Some(Remedy::Cast { to: DType::F32, by_name: false }),
                    _ => None,
                };
                return Err(refused(format!("numpy has no type {}; extract to .bin", info.dtype), remedy));
            };
            npy_header(code, info.shape).map_err(|error| refused(error.to_string(), None))
        }
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
