//! Converts keywords to options of the library.

use modelfmt::convert::{Compression, Declared, MagChecksum, RenameRule, TypeRule};
use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::value::json;
use modelfmt::wording::ParseError;
use modelfmt::{Object, Target};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Keywords, refuse};

/// Returns the options of a conversion from keywords. `None` has the same effect as leaving out the keyword.
pub(crate) fn options(given: &Bound<'_, PyDict>) -> PyResult<ConvertOptions> {
    let mut options = ConvertOptions::default();
    let mut ordered = Vec::new();
    for (key, value) in given {
        if value.is_none() {
            continue;
        }
        let key: String = key.extract()?;
        match &*key {
            "rules" => ordered = type_rules(&value, |text| text.parse())?,
            "cast" => options.types.rules.extend(type_rules(&value, TypeRule::parse_cast)?),
            "dequantize" => options.types.rules.extend(type_rules(&value, TypeRule::parse_dequantize)?),
            "quantize" => options.types.rules.extend(type_rules(&value, TypeRule::parse_quantize)?),
            _ => set(&mut options, &key, &value)?,
        }
    }
    // Keywords have no order, so a rule for all tensors comes first, as the more general one.
    options.types.rules.sort_by_key(|rule| rule.glob.is_some());
    options.types.rules.extend(ordered);
    Ok(options)
}

fn set(options: &mut ConvertOptions, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    let usage = |text: String| refuse(py, "usage", &format!("{key}: {text}"));
    match key {
        "widen" => options.types.widen = value.extract()?,
        "scales" => options.types.scales = rules(value, &usage)?,
        "rename" => options.tensors.rename = renames(value, &usage)?,
        "dedupe" => options.aero.dedupe = value.extract()?,
        "stringify" => options.metadata.stringify = value.extract()?,
        "allow_extended_types" => options.oinf.allow_extended_types = value.extract()?,
        "reserve" => options.output.reserve = Some(value.extract()?),
        "outboard" => options.output.outboard = value.extract()?,
        "allow_ties" => options.tensors.allow_ties = value.extract()?,
        "map" => options.tensors.map = Some(value.extract()?),
        "lora" => options.tensors.lora = rules(value, &usage)?,
        "base" => options.tensors.base = Some(value.extract()?),
        "imatrix" => options.types.imatrix = Some(value.extract()?),
        "pre" => options.metadata.pre = Some(value.extract()?),
        "verify" => options.no_verify = !value.extract::<bool>()?,
        "lossy" => options.metadata.lossy = value.extract()?,
        "metadata" => options.metadata.set = Some(object(value)?),
        "sizevars" => options.oinf.sizevars = value.extract()?,
        "declare" => options.oinf.declare = declared(value, &usage)?,
        "model_name" => options.metadata.model_name = Some(value.extract()?),
        "architecture" => options.metadata.architecture = Some(value.extract()?),
        "model_type" => options.metadata.model_type = Some(value.extract()?),
        "include" => options.tensors.include = value.extract()?,
        "exclude" => options.tensors.exclude = value.extract()?,
        "shard_size" => options.output.shard_size = Some(value.extract()?),
        "shards" => {
            let count = std::num::NonZero::new(value.extract::<u32>()?);
            options.output.shards =
                Some(count.ok_or_else(|| usage("shards: a set has 1 file or more".to_owned()))?);
        }
        "control_hash" => options.aero.control_hash = value.extract()?,
        "page_hashes" => options.aero.page_hashes = Some(value.extract()?),
        "tensor_hashes" => options.aero.tensor_hashes = value.extract()?,
        "uuid" => options.aero.uuid = Some(value.extract()?),
        "no_zstd" => options.aero.no_zstd = value.extract()?,
        "compress" => options.apr2.compress = Some(compression(&value.extract::<String>()?, &usage)?),
        "align" => options.output.align = Some(value.extract()?),
        "checksum" => options.mag.checksum = Some(checksum(&value.extract::<String>()?, &usage)?),
        "seal" => options.apr2.seal = Some(crate::sealing::sealing(value.cast::<PyDict>()?)?),
        "overwrite" if value.extract()? => options.output.overwrite = Overwrite::Replace,
        "overwrite" => options.output.overwrite = Overwrite::Refuse,
        other => return Err(PyTypeError::new_err(format!("there is no option {other:?}"))),
    }
    Ok(())
}

type Usage<'a> = &'a dyn Fn(String) -> PyErr;

/// Parses rules as the program takes them, such as `*.weight=f16`.
fn rules<T: std::str::FromStr<Err: std::fmt::Display>>(
    value: &Bound<'_, PyAny>,
    usage: Usage<'_>,
) -> PyResult<Vec<T>> {
    let texts: Vec<String> = value.extract()?;
    texts.iter().map(|text| text.parse().map_err(|error: T::Err| usage(error.to_string()))).collect()
}

/// Parses rules about types.
fn type_rules(
    value: &Bound<'_, PyAny>,
    parse: impl Fn(&str) -> Result<TypeRule, ParseError>,
) -> PyResult<Vec<TypeRule>> {
    let texts: Vec<String> = value.extract()?;
    let wrong = |text: &str, error: &ParseError| {
        refuse(value.py(), "usage", &format!("{text:?}: {}", error.in_words(&Keywords)))
    };
    texts.iter().map(|text| parse(text).map_err(|error| wrong(text, &error))).collect()
}

/// Parses JSON text to an object.
pub(crate) fn object(value: &Bound<'_, PyAny>) -> PyResult<Object> {
    let text: String = value.extract()?;
    json::parse_object(text.as_bytes())
        .map_err(|error| PyValueError::new_err(format!("metadata has to be a JSON object: {error}")))
}

fn renames(value: &Bound<'_, PyAny>, usage: Usage<'_>) -> PyResult<Vec<RenameRule>> {
    let given: Vec<(String, String)> = value.extract()?;
    given
        .into_iter()
        .map(|(old, new)| RenameRule::new(old, new).map_err(|why| usage(why.to_owned())))
        .collect()
}

fn declared(value: &Bound<'_, PyAny>, usage: Usage<'_>) -> PyResult<Vec<Declared>> {
    let given: Vec<(String, String, Vec<u64>)> = value.extract()?;
    let one = |(name, dtype, shape): (String, String, Vec<u64>)| {
        let dtype =
            dtype.parse().map_err(|error: modelfmt::modelfmt_core::UnknownDType| usage(error.to_string()))?;
        Ok(Declared { name, dtype, shape })
    };
    given.into_iter().map(one).collect()
}

fn compression(word: &str, usage: Usage<'_>) -> PyResult<Compression> {
    match word {
        "lz4" => Ok(Compression::Lz4),
        "none" => Ok(Compression::None),
        _ => Err(usage(format!("{word:?} is neither \"lz4\" nor \"none\""))),
    }
}

fn checksum(word: &str, usage: Usage<'_>) -> PyResult<MagChecksum> {
    match word {
        "crc32" => Ok(MagChecksum::Crc32),
        "crc32c" => Ok(MagChecksum::Crc32c),
        _ => Err(usage(format!("{word:?} is neither \"crc32\" nor \"crc32c\""))),
    }
}

/// Parses the name of a format, with or without a version.
pub(crate) fn target(py: Python<'_>, name: &str) -> PyResult<Target> {
    name.parse().map_err(|error: ParseError| refuse(py, "usage", &error.to_string()))
}
