//! Converts any model that opens, and models of ours there and back.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::Conversion;
use modelfmt::convert::ConvertOptions;
use modelfmt::diff::diff;
use modelfmt::{Error, Execution, Format, Model, VerifyLevel};
use modelfmt_write::MemoryFile;

use super::drill::{Depth, limits};
use super::model::Model as Made;
use super::writers::Write;
use super::{ggufs, roundtrips, writers};

const TARGETS: [Format; 7] =
    [Format::Aero, Format::Apr2, Format::Mag, Format::Oinf, Format::Safetensors, Format::Apr, Format::Gguf];
const WORK: Execution<'_> = Execution::sequential();
/// Tensors may share their bytes, but those of the output may not.
const MAX_NBYTES: u64 = 1 << 20;

/// Every model that opens is converted to a valid file with as many tensors, or is refused.
pub fn any(bytes: &[u8], _: Depth) {
    let options = modelfmt::OpenOptions::new().limits(limits());
    let Ok(model) = options.open_source("input", Box::new(bytes.to_vec()), None) else { return };
    if model.tensors().fold(0u64, |sum, tensor| sum.saturating_add(tensor.nbytes)) > MAX_NBYTES {
        return;
    }
    let mut options = ConvertOptions::default();
    options.metadata.lossy = true;
    // A copy in the same format keeps invalid metadata, such as a boolean that is neither 0 nor 1.
    let is_sound = model.container().verify(VerifyLevel::Full, &WORK).is_ok();
    for target in TARGETS {
        if target == model.format() && !is_sound {
            continue;
        }
        let Some(converted) = converted(&model, target, &options) else { continue };
        let report = converted.container().verify(VerifyLevel::Full, &WORK);
        assert!(report.is_ok(), "{} to {target}: {:?}", model.format(), report.errors);
    }
}

/// Converts the model to another format; `None` if that is refused.
fn converted(model: &Model, target: Format, options: &ConvertOptions) -> Option<Model> {
    let file = MemoryFile::new();
    Conversion::to_format(model, target).options(options).execution(&WORK).write_to_sink(&file).ok()?;
    let opened = Model::from_source("converted", file.into_bytes());
    Some(opened.unwrap_or_else(|error| panic!("{} to {target}: {error}", model.format())))
}

/// Converting A to AERO and back restores A.
pub fn there_and_back(bytes: &[u8], _: Depth) {
    let mut u = Unstructured::new(bytes);
    let made: Result<_> = (|| {
        let (format, flags) = (u.int_in_range(0..=6)?, u8::arbitrary(&mut u)?);
        let (format, constraints, write): (_, _, Write) = match format {
            0 => (Format::Aero, roundtrips::AERO, writers::aero),
            1 => (Format::Apr2, roundtrips::APR2, writers::apr2),
            2 => (Format::Mag, roundtrips::MAG, writers::mag),
            3 => (Format::Oinf, roundtrips::OINF, writers::oinf),
            4 => (Format::Apr, roundtrips::APR, writers::apr),
            5 => (Format::Safetensors, roundtrips::SAFETENSORS, writers::safetensors),
            _ => (Format::Gguf, roundtrips::GGUF, ggufs::write),
        };
        Ok((format, write(&Made::arbitrary(&mut u, constraints)?, flags, &WORK)))
    })();
    let Ok((format, Some(file))) = made else { return };
    let model = Model::from_source("there", file).expect("what we write opens");
    let options = ConvertOptions::default();
    let there = MemoryFile::new();
    match Conversion::to_format(&model, Format::Aero).options(&options).execution(&WORK).write_to_sink(&there)
    {
        Ok(_) => {}
        // AERO does not have this dtype.
        Err(Error::Unsupported { .. }) => return,
        Err(error) => panic!("{format} to aero: {error}"),
    }
    let there = Model::from_source("there", there.into_bytes()).expect("what we convert opens");
    let back = MemoryFile::new();
    Conversion::to_format(&there, format)
        .options(&options)
        .execution(&WORK)
        .write_to_sink(&back)
        .unwrap_or_else(|error| panic!("back to {format}: {error}"));
    let back = Model::from_source("back", back.into_bytes()).expect("what we convert opens");
    let found = diff(&model, &back, &WORK).expect("both can be read");
    assert!(found.is_same(), "{format} → aero → {format}: {found:?}");
}
