//! Standard input and output in place of files, and the line that says what was written.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{command, modelfmt_in, program, testdata, with_closed_output};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["trained.mag", "simple_model.oinf", "one-shard.aero"] {
        fs::copy(testdata("reference").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// Runs a line of shell in which `$M` is the program.
fn shell(folder: &Path, line: &str) -> Output {
    command("sh").args(["-c", line]).env("M", program()).current_dir(folder).output().unwrap()
}

#[track_caller]
fn stdout(folder: &Path, line: &str) -> Vec<u8> {
    let output = shell(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_dash_is_standard_input_whether_it_is_a_file_or_a_pipe() {
    let folder = folder();
    let inspect = "inspect trained.mag --json";
    let of_file = modelfmt_in(folder.path(), inspect).ok();
    for line in [
        "$M inspect - --json < trained.mag",
        "cat trained.mag | $M inspect - --json",
        "cat trained.mag | $M inspect /dev/stdin --json",
        "$M inspect /dev/stdin --json < trained.mag",
        "mkfifo p; cat trained.mag > p & $M inspect p --json",
    ] {
        let json = String::from_utf8(stdout(folder.path(), line)).unwrap();
        let path = |json: &str| {
            json.lines().filter(|line| !line.contains("\"path\"")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(path(&json), path(&of_file), "{line}");
    }
    for line in [
        "cat trained.mag | $M verify -",
        "cat trained.mag | $M show - fc1.bias",
        "cat trained.mag | $M diff - trained.mag",
        "cat trained.mag | $M convert - piped.aero && $M diff piped.aero trained.mag",
        "cat trained.mag | $M extract - fc1.bias -o bias.npy",
    ] {
        stdout(folder.path(), line);
    }
    let json = stdout(folder.path(), "$M inspect piped.aero --json");
    assert!(String::from_utf8(json).unwrap().contains("\"name\": \"model\""));
}

#[test]
fn what_standard_input_lacks_is_said() {
    let folder = folder();
    for (line, status, why) in [
        ("$M inspect - < /dev/null", 1, "error: -: not a model file: it is empty"),
        ("echo ALBR-ENC | $M inspect -", 1, "error: -: it is a model that the program `apr` has encrypted"),
        ("echo hello | $M inspect -", 1, "error: -: not a model file: its content is of no format"),
        ("head -c 100 trained.mag | $M verify - --quiet | grep -q FAILED && exit 7", 7, ""),
        ("$M inspect - < .", 1, "error: -: cannot be opened: Is a directory"),
        (
            "$M convert trained.mag m.safetensors --lossy -q --shard-size 99 && cat *.index.json | $M inspect -",
            1,
            "error: -: not a model file: it is the index of a set",
        ),
        (
            "TMPDIR=/no/such; export TMPDIR; cat trained.mag | $M inspect -",
            1,
            "error: -: cannot be opened: no temporary file in /no/such",
        ),
    ] {
        let output = shell(folder.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", stderr(&output));
        assert!(stderr(&output).starts_with(why), "{line}: {}", stderr(&output));
    }
}

#[test]
fn a_dash_is_standard_output() {
    let folder = folder();
    modelfmt_in(folder.path(), "extract one-shard.aero embed.weight -o w.bin").ok();
    let bytes = stdout(folder.path(), "$M extract one-shard.aero embed.weight -o - | cat");
    assert_eq!(bytes, fs::read(folder.path().join("w.bin")).unwrap());

    let file = stdout(folder.path(), "$M convert simple_model.oinf - --to oinf | cat");
    assert_eq!(file, fs::read(folder.path().join("simple_model.oinf")).unwrap());
    stdout(folder.path(), "$M convert trained.mag - --to aero | $M diff - trained.mag");

    for (line, status, why) in [
        ("$M convert trained.mag -", 2, "error: -: standard output has no ending"),
        (
            "$M convert trained.mag - --to aeroset",
            2,
            "error: -: aeroset is several files, and standard output takes one",
        ),
        ("$M extract trained.mag nothing -o -", 1, "error: trained.mag: no tensor is named"),
        ("$M extract trained.mag fc1.bias -o - > /dev/full", 1, "error: cannot write to standard output: "),
        ("$M convert simple_model.oinf - --to mag", 1, "error: simple_model.oinf: does not fit mag"),
    ] {
        let output = shell(folder.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", stderr(&output));
        assert!(stderr(&output).starts_with(why), "{line}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{line}");
    }
    assert!(!folder.path().join("-").exists());
}

/// A file that an option names is read, too.
#[test]
fn no_output_replaces_what_an_option_names() {
    let folder = folder();
    fs::write(folder.path().join("keys.json"), "{}").unwrap();
    fs::write(folder.path().join("key.bin"), [7; 32]).unwrap();
    for (args, named) in [
        ("edit trained.mag --metadata keys.json --output keys.json --force", "keys.json"),
        ("extract trained.mag fc1.bias -o key.bin --key-file key.bin --force", "key.bin"),
    ] {
        let before = fs::read(folder.path().join(named)).unwrap();
        let run = modelfmt_in(folder.path(), args);
        assert!(
            run.status == 1 && run.stderr.contains("a file that an option names"),
            "{args}: {}",
            run.stderr
        );
        assert_eq!(fs::read(folder.path().join(named)).unwrap(), before, "{args}");
    }
}

/// A model without its end is no model, whoever closed the pipe.
#[test]
fn a_model_that_is_not_read_to_its_end_is_a_failure() {
    let folder = folder();
    let output = with_closed_output(folder.path(), &["convert", "trained.mag", "-", "--to", "aero"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("the program that reads it has stopped before the end"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_line_says_what_was_written() {
    let folder = folder();
    for (args, written) in [
        ("convert trained.mag m.aero", "wrote m.aero: 6 tensors, "),
        ("extract trained.mag fc1.bias -o b.bin", "wrote b.bin: 1 tensor, 16 B in 0."),
        ("extract trained.mag fc1.bias -o b.npy", "wrote b.npy: 1 tensor, 144 B in 0."),
        (
            "convert trained.mag m.safetensors --lossy --shard-size 500",
            "wrote m.safetensors.index.json with m-00001-of-00003.safetensors, m-00002-of-00003.safetensors, m-00003-of-00003.safetensors: 6 tensors, ",
        ),
        (
            "convert trained.mag s.apr --widen --shard-size 500",
            "wrote s.apr with s-00001-of-00004.apr, s-00002-of-00004.apr, s-00003-of-00004.apr, s-00004-of-00004.apr: 6 tensors (1 became u8), ",
        ),
        (
            "convert trained.mag n.safetensors --lossy --shard-size 1",
            "wrote n.safetensors.index.json with 6 files, n-00001-of-00006.safetensors to n-00006-of-00006.safetensors: 6 tensors, ",
        ),
    ] {
        let run = modelfmt_in(folder.path(), args);
        let last = run.stderr.lines().last().unwrap();
        assert!(last.starts_with(written) && last.ends_with(" s"), "{args}: {last}");
        let quiet = modelfmt_in(folder.path(), &format!("{args} --force --quiet"));
        assert!(!quiet.stderr.contains("wrote"), "{args}: {}", quiet.stderr);
    }
    let written = shell(folder.path(), "$M extract trained.mag fc1.bias -o -");
    assert!(stderr(&written).starts_with("wrote to standard output: 1 tensor, 16 B"), "{}", stderr(&written));
}
