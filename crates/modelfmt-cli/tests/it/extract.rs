//! `modelfmt extract` of several tensors.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::common::{modelfmt_in, testdata};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["trained.mag", "one-shard.aero"] {
        fs::copy(testdata("reference").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn what_takes_one_tensor_takes_no_more() {
    let folder = folder();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    for out in ["w.npy", "w.bin", "-"] {
        let error = run(&format!("extract trained.mag fc1.* -o {out}")).error();
        assert!(error.contains("2 tensors match") && error.contains(".npz"), "{error}");
    }
    // A pattern that matches a single tensor is accepted.
    run("extract trained.mag fc1.w* -o w.bin").ok();
    run("extract trained.mag fc1.weight -o v.bin").ok();
    assert_eq!(
        fs::read(folder.path().join("w.bin")).unwrap(),
        fs::read(folder.path().join("v.bin")).unwrap()
    );
    assert_eq!(run("extract trained.mag cube -o cube.txt").status, 2);
    assert_eq!(run("extract trained.mag -o cube.npy").status, 2);
    let error = run("extract trained.mag nothing.* -o w.npz").error();
    assert!(error.contains("none of its 6 tensors is left"), "{error}");
}

#[test]
fn a_folder_that_is_there_or_named_with_a_slash_takes_a_file_for_each() {
    let folder = folder();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let said = run("extract trained.mag fc1.* -o new/");
    assert!(
        said.status == 0 && said.stderr.starts_with("wrote new/: 2 tensors, 336 B in "),
        "{}",
        said.stderr
    );
    fs::create_dir(folder.path().join("old")).unwrap();
    run("extract trained.mag fc1.* -o old").ok();
    assert_eq!(
        fs::read(folder.path().join("old/fc1.bias.npy")).unwrap(),
        fs::read(folder.path().join("new/fc1.bias.npy")).unwrap()
    );
    let error = run("extract trained.mag fc1.* -o old").error();
    assert!(error.contains("fc1.weight.npy: exists already; --force replaces it"), "{error}");
    run("extract trained.mag fc1.* -o old --force").ok();
    let error = run("extract trained.mag fc1.* -o none/of/these/").error();
    assert!(error.contains("cannot be written: its folder does not exist"), "{error}");
    let error = run("extract trained.mag fc1.* -o trained.mag/").error();
    assert!(error.contains("trained.mag/: cannot be written"), "{error}");
}
