//! Runs the program as its documentation says, and checks its output and files.

use std::fs;
use std::process::Command;

#[test]
fn training_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_training-checkpoints")).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("the same bits as without the pause: true\n"), "{text}");
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["step-00100.mag", "step-00200.mag", "step-00300.mag", "step-00400.mag"]);
}

#[test]
fn it_runs_without_arguments() {
    assert!(Command::new(env!("CARGO_BIN_EXE_training-checkpoints")).status().unwrap().success());
}
