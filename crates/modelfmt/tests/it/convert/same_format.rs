//! A model that is converted into its own format stays the same: everything that the format can hold is
//! carried over or reported.

use std::path::{Path, PathBuf};

use modelfmt::convert::ConvertOptions;
use modelfmt::{Format, Model, VerifyLevel};
use modelfmt_core::value::{Object, Value};

use super::aeros::extras;
use super::common::{json_of, notes, options, tensors, try_convert};

/// Returns all golden models, and those of other writers.
fn models() -> Vec<(PathBuf, Model)> {
    let opened = |path: PathBuf| Model::open(&path).ok().map(|model| (path, model));
    testkit::all_golden_files().into_iter().filter_map(opened).collect()
}

/// Returns options that write the version that a model has.
fn own_version(model: &Model) -> ConvertOptions {
    options(|o| {
        let version = model.container().version();
        o.output.version = match (model.format(), version.as_deref()) {
            (Format::Mag, Some("0.3.0")) => Some("0.3".to_owned()),
            (Format::Oinf, Some("2")) => Some("2".to_owned()),
            _ => None,
        };
        o.oinf.allow_extended_types = model.format() == Format::Oinf;
        o.no_verify = true; // some have hashes that do not hold, on purpose
    })
}

/// Returns the metadata and other statements of a file, without those that are made for each file: offsets
/// and hashes of its parts.
fn metadata_and_details(model: &Model) -> (Value, Object) {
    let metadata = match model.format() {
        Format::Aero | Format::AeroSet => Value::from(json_of(model)),
        _ => model.metadata().unwrap(),
    };
    let mut details = model.details().unwrap().into_object();
    details.retain(|key, _| !["uuid", "chunks", "files"].contains(&key));
    (metadata, details)
}

/// Checks whether a key belongs to one file only, or is not made by any writer of ours.
fn differs(path: &Path, key: &str) -> bool {
    let name = path.strip_prefix(testkit::testdata("")).unwrap().to_str().unwrap();
    match name {
        // Compressed as a whole, or marked so; with unknown flags; with the magic of old files.
        "apr/lz4.apr" | "apr/zstd.apr" | "reference/apr/lz4-flag-only.apr" => key == "flags",
        "apr/foreign.apr" | "reference/apr/old-APR2.apr" => key == "magic" || key == "flags",
        // Single files of sets, and keys that only a signed file has.
        _ if name.starts_with("apr2/set/") => key == "flags",
        _ if name.starts_with("seal/") => ["flags", "statement", "revision", "signatures"].contains(&key),
        // Its flags promise no alignment, and say that tensors are compressed that are not.
        "apr2/foreign.apr" => key == "flags" || key == "alignment",
        _ => false,
    }
}

#[test]
fn a_model_in_its_own_format_is_the_same() {
    let mut counts = std::collections::BTreeMap::<Format, usize>::new();
    for (path, model) in models() {
        let (format, shown) = (model.format(), path.display());
        let (found, done) = match try_convert(&model, format, &own_version(&model)) {
            Ok(done) => done,
            // Items that do not fit are listed.
            Err(modelfmt::Error::Unsupported { unsupported, .. }) => {
                assert!(!unsupported.is_empty(), "{shown}");
                continue;
            }
            // Formats that are only read, and files that are broken or encrypted.
            Err(_) => continue,
        };
        assert!(done.dropped.is_empty(), "{shown}");
        let (mut before, mut after) = (tensors(&model), tensors(&found));
        if format == Format::Oinf {
            before.sort_by(|a, b| a.0.cmp(&b.0)); // our writer sorts
            after.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if format == Format::Apr {
            before.sort_by(|a, b| a.0.cmp(&b.0));
        }
        assert_eq!(before, after, "{shown}");
        let ((metadata, mut details), (new_metadata, mut new_details)) =
            (metadata_and_details(&model), metadata_and_details(&found));
        let (mut metadata, mut new_metadata) = (metadata, new_metadata);
        if let (Value::Object(old), Value::Object(new)) = (&mut metadata, &mut new_metadata)
            && matches!(format, Format::Aero | Format::AeroSet)
        {
            // Required keys are added, and a note says so; shapes in ggml's order are reversed.
            new.retain(|key, _| old.contains_key(key));
            old.retain(|key, _| key != "source_format" || new.contains_key(key));
        }
        assert_eq!(metadata, new_metadata, "{shown}");
        for details in [&mut details, &mut new_details] {
            details.retain(|key, _| !differs(&path, key));
        }
        let is_old = model.format() == Format::Mag && model.container().version().as_deref() < Some("0.3");
        if !is_old {
            assert_eq!(details, new_details, "{shown}");
        }
        if matches!(format, Format::Aero | Format::AeroSet) {
            let is_usual = |(what, value): &(String, Value)| {
                (what.ends_with(" keys") || what.ends_with(" flags"))
                    && *value != Value::from(0)
                    && *value != Object::new().into()
            };
            let [before, after] =
                [&model, &found].map(|m| extras(m).into_iter().filter(is_usual).collect::<Vec<_>>());
            assert_eq!(before, after, "{shown}");
        }
        assert!(found.verify(VerifyLevel::Full).is_ok(), "{shown}");
        *counts.entry(format).or_default() += 1;
    }
    println!("{counts:?}");
    for (format, most) in [
        (Format::Aero, 20),
        (Format::AeroSet, 2),
        (Format::Mag, 15),
        (Format::Oinf, 14),
        (Format::Apr2, 10),
        (Format::Apr2Sharded, 2),
        (Format::Apr, 8),
        (Format::Safetensors, 12),
        (Format::SafetensorsSharded, 1),
        (Format::Gguf, 8),
        (Format::GgufSharded, 3),
    ] {
        assert!(counts.get(&format).is_some_and(|count| *count >= most), "{format}: {counts:?}");
    }
}

fn testdata(name: &str) -> Model {
    Model::open(testkit::testdata(name)).unwrap()
}

#[test]
fn how_it_is_stored_is_kept_where_nothing_else_is_asked_for() {
    let detail = |model: &Model, key: &str| model.details().unwrap().get(key).cloned().unwrap_or_default();
    let plain = options(|_| ());
    // APR2: alignment and compression, also in a set.
    let aligned = try_convert(&testdata("apr2/aligned-32.apr"), Format::Apr2, &plain).unwrap().0;
    assert_eq!(detail(&aligned, "alignment"), 32.into());
    let shards = options(|o| o.output.shard_size = Some(1000));
    let set = try_convert(&testdata("apr2/aligned-32.apr"), Format::Apr2Sharded, &shards).unwrap().0;
    assert_eq!((set.format(), detail(&set, "alignment")), (Format::Apr2Sharded, 32.into()));
    let back = try_convert(&set, Format::Apr2, &plain).unwrap().0;
    assert_eq!(detail(&back, "alignment"), 32.into());
    let other = options(|o| o.output.align = Some(64));
    assert_eq!(detail(&try_convert(&set, Format::Apr2, &other).unwrap().0, "alignment"), 64.into());
    let source = testdata("apr2/lz4.apr");
    let stored = |model: &Model| {
        let location = |at| model.container().location(at).unwrap();
        (0..model.tensor_count())
            .map(|at| (location(at).encoding, location(at).stored_nbytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(stored(&try_convert(&source, Format::Apr2, &plain).unwrap().0), stored(&source));
    let none = options(|o| o.apr2.compress = Some(modelfmt::convert::Compression::None));
    assert!(stored(&try_convert(&source, Format::Apr2, &none).unwrap().0) != stored(&source));
    // MAG 1: the kind of checksum. MAG 0.3: the writer and the time.
    let trained = testdata("reference/trained.mag");
    assert_eq!(detail(&try_convert(&trained, Format::Mag, &plain).unwrap().0, "checksum"), "crc32c".into());
    let other = options(|o| o.mag.checksum = Some(modelfmt::convert::MagChecksum::Crc32));
    assert_eq!(detail(&try_convert(&trained, Format::Mag, &other).unwrap().0, "checksum"), "crc32".into());
    let magnetron = testdata("reference/mag/magnetron-0.2.2-a.mag");
    let again = try_convert(&magnetron, Format::Mag, &own_version(&magnetron)).unwrap().0;
    assert_eq!(detail(&again, "timestamp"), "2026-11-21T19:26:50.214999+00:00".into());
    // GGUF: the alignment. A version that our writer does not have is replaced by a higher one.
    for (file, alignment) in [("gguf/aligned-8.gguf", 8), ("gguf/aligned-64.gguf", 64)] {
        assert_eq!(
            detail(&try_convert(&testdata(file), Format::Gguf, &plain).unwrap().0, "alignment"),
            alignment.into()
        );
    }
}

#[test]
fn what_is_not_kept_is_told() {
    let plain = options(|_| ());
    let notes_of = |source: &Model, options: &ConvertOptions| {
        notes(&try_convert(source, source.format(), options).unwrap().1).join("\n")
    };
    let hashes = testdata("aero/hashes.aero");
    let text = notes_of(&hashes, &plain);
    assert!(
        text.contains("control_hash and page_hashes and tensor_hashes would write such hashes"),
        "{text}"
    );
    let asked = options(|o| {
        (o.aero.control_hash, o.aero.tensor_hashes) = (true, true);
        o.aero.page_hashes = Some(4096);
    });
    assert!(!notes_of(&hashes, &asked).contains("such hashes"));
    assert!(!notes_of(&testdata("aero/dtypes.aero"), &plain).contains("such hashes"));
    let text = notes_of(&testdata("apr/foreign.apr"), &plain);
    assert!(
        text.contains("flags of the header that are not known are not written: 0x1000, 0x8000"),
        "{text}"
    );
}
