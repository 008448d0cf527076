//! Versions of a format: what each of them can hold, and that it can be restored.

use modelfmt::Conversion;
use modelfmt::convert::ConvertOptions;
use modelfmt::modelfmt_core::TensorInfo;
use modelfmt::modelfmt_core::value::{Value, json};
use modelfmt::{Execution, Format, Model, Target};
use tempfile::TempDir;

fn reference(file: &str) -> Model {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    Model::open(root.join(file)).unwrap()
}

fn to(model: &Model, target: &str, folder: &TempDir, name: &str) -> Model {
    let Target { format, version, .. } = target.parse().unwrap();
    let mut options = ConvertOptions::default();
    options.output.version = version;
    let path = folder.path().join(name);
    Conversion::new(model, &path).to(format).options(&options).write().unwrap();
    Model::open(path).unwrap()
}

fn tensors(model: &Model) -> Vec<(String, String, Vec<u64>, Vec<u8>)> {
    let tensor = |info: TensorInfo<'_>| {
        let bytes = model.tensor(info.name).unwrap().bytes().to_vec();
        (info.name.to_owned(), info.dtype.name().to_owned(), info.shape.to_vec(), bytes)
    };
    model.tensors().map(tensor).collect()
}

fn metadata(model: &Model) -> String {
    json::to_string(&model.metadata().unwrap().sorted()).unwrap()
}

/// Every file of MAG 0.3, through AERO and back: nested metadata, scalars, empty tensors, names. Also to MAG
/// 0.3 itself.
#[test]
fn mag_0_3_comes_back_from_containers_with_json() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["mag/0.3-shapes.mag", "reference/mag/magnetron-0.2.2-edge.mag", "mag/0.3-big-endian.mag"] {
        let model = reference(file);
        let n = file.replace('/', "-");
        let aero = to(&model, "aero@0.1", &folder, &format!("{n}.aero"));
        let back = to(&aero, "mag@0.3", &folder, &format!("{n}-back.mag"));
        assert_eq!((tensors(&back), metadata(&back)), (tensors(&model), metadata(&model)), "{file}");
        assert_eq!(back.container().version().as_deref(), Some("0.3.0"));
        let again = to(&model, "mag@0.3.0", &folder, &format!("{n}-again.mag"));
        assert_eq!(
            (tensors(&again), again.metadata().unwrap()),
            (tensors(&model), model.metadata().unwrap())
        );
    }
}

/// Keys that AERO requires are the model's own if it has them.
#[test]
fn keys_that_containers_ask_for_stay_if_the_model_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ConvertOptions::default();
    options.output.version = Some("0.3".to_owned());
    let own = json::parse_object(br#"{"architecture":"qwen3","other":[1]}"#).unwrap();
    options.metadata.set = Some(own.clone());
    let path = folder.path().join("own.mag");
    Conversion::new(&reference("mag/0.3-shapes.mag"), &path)
        .to(Format::Mag)
        .options(&options)
        .write()
        .unwrap();
    let model = Model::open(path).unwrap();
    assert_eq!(model.metadata().unwrap(), Value::from(own.clone()));
    let aero = to(&model, "aero", &folder, "own.aero");
    let back = to(&aero, "mag@0.3", &folder, "back.mag");
    assert_eq!(back.metadata().unwrap(), Value::from(own));
}

/// The numbers of version 1 are at the top level in 0.3, including those that JSON lacks, and can be
/// converted back.
#[test]
fn numbers_of_mag_1_are_numbers_of_mag_0_3() {
    let folder = tempfile::tempdir().unwrap();
    let one = reference("mag/metadata.mag");
    let mut options = ConvertOptions::default();
    options.output.version = Some("0.3".to_owned());
    let nothing =
        Conversion::new(&one, folder.path().join("x.mag")).to(Format::Mag).options(&options).write();
    assert!(nothing.is_err(), "no tensor has values");
    let one = reference("mag/dtypes-crc32.mag");
    let three = to(&one, "mag@0.3", &folder, "three.mag");
    assert_eq!((tensors(&three), metadata(&three)), (tensors(&one), metadata(&one)));
    let back = to(&three, "mag@1", &folder, "one.mag");
    assert_eq!((tensors(&back), back.metadata().unwrap()), (tensors(&one), one.metadata().unwrap()));
    assert_eq!(back.container().version().as_deref(), Some("1"));
    let bare = reference("reference/mag/magnetron-0.2.2-nonfinite.mag");
    let numbers = to(&bare, "mag@1", &folder, "bare.mag");
    assert_eq!(metadata(&numbers), metadata(&bare), "MAG 1 has these floats");
    let again = to(&numbers, "mag@0.3", &folder, "bare-again.mag");
    assert_eq!(again.metadata().unwrap().sorted(), bare.metadata().unwrap().sorted());
}

/// NaN and the infinities are text in JSON, and become floats again on the way back, also from a second
/// container.
#[test]
fn floats_that_json_lacks_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let bare = reference("reference/mag/magnetron-0.2.2-nonfinite.mag");
    let before = metadata(&bare);
    assert!(before.contains("NaN"), "{before}");
    for (number, ways) in [&["aero"][..], &["apr2"], &["apr"], &["aero", "apr2"]].iter().enumerate() {
        let mut model = to(&bare, ways[0], &folder, &format!("{number}.0"));
        for (hop, way) in (1..).zip(&ways[1..]) {
            model = to(&model, way, &folder, &format!("{number}.{hop}"));
        }
        let diff = modelfmt::diff::diff(&bare, &model, &Execution::default()).unwrap();
        assert!(diff.metadata.is_empty(), "{ways:?}: {:?}", diff.metadata);
        let back = to(&model, "mag@0.3", &folder, &format!("{number}.mag"));
        assert_eq!(back.metadata().unwrap().sorted(), bare.metadata().unwrap().sorted(), "{ways:?}");
    }
}

/// Without a requested version, the version of the document is written, and what it cannot hold is listed.
#[test]
fn without_a_version_that_of_the_document_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let model = reference("reference/mag/magnetron-0.2.2-a.mag");
    let options = ConvertOptions::default();
    let error =
        Conversion::new(&model, folder.path().join("m.mag")).to(Format::Mag).options(&options).write();
    let modelfmt::Error::Unsupported { unsupported, .. } = error.unwrap_err() else { panic!("it fits") };
    let names: Vec<_> = unsupported.iter().filter_map(|item| item.name.as_deref()).collect();
    for name in ["w.bfloat16", "w.float8_e4m3fn", "w.uint8", "arch", "layers"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    let mut options = ConvertOptions::default();
    options.output.version = Some("7".to_owned());
    let error =
        Conversion::new(&model, folder.path().join("m.mag")).to(Format::Mag).options(&options).write();
    assert!(error.unwrap_err().to_string().contains("mag@0.3"));
}
