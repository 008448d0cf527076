//! Converts JSON to options of the library.

use std::fmt::Display;
use std::str::FromStr;

use modelfmt::OpenOptions;
use modelfmt::convert::ConvertOptions;
use modelfmt::convert::{Compression, MagChecksum, TypeRule};
use modelfmt::value::json;
use modelfmt::wording::ParseError;
use serde_json::Value;

use crate::answers::{Options, Refusal, Result, usage};
use crate::args::{Args, texts};
use crate::keys;

/// Returns the options for opening a model, with `keys` if there are any.
pub(crate) fn opening(args: &Args) -> Result<OpenOptions> {
    let options = OpenOptions::new();
    Ok(match args.get("keys") {
        Some(keys) => options.access(keys::access(keys)?),
        None => options,
    })
}

/// Returns the options of a conversion from the given properties; null has the same effect as leaving out the
/// property.
pub(crate) fn conversion(given: Option<&Value>) -> Result<ConvertOptions> {
    let mut options = ConvertOptions::default();
    let mut ordered = Vec::new();
    for (key, value) in
        given.and_then(Value::as_object).into_iter().flatten().filter(|(_, value)| !value.is_null())
    {
        match &**key {
            "rules" => ordered = rules(key, value)?,
            "cast" => options.types.rules.extend(type_rules(key, value, TypeRule::parse_cast)?),
            "dequantize" => options.types.rules.extend(type_rules(key, value, TypeRule::parse_dequantize)?),
            "quantize" => options.types.rules.extend(type_rules(key, value, TypeRule::parse_quantize)?),
            _ => set(&mut options, key, value)?,
        }
    }
    // Properties have no order, so a rule for all tensors comes first, as the more general one.
    options.types.rules.sort_by_key(|rule| rule.glob.is_some());
    options.types.rules.extend(ordered);
    Ok(options)
}

fn set(options: &mut ConvertOptions, key: &str, value: &Value) -> Result<()> {
    let wrong = |wanted: &str| usage(format!("{key}: {wanted} is needed"));
    let flag = || value.as_bool().ok_or_else(|| wrong("true or false"));
    let text = || value.as_str().map(str::to_owned).ok_or_else(|| wrong("a text"));
    let number = || value.as_u64().ok_or_else(|| wrong("a whole number"));
    match key {
        "widen" => options.types.widen = flag()?,
        "scales" => options.types.scales = rules(key, value)?,
        "allow_ties" => options.tensors.allow_ties = flag()?,
        "verify" => options.no_verify = !flag()?,
        "lossy" => options.metadata.lossy = flag()?,
        "stringify" => options.metadata.stringify = flag()?,
        // As text, so that no number is converted to a JavaScript number.
        "metadata" => {
            let object = json::parse_object(text()?.as_bytes());
            let object = object.map_err(|error| usage(format!("{key}: a JSON object is needed: {error}")))?;
            options.metadata.set = Some(object);
        }
        "model_name" => options.metadata.model_name = Some(text()?),
        "architecture" => options.metadata.architecture = Some(text()?),
        "model_type" => options.metadata.model_type = Some(text()?),
        "include" => options.tensors.include = texts(key, value)?,
        "exclude" => options.tensors.exclude = texts(key, value)?,
        "control_hash" => options.aero.control_hash = flag()?,
        "page_hashes" => options.aero.page_hashes = Some(number()?),
        "tensor_hashes" => options.aero.tensor_hashes = flag()?,
        "uuid" => options.aero.uuid = Some(uuid(&text()?).ok_or_else(|| wrong("32 hex digits"))?),
        "shard_size" => options.output.shard_size = Some(number()?),
        "no_zstd" => options.aero.no_zstd = flag()?,
        "compress" => {
            options.apr2.compress = Some(match &*text()? {
                "lz4" => Compression::Lz4,
                "none" => Compression::None,
                _ => return Err(wrong("\"lz4\" or \"none\"")),
            });
        }
        "align" => {
            options.output.align = Some(u32::try_from(number()?).map_err(|_| wrong("a smaller number"))?);
        }
        "checksum" => {
            options.mag.checksum = Some(match &*text()? {
                "crc32" => MagChecksum::Crc32,
                "crc32c" => MagChecksum::Crc32c,
                _ => return Err(wrong("\"crc32\" or \"crc32c\"")),
            });
        }
        other => return Err(usage(format!("there is no option {other:?}"))),
    }
    Ok(())
}

/// Parses the type rules for one option.
fn type_rules(
    key: &str,
    value: &Value,
    parse: fn(&str) -> std::result::Result<TypeRule, ParseError>,
) -> Result<Vec<TypeRule>> {
    let wrong = |unknown: ParseError| usage(format!("{key}: {}", unknown.in_words(&Options)));
    texts(key, value)?.iter().map(|text| parse(text).map_err(wrong)).collect()
}

/// Parses rules as the program takes them, such as `*.weight=f16`.
fn rules<T: FromStr<Err: Display>>(key: &str, value: &Value) -> Result<Vec<T>> {
    let parse = |text: &String| text.parse().map_err(|error: T::Err| usage(format!("{key}: {error}")));
    texts(key, value)?.iter().map(parse).collect::<Result<_, Refusal>>()
}

/// Parses 32 hex digits, with or without hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32).map(u128::to_be_bytes)
}
