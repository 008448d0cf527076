//! Converts files and sets with damaged bytes: damage that their own digests cover never passes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::convert::ConvertOptions;
use modelfmt::extract::{ExtractAs, ExtractOptions, extract_to_sink};
use modelfmt::verify::Report;
use modelfmt::{Conversion, Error, Execution, Format, Model, VerifyLevel};
use modelfmt_core::source::{BoxSource, MemoryFiles, shared_files};
use modelfmt_write::{MemoryFile, MemoryFolder};
use testkit::CountingSource;

use super::drill::{Depth, limits};
use super::model::Model as Made;
use super::writers::Write;
use super::{roundtrips, writers};

const FORMATS: [Format; 9] = [
    Format::Aero,
    Format::AeroSet,
    Format::Apr2,
    Format::Apr2Sharded,
    Format::Mag,
    Format::Oinf,
    Format::Safetensors,
    Format::SafetensorsSharded,
    Format::Apr,
];

/// A model as files in memory.
#[derive(Clone)]
struct Files {
    /// The file, or the index of the set.
    index: String,
    files: BTreeMap<String, Arc<[u8]>>,
}

impl Files {
    fn one(index: &str, bytes: Vec<u8>) -> Self {
        Self { index: index.to_owned(), files: [(index.to_owned(), bytes.into())].into() }
    }

    fn open(&self) -> modelfmt::Result<Model> {
        self.open_source(false)
    }

    /// Opens the model in memory, where values are borrowed, or by ranges.
    fn open_source(&self, by_ranges: bool) -> modelfmt::Result<Model> {
        let index = self.files.get(&self.index).expect("a set has its index").clone();
        let source: BoxSource =
            if by_ranges { Box::new(CountingSource::new(index)) } else { Box::new(index) };
        let files = shared_files(MemoryFiles(self.files.clone()));
        modelfmt::OpenOptions::new().limits(limits()).open_source(&self.index, source, Some(files))
    }
}

/// A byte of a file that is changed.
struct Damage {
    file: String,
    at: usize,
    mask: u8,
}

/// A model with its damage, and its conversion.
struct Case {
    source: Files,
    damage: Vec<Damage>,
    /// Whether all damage is in stored values.
    only_values: bool,
    target: Format,
    options: ConvertOptions,
    threads: usize,
    by_ranges: bool,
}

/// Checks that an intact model passes, and that a damaged one is refused exactly if `verify` finds damage in
/// the converted parts. If a conversion is refused, no output appears.
pub fn checked(bytes: &[u8], _: Depth) {
    let Ok(Some(case)) = case(&mut Unstructured::new(bytes)) else { return };
    let intact = case.source.open_source(case.by_ranges).expect("what we write opens");
    match case.convert(&intact) {
        Ok(converted) => assert_sound(&intact, &converted),
        Err(error @ Error::Damaged { .. }) => panic!("an intact {} was refused: {error}", intact.format()),
        Err(_) => return, // it does not fit
    }
    let Some(damaged) = case.damaged() else { return };
    let Ok(model) = damaged.open_source(case.by_ranges) else { return };
    let report = model.container().verify(VerifyLevel::Full, &Execution::sequential());
    let converted = case.convert(&model);
    if let Ok(converted) = &converted {
        assert_sound(&model, converted);
    }
    let what = || format!("{} to {}: {:?}", model.format(), case.target, report.errors);
    if let (Err(error @ Error::Damaged { .. }), true) = (&converted, report.is_ok()) {
        panic!("{}: verify finds nothing, but {error}", what());
    }
    if case.only_values && !case.options.no_verify {
        let excluded = |name: &str| case.options.tensors.exclude.iter().any(|excluded| excluded == name);
        let concerns = case.concerns(&intact, |name| !excluded(name));
        assert!(!(concerns && !report.is_ok() && converted.is_ok()), "{}: damage passed", what());
        if let (Err(error), true) = (&converted, report.is_ok()) {
            panic!("{}: verify finds nothing, but {error}", what());
        }
    }
    if case.only_values {
        let Some(info) = model.tensors().next_back().filter(|info| info.has_data) else { return };
        let is_damaged = case.concerns(&intact, |name| name == info.name) && !report.is_ok();
        extracted(&model, info.name, is_damaged, &report);
    }
}

/// Extracts a single tensor, which is refused if its own values are damaged.
fn extracted(model: &Model, name: &str, is_damaged: bool, report: &Report) {
    let file = MemoryFile::new();
    let options = ExtractOptions::default();
    match extract_to_sink(model, name, &file, ExtractAs::Bin, &options, &Execution::sequential()) {
        Ok(_) => {
            assert!(!is_damaged, "{}: damage passed: {:?}", model.format(), report.errors);
            assert!(*file.into_bytes() == *model.tensor(name).expect("what was extracted").bytes());
        }
        Err(error) => assert!(!report.is_ok(), "{}: verify finds nothing, but {error}", model.format()),
    }
}

impl Case {
    /// Converts the model. If that is refused, no file with the name of the output may appear.
    fn convert(&self, model: &Model) -> modelfmt::Result<Files> {
        let work = Execution { threads: self.threads, progress: None };
        let conversion = Conversion::to_format(model, self.target).options(&self.options).plan()?;
        if !conversion.target().is_set() {
            let file = MemoryFile::new();
            conversion.write_to_sink(&file, &work)?;
            return Ok(Files::one("out", file.into_bytes()));
        }
        let index = index_of(conversion.target());
        let folder = MemoryFolder::default();
        let written = conversion.write_to_files(index, &folder, &work);
        let files = folder.files().0;
        assert!(written.is_ok() || files.is_empty(), "{:?} appeared of what was refused", files.keys());
        written.map(|_| Files { index: index.to_owned(), files })
    }

    /// Returns the damaged source, if any byte has changed.
    fn damaged(&self) -> Option<Files> {
        let mut damaged = self.source.clone();
        for damage in &self.damage {
            let file = damaged.files.get_mut(&damage.file)?;
            let mut bytes = file.to_vec();
            *bytes.get_mut(damage.at)? ^= damage.mask;
            *file = bytes.into();
        }
        (damaged.files != self.source.files).then_some(damaged)
    }

    /// Checks whether values of the chosen tensors are damaged and covered by digests. For values of OINF,
    /// `verify` only checks a rule about booleans.
    fn concerns(&self, intact: &Model, chosen: impl Fn(&str) -> bool) -> bool {
        if intact.format() == Format::Oinf {
            return false;
        }
        let positions = (0..intact.tensor_count())
            .filter(|&position| intact.container().info(position).is_some_and(|info| chosen(info.name)));
        let ranges: Vec<_> = positions.filter_map(|position| stored(intact, position)).collect();
        let changed = |damage: &Damage| {
            let rest = self.damage.iter().filter(|other| other.file == damage.file && other.at == damage.at);
            rest.fold(0, |mask, other| mask ^ other.mask) != 0
        };
        let damage = self.damage.iter().filter(|damage| changed(damage));
        damage.into_iter().any(|damage| {
            ranges.iter().any(|(file, range)| {
                file.as_ref().unwrap_or(&self.source.index) == &damage.file && range.contains(&damage.at)
            })
        })
    }
}

fn index_of(format: Format) -> &'static str {
    match format {
        Format::AeroSet => "out.aeroset.json",
        Format::SafetensorsSharded => "out.safetensors.index.json",
        _ => "out.apr",
    }
}

/// Returns the location of a tensor's values: the file, if it is not the index, and the range.
fn stored(model: &Model, position: usize) -> Option<(Option<String>, Range<usize>)> {
    let location = model.location(position).ok()?;
    let begin = usize::try_from(location.offset?).ok()?;
    let end = begin + usize::try_from(location.stored_nbytes).ok()?;
    Some((location.file, begin..end))
}

/// Checks that the output opens, verifies, and has the source's values, for tensors of the same type.
fn assert_sound(source: &Model, files: &Files) {
    let model = files.open().unwrap_or_else(|error| panic!("{}: {error}", source.format()));
    let report = model.container().verify(VerifyLevel::Full, &Execution::sequential());
    assert!(report.is_ok(), "{} to {}: {:?}", source.format(), model.format(), report.errors);
    for (position, info) in model.tensors().enumerate() {
        let Ok(at) = source.find(info.name) else { continue };
        let known = source.container().info(at).expect("a tensor that was found");
        if known.dtype == info.dtype && known.has_data && info.has_data {
            let written = model.tensor(position).expect("values that were written");
            let read = source.tensor(at).expect("values that were converted");
            assert!(written.bytes() == read.bytes(), "the values of {known:?}");
        }
    }
}

fn case(u: &mut Unstructured<'_>) -> Result<Option<Case>> {
    let (format, target) = (*u.choose(&FORMATS)?, *u.choose(&FORMATS)?);
    let (flags, choices) = (u8::arbitrary(u)?, u8::arbitrary(u)?);
    let Some(source) = source(u, format, flags)? else { return Ok(None) };
    let model = source.open().expect("what we write opens");
    let mut options = options(u, target, choices)?;
    for info in model.tensors().filter(|info| is_plain(info.name)) {
        if choices & 8 != 0 && u.ratio(1, 3)? {
            options.tensors.exclude.push(info.name.to_owned());
        }
    }
    let only_values = u.ratio(3, 4)?;
    let values: Vec<_> = (0..model.tensor_count())
        .filter_map(|position| stored(&model, position))
        .filter(|(_, range)| !range.is_empty())
        .collect();
    let names: Vec<&String> = source.files.keys().collect();
    let mut damage = Vec::new();
    for _ in 0..u.int_in_range(1..=3)? {
        let mask = u.int_in_range(1..=255)?;
        if !only_values {
            let file = (*u.choose(&names)?).clone();
            let len = source.files.get(&file).map_or(0, |bytes| bytes.len());
            damage.push(Damage { at: u.int_in_range(0..=len.saturating_sub(1))?, file, mask });
        } else if !values.is_empty() {
            let (file, range) = u.choose(&values)?;
            let at = u.int_in_range(range.start..=range.end - 1)?;
            damage.push(Damage { file: file.clone().unwrap_or_else(|| source.index.clone()), at, mask });
        }
    }
    let threads = if choices & 0x90 == 0x90 { 3 } else { 1 };
    let by_ranges = choices & 64 != 0;
    Ok(Some(Case { source, damage, only_values, target, options, threads, by_ranges }))
}

/// Checks whether a glob matches only itself.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Writes a model of ours in a format, as a set if the format is one.
fn source(u: &mut Unstructured<'_>, format: Format, flags: u8) -> Result<Option<Files>> {
    let (constraints, write): (_, Write) = match format {
        Format::Aero | Format::AeroSet => (roundtrips::AERO, writers::aero),
        Format::Apr2 | Format::Apr2Sharded => (roundtrips::APR2, writers::apr2),
        Format::Apr => (roundtrips::APR, writers::apr),
        Format::Mag => (roundtrips::MAG, writers::mag),
        Format::Oinf => (roundtrips::OINF, writers::oinf),
        _ => (roundtrips::SAFETENSORS, writers::safetensors),
    };
    let model = Made::arbitrary(u, constraints)?;
    let Some(file) = write(&model, flags, &Execution::sequential()) else { return Ok(None) };
    let source = Files::one("model", file);
    if !format.is_set() {
        return Ok(Some(source));
    }
    let mut options = options(u, format, flags)?;
    options.output.shard_size = Some(u64::from(u.int_in_range(1..=1000u16)?));
    let single = source.open().expect("what we write opens");
    let set = Case {
        source,
        damage: Vec::new(),
        only_values: true,
        target: format,
        options,
        threads: 1,
        by_ranges: false,
    };
    match set.convert(&single) {
        Ok(files) => Ok(Some(files)),
        Err(Error::Unsupported { .. }) => Ok(None),
        Err(error) => panic!("to {format}: {error}"),
    }
}

/// Returns any options that the target supports.
fn options(u: &mut Unstructured<'_>, target: Format, choices: u8) -> Result<ConvertOptions> {
    let mut options = ConvertOptions::default();
    (options.metadata.lossy, options.types.widen) = (true, choices & 1 == 0);
    options.no_verify = choices & 6 == 6;
    match target {
        Format::Aero | Format::AeroSet => {
            let hashes = u8::arbitrary(u)?;
            options.aero.uuid = Some([7; 16]);
            options.aero.tensor_hashes = hashes & 1 != 0;
            options.aero.control_hash = hashes & 2 != 0;
            options.aero.page_hashes = (hashes & 4 != 0).then_some(u64::from(hashes) + 1);
            options.aero.no_zstd = hashes & 8 != 0;
            options.output.shard_size = (hashes & 16 != 0).then_some(200);
        }
        Format::Apr2 | Format::Apr2Sharded => {
            options.apr2.compress = (choices & 32 != 0).then_some(modelfmt::convert::Compression::Lz4);
        }
        _ => {}
    }
    if target.is_set() {
        options.output.shard_size = Some(u64::from(u.int_in_range(1..=1000u16)?));
    }
    Ok(options)
}
