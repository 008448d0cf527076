//! Files that the program leaves alone, and how it works with few resources.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::signals::{self, hears_signals};

use crate::common::{command, fill_header, modelfmt_in, program};

/// Writes a safetensors file with tensors of `nbytes` bytes each.
fn model(path: &Path, tensors: usize, nbytes: usize) {
    let entry = |n: usize| {
        let (begin, end) = (n * nbytes, (n + 1) * nbytes);
        format!("\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[{nbytes}],\"data_offsets\":[{begin},{end}]}}")
    };
    let header = format!("{{{}}}", (0..tensors).map(entry).collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..tensors * nbytes).map(|n| u8::try_from(n * 31 % 251).unwrap()));
    fs::write(path, bytes).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns how the names of temporary files for a target begin, with 64 bits of FNV-1a.
fn prefix(target: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!(".modelfmt-{:016x}-", target.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

#[test]
fn a_model_with_the_name_of_a_temporary_file_is_read_and_kept() {
    let left_over = format!("{}0123abcd.partial", prefix("out.aero"));
    for name in [".out.aero.partial", &left_over] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        model(&path, 3, 1000);
        let before = fs::read(&path).unwrap();
        for options in ["", " --force"] {
            modelfmt_in(folder.path(), &format!("convert {name} out.aero{options}")).ok();
            modelfmt_in(folder.path(), &format!("diff {name} out.aero")).ok();
            assert_eq!(fs::read(&path).unwrap(), before);
        }
        assert_eq!(names(folder.path()), [name, "out.aero"]);
        // A leftover that is not being read is removed.
        modelfmt_in(folder.path(), "convert out.aero other.mag --cast *=i8").ok();
        modelfmt_in(folder.path(), "convert other.mag out.aero --force").ok();
        assert_eq!(path.exists(), name == ".out.aero.partial");
    }
}

#[test]
fn what_is_read_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    model(&path("m.safetensors"), 3, 1000);
    fs::hard_link(path("m.safetensors"), path("hard.safetensors")).unwrap();
    symlink("m.safetensors", path("soft.safetensors")).unwrap();
    fs::write(path("meta.mag"), "{}").unwrap();
    let before = fs::read(path("m.safetensors")).unwrap();
    for args in [
        "convert m.safetensors m.safetensors --force",
        "convert m.safetensors ./hard.safetensors --force",
        "convert m.safetensors soft.safetensors --force",
        "convert soft.safetensors m.safetensors --force",
        "convert hard.safetensors soft.safetensors --force",
        "convert m.safetensors meta.mag --metadata meta.mag --cast *=i8 --force",
        "extract m.safetensors t1 -o m.bin --force",
    ] {
        if args.starts_with("extract") {
            fs::hard_link(path("m.safetensors"), path("m.bin")).unwrap();
        }
        let error = modelfmt_in(folder.path(), args).error();
        assert!(error.contains("input"), "{args}: {error}");
    }
    // Also if the model comes from standard input.
    let run = command(program())
        .current_dir(folder.path())
        .args(["convert", "-", "hard.safetensors", "--force"])
        .stdin(File::open(path("m.safetensors")).unwrap())
        .output()
        .unwrap();
    assert!(String::from_utf8(run.stderr).unwrap().contains("input"));
    assert_eq!(fs::read(path("m.safetensors")).unwrap(), before);
    assert_eq!(names(folder.path()).len(), 5);
    // A link to another file is replaced, and the file is not.
    fs::write(path("file"), "mine").unwrap();
    symlink("file", path("link.mag")).unwrap();
    modelfmt_in(folder.path(), "convert m.safetensors link.mag --cast *=i8 --force").ok();
    assert_eq!(fs::read(path("file")).unwrap(), b"mine");
    assert!(!path("link.mag").is_symlink());
}

#[test]
fn permissions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    model(&path("m.safetensors"), 4, 1000);
    for args in ["m.aero", "s.aeroset.json --shard-size 1000", "s.safetensors --shard-size 1000"] {
        modelfmt_in(folder.path(), &format!("convert m.safetensors {args}")).ok();
    }
    let written: Vec<String> =
        names(folder.path()).into_iter().filter(|name| name != "m.safetensors").collect();
    assert!(written.len() > 8, "{written:?}");
    let usual = fs::metadata(path("m.safetensors")).unwrap().mode();
    for name in &written {
        assert_eq!(fs::metadata(path(name)).unwrap().mode(), usual, "{name}");
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o640)).unwrap();
    }
    for args in ["m.aero", "s.aeroset.json --shard-size 1000", "s.safetensors --shard-size 1000"] {
        modelfmt_in(folder.path(), &format!("convert m.safetensors {args} --force")).ok();
    }
    for name in &written {
        assert_eq!(fs::metadata(path(name)).unwrap().mode() & 0o7777, 0o640, "{name}");
    }
}

#[test]
fn a_set_may_have_more_files_than_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    model(&folder.path().join("m.safetensors"), 300, 200);
    let limited = |args: &str| {
        let line = format!("ulimit -n 64; exec {} {args}", program());
        let run = command("sh").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
        assert!(run.status.success(), "{args}: {}", String::from_utf8_lossy(&run.stderr));
    };
    for out in ["a.aeroset.json", "b.apr --to apr2-sharded --cast '*=i8'", "c.safetensors.index.json"] {
        for force in ["", " --force"] {
            limited(&format!("convert m.safetensors {out} --shard-size 100{force}"));
        }
    }
    assert_eq!(names(folder.path()).len(), 1 + 302 + 301 + 301);
    for set in ["a.aeroset.json", "b.apr", "c.safetensors.index.json"] {
        limited(&format!("verify {set}"));
        limited(&format!("convert {set} one.aero --force"));
    }
}

#[test]
fn files_of_other_sets_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    model(&path("m.safetensors"), 2, 100);
    fs::write(path("x.bin"), "weights").unwrap();
    fs::write(path("pytorch_model.bin.index.json"), r#"{"weight_map": {"w": "x.bin"}}"#).unwrap();
    let error = modelfmt_in(folder.path(), "extract m.safetensors t0 -o x.bin --force").error();
    assert!(error.contains("x.bin") && error.contains("pytorch_model.bin.index.json"), "{error}");
    assert_eq!(fs::read(path("x.bin")).unwrap(), b"weights");
    // A set from the time when its files were not named after it, next to a set that is written now.
    modelfmt_in(folder.path(), "convert m.safetensors a.aeroset.json --shard-size 100").ok();
    for (now, then) in [
        ("a.index.aero", "index.aero"),
        ("a.part-000.aero", "part-000.aero"),
        ("a.part-001.aero", "part-001.aero"),
    ] {
        fs::rename(path(now), path(then)).unwrap();
        let text = fs::read_to_string(path("a.aeroset.json")).unwrap();
        fs::write(path("a.aeroset.json"), text.replace(now, then)).unwrap();
    }
    modelfmt_in(folder.path(), "verify a.aeroset.json").ok();
    modelfmt_in(folder.path(), "convert m.safetensors b.aeroset.json --shard-size 100 --force").ok();
    for index in ["a.aeroset.json", "b.aeroset.json"] {
        modelfmt_in(folder.path(), &format!("verify {index}")).ok();
    }
    let run = modelfmt_in(folder.path(), "convert m.safetensors a.aeroset.json --force");
    assert!(run.stderr.contains("removed"), "{}", run.stderr);
    run.ok();
    modelfmt_in(folder.path(), "verify a.aeroset.json").ok();
    let expected = ["a.aeroset.json", "a.index.aero", "a.part-000.aero"];
    assert!(names(folder.path()).iter().filter(|name| name.starts_with('a')).eq(expected));
    assert!(!path("index.aero").exists() && !path("part-000.aero").exists());
}

/// Prevents threads in the process: each would need a stack that no system has.
fn without_threads(folder: &Path) -> Command {
    let mut command = command(program());
    command.current_dir(folder).env("RUST_MIN_STACK", (1u64 << 50).to_string());
    command
}

#[test]
fn work_is_done_where_no_thread_can_be_had() {
    let folder = tempfile::tempdir().unwrap();
    model(&folder.path().join("m.safetensors"), 5, 8 << 20);
    for args in [
        "convert m.safetensors m.aero --tensor-hashes --page-hashes --control-hash",
        "convert m.safetensors m.apr --cast *=i8 --compress lz4",
        "convert m.safetensors s.aeroset.json --shard-size 8MiB",
        "verify m.aero m.apr s.aeroset.json",
        "inspect --hash m.aero",
        "show m.aero",
        "diff m.safetensors m.aero",
        "extract m.apr t1 -o t1.npy",
    ] {
        let run = without_threads(folder.path()).args(args.split_whitespace()).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && !stderr.contains("panicked"), "{args}: {stderr}");
    }
}

#[test]
fn a_signal_ends_a_process_that_has_no_thread_to_hear_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = without_threads(folder.path());
    command.args(["inspect", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = hears_signals(&mut command).spawn().unwrap();
    fill_header(&mut child);
    signals::send(&child, "INT");
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}
