//! Plans and loads of a file that is opened with a pin.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt::convert::Overwrite;
use modelfmt::modelfmt_core::load::LoadOptions;
use modelfmt::modelfmt_core::plan::PlanOptions;
use modelfmt::outboard::outboard;
use modelfmt::{Execution, Model, OpenOptions, Pin};

#[test]
fn what_a_pin_proves_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let header = format!("{:<72}", r#"{"w":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]}}"#);
    let values: Vec<u8> = (0..100_000u64).map(|i| (i.wrapping_mul(i ^ 0x55) >> 5) as u8).collect();
    let mut file = [&72u64.to_le_bytes()[..], header.as_bytes(), &values].concat();
    std::fs::write(&path, &file).unwrap();
    let work = Execution::default();
    let pin = Pin::B3(outboard(&path, Overwrite::Refuse, &work).unwrap().blake3);
    let load = |model: &Model| model.load(&model.picks(&["w"]).unwrap(), &LoadOptions::new(), &work);

    let plain = Model::open(&path).unwrap();
    assert_eq!(load(&plain).unwrap().1.unverified, 100_000);
    let model = OpenOptions::new().pin(pin).open(&path).unwrap();
    let (tensors, loaded) = load(&model).unwrap();
    assert!(tensors[0].bytes[..] == values && loaded.unverified == 0);
    let picks = model.picks(&["w"]).unwrap();
    let plan = model.plan_verified(&picks, PlanOptions::local()).unwrap();
    assert_eq!((plan.proofs()[0].range.clone(), plan.proofs()[0].by), (0..100_080, "outboard"));
    assert!(plain.plan_verified(&picks, PlanOptions::local()).unwrap().proofs().is_empty());
    drop((plain, model));

    file[70_000] ^= 1;
    std::fs::write(&path, &file).unwrap();
    let model = OpenOptions::new().pin(pin).open(&path).unwrap();
    let error = load(&model).unwrap_err();
    assert_eq!(error.code(), "damaged", "{error}");
}

/// Another file with the same length and time replaces the file that is being read.
#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_meanwhile_gets_no_outboard() {
    use std::ops::ControlFlow;

    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("f"), folder.path().join("other"));
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
    for (path, byte) in [(&path, 1), (&other, 2)] {
        std::fs::write(path, vec![byte; 100_000]).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let replace = |_| {
        let _ = std::fs::rename(&other, &path); // the first call does it
        ControlFlow::Continue(())
    };
    let work = Execution { progress: Some(&replace), ..Execution::sequential() };
    let error = outboard(&path, Overwrite::Refuse, &work).unwrap_err();
    assert!(testkit::error_text(&error).contains("was changed while it was read"), "{error:?}");
    assert!(!folder.path().join("f.obao4").exists());
    assert!(!other.exists());
}
