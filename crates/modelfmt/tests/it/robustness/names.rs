//! Duplicate names are found among very many names, which are compared all together and not one by one.

use std::fs;
use std::path::Path;

use modelfmt::convert::save_as;
use modelfmt::modelfmt_write::{Overwrite, Views};
use modelfmt::{DType, Execution, Format, Model, Object, View};

/// More names than are compared one by one.
const COUNT: usize = (1 << 18) + 2;

fn name(number: usize) -> String {
    format!("t{number:07}")
}

/// Returns a good file with this many tensors, and the same file with the last name changed to the second
/// one.
fn with_a_repeated_name(format: Format, path: &Path) -> [Vec<u8>; 2] {
    let tensors = (0..COUNT).map(|number| (name(number), View::new(&[1.0f32], [1]).unwrap()));
    if format == Format::Aero {
        // The index is uncompressed, so that a name can be changed in it.
        let views: Views<'_> = tensors.collect();
        let options = aero::WriteOptions::new().zstd(None).model("m", "none");
        let plan = aero::Plan::new(views.specs(), &Object::new(), &options).unwrap();
        plan.write_file(path, Overwrite::Refuse, &views, &Execution::default()).unwrap();
    } else {
        save_as(format, path, tensors, &Object::new()).unwrap();
    }
    let good = fs::read(path).unwrap();
    let (last, second) = (name(COUNT - 1), name(1));
    let at = good.windows(last.len()).rposition(|window| window == last.as_bytes()).unwrap();
    let mut bad = good.clone();
    bad[at..at + last.len()].copy_from_slice(second.as_bytes());
    if format == Format::Aero {
        renew_hash(&good, &mut bad);
    }
    [good, bad]
}

/// Updates the hash of the changed tensor index of an AERO file.
fn renew_hash(good: &[u8], bad: &mut [u8]) {
    let reader = aero::Reader::from_source(good).unwrap();
    let chunk = reader.index().chunks().find(|chunk| chunk.fourcc.to_string() == "TIDX").unwrap();
    let content = chunk.offset as usize..(chunk.offset + chunk.length) as usize;
    let hash = blake3::hash(&bad[content]);
    let at = bad.windows(32).position(|window| window == chunk.blake3).unwrap();
    bad[at..at + 32].copy_from_slice(hash.as_bytes());
}

fn found(format: Format, file: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [good, bad] = with_a_repeated_name(format, &folder.path().join(file));
    let model = Model::from_source(file, good).unwrap();
    assert_eq!(model.tensor_count(), COUNT);
    for number in [0, 1, COUNT / 2, COUNT - 1] {
        assert_eq!(model.tensor(name(number).as_str()).unwrap().info().dtype, DType::F32, "{file}");
    }
    let error = testkit::error_text(Model::from_source(file, bad).unwrap_err());
    assert!(error.contains(&name(1)) && error.contains("twice"), "{file}: {error}");
    assert!(error.contains(&(COUNT - 1).to_string()), "the entry is named: {error}");
}

#[test]
fn a_repeated_name_among_very_many_is_found() {
    found(Format::Safetensors, "m.safetensors");
    found(Format::Gguf, "m.gguf");
    found(Format::Oinf, "m.oinf");
    found(Format::Mag, "m.mag");
    found(Format::Apr, "m.apr");
    found(Format::Apr2, "m2.apr");
    found(Format::Aero, "m.aero");
}
