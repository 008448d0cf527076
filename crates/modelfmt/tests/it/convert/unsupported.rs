//! Everything that does not fit is refused together, with remedies. Options that make no sense are refused
//! too.

use modelfmt::convert::ConvertOptions;
use modelfmt::convert::TypeRule;
use modelfmt::convert::{Compression, Declared, MagChecksum};
use modelfmt::{DType, Error, Execution, Format, Model};

use super::common::{T, all, mag, notes, oinf, options, safetensors, tensor, try_convert};

/// (tensors, target, options, what the error lists)
#[test]
fn each_tensor_that_does_not_fit_is_listed_with_what_helps() {
    let nothing: fn(&mut ConvertOptions) = |_| {};
    for (tensor, target, change, expected) in [
        (
            tensor("w", DType::BF16, &[1]),
            Format::Mag,
            nothing,
            "tensor \"w\": safetensors's bf16 is not in mag, but in mag@0.3 (widen, which makes it f32)",
        ),
        (
            tensor("w", DType::F64, &[1]),
            Format::Mag,
            nothing,
            "tensor \"w\": safetensors's f64 is not in mag (cast to f32)",
        ),
        (
            tensor("w", DType::F64, &[1]),
            Format::Mag,
            |o| o.types.widen = true,
            "f64 is not in mag (cast to f32)",
        ),
        (
            tensor("w", DType::U64, &[1]),
            Format::Apr2,
            nothing,
            "safetensors's u64 is not in apr2 (cast by name to i64)",
        ),
        (tensor("w", DType::C64, &[1]), Format::Oinf, nothing, "safetensors's c64 is not in oinf (exclude)"),
        (
            tensor("a b", DType::F32, &[1]),
            Format::Oinf,
            nothing,
            "tensor \"a b\": names of oinf have one or more of A-Z a-z 0-9 . _ -, and no others (exclude)",
        ),
        (
            tensor("", DType::F32, &[1]),
            Format::Mag,
            nothing,
            "tensor \"\": names of mag have 1 to 65,535 bytes (exclude)",
        ),
        (
            tensor("w", DType::F32, &[1; 9]),
            Format::Apr2,
            nothing,
            "has more dimensions than the 8 of apr2 (exclude)",
        ),
        (
            tensor("w", DType::F32, &[1]),
            Format::Mag,
            |o| o.types.rules.push(TypeRule::cast(DType::BF16)),
            "cast bf16: mag has no bf16, but mag@0.3 has",
        ),
        (
            tensor("w", DType::F32, &[1]),
            Format::Mag,
            |o| o.types.rules.push(TypeRule::quantize(DType::Q8_0)),
            "quantize q8_0: mag has no q8_0",
        ),
    ] {
        let source = safetensors(&[tensor], "{}");
        let error = try_convert(&source, target, &options(change)).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }) && !error.is_usage(), "{error:?}");
        let text = all(&error);
        assert!(text.ends_with(expected), "{text}\n  does not end with\n{expected}");
    }
}

#[test]
fn all_unsupported_items_stand_in_one_error_whose_first_line_says_how_many_and_what_helps() {
    let tensors =
        [tensor("a", DType::BF16, &[1]), tensor("b", DType::F64, &[1]), tensor("c", DType::F32, &[1])];
    let error =
        try_convert(&safetensors(&tensors, r#"{"k": "v"}"#), Format::Mag, &options(|_| {})).unwrap_err();
    let expected = "m.safetensors: does not fit mag: 3 items; options that help: cast to f32, lossy, widen";
    assert_eq!(error.to_string(), expected);
    let Error::Unsupported { unsupported, .. } = error else { panic!() };
    assert_eq!(unsupported.len(), 3);
}

#[test]
fn tensors_without_values_are_never_dropped_silently() {
    let declared = T { bytes: vec![], ..tensor("y", DType::F32, &[2]) };
    let source = oinf(&[declared, tensor("x", DType::F32, &[1])], &oinf::Metadata::new());
    for target in [Format::Mag, Format::Safetensors] {
        let error = try_convert(&source, target, &options(|o| o.metadata.lossy = true)).unwrap_err();
        assert!(error.to_string().contains("tensor \"y\": it has no values"), "{error}");
        // The same by way of a format that carries the tensor along.
        let (apr2, _) = try_convert(&source, Format::Apr2, &options(|_| {})).unwrap();
        let error = try_convert(&apr2, target, &options(|o| o.metadata.lossy = true)).unwrap_err();
        assert!(error.to_string().contains("tensor \"y\": it has no values"), "{error}");
        let exclude = options(|o| o.tensors.exclude = vec!["y".to_owned()]);
        assert_eq!(try_convert(&source, target, &exclude).unwrap().0.tensor_count(), 1);
        assert_eq!(try_convert(&apr2, target, &exclude).unwrap().0.tensor_count(), 1);
    }
}

#[test]
fn options_that_the_target_does_not_understand_are_errors_of_usage() {
    let source = mag(&[tensor("w", DType::F32, &[2])], &[]);
    let declared = || Declared { name: "y".to_owned(), dtype: DType::F32, shape: vec![] };
    let rows: [(&str, &[Format], Change); 15] = [
        ("sizevars", &[Format::Oinf], Box::new(|o| o.oinf.sizevars = vec![("D".to_owned(), 1)])),
        ("declare", &[Format::Oinf], Box::new(move |o| o.oinf.declare = vec![declared()])),
        ("model_name", NAMED, Box::new(|o| o.metadata.model_name = Some("n".to_owned()))),
        ("architecture", NAMED, Box::new(|o| o.metadata.architecture = Some("n".to_owned()))),
        ("model_type", NAMED, Box::new(|o| o.metadata.model_type = Some("n".to_owned()))),
        ("shard_size", SHARDED, Box::new(|o| o.output.shard_size = Some(1 << 20))),
        ("control_hash", AEROS, Box::new(|o| o.aero.control_hash = true)),
        ("page_hashes", AEROS, Box::new(|o| o.aero.page_hashes = Some(4096))),
        ("tensor_hashes", AEROS, Box::new(|o| o.aero.tensor_hashes = true)),
        ("uuid", AEROS, Box::new(|o| o.aero.uuid = Some([1; 16]))),
        ("no_zstd", AEROS, Box::new(|o| o.aero.no_zstd = true)),
        ("compress", APRS, Box::new(|o| o.apr2.compress = Some(Compression::Lz4))),
        ("align", ALIGNED, Box::new(|o| o.output.align = Some(32))),
        ("stringify", TEXTS, Box::new(|o| o.metadata.stringify = true)),
        ("checksum", &[Format::Mag], Box::new(|o| o.mag.checksum = Some(MagChecksum::Crc32c))),
    ];
    for (option, targets, change) in &rows {
        for &target in Format::ALL.iter().filter(|format| format.is_writable()) {
            let result =
                modelfmt::Conversion::to_format(&source, target).options(&options(change)).plan().map(|_| ());
            assert_eq!(result.is_ok(), targets.contains(&target), "{option} for {target}: {result:?}");
            if let Err(error) = result {
                assert!(error.is_usage() && error.to_string().starts_with(option), "{error}");
            }
        }
    }
}

type Change = Box<dyn Fn(&mut ConvertOptions)>;

const NAMED: &[Format] = &[Format::Aero, Format::AeroSet, Format::Apr2, Format::Apr2Sharded, Format::Apr];
const ALIGNED: &[Format] = &[Format::Apr2, Format::Apr2Sharded, Format::Gguf, Format::GgufSharded];
const TEXTS: &[Format] = &[Format::Safetensors, Format::Gguf, Format::GgufSharded];
const AEROS: &[Format] = &[Format::Aero, Format::AeroSet];
const APRS: &[Format] = &[Format::Apr2, Format::Apr2Sharded];
const SHARDED: &[Format] = &[
    Format::Aero,
    Format::AeroSet,
    Format::Apr2,
    Format::Apr2Sharded,
    Format::Safetensors,
    Format::SafetensorsSharded,
    Format::Gguf,
    Format::GgufSharded,
];

#[test]
fn values_that_no_option_takes_are_errors_of_usage() {
    let source = mag(&[tensor("w", DType::F32, &[2])], &[]);
    type Row = (Format, fn(&mut ConvertOptions), &'static str);
    let rows: [Row; 11] = [
        (Format::Aprn, |_| {}, "target: aprn can be read but not written"),
        (
            Format::Apr2,
            |o| o.types.rules.push(TypeRule::dequantize(DType::F64)),
            "dequantize: blocks are decoded to f32, f16 or bf16, not to f64",
        ),
        (
            Format::Apr2,
            |o| o.types.rules.push(TypeRule::quantize(DType::Iq3S)),
            "quantize: there is no encoder for iq3_s",
        ),
        (
            Format::Apr2,
            |o| o.types.rules.push(TypeRule::cast(DType::Q8_0)),
            "cast: values cannot be cast to q8_0",
        ),
        (
            Format::Safetensors,
            |o| o.types.rules.push(TypeRule::cast(DType::C64)),
            "cast: values cannot be cast to c64",
        ),
        (
            Format::Apr2,
            |o| o.output.align = Some(16),
            "align: tensors are aligned to 32 or 64 bytes, not to 16",
        ),
        (Format::Apr2, |o| o.output.shard_size = Some(0), "shard_size: is 0"),
        (Format::Mag, |o| o.tensors.include = vec!["[".to_owned()], "include: "),
        (Format::Mag, |o| o.tensors.exclude = vec!["{".to_owned()], "exclude: "),
        (Format::Gguf, |o| o.output.shard_size = Some(0), "shard_size: is 0"),
        (Format::Apr1, |_| {}, "target: apr1 can be read but not written; apr2 is what follows it"),
    ];
    for (target, change, expected) in rows {
        let error = try_convert(&source, target, &options(change)).unwrap_err();
        assert!(error.is_usage() && error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_choice_that_leaves_nothing_is_an_error_of_the_job() {
    let source = mag(&[tensor("w", DType::F32, &[2])], &[]);
    let options = options(|o| o.tensors.include = vec!["x*".to_owned()]);
    let error = try_convert(&source, Format::Mag, &options).unwrap_err();
    assert!(
        !error.is_usage() && error.to_string().contains("after include, none of its 1 tensors is left"),
        "{error}"
    );
}

#[test]
fn names_are_chosen_by_globs() {
    let names = ["layer.0.w", "layer.0.b", "layer.1.w", "head", "optimizer/m"];
    let tensors: Vec<T> = names.iter().map(|name| tensor(name, DType::F32, &[1])).collect();
    let source = safetensors(&tensors, "{}");
    for (include, exclude, expected) in [
        (&["layer.*"][..], &["*.b"][..], &["layer.0.w", "layer.1.w"][..]),
        (&["head", "layer.?.b"], &[], &["layer.0.b", "head"]),
        (&[], &["optimizer*"], &names[..4]),
        (&["{head,optimizer/*}"], &[], &names[3..]),
    ] {
        let options = options(|o| {
            o.tensors.include = include.iter().map(|&glob| glob.to_owned()).collect();
            o.tensors.exclude = exclude.iter().map(|&glob| glob.to_owned()).collect();
        });
        let (found, done) = try_convert(&source, Format::Mag, &options).unwrap();
        let notes = notes(&done);
        let about_globs =
            notes.iter().filter(|note| note.starts_with("include") || note.starts_with("exclude"));
        assert_eq!(about_globs.count(), 1, "{notes:?}");
        let left_out = format!(" out {} of {} tensors", names.len() - expected.len(), names.len());
        assert!(notes.iter().any(|note| note.ends_with(&left_out)), "{notes:?}");
        assert!(found.tensors().map(|t| t.name).eq(expected.iter().copied()), "{include:?} {exclude:?}");
    }
}

#[test]
fn a_similar_name_is_suggested_where_that_does_not_take_long() {
    let suggestion = |count: usize| {
        let tensor = |n: usize| format!(r#""{n:0>240}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
        let last = format!(r#""{}x":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#, "q".repeat(239));
        let header = format!("{{{},{last}}}", (0..count).map(tensor).collect::<Vec<_>>().join(","));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        let model = Model::from_source("m", file).unwrap();
        model.find(&"q".repeat(240)).unwrap_err().to_string().contains("did you mean")
    };
    assert!(suggestion(10));
    assert!(!suggestion(1000), "240 × 240 steps for each of a thousand names");
}

/// A model without a list of tensors is not a model without tensors.
#[test]
fn a_model_whose_tensors_cannot_be_listed_is_neither_converted_nor_compared() {
    let path = testkit::testdata("apr").join("v1-linear-regression.aprn");
    let model = Model::open(&path).unwrap();
    assert_eq!((model.format(), model.tensor_count()), (Format::Aprn, 0));
    assert!(model.container().verify(modelfmt::VerifyLevel::Full, &Execution::sequential()).is_ok());
    assert!(model.as_aprn().is_some());
    for target in Format::ALL.iter().copied().filter(|format| format.is_writable()) {
        let error = modelfmt::Conversion::to_format(&model, target).plan().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NoTensors { .. }) && !error.is_usage(), "{target}: {error}");
        assert!(
            error.to_string().contains("v1-linear-regression.aprn: a model of aprender's first"),
            "{error}"
        );
    }
    let other = mag(&[tensor("w", DType::F32, &[2])], &[]);
    for (a, b) in [(&model, &model), (&model, &other), (&other, &model)] {
        let error = modelfmt::diff::diff(a, b, &Execution::sequential()).unwrap_err();
        assert!(matches!(error, Error::NoTensors { .. }), "{error}");
    }
}
