//! Sets whose parts are written separately, in any order and by any process.

use std::path::Path;

use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::convert::{PartPlan, Receipt};
use modelfmt::modelfmt_write::MemoryFolder;
use modelfmt::{Conversion, Error, Execution, Format, Model, Object, Value, VerifyLevel};

/// Writes floats in many tensors, so that a set of them has several parts.
fn source(folder: &Path) -> Model {
    let mut header = String::new();
    let mut data = Vec::new();
    for number in 0..20u32 {
        let begin = data.len();
        data.extend((0..64u32).flat_map(|x| (x as f32 + 100.0 * number as f32).to_le_bytes()));
        let end = data.len();
        let comma = if number == 0 { "" } else { "," };
        header += &format!(
            r#"{comma}"layers.{number:02}.w":{{"dtype":"F32","shape":[8,8],"data_offsets":[{begin},{end}]}}"#
        );
    }
    let header = format!("{{{header}}}");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    let path = folder.join("source.safetensors");
    std::fs::write(&path, bytes).unwrap();
    Model::open(path).unwrap()
}

/// Returns every format that has sets, the name of its index, and options that make the content of its index
/// differ.
fn targets() -> Vec<(Format, &'static str, ConvertOptions)> {
    let mut options = ConvertOptions::default();
    options.output.shard_size = Some(1500);
    options.metadata.model_name = Some("m".to_owned());
    options.metadata.architecture = Some("a".to_owned());
    options.metadata.model_type = Some("t".to_owned());
    let aero = |tensor_hashes| {
        let mut options = options.clone();
        (options.aero.uuid, options.aero.tensor_hashes, options.metadata.model_type) =
            (Some([7; 16]), tensor_hashes, None);
        options
    };
    let mut lz4 = options.clone();
    lz4.apr2.compress = Some(modelfmt::convert::Compression::Lz4);
    let mut plain = ConvertOptions::default();
    plain.output.shard_size = Some(3000);
    vec![
        (Format::AeroSet, "m.aeroset.json", aero(false)),
        (Format::AeroSet, "m.aeroset.json", aero(true)),
        (Format::Apr2Sharded, "m.apr", options.clone()),
        (Format::Apr2Sharded, "m.apr", lz4),
        (Format::SafetensorsSharded, "m.safetensors.index.json", plain.clone()),
        (Format::GgufSharded, "m.gguf", plain),
    ]
}

fn plan<'a>(model: &'a Model, format: Format, name: &str, options: &'a ConvertOptions) -> PartPlan<'a> {
    Conversion::to_format(model, format).options(options).plan().unwrap().into_parts(name).unwrap()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named =
        entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
    let mut files: Vec<_> = named.collect();
    files.sort();
    files
}

#[test]
fn parts_by_many_are_the_set_of_one() {
    let work = Execution::default();
    for (format, name, options) in targets() {
        let [of_one, of_many] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let sources = tempfile::tempdir().unwrap();
        let model = source(sources.path());
        let whole = Conversion::to_format(&model, format).options(&options).plan().unwrap();
        let whole = whole.write(of_one.path().join(name), &work).unwrap();

        let begun = plan(&model, format, name, &options);
        begun.begin(&begun.folder(of_many.path(), Overwrite::Refuse)).unwrap();
        assert!(begun.parts().len() >= 2, "{format}");
        let mut receipts: Vec<String> = Vec::new();
        for number in (0..begun.parts().len()).rev() {
            // Each worker opens the model and makes its own plan.
            let own = Model::open(sources.path().join("source.safetensors")).unwrap();
            let plan = plan(&own, format, name, &options);
            assert_eq!(plan.id(), begun.id());
            let files = plan.folder(of_many.path(), Overwrite::Refuse);
            receipts.push(plan.part(number).unwrap().write(&files, &work).unwrap().to_string());
        }
        assert!(!of_many.path().join(begun.index_name()).exists());
        let receipts: Vec<Receipt> = receipts.iter().map(|text| text.parse().unwrap()).collect();
        let files_of_many = begun.folder(of_many.path(), Overwrite::Refuse);
        let done = begun.finish(&receipts, &files_of_many, &work).unwrap();
        assert_eq!(files(of_one.path()), files(of_many.path()), "{format}");
        let names = |files: &[modelfmt::convert::WrittenFile]| {
            let mut names: Vec<_> = files.iter().map(|file| (file.path.clone(), file.nbytes)).collect();
            names.sort();
            names
        };
        assert_eq!((names(&done.files), done.tensors), (names(&whole.files), whole.tensors), "{format}");
        let report = modelfmt::verify(of_many.path().join(begun.index_name()), VerifyLevel::Full, &work);
        assert!(report.is_ok(), "{format}: {report:?}");
    }
}

#[test]
fn a_part_that_is_written_again_is_the_same() {
    let work = Execution::default();
    for (format, name, mut options) in targets() {
        options.aero.uuid = None; // that of the plan
        let sources = tempfile::tempdir().unwrap();
        let model = source(sources.path());
        let plan = plan(&model, format, name, &options);
        let out = tempfile::tempdir().unwrap();
        let fresh = plan.folder(out.path(), Overwrite::Refuse);
        let part = plan.part(0).unwrap();
        let receipt = part.write(&fresh, &work).unwrap();
        let before = files(out.path());
        // The worker that wrote this part died before it could send its receipt.
        let error = part.write(&fresh, &work).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        let again = part.write(&plan.folder(out.path(), Overwrite::Replace), &work).unwrap();
        assert_eq!((again, files(out.path())), (receipt, before), "{format}");
        let memory = MemoryFolder::default();
        part.write(&memory, &work).unwrap();
        assert_eq!(memory.files().0.len(), 1);
    }
}

#[test]
fn a_set_that_is_replaced_is_none_until_it_is_complete() {
    let work = Execution::default();
    let sources = tempfile::tempdir().unwrap();
    let model = source(sources.path());
    for (format, name, options) in targets() {
        let out = tempfile::tempdir().unwrap();
        let plan = plan(&model, format, name, &options);
        Conversion::to_format(&model, format)
            .options(&options)
            .plan()
            .unwrap()
            .write(out.path().join(name), &work)
            .unwrap();
        let before = files(out.path());
        let error = plan.begin(&plan.folder(out.path(), Overwrite::Refuse)).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        assert_eq!(files(out.path()), before);
        let replaced = plan.folder(out.path(), Overwrite::Replace);
        plan.begin(&replaced).unwrap();
        assert!(!out.path().join(plan.index_name()).exists(), "{format}");
        let receipts =
            (0..plan.parts().len()).map(|number| plan.part(number).unwrap().write(&replaced, &work).unwrap());
        let receipts: Vec<Receipt> = receipts.collect();
        plan.finish(&receipts, &replaced, &work).unwrap();
        assert_eq!(files(out.path()), before, "{format}");
    }
}

#[test]
fn a_file_of_another_set_is_not_replaced() {
    let work = Execution::default();
    let sources = tempfile::tempdir().unwrap();
    let model = source(sources.path());
    for (format, name, options) in targets() {
        let out = tempfile::tempdir().unwrap();
        let plan = plan(&model, format, name, &options);
        let part = plan.part(0).unwrap();
        let (own, index) = (&part.as_part().path, r#"{"metadata":{},"weight_map":{"w":"NAME"}}"#);
        std::fs::write(out.path().join(own), "theirs").unwrap();
        std::fs::write(out.path().join("their.safetensors.index.json"), index.replace("NAME", own)).unwrap();
        let before = files(out.path());
        let folder = plan.folder(out.path(), Overwrite::Replace);
        for error in [plan.begin(&folder).unwrap_err(), part.write(&folder, &work).unwrap_err()] {
            let text = std::error::Error::source(&error).unwrap().to_string();
            assert!(text.contains("a file of the set their.safetensors.index.json"), "{format}: {text}");
        }
        assert_eq!(files(out.path()), before, "{format}");
    }
}

#[test]
fn receipts_are_those_of_all_parts_of_the_plan() {
    let work = Execution::default();
    let sources = tempfile::tempdir().unwrap();
    let model = source(sources.path());
    for (format, name, options) in targets() {
        let plan_of = |options| plan(&model, format, name, options);
        let this = plan_of(&options);
        let memory = MemoryFolder::default();
        let receipts =
            (0..this.parts().len()).map(|number| this.part(number).unwrap().write(&memory, &work).unwrap());
        let receipts: Vec<Receipt> = receipts.collect();
        let refused = |receipts: &[Receipt], says: &str| {
            let error = this.finish(receipts, &memory, &work).unwrap_err();
            let text = format!("{error}: {}", std::error::Error::source(&error).unwrap());
            assert!(text.contains(says) && text.contains(this.index_name()), "{format}: {text}");
        };
        refused(&receipts[1..], "the receipt of part 0 is missing");
        let mut other = options.clone();
        other.output.shard_size = Some(2500);
        let other_plan = plan_of(&other);
        let of_other = other_plan.part(0).unwrap().write(&MemoryFolder::default(), &work).unwrap();
        refused(&[&receipts[1..], &[of_other]].concat(), "of another plan");
        let tamper = |text: &str, from: &str, to: &str| text.replace(from, to).parse::<Receipt>().unwrap();
        let text = receipts[0].to_string();
        let longer = tamper(&text, r#""nbytes":"#, r#""nbytes":1"#);
        refused(&[std::slice::from_ref(&longer), &receipts[..]].concat(), "which differ");
        if format != Format::AeroSet && format != Format::Apr2Sharded {
            refused(&[&[longer], &receipts[1..]].concat(), "fits no set");
        } else {
            let digests = tamper(&text, r#""digests":""#, r#""digests":"00"#);
            refused(&[&[digests], &receipts[1..]].concat(), "fits no set");
        }
        assert!(this.part(99).is_err());
        // A duplicate receipt is harmless.
        let all = [&receipts[..], &receipts[..1]].concat();
        this.finish(&all, &memory, &work).unwrap();
    }
}

#[test]
fn damage_is_found_by_the_worker_whose_part_has_it() {
    let work = Execution::default();
    let folder = tempfile::tempdir().unwrap();
    let model = source(folder.path());
    let mut options = ConvertOptions::default();
    options.aero.tensor_hashes = true;
    options.metadata.lossy = true;
    options.metadata.model_name = Some("m".to_owned());
    options.metadata.architecture = Some("a".to_owned());
    let path = folder.path().join("hashed.aero");
    Conversion::new(&model, &path).to(Format::Aero).options(&options).execution(&work).write().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let last = 19.0f32 * 100.0 + 63.0;
    let at = bytes.windows(4).rposition(|bytes| bytes == last.to_le_bytes()).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = Model::open(&path).unwrap();
    let mut options = ConvertOptions::default();
    options.output.shard_size = Some(3000);
    options.metadata.lossy = true;
    let plan = plan(&damaged, Format::SafetensorsSharded, "m.safetensors.index.json", &options);
    let out = tempfile::tempdir().unwrap();
    let files_of = plan.folder(out.path(), Overwrite::Refuse);
    let bad = plan.parts().len() - 1;
    let error = plan.part(bad).unwrap().write(&files_of, &work).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(files(out.path()).is_empty());
}

#[test]
fn only_sets_have_parts() {
    let folder = tempfile::tempdir().unwrap();
    let model = source(folder.path());
    let mut options = ConvertOptions::default();
    let one = Conversion::to_format(&model, Format::Gguf)
        .options(&options)
        .plan()
        .unwrap()
        .into_parts("m.gguf")
        .unwrap_err();
    assert!(matches!(one, Error::Usage { .. }), "{one}");
    options.output.shard_size = Some(3000);
    let name = Conversion::to_format(&model, Format::Safetensors)
        .options(&options)
        .plan()
        .unwrap()
        .into_parts("m.json")
        .unwrap_err();
    assert!(matches!(name, Error::Usage { .. }), "{name}");
    options.output.outboard = true;
    let outboard = Conversion::to_format(&model, Format::Gguf)
        .options(&options)
        .plan()
        .unwrap()
        .into_parts("m.gguf")
        .unwrap_err();
    assert!(matches!(outboard, Error::Usage { .. }), "{outboard}");
    // Whether a worker overwrites files does not change the plan, but the options for its values do.
    let mut options = ConvertOptions::default();
    options.output.shard_size = Some(3000);
    let id = |options: &ConvertOptions| plan(&model, Format::Gguf, "m.gguf", options).id();
    let before = id(&options);
    options.output.overwrite = Overwrite::Replace;
    assert_eq!(id(&options), before);
    options.metadata.set = Some(Object::from_iter([("key", Value::from("value"))]));
    assert_ne!(id(&options), before);
}
