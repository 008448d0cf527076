//! A source that contradicts its own digests is refused, and nothing is written. An intact source passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelfmt::convert::{Compression, Conversion, ConvertOptions, TypeRule};
use modelfmt::extract::{ExtractAs, ExtractOptions};
use modelfmt::{DType, Error, Execution, Format, Model, OpenOptions};
use modelfmt_core::source::{MemoryFiles, shared_files};
use modelfmt_write::{MemoryFile, MemoryFolder};
use proptest::prelude::*;
use testkit::patched;

use super::common::{T, apr2, notes, options, safetensors, tensor, tensors};

const TARGETS: [Format; 8] = [
    Format::Aero,
    Format::AeroSet,
    Format::Mag,
    Format::Oinf,
    Format::Apr2,
    Format::Apr2Sharded,
    Format::Safetensors,
    Format::SafetensorsSharded,
];

/// A model as files in memory.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) name: &'static str,
    /// The file, or the index of the set.
    pub(crate) index: String,
    pub(crate) files: BTreeMap<String, Arc<[u8]>>,
    /// Whether the bytes between tensors are covered too.
    covers_gaps: bool,
}

impl Source {
    pub(crate) fn open(&self) -> Model {
        let files = MemoryFiles(self.files.clone());
        let source = Box::new(self.files[&self.index].clone());
        OpenOptions::new().open_source(&self.index, source, Some(shared_files(files))).unwrap()
    }

    /// Returns the same source with one bit flipped.
    pub(crate) fn flipped(&self, (file, at): &(String, usize)) -> Self {
        let mut source = self.clone();
        let bytes = source.files.get_mut(file).unwrap();
        *bytes = patched(bytes, *at, &[bytes[*at] ^ 0x40]).into();
        source
    }

    /// Returns places to damage: the first, a middle and the last byte of each tensor, and a byte between
    /// tensors.
    fn places(&self) -> Vec<(String, usize)> {
        let model = self.open();
        let mut places = Vec::new();
        for position in 0..model.tensor_count() {
            let location = model.location(position).unwrap();
            let (begin, len) = (location.offset.unwrap() as usize, location.stored_nbytes as usize);
            let file = location.file.unwrap_or_else(|| self.index.clone());
            for at in [begin, begin + len / 2, begin + len - 1] {
                places.push((file.clone(), at));
            }
            if self.covers_gaps && position + 1 < model.tensor_count() {
                // The tensors end at odd bytes, and the next tensor is aligned.
                let is_same = model.location(position + 1).unwrap().offset.unwrap() as usize > begin + len;
                places.extend(is_same.then(|| (file, begin + len)));
            }
        }
        places
    }
}

pub(crate) fn base() -> Vec<T> {
    let mut all = vec![
        tensor("z.first", DType::I8, &[5]),
        tensor("m.large", DType::F32, &[400_001]),
        tensor("a.small", DType::F32, &[2, 3]),
        tensor("k.odd", DType::I8, &[70_001]),
        tensor("b.last", DType::I32, &[9]),
    ];
    for (i, byte) in all[1].bytes.iter_mut().enumerate() {
        // Less regular than the others, so that LZ4 has literals too, and without NaN.
        *byte = if i % 4 == 3 { 0x3f } else { (i as u32).wrapping_mul(0x9E37_79B9).to_le_bytes()[3] };
    }
    all
}

pub(crate) fn written(
    name: &'static str,
    model: &Model,
    target: Format,
    change: impl FnOnce(&mut ConvertOptions),
) -> Source {
    let options = options(change);
    let folder = MemoryFolder::default();
    let conversion = Conversion::to_format(model, target).options(&options).plan().unwrap();
    // No hash covers the bytes between the shards of an AERO.
    let covers_gaps =
        !options.aero.tensor_hashes && (options.output.shard_size.is_none() || target == Format::Apr2);
    if conversion.target().is_set() {
        let index = if target == Format::AeroSet { "m.aeroset.json" } else { "m.apr" }.to_owned();
        conversion.write_to_files(&index, &folder, &Execution::default()).unwrap();
        return Source { name, index, files: folder.files().0, covers_gaps };
    }
    let file = MemoryFile::new();
    conversion.write_to_sink(&file, &Execution::default()).unwrap();
    let index = format!("m.{target}");
    Source { name, files: [(index.clone(), file.into_bytes().into())].into(), index, covers_gaps }
}

pub(crate) fn sources() -> Vec<Source> {
    let model = safetensors(&base(), "{}");
    let aero = |name, change: fn(&mut ConvertOptions)| written(name, &model, Format::Aero, change);
    let mut sources = vec![
        aero("aero", |_| ()),
        aero("aero with tensor hashes", |o| o.aero.tensor_hashes = true),
        aero("aero with pages", |o| o.aero.page_hashes = Some(1000)),
        aero("aero with large pages", |o| o.aero.page_hashes = Some(1 << 20)),
        aero("aero in shards", |o| o.output.shard_size = Some(100_000)),
        aero("aero with all hashes", |o| {
            (o.aero.tensor_hashes, o.aero.page_hashes, o.output.shard_size) = (true, Some(5000), Some(1000));
        }),
        written("aeroset", &model, Format::AeroSet, |o| o.output.shard_size = Some(100_000)),
        written("aeroset with tensor hashes", &model, Format::AeroSet, |o| {
            (o.aero.tensor_hashes, o.output.shard_size) = (true, Some(1000));
        }),
        written("apr2", &without_i32(), Format::Apr2, |_| ()),
        written("apr2 with lz4", &without_i32(), Format::Apr2, |o| o.apr2.compress = Some(Compression::Lz4)),
        written("apr2 in shards", &without_i32(), Format::Apr2, |o| o.output.shard_size = Some(100_000)),
        written("apr2 in shards with lz4", &without_i32(), Format::Apr2, |o| {
            (o.output.shard_size, o.apr2.compress) = (Some(100_000), Some(Compression::Lz4));
        }),
    ];
    sources.push(apr1());
    sources
}

fn without_i32() -> Model {
    apr2(&base(), r#"{"model_type":"x","architecture":{}}"#)
}

/// Returns a place in the tensor `m.large`.
fn in_large(source: &Source) -> (String, usize) {
    let model = source.open();
    let location = model.location(model.find("m.large").unwrap()).unwrap();
    let at = location.offset.unwrap() + location.stored_nbytes / 3;
    (location.file.unwrap_or_else(|| source.index.clone()), at as usize)
}

/// Returns a file that no writer produces any more.
fn apr1() -> Source {
    let metadata = br#"{"model_type":"old"}"#;
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for T { name, dtype, shape, bytes } in base() {
        let (dtype, offset, size) = (dtype.name().to_uppercase(), data.len(), bytes.len());
        entries.push(format!(
            r#"{{"name":"{name}","dtype":"{dtype}","shape":{shape:?},"offset":{offset},"size":{size}}}"#
        ));
        data.extend(bytes);
    }
    let index = format!("[{}]", entries.join(","));
    let mut out = b"APR1".to_vec();
    out.extend((metadata.len() as u32).to_le_bytes());
    out.extend(metadata);
    out.extend((entries.len() as u32).to_le_bytes());
    out.extend((index.len() as u32).to_le_bytes());
    out.extend(index.as_bytes());
    out.extend(data);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    let files = [("m.apr1".to_owned(), out.into())].into();
    Source { name: "apr1", index: "m.apr1".to_owned(), files, covers_gaps: true }
}

pub(crate) fn lossy() -> ConvertOptions {
    options(|o| (o.metadata.lossy, o.types.widen) = (true, true))
}

/// Returns the values in the order of names, which every target keeps.
fn values(model: &Model) -> BTreeMap<String, Option<Vec<u8>>> {
    tensors(model).into_iter().map(|(name, _, _, bytes)| (name, bytes)).collect()
}

pub(crate) fn convert(
    model: &Model,
    target: Format,
    options: &ConvertOptions,
    threads: usize,
) -> Result<Source, Error> {
    let work = Execution { threads, progress: None };
    let conversion = Conversion::to_format(model, target).options(options).plan()?;
    if conversion.target().is_set() {
        let index = match target {
            Format::AeroSet => "o.aeroset.json",
            Format::SafetensorsSharded => "o.safetensors.index.json",
            _ => "o.apr",
        };
        let folder = MemoryFolder::default();
        let result = conversion.write_to_files(index, &folder, &work);
        let files = folder.files().0;
        assert!(result.is_ok() || files.is_empty(), "what was begun has appeared: {:?}", files.keys());
        return result.map(|_| Source { name: "", index: index.to_owned(), files, covers_gaps: false });
    }
    let file = MemoryFile::new();
    conversion.write_to_sink(&file, &work)?;
    let index = format!("o.{target}");
    let files = [(index.clone(), file.into_bytes().into())].into();
    Ok(Source { name: "", index, files, covers_gaps: false })
}

fn assert_damaged(result: Result<Source, Error>, what: &str) -> String {
    match result {
        Err(error @ Error::Damaged { .. }) => {
            let text = error.to_string();
            assert!(text.contains("at byte") && text.contains("no_verify"), "{what}: {text}");
            text
        }
        // Blocks that cannot be decoded are found before the checksum of the whole file is known.
        Err(error @ Error::File { .. }) if error.to_string().contains("LZ4 block") => error.to_string(),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: damage passed"),
    }
}

fn is_refused<V>(result: &Result<V, Error>) -> bool {
    match result {
        Err(Error::Damaged { .. }) => true,
        Err(error) => error.to_string().contains("LZ4 block"),
        Ok(_) => false,
    }
}

#[test]
fn damage_is_found_wherever_it_is_and_whatever_is_written() {
    for source in sources() {
        let places = source.places();
        for (number, place) in places.iter().enumerate() {
            let damaged = source.flipped(place).open();
            // Every place with one of the targets, and every target with one of the places.
            let targets = if number == 1 { &TARGETS[..] } else { &TARGETS[number % 8..=number % 8] };
            for &target in targets {
                let what = format!("{} to {target}, {place:?}", source.name);
                assert_damaged(convert(&damaged, target, &lossy(), 1 + number % 3), &what);
            }
        }
    }
}

#[test]
fn what_is_damaged_is_named() {
    let all = sources();
    let error = |name: &str, file: &str, tensor: &str| {
        let source = all.iter().find(|source| source.name == name).unwrap();
        let model = source.open();
        let location = model.location(model.find(tensor).unwrap()).unwrap();
        let file = if file.is_empty() { source.index.clone() } else { file.to_owned() };
        let at = location.offset.unwrap() + location.stored_nbytes / 2;
        let damaged = source.flipped(&(file, at as usize)).open();
        assert_damaged(convert(&damaged, Format::Safetensors, &lossy(), 1), name)
    };
    for (name, file, parts) in [
        ("aero", "", &["m.aero: WTSH chunk \"weights.shard0\" at byte ", "the TOC says"][..]),
        ("aero with tensor hashes", "", &["m.aero: tensor \"k.odd\" at byte ", "the hash_b3 says"]),
        ("aero with pages", "", &["m.aero: page 16", " \"weights.shard0\" at byte ", "the PHSH chunk says"]),
        ("aero in shards", "", &["m.aero: WTSH chunk \"weights.shard"]),
        ("apr2", "", &["m.apr2: footer, crc32 at byte ", "the file says "]),
        ("apr1", "", &["m.apr1: footer, crc32 at byte "]),
    ] {
        let text = error(name, file, "k.odd");
        for part in parts {
            assert!(text.contains(part), "{name}: {text}");
        }
    }
    let of_set = |name: &str| {
        let source = all.iter().find(|source| source.name == name).unwrap();
        let model = source.open();
        let file = model.location(model.find("k.odd").unwrap()).unwrap().file.unwrap();
        let text = error(name, &file, "k.odd");
        assert!(text.contains(&file), "{text}");
        text
    };
    assert!(of_set("aeroset").contains("WTSH chunk"));
    assert!(of_set("aeroset with tensor hashes").contains("tensor \"k.odd\""));
    assert!(of_set("apr2 in shards").contains("footer, crc32"));
}

/// Each file of a set is replaced in turn by the version of another set.
#[test]
fn a_file_of_another_version_does_not_pass_for_one_of_the_set() {
    let mut other = base();
    other.iter_mut().for_each(|tensor| tensor.bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)));
    let of = |tensors: &[T], hashes: bool| {
        let model = safetensors(tensors, "{}");
        written("aeroset", &model, Format::AeroSet, |o| {
            (o.output.shard_size, o.aero.tensor_hashes, o.aero.no_zstd) = (Some(100_000), hashes, true);
        })
    };
    for has_hashes in [true, false] {
        let (set, other) = (of(&base(), has_hashes), of(&other, has_hashes));
        for name in set.files.keys().filter(|name| **name != set.index) {
            let mut mixed = set.clone();
            mixed.files.insert(name.clone(), other.files[name].clone());
            let is_global = name.ends_with("index.aero");
            // Without hashes in the tensor index, only a separate pass could find this.
            if has_hashes || is_global {
                let text = assert_damaged(convert(&mixed.open(), Format::Safetensors, &lossy(), 1), name);
                assert_eq!(text.contains("SHA-256"), is_global, "{text}");
            } else {
                let sink = MemoryFile::new();
                let done = Conversion::to_format(&mixed.open(), Format::Safetensors)
                    .options(&lossy())
                    .write_to_sink(&sink)
                    .unwrap();
                assert!(notes(&done).iter().any(|note| note.contains("SHA-256")), "{:?}", notes(&done));
            }
            // A file of another size is not even accepted as part of the set.
            let mut longer = set.clone();
            let bytes = [&set.files[name][..], &[0]].concat();
            longer.files.insert(name.clone(), bytes.into());
            let text = assert_damaged(convert(&longer.open(), Format::Safetensors, &lossy(), 1), name);
            assert!(text.contains("bytes, but the index of the set says"), "{text}");
        }
    }
}

#[test]
fn a_control_hash_that_does_not_hold_stops_a_conversion() {
    let model = safetensors(&base(), "{}");
    for target in [Format::Aero, Format::AeroSet] {
        let source = written("aero", &model, target, |o| {
            (o.output.shard_size, o.aero.control_hash) = (Some(100_000), true);
        });
        for (name, bytes) in source.files.iter().filter(|(name, _)| !name.ends_with(".json")) {
            // The first letter of the type of MMSG. A chunk of unknown type is left out.
            let at = bytes.windows(4).position(|four| four == b"MMSG").unwrap();
            let mut damaged = source.clone();
            damaged.files.insert(name.clone(), patched(bytes, at, b"m").into());
            let text = assert_damaged(convert(&damaged.open(), Format::Safetensors, &lossy(), 1), name);
            assert!(text.contains("header, TOC and names"), "{text}");
            let unchecked = options(|o| (o.metadata.lossy, o.no_verify) = (true, true));
            convert(&damaged.open(), Format::Safetensors, &unchecked, 1).unwrap();
        }
    }
}

#[test]
fn without_the_check_damage_is_taken_as_it_is() {
    for source in sources().into_iter().filter(|source| !source.name.contains("lz4")) {
        let damaged = source.flipped(&in_large(&source)).open();
        let unchecked = options(|o| (o.metadata.lossy, o.types.widen, o.no_verify) = (true, true, true));
        let converted = convert(&damaged, Format::Aero, &unchecked, 1).unwrap().open();
        assert!(values(&converted) == values(&damaged), "{}", source.name);
        assert!(values(&converted) != values(&source.open()), "{}", source.name);
    }
}

#[test]
fn intact_files_pass_whatever_is_chosen_of_them() {
    let select = |include: &[&str], exclude: &[&str]| {
        let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        let (include, exclude) = (owned(include), owned(exclude));
        options(|o| {
            (o.metadata.lossy, o.types.widen, o.tensors.include, o.tensors.exclude) =
                (true, true, include, exclude);
        })
    };
    let selections = [
        select(&[], &[]),
        select(&["a.small"], &[]),
        select(&["[kz].*"], &[]),
        select(&[], &["m.large"]),
        select(&[], &["z.first", "b.last"]),
    ];
    for source in sources() {
        let model = source.open();
        for (number, options) in selections.iter().enumerate() {
            for &target in if number == 0 { &TARGETS[..] } else { &TARGETS[number..=number] } {
                for threads in [1, 3] {
                    let converted = convert(&model, target, options, threads);
                    let converted =
                        converted.unwrap_or_else(|error| panic!("{} {target}: {error}", source.name));
                    let (found, mut expected) = (values(&converted.open()), values(&model));
                    expected.retain(|name, _| found.contains_key(name));
                    assert!(found == expected, "{} to {target}", source.name);
                }
            }
        }
        let cast = options(|o| {
            o.metadata.lossy = true;
            o.types.rules.push(TypeRule::cast(DType::F16));
        });
        convert(&model, Format::Safetensors, &cast, 3).unwrap();
    }
}

#[test]
fn nothing_appears_and_nothing_stays_behind() {
    for source in sources() {
        let folder = tempfile::tempdir().unwrap();
        let damaged = source.flipped(&in_large(&source)).open();
        for (target, out) in [
            (Format::Aero, "o.aero"),
            (Format::AeroSet, "o.aeroset.json"),
            (Format::Apr2Sharded, "o.apr"),
            (Format::SafetensorsSharded, "o.safetensors.index.json"),
            (Format::Mag, "o.mag"),
        ] {
            let error =
                Conversion::new(&damaged, folder.path().join(out)).to(target).options(&lossy()).write();
            assert!(is_refused(&error), "{} to {target}: {error:?}", source.name);
            let left: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(left.is_empty(), "{} to {target}: {left:?}", source.name);
        }
        let out = folder.path().join("o.bin");
        let extract = |model: &Model, options: &ExtractOptions| {
            modelfmt::extract::extract(model, "m.large", &out, ExtractAs::Bin, options, &Execution::default())
        };
        let error = extract(&damaged, &ExtractOptions::default());
        assert!(is_refused(&error), "{}: {error:?}", source.name);
        assert!(!out.exists() && std::fs::read_dir(&folder).unwrap().next().is_none());
        extract(&source.open(), &ExtractOptions::default()).unwrap();
        assert!(std::fs::read(&out).unwrap() == base()[1].bytes, "{}", source.name);
        if !source.name.contains("lz4") {
            let mut unchecked = ExtractOptions::default();
            (unchecked.no_verify, unchecked.overwrite) = (true, modelfmt::convert::Overwrite::Replace);
            extract(&damaged, &unchecked).unwrap();
            assert!(std::fs::read(&out).unwrap() != base()[1].bytes, "{}", source.name);
        }
    }
}

#[test]
fn a_shard_whose_hash_was_zeroed_is_damaged() {
    let all = sources();
    let source = all.iter().find(|source| source.name == "aero").unwrap();
    let model = source.open();
    let index = model.as_aero().unwrap().index();
    let hash = index.chunks().find(|chunk| chunk.fourcc == aero::FourCC::WTSH).unwrap().blake3;
    let bytes = &source.files[&source.index];
    let at = bytes.windows(32).position(|window| window == hash).unwrap();
    let zeroed = super::common::open("m.aero", patched(bytes, at, &[0; 32]));
    let text = assert_damaged(convert(&zeroed, Format::Safetensors, &lossy(), 1), "zeroed");
    assert!(text.contains("the TOC says 0000"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any tensors, any selection, any damage: the conversion fails if a byte that it needs has changed.
    #[test]
    fn a_flip_in_what_is_read_is_found(
        lens in proptest::collection::vec(1u64..5000, 1..6),
        chosen in any::<u8>(),
        kind in 0usize..5,
        flip in any::<prop::sample::Index>(),
        threads in 1usize..4,
    ) {
        const NAMES: [&str; 6] = ["e", "d", "c", "b", "a", "f"];
        let all: Vec<T> = NAMES.iter().zip(&lens).map(|(name, &len)| tensor(name, DType::I8, &[len])).collect();
        let model = safetensors(&all, "{}");
        let (target, page_hashes) = ([Format::Aero, Format::Aero, Format::Aero, Format::AeroSet, Format::Apr2][kind], kind == 2);
        let source = written("", &model, target, |o| {
            o.aero.tensor_hashes = kind == 1;
            o.aero.page_hashes = page_hashes.then_some(777);
            o.output.shard_size = (kind == 3).then_some(3000);
        });
        let include: Vec<String> = NAMES.iter().take(lens.len()).enumerate()
            .filter(|(bit, _)| chosen & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect();
        prop_assume!(!include.is_empty());
        let options = options(|o| o.tensors.include = include.clone());
        prop_assert!(convert(&source.open(), Format::Oinf, &lossless(&options), threads).is_ok());
        let opened = source.open();
        let hit = opened.find(&include[flip.index(include.len())]).unwrap();
        let location = opened.location(hit).unwrap();
        let at = location.offset.unwrap() as usize + flip.index(location.stored_nbytes as usize);
        let damaged = source.flipped(&(location.file.unwrap_or_else(|| source.index.clone()), at)).open();
        let result = convert(&damaged, Format::Oinf, &lossless(&options), threads);
        let is_found = matches!(result, Err(Error::Damaged { .. }));
        prop_assert!(is_found);
    }
}

fn lossless(options: &ConvertOptions) -> ConvertOptions {
    let mut options = options.clone();
    options.metadata.lossy = true; // what OINF cannot hold of the metadata
    options
}
