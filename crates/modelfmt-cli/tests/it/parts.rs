//! Sets with more files than a process may have open.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::path::Path;
use std::process::Output;

use modelfmt::aero::write::TensorSpec;
use modelfmt::convert::Overwrite;
use modelfmt::{DType, Execution, Object};

use crate::common::{command, program};

const PARTS: usize = 300;

/// Runs the program with at most 64 open files.
fn limited(args: &[&str], folder: &Path) -> Output {
    let line = "ulimit -n 64 && exec \"$0\" \"$@\"";
    command("sh").args(["-c", line, program()]).args(args).current_dir(folder).output().unwrap()
}

fn write_sets(folder: &Path) {
    let specs = || (0..PARTS).map(|n| TensorSpec::new(format!("t.{n}"), DType::U8, vec![64]));
    let (data, work) = (vec![[7u8; 64]; PARTS], Execution::default());
    let metadata = Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
    let options = modelfmt::aero::WriteOptions::new().uuid([7; 16]).shard_size(64).shards_per_part(1);
    let plan = modelfmt::aero::SetPlan::new("m.aeroset.json", specs(), &metadata, &options).unwrap();
    plan.write_folder(folder, Overwrite::Refuse, &data, &work).unwrap();
    let metadata = modelfmt::apr2::Metadata::new("demo", Object::new());
    let options = modelfmt::apr2::WriteOptions::new().shard_size(64);
    let plan = modelfmt::apr2::SetPlan::new("m.apr.json", specs(), &metadata, &options).unwrap();
    plan.write_folder(folder, Overwrite::Refuse, &data, &work).unwrap();
    let options = modelfmt::safetensors::WriteOptions::new().shard_size(64);
    let plan = modelfmt::safetensors::SetPlan::new("m", specs(), None, &options).unwrap();
    plan.write_folder(folder, Overwrite::Refuse, &data, &work).unwrap();
}

#[test]
fn a_set_of_300_files_needs_few_open_files() {
    let folder = tempfile::tempdir().unwrap();
    write_sets(folder.path());
    for index in ["m.aeroset.json", "m.apr.json", "m.safetensors.index.json"] {
        let out = format!("{index}.aero");
        for args in [
            &["verify", index][..],
            &["inspect", "--hash", index],
            &["convert", "--to", "aero", index, &out],
            &["diff", index, index],
        ] {
            let run = limited(args, folder.path());
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(run.status.success(), "{args:?}: {said}");
        }
    }
}
