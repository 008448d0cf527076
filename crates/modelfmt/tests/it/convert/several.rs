//! Several models become one: their tensors in order, metadata that can be merged, and metadata that cannot.

use modelfmt::{DType, Error, Execution, Format, Model, VerifyLevel};
use modelfmt_core::claims::WantedRange;
use modelfmt_core::value::Value;

use super::common::{
    T, all, convert, gguf, json_of, mag, object, open, options, safetensors, tensor, tensors, try_convert,
};

fn model(names: &[&'static str], metadata: &str) -> Model {
    let of: Vec<T> = names.iter().map(|name| tensor(name, DType::F32, &[8])).collect();
    safetensors(&of, metadata)
}

fn merged(models: impl IntoIterator<Item = Model>) -> Model {
    Model::merged(models).unwrap()
}

#[test]
fn the_tensors_of_each_come_after_those_of_the_one_before() {
    let [a, b, c] = [model(&["b", "a"], "{}"), model(&[], "{}"), model(&["0"], "{}")];
    let expected: Vec<_> = [&a, &b, &c].into_iter().flat_map(tensors).collect();
    let all = merged([a, b, c]);
    assert_eq!(all.tensor_count(), 3);
    assert_eq!(tensors(&all), expected);
    assert_eq!(all.find("0").unwrap(), 2);
    assert_eq!(all.read_range("a", 4..8).unwrap()[..], expected[1].3.as_ref().unwrap()[4..8]);
    assert!(all.verify(VerifyLevel::Full).is_ok());
    for target in [Format::Safetensors, Format::Aero, Format::SafetensorsSharded, Format::Mag] {
        assert_eq!(tensors(&convert(&all, target, &options(|_| {}))), expected, "{target}");
    }
}

#[test]
fn models_of_several_formats_become_one() {
    let (a, b) =
        (model(&["a"], r#"{"k": "1"}"#), gguf(&[tensor("b", DType::Q8_0, &[2, 32])], &[("g.x", "2")]));
    let c = convert(
        &model(&["c"], "{}"),
        Format::Apr2,
        &options(|o| o.apr2.compress = Some(modelfmt::convert::Compression::Lz4)),
    );
    let expected: Vec<_> = [&a, &b, &c].into_iter().flat_map(tensors).collect();
    let both = merged([a, b, c]);
    let aero = convert(&both, Format::Aero, &options(|_| {}));
    assert_eq!(tensors(&aero), expected);
    let keys = json_of(&aero);
    assert_eq!((keys.get("k"), keys.get("g.x")), (Some(&Value::from("1")), Some(&Value::from("2"))));
    // For a type that the target lacks, the error names the model that has it.
    let error = try_convert(&both, Format::Mag, &options(|o| o.metadata.lossy = true)).map(drop).unwrap_err();
    assert!(all(&error).contains("\"b\": gguf's q8_0 is not in mag"), "{}", all(&error));
}

#[test]
fn a_name_that_two_have_is_refused_and_said() {
    let [a, b, c] = [&["x", "y"][..], &["z"], &["y", "w", "x"]].map(|names| model(names, "{}"));
    let error = Model::merged([a, b, c]).unwrap_err();
    let Error::NameTwice { name, others, .. } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), *others, error.code()), ("y", 1, "name-twice"));
    assert!(matches!(Model::merged([]), Err(Error::Usage { .. })));
    assert!(!format!("{:?}", merged([model(&["x"], "{}")])).is_empty(), "one model is itself");
}

#[test]
fn what_they_say_differently_is_listed_and_what_the_first_says_counts() {
    let models = || {
        let a = model(&["a"], r#"{"same": "1", "differs": "a", "first": "x"}"#);
        merged([a, model(&["b"], r#"{"same": "1", "differs": "b", "second": "y"}"#)])
    };
    let error = try_convert(&models(), Format::Safetensors, &options(|_| {})).map(drop).unwrap_err();
    let text = all(&error);
    assert!(text.contains("metadata key \"differs\": m.safetensors has another value"), "{text}");
    assert!(!text.contains("same") && !text.contains("second"), "{text}");
    let (one, done) =
        try_convert(&models(), Format::Safetensors, &options(|o| o.metadata.lossy = true)).unwrap();
    assert_eq!(done.dropped.len(), 1);
    let metadata_of = |model: &Model| model.metadata().unwrap().into_object();
    assert_eq!(metadata_of(&one), object(r#"{"same": "1", "differs": "a", "first": "x", "second": "y"}"#));
    // A value that the caller gives settles the conflict.
    let given = options(|o| o.metadata.set = Some(object(r#"{"differs": "c"}"#)));
    let one = convert(&models(), Format::Safetensors, &given);
    assert_eq!(metadata_of(&one).get("differs"), Some(&Value::from("c")));
}

#[test]
fn metadata_with_types_of_its_own_is_joined() {
    let a = mag(&[tensor("a", DType::F32, &[2])], &[("n", Value::from(1u64)), ("both", Value::from(2u64))]);
    let b = mag(&[tensor("b", DType::F32, &[2])], &[("m", Value::from(-3)), ("both", Value::from(2u64))]);
    let expected = object(r#"{"n": 1, "both": 2, "m": -3}"#);
    let both = merged([a, b]);
    let one = convert(&both, Format::Mag, &options(|_| {}));
    assert_eq!(one.metadata().unwrap(), Value::Object(expected));
    let aero = convert(&both, Format::Aero, &options(|_| {}));
    assert_eq!(convert(&aero, Format::Mag, &options(|_| {})).metadata().unwrap(), one.metadata().unwrap());
}

#[test]
fn tensors_without_values_and_scalars_keep_their_places() {
    let declared = |name: &'static str| T { name, dtype: DType::F32, shape: vec![2], bytes: Vec::new() };
    let oinf = |of: &[T]| super::common::oinf(of, &oinf::Metadata::default());
    let a = oinf(&[tensor("a", DType::F32, &[]), declared("b")]);
    let b = oinf(&[declared("c"), tensor("d", DType::F32, &[3])]);
    // The same models by way of another format.
    let [a2, b2] = [&a, &b].map(|model| convert(model, Format::Apr2, &options(|_| {})));
    let one = convert(&merged([a, b]), Format::Oinf, &options(|_| {}));
    let names = |model: &Model| -> Vec<(String, usize, bool)> {
        model.tensors().map(|t| (t.name.to_owned(), t.shape.len(), t.has_data)).collect()
    };
    let expected = [("a", 0, true), ("b", 1, false), ("c", 1, false), ("d", 1, true)];
    let expected = expected.map(|(name, rank, has_data)| (name.to_owned(), rank, has_data));
    assert_eq!(names(&one), expected);
    let again = convert(&merged([a2, b2]), Format::Oinf, &options(|_| {}));
    assert_eq!(names(&again), expected);
}

/// Returns the bytes of an AERO file with one tensor, a chunk of another kind, and unknown keys.
fn aero(name: &str, chunk: &str, top: &str) -> Vec<u8> {
    let values = vec![7u8; 32];
    let spec = modelfmt_write::TensorSpec::new(name, DType::F32, vec![8u64]);
    let new = aero::NewChunk::new(aero::FourCC(*b"XTRA"), chunk);
    let options = aero::WriteOptions::new().tensor_hashes(true).chunk(new, chunk.as_bytes().to_vec());
    let options = options.own_keys(&object(top), object(r#"{"mine": 1}"#)).unwrap();
    let plan =
        aero::Plan::new([spec], &object(r#"{"model_name": "m", "architecture": "x"}"#), &options).unwrap();
    let file = modelfmt_write::MemoryFile::new();
    plan.write(&vec![values.as_slice()], &file, &Execution::sequential()).unwrap();
    file.into_bytes()
}

#[test]
fn what_only_aero_can_hold_comes_from_each() {
    let models = |second: &str| {
        let (a, b) = (aero("a", "one", r#"{"top": 1}"#), aero("b", second, r#"{"other": 2}"#));
        merged([open("a.aero", a), open("b.aero", b)])
    };
    let one = convert(&models("two"), Format::Aero, &options(|_| {}));
    let index = one.as_aero().unwrap().index();
    let chunks: Vec<_> =
        index.chunks().filter(|c| c.fourcc.0 == *b"XTRA").map(|c| c.name.to_owned()).collect();
    assert_eq!(chunks, ["one", "two"]);
    assert_eq!(index.unknown_top_keys().unwrap(), object(r#"{"top": 1, "other": 2}"#));
    let error = try_convert(&models("one"), Format::Aero, &options(|_| {})).map(drop).unwrap_err();
    assert!(all(&error).contains("chunk \"XTRA one\": b.aero has one too"), "{}", all(&error));
    let error = try_convert(&models("two"), Format::Safetensors, &options(|_| {})).map(drop).unwrap_err();
    assert_eq!(all(&error).matches("chunk \"XTRA").count(), 2, "{}", all(&error));
}

#[test]
fn each_is_checked_by_its_own_hashes() {
    let (a, good) = (aero("a", "one", "{}"), aero("b", "two", "{}"));
    let at = {
        let model = open("b.aero", good.clone());
        usize::try_from(model.location(0).unwrap().offset.unwrap()).unwrap()
    };
    let mut bad = good;
    bad[at + 3] ^= 1;
    let both = merged([open("a.aero", a), open("b.aero", bad)]);
    let error =
        try_convert(&both, Format::Safetensors, &options(|o| o.metadata.lossy = true)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().starts_with("b.aero: "), "{error}");
    assert!(both.checked().tensor("a").is_ok() && both.checked().tensor("b").is_err());
    let claims = both.container().claims(&[0, 1]).unwrap();
    let error = claims.finish(both.container(), &Execution::sequential()).unwrap_err();
    assert!(error.to_string().contains("hash"), "{error}");
    let parts = [WantedRange { position: 1, range: Some(0..4) }];
    assert!(!both.container().claims_of(&parts).unwrap().is_empty());
}

#[test]
fn tied_tensors_of_one_are_not_those_of_another() {
    // The tensors of both begin at the same byte, because the files are equal except for their names.
    let (a, b) = (aero("a", "one", "{}"), aero("b", "two", "{}"));
    let one = merged([open("a.aero", a), open("b.aero", b)]);
    let (model, done) = try_convert(&one, Format::Aero, &options(|_| {})).unwrap();
    assert!(!done.notes.iter().any(|note| note.to_string().contains("in common")), "{:?}", done.notes);
    let offsets: Vec<_> = (0..2).map(|position| model.location(position).unwrap().offset).collect();
    assert_ne!(offsets[0], offsets[1]);
}

/// A flag in the header of one file is kept for the whole model.
#[test]
fn flags_of_apr_and_apr2_are_kept() {
    use modelfmt_write::{MemoryFile, TensorSpec};
    let metadata = object(r#"{"model_type":"t","architecture":"a","apr_version":"2.0.0"}"#);
    let one = |name: &'static str, streaming| {
        let file = MemoryFile::new();
        let options = apr2::WriteOptions::new().streaming(streaming);
        let specs = [TensorSpec::new(name, DType::F32, vec![1])];
        let plan = apr2::Plan::new(specs, &apr2::Metadata::from(metadata.clone()), &options).unwrap();
        plan.write(&[vec![0u8; 4]], &file, &Execution::sequential()).unwrap();
        open("m.apr", file.into_bytes())
    };
    let both = convert(&merged([one("a", false), one("b", true)]), Format::Apr2, &options(|_| {}));
    assert!(both.as_apr2().unwrap().index().flags().contains(apr2::Flags::STREAMING));
    let one = |name: &'static str, flags| {
        let file = MemoryFile::new();
        let options = apr::WriteOptions::new().flags(flags);
        let specs = [TensorSpec::new(name, DType::F32, vec![1])];
        let plan = apr::Plan::new(specs, &apr::Metadata::from(metadata.clone()), &options).unwrap();
        plan.write(&[vec![0u8; 4]], &file, &Execution::sequential()).unwrap();
        open("m.apr", file.into_bytes())
    };
    let [first, second] =
        [("a", apr::Flags::STREAMING), ("b", apr::Flags::empty())].map(|(name, flags)| one(name, flags));
    assert!(first.as_apr().unwrap().index().flags().contains(apr::Flags::STREAMING));
    let both = convert(&merged([second, first]), Format::Apr, &options(|_| {}));
    assert!(both.as_apr().unwrap().index().flags().contains(apr::Flags::STREAMING));
}

/// A name that a filter leaves out may be in two models.
#[test]
fn a_name_that_is_left_out_is_no_clash() {
    let models = || [model(&["a", "both", "b"], "{}"), model(&["both", "c", "both2"], "{}")];
    assert!(matches!(Model::merged(models()), Err(Error::NameTwice { .. })));
    let exclude = options(|o| o.tensors.exclude.push("both".to_owned()));
    let all = modelfmt::convert::merged(models(), &exclude).unwrap();
    assert_eq!(all.tensor_count(), 6);
    for (position, name) in ["a", "both", "b", "both", "c", "both2"].into_iter().enumerate() {
        assert_eq!(all.tensors().nth(position).unwrap().name, name);
        assert_eq!(all.container().find(name), Some(if name == "both" { 1 } else { position }));
    }
    let (out, done) = try_convert(&all, Format::Safetensors, &exclude).unwrap();
    assert_eq!(
        out.tensors().map(|tensor| tensor.name.to_owned()).collect::<Vec<_>>(),
        ["a", "b", "c", "both2"]
    );
    assert!(
        super::common::notes(&done).iter().any(|note| note == "exclude leaves out 2 of 6 tensors"),
        "{:?}",
        done.notes
    );
    let include = options(|o| o.tensors.include.push("[abc]".to_owned()));
    let out = convert(&modelfmt::convert::merged(models(), &include).unwrap(), Format::Safetensors, &include);
    assert_eq!(out.tensor_count(), 3);
    let other = options(|o| o.tensors.exclude.push("a".to_owned()));
    assert!(matches!(modelfmt::convert::merged(models(), &other), Err(Error::NameTwice { .. })));
}
