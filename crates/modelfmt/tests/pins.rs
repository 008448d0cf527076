//! Plans and loads of a file that is opened with a pin.
#![cfg(feature = "safetensors")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use modelfmt::modelfmt_core::load::LoadOptions;
use modelfmt::modelfmt_core::plan::PlanOptions;
use modelfmt::{Execution, Model, OpenOptions, Overwrite, Pin, outboard};

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
