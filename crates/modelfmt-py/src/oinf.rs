//! Writes OINF files with the content of a dataclass, in the given order and with the given types.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use modelfmt::modelfmt_core::UnknownDType;
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::modelfmt_write::TensorSpec;
use modelfmt::oinf::{
    Bitset, MetaValue, Metadata, NdArray, Overwrite, Plan, ValueType, WriteError, WriteOptions,
};
use modelfmt::{DType, Error};
use pyo3::prelude::*;

use crate::errors::{raise, refuse};
use crate::files::{Values, described};
use crate::raw::PyBytesSource;
use crate::work::{self, Progress};

/// A metadata value: its name, the name of its type, and its Python value.
type Entry<'py> = (String, String, Bound<'py, PyAny>);

/// A tensor: its name, dtype, shape, and its bytes if it has any.
type Tensor<'py> = (String, String, Vec<u64>, Option<Bound<'py, PyAny>>);

/// Writes an OINF file of version 1.
#[pyfunction]
#[pyo3(name = "write_oinf")]
pub(crate) fn write(
    py: Python<'_>,
    path: PathBuf,
    sizevars: Vec<(String, u64)>,
    metadata: Vec<Entry<'_>>,
    tensors: Vec<Tensor<'_>>,
) -> PyResult<()> {
    let sizevars = sizevars.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect();
    let values = metadata.iter().map(|(key, kind, value)| {
        let read = read_value(kind, value)?;
        let unfit = |why: String| refuse(py, "refused", &format!("metadata {key:?}: {why}"));
        Ok((Cow::Borrowed(&**key), read.map_err(unfit)?))
    });
    let metadata = Metadata { sizevars, values: values.collect::<PyResult<_>>()? };
    let (mut specs, mut data) = (Vec::with_capacity(tensors.len()), Vec::with_capacity(tensors.len()));
    for (name, dtype, shape, bytes) in tensors {
        match bytes {
            Some(bytes) => {
                let (dtype, bytes) = described(py, &name, &dtype, &shape, &bytes)?;
                specs.push(TensorSpec::new(name, dtype, shape));
                data.push(bytes);
            }
            None => {
                let dtype: DType =
                    dtype.parse().map_err(|error: UnknownDType| refuse(py, "usage", &error.to_string()))?;
                specs.push(TensorSpec::declared(name, dtype, shape));
                data.push(PyBytesSource::of(pyo3::types::PyBytes::new(py, b"").as_any())?);
            }
        }
    }
    let options = WriteOptions::new().extended_types(true).order_as_given(true);
    let plan = Plan::new(specs, &metadata, &options);
    let plan = plan.map_err(|error| failed(py, &path, error))?;
    let target = path.clone();
    let written = work::run_to_end(py, None, &Progress::none(), move |work| {
        plan.write_file(&target, Overwrite::Replace, &Values(data), work)
    })?;
    written.map_err(|error| failed(py, &path, error))
}

fn failed(py: Python<'_>, path: &Path, error: WriteError) -> PyErr {
    match error {
        WriteError::Write { source, .. } => raise(py, &Error::Write { path: path.to_owned(), source }),
        error => refuse(py, "refused", &format!("{}: {}", path.display(), with_causes(&error))),
    }
}

/// Converts a metadata value from its parts.
fn read_value<'a>(kind: &str, value: &Bound<'_, PyAny>) -> PyResult<Result<MetaValue<'a>, String>> {
    Ok(match kind {
        "str" => Ok(MetaValue::Str(Cow::Owned(value.extract()?))),
        "bitset" => {
            let bits: Vec<bool> = value.extract()?;
            Bitset::from_bits(bits).map(MetaValue::Bitset).map_err(|fault| fault.to_string())
        }
        "ndarray" => {
            let (dtype, shape, bytes): (String, Vec<u64>, Vec<u8>) = value.extract()?;
            let dtype = dtype.parse().map_err(|error: UnknownDType| error.to_string());
            dtype.and_then(|dtype| {
                NdArray::new(dtype, shape, bytes).map(MetaValue::Ndarray).map_err(|fault| fault.to_string())
            })
        }
        scalar => from_bytes(scalar, &value.extract::<Vec<u8>>()?),
    })
}

/// Converts a number or boolean from its little-endian bytes.
fn from_bytes<'a>(kind: &str, le: &[u8]) -> Result<MetaValue<'a>, String> {
    let value_type = ValueType::ALL.iter().find(|value_type| value_type.name() == kind);
    let value_type = value_type.ok_or_else(|| format!("no value type is named {kind:?}"))?;
    MetaValue::from_scalar(*value_type, le).ok_or_else(|| format!("{} bytes are no {kind}", le.len()))
}
