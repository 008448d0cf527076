//! A shared reader: several threads read the same values through it as a single thread.

use std::thread;

use modelfmt::{Execution, Model, VerifyLevel};
use modelfmt_core::source::{BoxSource, FileSource, Folder, SharedFiles};

use super::fuzz::samples;

const fn is_shareable<T: Send + Sync>() {}

/// Fails to compile if one of these types cannot be shared.
#[allow(dead_code, reason = "compiling it is the test")]
const SHAREABLE: () = {
    is_shareable::<Model>();
    is_shareable::<modelfmt::Error>();
    is_shareable::<modelfmt_core::AnyError>();
    is_shareable::<aero::Reader<BoxSource>>();
    is_shareable::<aero::Reader<FileSource>>();
    is_shareable::<aero::SetReader<SharedFiles>>();
    is_shareable::<aero::SetReader<Folder>>();
    is_shareable::<(aero::Index, aero::Plan, aero::Error)>();
    is_shareable::<apr2::Reader<BoxSource>>();
    is_shareable::<apr2::SetReader<SharedFiles>>();
    is_shareable::<apr2::SetReader<Folder>>();
    is_shareable::<(apr2::Index, apr2::Plan, apr2::Error)>();
    is_shareable::<apr2_seal::Reader<BoxSource>>();
    is_shareable::<apr2_seal::SetReader<SharedFiles>>();
    is_shareable::<apr2_seal::SetReader<Folder>>();
    is_shareable::<apr2_seal::Index>();
    is_shareable::<mag::Reader<BoxSource>>();
    is_shareable::<(mag::Index, mag::Plan, mag::Error)>();
    is_shareable::<oinf::Reader<BoxSource>>();
    is_shareable::<(oinf::Index, oinf::Plan, oinf::Error)>();
    is_shareable::<modelfmt_safetensors::Reader<BoxSource>>();
    is_shareable::<modelfmt_safetensors::SetReader<SharedFiles>>();
    is_shareable::<modelfmt_safetensors::SetReader<Folder>>();
    is_shareable::<(aero::SetPlan, apr2::SetPlan, modelfmt_safetensors::SetPlan)>();
    is_shareable::<(modelfmt_safetensors::Index, modelfmt_safetensors::Plan, modelfmt_safetensors::Error)>();
    is_shareable::<modelfmt_gguf::Reader<BoxSource>>();
    is_shareable::<(modelfmt_gguf::Index, modelfmt_gguf::Error)>();
};

#[test]
fn threads_read_the_same_through_one_reader() {
    let folder = tempfile::tempdir().unwrap();
    for sample in samples() {
        let path = folder.path().join("file");
        std::fs::write(&path, &sample.bytes).unwrap();
        for model in [Model::open(&path).unwrap(), Model::from_source("memory", sample.bytes).unwrap()] {
            let alone: Vec<Vec<u8>> = all(&model);
            thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            let report = model.container().verify(VerifyLevel::Full, &Execution::default());
                            (0..20).all(|_| all(&model) == alone) && report.is_ok()
                        })
                    })
                    .collect();
                assert!(threads.into_iter().all(|thread| thread.join().unwrap()), "{}", sample.name);
            });
        }
    }
}

fn all(model: &Model) -> Vec<Vec<u8>> {
    (0..model.tensor_count()).map(|position| model.tensor(position).unwrap().bytes().to_vec()).collect()
}

/// Reports do not depend on the number of threads.
#[test]
fn a_report_is_the_same_with_any_number_of_threads() {
    for sample in samples() {
        for at in (0..sample.bytes.len()).step_by(7) {
            let damaged = testkit::patched(&sample.bytes, at, &[sample.bytes[at] ^ 0x10]);
            let Ok(model) = Model::from_source("damaged", damaged) else { continue };
            let report =
                |threads| model.container().verify(VerifyLevel::Full, &Execution { threads, progress: None });
            assert_eq!(report(1), report(3), "{}, byte {at}", sample.name);
        }
    }
}
