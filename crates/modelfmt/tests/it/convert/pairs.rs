//! Every pair of formats, and round trips.

use std::path::Path;

use modelfmt::convert::ConvertOptions;
use modelfmt::{DType, Error, Execution, Format, Model};
use modelfmt_core::value::{Object, Value, json};
use modelfmt_core::{Kind, SmallType};
use modelfmt_write::MemoryFile;

use super::common::{
    T, all, apr, apr2, assert_same, convert, gguf, mag, metadata, object, oinf, open, options, safetensors,
    tensor, tensors, try_convert,
};

/// Returns the targets that this build can write.
fn targets() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| format.is_writable())
}

/// Returns tensors that every format can hold, not sorted by name.
fn common_tensors() -> Vec<T> {
    vec![
        tensor("w.2", DType::F32, &[3, 4]),
        tensor("b", DType::F16, &[5]),
        tensor("ids", DType::I32, &[2, 1, 2]),
        tensor("a", DType::I8, &[7]),
        tensor("empty", DType::I64, &[0, 3]),
    ]
}

fn sources() -> Vec<Model> {
    let tensors = common_tensors();
    let apr2_metadata = r#"{"apr_version": "2.0.0", "model_type": "t", "architecture": {"n": 1}}"#;
    vec![
        safetensors(&tensors, r#"{"format": "pt"}"#),
        mag(&tensors, &[("epoch", Value::from(7))]),
        oinf(&tensors[..4], &oinf::Metadata::new().sizevar("D", 4).value("k", 1.5f32)),
        apr2(&tensors, apr2_metadata),
        apr(&tensors, r#"{"model_type": "t", "architecture": null, "n_embd": 4, "sharding": null}"#),
        gguf(&tensors[..4], &[("general.name", "g"), ("general.architecture", "llama")]),
    ]
}

#[test]
fn every_pair_keeps_tensors_and_their_order() {
    for source in sources() {
        for target in targets() {
            let what = format!("{} to {target}", source.format());
            let target_model = convert(&source, target, &options(|o| o.metadata.lossy = true));
            // A split of one file is an ordinary GGUF.
            let is_split = target == Format::GgufSharded;
            assert_eq!(target_model.format(), if is_split { Format::Gguf } else { target }, "{what}");
            let (mut expected, found) = (tensors(&source), tensors(&target_model));
            if matches!(target, Format::Oinf | Format::Apr) {
                expected.sort_by(|a, b| a.0.cmp(&b.0));
            }
            assert_eq!(found, expected, "{what}");
            let report = target_model.verify(modelfmt::VerifyLevel::Full);
            assert!(report.is_ok(), "{what}: {report:?}");
        }
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for source in sources() {
        for target in targets().filter(|target| !target.is_set()) {
            let write = |threads| {
                let file = MemoryFile::new();
                let work = Execution { threads, progress: None };
                let aero = target == Format::Aero;
                let options = options(|o| {
                    o.metadata.lossy = true;
                    o.aero.uuid = aero.then_some([7; 16]);
                });
                modelfmt::Conversion::to_format(&source, target)
                    .options(&options)
                    .execution(&work)
                    .write_to_sink(&file)
                    .unwrap();
                file.into_bytes()
            };
            assert!(write(1) == write(3), "{} to {target}", source.format());
        }
    }
}

/// Checks whether a conversion failed only because the target lacks dtypes, ranks or names.
fn lacks_types(error: &Error) -> bool {
    let Error::Unsupported { unsupported, .. } = error else { return false };
    unsupported
        .iter()
        .all(|item| [" is not in ", "more dimensions", "names of "].iter().any(|why| item.why.contains(why)))
}

/// Targets that carry everything.
const CARRIERS: [Format; 5] = [Format::Aero, Format::AeroSet, Format::Apr2, Format::Apr2Sharded, Format::Apr];

fn is_same_family(a: Format, b: Format) -> bool {
    a.name().chars().take(3).eq(b.name().chars().take(3))
}

fn there_and_back(source: &Model) -> usize {
    let mut trips = 0;
    if !source.format().is_writable() {
        return 0;
    }
    let has_opaque =
        source.tensors().any(|t| t.dtype.kind() == Kind::Opaque || SmallType::from_dtype(t.dtype).is_some());
    // Chunks of other kinds are lost with any target.
    let is_aero = is_same_family(source.format(), Format::Aero);
    for carrier in CARRIERS {
        let what = format!("{} by {carrier}", source.path().display());
        let there = match try_convert(source, carrier, &options(|o| o.metadata.lossy = is_aero)) {
            Ok((there, _)) => there,
            Err(error) if lacks_types(&error) && (has_opaque || !is_same_family(carrier, Format::Aero)) => {
                continue;
            }
            Err(error) => panic!("{what}: {}", all(&error)),
        };
        let home = options(|o| {
            o.output.version = version(source);
            o.oinf.allow_extended_types = source.format() == Format::Oinf;
        });
        let back = convert(&there, source.format(), &home);
        assert_same(source, &back, &what);
        // Also by way of a second carrier.
        for second in CARRIERS {
            let Ok((further, _)) = try_convert(&there, second, &options(|_| {})) else { continue };
            let what = format!("{what} and {second}");
            assert_same(source, &convert(&further, source.format(), &home), &what);
            // Back in the original format, the carrier is forgotten, and so is the fact that the model was
            // named after the file.
            if !is_same_family(second, source.format()) {
                assert_same(
                    &there,
                    &convert(&further, carrier, &options(|_| {})),
                    &format!("{what}, halfway"),
                );
            }
        }
        trips += 1;
    }
    trips
}

/// Returns the version to request, for a source in another version than the document's.
fn version(source: &Model) -> Option<String> {
    let has_versions = matches!(source.format(), Format::Mag | Format::Oinf);
    source.container().version().filter(|version| has_versions && version != "1")
}

#[test]
fn models_in_memory_come_back() {
    for source in sources() {
        assert_eq!(there_and_back(&source), 5, "{:?}", source.format());
    }
}

#[test]
fn golden_files_come_back() {
    let mut trips = 0;
    for (folder, extension) in [
        ("mag", "mag"),
        ("oinf", "oinf"),
        ("apr2", "apr"),
        ("aero", "aero"),
        ("safetensors", "safetensors"),
        ("gguf", "gguf"),
        ("reference", "mag"),
        ("reference", "oinf"),
        ("reference", "aero"),
    ] {
        if !testkit::testdata(folder).exists() {
            continue;
        }
        for path in testkit::golden_files(folder, extension) {
            trips += round_trip_of_file(&path);
        }
    }
    assert!(trips > 20, "{trips}");
}

fn round_trip_of_file(path: &Path) -> usize {
    let source = Model::open(path).unwrap();
    // The order of an unsorted OINF file is not restored.
    let names: Vec<&str> = source.tensors().map(|t| t.name).collect();
    if source.format() == Format::Oinf && !names.is_sorted() {
        return 0;
    }
    // A file that breaks rules of its format is not written again as it is.
    if !source.verify(modelfmt::VerifyLevel::Full).is_ok() {
        return 0;
    }
    there_and_back(&source)
}

#[test]
fn what_a_format_has_is_written_and_the_rest_refused() {
    // The capabilities must match the writers: every dtype, to every target.
    let safetensors_has = |dtype| Format::Safetensors.capabilities().has(dtype);
    let is_block = |dtype: DType| dtype.is_quantized() && dtype.ggml_type().is_some();
    for &dtype in DType::ALL.iter().filter(|&&dtype| dtype.is_quantized() || safetensors_has(dtype)) {
        let tensors = [tensor("t", dtype, &[2, 256])];
        let source = match dtype.kind() {
            _ if matches!(dtype, DType::AprQ4 | DType::AprQ8) => apr(&tensors, r#"{"model_type": "t"}"#),
            _ if is_block(dtype) => gguf(&tensors, &[]),
            _ => safetensors(&tensors, "{}"),
        };
        for target in targets() {
            let capabilities = target.capabilities();
            let result = try_convert(&source, target, &options(|_| {}));
            assert_eq!(result.is_ok(), capabilities.has(dtype), "{dtype} to {target}: {:?}", result.err());
        }
    }
}

#[test]
fn a_scalar_a_declared_tensor_and_size_variables_survive_formats_without_them() {
    let tensors = [
        T { bytes: vec![], ..tensor("declared", DType::I16, &[2, 3]) },
        tensor("scalar", DType::F32, &[]),
        T { bytes: vec![], ..tensor("y", DType::F64, &[]) },
    ];
    let meta = oinf::Metadata::new()
        .sizevar("D", 128)
        .value("nan", f32::from_bits(0x7fa0_0001))
        .value("inf", f64::INFINITY)
        .value("text", "a.b")
        .value("flag", true)
        .value("bits", oinf::Bitset::from_bits([true, false, true]).unwrap())
        .value("array", oinf::NdArray::new(DType::F16, vec![1, 2], vec![0, 0x7e, 1, 0]).unwrap());
    let source = oinf(&tensors, &meta);
    assert_eq!(there_and_back(&source), 5);
    let there = convert(&source, Format::Apr2, &options(|_| {}));
    assert_eq!(
        there.tensors().map(|t| (t.name, t.shape.to_vec())).collect::<Vec<_>>(),
        [("scalar", vec![1])]
    );
    let reserved = there.metadata().unwrap().get("modelfmt").cloned().unwrap();
    let text = json::to_string(&reserved).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"added":["apr_version","model_type","architecture"],"declared":"#,
            r#"[{"dtype":"i16","index":0,"name":"declared","shape":[2,3]},{"dtype":"f64","index":2,"name":"y","shape":[]}],"#,
            r#""format":"oinf","metadata":{"array":{"dtype":"f16","shape":[1,2],"type":"ndarray","value":"#,
            r#"[{"bits":"7e00","type":"f16"},5.960464477539063e-8]},"bits":{"type":"bitset","value":[true,false,true]},"#,
            r#""flag":{"type":"bool","value":true},"inf":{"bits":"7ff0000000000000","type":"f64"},"#,
            r#""nan":{"bits":"7fa00001","type":"f32"},"text":{"type":"str","value":"a.b"}},"#,
            r#""shapes":{"scalar":[]},"sizevars":{"D":128},"version":1}"#
        )
    );
}

#[test]
fn numbers_of_mag_come_back_with_every_bit() {
    let numbers = [
        ("nan", Value::from(f64::from_bits(0xfff8_0000_0000_1234))),
        ("inf", Value::from(f64::NEG_INFINITY)),
        ("zero", Value::from(-0.0)),
        ("one", Value::from(1.0)),
        ("least", Value::from(i64::MIN)),
        ("most", Value::from(i64::MAX)),
    ];
    let source = mag(&[tensor("w", DType::F32, &[2])], &numbers);
    assert_eq!(there_and_back(&source), 5);
    let there = convert(&source, Format::Apr2, &options(|_| {}));
    let value = |key: &str| metadata(&there).0.path(["modelfmt", "metadata", key]).cloned();
    assert_eq!(value("one"), Some(Value::Float(1.0)));
    assert_eq!(value("nan").unwrap().get("bits").and_then(Value::as_str), Some("fff8000000001234"));
}

#[test]
fn codecs_that_are_not_known_are_carried_between_files_of_aero() {
    let params = Object::from_iter([("codec", Value::from("mine"))]);
    let options = aero::WriteOptions::new().uuid([1; 16]).quant_params("p", &params).unwrap();
    let specs = [aero::TensorSpec::packed("p", vec![4, 8], 3)];
    let metadata = object(r#"{"architecture":"a","model_name":"m"}"#);
    let file = MemoryFile::new();
    let plan = aero::Plan::new(specs, &metadata, &options).unwrap();
    plan.write(&[[1u8, 2, 3]], &file, &Execution::sequential()).unwrap();
    let source = open("m.aero", file.into_bytes());
    let (back, _) = try_convert(&source, Format::Aero, &ConvertOptions::default()).unwrap();
    assert_eq!(back.as_aero().unwrap().index().quant_params(0), Some(Value::Object(params)));
    assert_eq!(back.tensor("p").unwrap().bytes(), [1, 2, 3]);
}
