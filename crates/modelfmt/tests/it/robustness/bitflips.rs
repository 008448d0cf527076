//! Every bit of a small file of each format is flipped: only flips that the format does not cover are not
//! found.

use modelfmt::{Execution, Model, VerifyLevel};

use super::fuzz::{Sample, samples};

/// Returns the bytes of a sample for which some flip is not found.
fn unfound(sample: &Sample) -> Vec<usize> {
    let is_unfound = |&at: &usize| {
        (0..8).any(|bit| {
            let flipped = testkit::patched(&sample.bytes, at, &[sample.bytes[at] ^ (1 << bit)]);
            let Ok(model) = Model::from_source("flipped", flipped) else { return false };
            model.container().verify(VerifyLevel::Full, &Execution::sequential()).is_ok()
        })
    };
    (0..sample.bytes.len()).filter(is_unfound).collect()
}

pub(crate) fn ranges(positions: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for &at in positions {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// The bytes of a sample that no check of the format can cover, as ranges with the reason. docs/ROBUSTNESS.md
/// has the same in words.
pub(crate) type Uncovered = &'static [(std::ops::Range<usize>, &'static str)];

const AERO: Uncovered = &[
    (52..68, "the identity in the header"),
    (112..120, "MJSN: type and flags; the chunk becomes one of a type that nobody knows"),
    (144..145, "MJSN: where its name begins"),
    (148..149, "MJSN: the length of its name"),
    (192..200, "MMSG: type and flags"),
    (228..229, "MMSG: the length of its name"),
    (272..280, "TIDX: type and flags; the file becomes one without tensors"),
    (304..305, "TIDX: where its name begins"),
    (308..309, "TIDX: the length of its name"),
    (356..360, "WTSH: flags"),
    (432..459, "names of MJSN, MMSG and TIDX"),
    (473..480, "zeros after the names"),
];

/// Hashes cover the content of a frame, and frames have a few bits that change nothing.
const ZSTD: Uncovered = &[
    (564..565, "MMSG: the frame header"),
    (576..577, "MMSG: a bit of a block that decodes to the same"),
    (788..789, "TIDX: the frame header"),
];

const MAG: Uncovered = &[(223..640, "padding and values: the checksum is of header and records")];

/// MAG 0.3 has no checksum.
const MAG_0_3: Uncovered = &[
    (8..9, "the order of bytes in the values"),
    (75..100, "the time"),
    (119..124, "magnetron's version"),
    (166..172, "a metadata key"),
    (174..176, "a metadata value"),
    (178..182, "a metadata key"),
    (184..185, "a metadata value"),
    (186..187, "a metadata value"),
    (204..219, "a tensor's name"),
    (245..252, "the name of a type, which only informs"),
    (292..307, "a tensor's name"),
    (331..335, "the name of a type"),
    (348..349, "a tensor's type, where another has the same size"),
    (377..392, "a tensor's name"),
    (419..426, "the name of a type"),
    (4096..4120, "values"),
    (8192..8197, "values"),
    (12288..12544, "values"),
];

const MAG_0_1: Uncovered =
    &[(8..16, "the time"), (225..510, "values: the checksum is of what describes them")];

const MAG_0_2: Uncovered = &[
    (8..16, "the time"),
    (240..264, "values: the checksum is of what describes them"),
    (272..277, "values"),
    (288..544, "values"),
];

const OINF_2: Uncovered = &[
    (76..82, "a metadata key"),
    (116..120, "a metadata key"),
    (148..163, "a tensor's name"),
    (232..247, "a tensor's name"),
    (252..253, "a tensor's type, where another has the same size"),
    (308..323, "a tensor's name"),
    (392..408, "metadata values"),
    (408..432, "values"),
    (480..488, "the scale and the zero point of a tensor"),
    (488..493, "values"),
    (544..584, "scales and zero points of a tensor"),
    (584..840, "values"),
];

const OINF: Uncovered = &[
    (76..82, "a metadata key"),
    (116..120, "a metadata key"),
    (148..163, "a tensor's name"),
    (216..231, "a tensor's name"),
    (236..237, "a tensor's type, where another has the same size"),
    (276..291, "a tensor's name"),
    (344..360, "metadata values"),
    (360..389, "values"),
    (392..648, "values"),
];

const SAFETENSORS: Uncovered = &[
    (10..25, "a tensor's name"),
    (80..95, "a tensor's name"),
    (148..163, "a tensor's name"),
    (224..509, "values"),
];

const GGUF: Uncovered = &[
    (4..5, "the version, 3 for 2"),
    (32..38, "a metadata key"),
    (38..39, "a metadata type, where another has the same size"),
    (42..44, "a metadata value"),
    (52..56, "a metadata key"),
    (56..57, "a metadata type, where another has the same size"),
    (60..64, "a metadata value"),
    (72..87, "a tensor's name"),
    (127..142, "a tensor's name"),
    (146..147, "a dimension, where the next tensor still begins at the next multiple of 32"),
    (154..155, "a tensor's type, as before"),
    (174..189, "a tensor's name"),
    (193..194, "a dimension of the last tensor, which becomes shorter"),
    (201..202, "a dimension of the last tensor, which becomes shorter"),
    (224..248, "values"),
    (256..261, "values"),
    (288..544, "values"),
];

const UNCOVERED: &[(&str, &[Uncovered])] = &[
    ("aero", &[AERO]),
    ("aero with all hashes", &[]),
    ("aero with zstd", &[AERO, ZSTD]),
    ("mag", &[MAG]),
    ("mag 0.3", &[MAG_0_3]),
    ("mag 0.1", &[MAG_0_1]),
    ("mag 0.2", &[MAG_0_2]),
    ("oinf", &[OINF]),
    ("oinf 2", &[OINF_2]),
    ("apr2", &[]),
    ("apr2 with lz4", &[]),
    ("apr1", &[]),
    ("apr", &[]),
    ("safetensors", &[SAFETENSORS]),
    ("gguf", &[GGUF]),
];

#[test]
fn what_verify_does_not_find_is_what_the_format_leaves_uncovered() {
    let samples = samples();
    assert_eq!(samples.len(), UNCOVERED.len());
    for (sample, (name, uncovered)) in samples.iter().zip(UNCOVERED) {
        assert_eq!(sample.name, *name);
        let unfound = unfound(sample);
        println!("{name}: {} of {} bytes: {:?}", unfound.len(), sample.bytes.len(), ranges(&unfound));
        let expected: Vec<usize> =
            uncovered.iter().copied().flatten().flat_map(|(range, _)| range.clone()).collect();
        assert_eq!(ranges(&unfound), ranges(&expected), "{name}");
    }
}

/// Returns the bytes of a sample that hold stored values.
fn stored(model: &Model) -> Vec<std::ops::Range<usize>> {
    let locations = (0..model.tensor_count()).map(|position| model.location(position).unwrap());
    let range = |location: modelfmt::Location| {
        let begin = usize::try_from(location.offset.unwrap()).unwrap();
        begin..begin + usize::try_from(location.stored_nbytes).unwrap()
    };
    locations.map(range).collect()
}

#[test]
fn what_verify_finds_in_values_conversion_finds_too() {
    for sample in samples() {
        let good = Model::from_source("good", sample.bytes.clone()).unwrap();
        let mut found = 0;
        for at in stored(&good).into_iter().flatten() {
            for bit in 0..8 {
                let flipped = testkit::patched(&sample.bytes, at, &[sample.bytes[at] ^ (1 << bit)]);
                let Ok(model) = Model::from_source("flipped", flipped) else { continue };
                let is_found = !model.container().verify(VerifyLevel::Full, &Execution::sequential()).is_ok();
                let mut options = modelfmt::convert::ConvertOptions::default();
                options.metadata.lossy = true;
                let sink = modelfmt_write::MemoryFile::new();
                let target = modelfmt::Format::Safetensors;
                let converted = modelfmt::Conversion::to_format(&model, target)
                    .options(&options)
                    .execution(&Execution::sequential())
                    .write_to_sink(&sink);
                assert_eq!(converted.is_err(), is_found, "{}, byte {at}, bit {bit}", sample.name);
                found += usize::from(is_found);
            }
        }
        let has_digests = sample.name.starts_with("aero") || sample.name.starts_with("apr");
        assert_eq!(found > 0, has_digests, "{}", sample.name);
    }
}
