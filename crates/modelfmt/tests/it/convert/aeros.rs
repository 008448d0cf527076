//! Features that only AERO has are kept from AERO to AERO, and are listed as losses elsewhere.

use aero::{ReaderExt as _, SetReaderExt as _};
use modelfmt::convert::TypeRule;
use modelfmt::{DType, Execution, Format, Model};
use modelfmt_core::value::{Object, Value};
use modelfmt_write::{MemoryFile, TensorSpec};

use super::common::{all, convert, json_of, object, open, options, try_convert};

/// Returns a file with everything that the specification does not name.
pub fn rich() -> Model {
    let keys = object(r#"{"note": "mine", "list": [1, null, {"a": true}]}"#);
    let options = aero::WriteOptions::new()
        .uuid([1; 16])
        .chunk(
            aero::NewChunk::new(aero::FourCC(*b"XTRA"), "extra").with_flags(aero::ChunkFlags(4)),
            *b"content",
        )
        .tensor_keys("w", 5, &keys)
        .unwrap()
        .quant_params("q", &object(r#"{"ggml_type": 8, "imatrix": "wiki"}"#))
        .unwrap()
        .own_keys(&object(r#"{"generator": "x", "zz": [1, 2]}"#), object(r#"{"training": {"step": 7}}"#))
        .unwrap();
    let (w, q) = ([0u8; 8], [0u8; 34]);
    let specs = [TensorSpec::new("w", DType::F32, &[2][..]), TensorSpec::new("q", DType::Q8_0, &[1, 32][..])];
    let metadata = object(r#"{"model_name": "m", "architecture": "a"}"#);
    let file = MemoryFile::new();
    let plan = aero::Plan::new(specs, &metadata, &options).unwrap();
    plan.write(&[&w[..], &q[..]], &file, &Execution::sequential()).unwrap();
    open("m.aero", file.into_bytes())
}

/// Returns everything that only AERO can hold.
pub fn extras(model: &Model) -> Vec<(String, Value)> {
    let index = match (model.as_aero(), model.as_aeroset()) {
        (Some(reader), _) => reader.index().clone(),
        (_, Some(set)) => set.index().tensors().unwrap().clone(),
        _ => return Vec::new(),
    };
    let mut found: Vec<(String, Value)> = Vec::new();
    for (position, tensor) in index.tensors().iter().enumerate() {
        let name = tensor.name;
        found.push((format!("{name} flags"), index.entry(position).unwrap().flags.into()));
        found.push((format!("{name} keys"), index.unknown_keys(position).unwrap().into()));
        found.push((format!("{name} params"), index.quant_params(position).unwrap_or_default()));
    }
    found.push(("top".to_owned(), index.unknown_top_keys().unwrap().into()));
    let manifest = model.metadata().unwrap().get("manifest").unwrap().as_object().unwrap().clone();
    found.push(("training".to_owned(), manifest.get("training").cloned().unwrap_or_default()));
    let own = index.chunks().filter(|chunk| chunk.fourcc == aero::FourCC(*b"XTRA"));
    found.extend(own.map(|chunk| (format!("{} {:?}", chunk.name, chunk.flags), chunk.ulen.into())));
    found
}

#[test]
fn aero_carries_to_aero_what_it_does_not_know() {
    let source = rich();
    let expected = extras(&source);
    assert_eq!(expected.len(), 9);
    assert!(expected.contains(&("w flags".to_owned(), 5.into())));
    for target in [Format::Aero, Format::AeroSet] {
        let (found, done) = try_convert(&source, target, &options(|_| {})).unwrap();
        assert_eq!(extras(&found), expected, "{target}");
        assert!(done.dropped.is_empty());
        assert!(
            found.verify(modelfmt::VerifyLevel::Full).is_ok(),
            "{target}: {:?}",
            found.verify(modelfmt::VerifyLevel::Full)
        );
        let again = convert(&found, Format::Aero, &options(|o| o.aero.tensor_hashes = true));
        assert_eq!(extras(&again), expected, "{target} to aero");
        let content = again.as_aero().unwrap().chunk(aero::FourCC(*b"XTRA"), "extra").unwrap();
        assert_eq!(&*content, b"content");
        let diff = modelfmt::diff::diff(&source, &again, &Execution::default()).unwrap();
        assert!(diff.is_same(), "{diff:?}");
    }
}

#[test]
fn what_only_aero_can_say_is_listed_elsewhere() {
    for target in [Format::Apr2, Format::Safetensors, Format::Mag] {
        let error =
            try_convert(&rich(), target, &options(|o| o.types.rules.push(TypeRule::dequantize(DType::F32))))
                .unwrap_err();
        let text = all(&error);
        for item in [
            "chunk \"XTRA extra\"",
            "tensor \"w\": the tensor index says \"note\" of it",
            "tensor \"w\": the tensor index says \"list\" of it",
            "tensor \"w\": the tensor index says flags 0x5 of it",
            "tensor \"q\": the tensor index says \"quant_params\" with \"imatrix\" of it",
            "key of the tensor index \"generator\"",
            "key of the tensor index \"zz\"",
            "manifest key \"training\"",
        ] {
            assert!(text.contains(item), "{target}: {item} is not in\n{text}");
        }
    }
}

#[test]
fn a_control_hash_whose_type_was_changed_is_not_carried() {
    let file = MemoryFile::new();
    let hashed = options(|o| o.aero.control_hash = true);
    modelfmt::Conversion::to_format(&rich(), Format::Aero)
        .options(&hashed)
        .execution(&Execution::sequential())
        .write_to_sink(&file)
        .unwrap();
    let bytes = file.into_bytes();
    let reader = aero::Reader::from_source(&*bytes).unwrap();
    let position = reader.index().find_chunk(aero::FourCC::IHSH, "ihsh").unwrap();
    let damaged = open("m.aero", testkit::patched(&bytes, 96 + 16 + 80 * position, b"X"));
    let error = all(&try_convert(&damaged, Format::Aero, &options(|_| ())).unwrap_err());
    assert!(error.contains("chunk \"XHSH ihsh\"") && error.contains("its type was changed"), "{error}");
    let found = convert(&damaged, Format::Aero, &options(|o| o.metadata.lossy = true));
    assert!(found.as_aero().unwrap().index().chunks().all(|chunk| chunk.name != "ihsh"));
    assert!(found.container().verify(modelfmt::VerifyLevel::Full, &Execution::sequential()).is_ok());
}

#[test]
fn a_manifest_without_json_says_name_and_architecture() {
    let bytes = without(rich().as_aero().unwrap(), &[aero::FourCC::MJSN]);
    let bare = open("other.aero", bytes);
    assert!(bare.as_aero().unwrap().metadata().unwrap().is_empty());
    let flat = modelfmt::diff::flat_metadata(&bare).unwrap();
    let names = |object: &Object| (object.get("model_name").cloned(), object.get("architecture").cloned());
    assert_eq!(names(&flat), (Some("m".into()), Some("a".into())));
    for target in [Format::Aero, Format::AeroSet, Format::Apr2] {
        let lossy = options(|o| o.metadata.lossy = true);
        let found = convert(
            &bare,
            target,
            &options(|o| {
                o.metadata.lossy = lossy.metadata.lossy;
                o.types.rules.push(TypeRule::dequantize(DType::F32));
            }),
        );
        assert_eq!(names(&modelfmt::diff::flat_metadata(&found).unwrap()), names(&flat), "{target}");
    }
    let error = all(&try_convert(
        &bare,
        Format::Mag,
        &options(|o| o.types.rules.push(TypeRule::dequantize(DType::F32))),
    )
    .unwrap_err());
    assert!(error.contains("\"model_name\"") && error.contains("\"architecture\""), "{error}");
}

/// Returns the file without these chunks.
fn without(reader: &aero::Reader<impl modelfmt_core::Source>, left_out: &[aero::FourCC]) -> Vec<u8> {
    let kept = |(_, chunk): &(usize, aero::Chunk<'_>)| !left_out.contains(&chunk.fourcc);
    let chunks: Vec<_> = reader.index().chunks().enumerate().filter(kept).collect();
    let new =
        chunks.iter().map(|(_, chunk)| aero::NewChunk::new(chunk.fourcc, chunk.name).with_flags(chunk.flags));
    let file = MemoryFile::new();
    let mut writer = aero::ChunkWriter::new(&file, [2; 16], new.collect()).unwrap();
    for (number, (position, _)) in chunks.iter().enumerate() {
        writer.put(number, reader.chunk_at(*position).unwrap().to_vec()).unwrap();
    }
    writer.finish().unwrap();
    file.into_bytes()
}

#[test]
fn the_index_of_a_set_says_name_and_architecture_where_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("m.aeroset.json");
    modelfmt::Conversion::new(&rich(), &index).to(Format::AeroSet).options(&options(|_| {})).write().unwrap();
    let global = folder.path().join("m.index.aero");
    let bytes =
        without(Model::open(&global).unwrap().as_aero().unwrap(), &[aero::FourCC::MJSN, aero::FourCC::MMSG]);
    std::fs::write(&global, bytes).unwrap();
    let bare = Model::open(&index).unwrap();
    assert!(bare.as_aeroset().unwrap().global().unwrap().manifest().unwrap().is_none());
    let flat = modelfmt::diff::flat_metadata(&bare).unwrap();
    assert_eq!((flat.get("model_name"), flat.get("architecture")), (Some(&"m".into()), Some(&"a".into())));
    // The index has the SHA-256 of the original file.
    let found = convert(&bare, Format::Aero, &options(|o| o.no_verify = true));
    assert_eq!(json_of(&found).get("architecture"), Some(&"a".into()));
}
