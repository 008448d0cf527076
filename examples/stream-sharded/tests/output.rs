//! Runs the program as its documentation says, and checks its output.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::process::Command;

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stream-sharded")).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_tensor_comes_in_pieces() {
    let expected = "layers.3.weight is in model-00004-of-00005.safetensors\n\
        8388608 bytes in 8 pieces of at most 1048576\n\
        the bytes add up to 25165824\n";
    assert_eq!(run(&[]), expected);
}

#[test]
fn other_sets_are_read_alike() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/apr2/set/sharded.apr");
    let expected = "t.i64 is in sharded-00003-of-00004.apr\n1536 bytes in 1 pieces of at most 1048576\n";
    assert!(run(&[manifest, "t.i64"]).starts_with(expected));
}
