//! Bad input and bad outputs: one clear `error:` line, the right exit status, and nothing left behind.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::{command, modelfmt, modelfmt_in, program, testdata, with_closed_output};

fn folder_with_models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["trained.mag", "simple_model.oinf"] {
        fs::copy(testdata("reference").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_that_are_no_models_say_so() {
    let folder = folder_with_models();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("text.mag"), "just some text\n").unwrap();
    fs::write(folder.path().join("pointer.gguf"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (file, why) in [
        ("empty", "it is empty"),
        ("text.mag", "of no format that modelfmt knows"),
        ("pointer.gguf", "`git lfs pull` fetches"),
        ("folder", "it is a folder without a model file; name a file"),
        ("missing.mag", "No such file"),
        ("http://127.0.0.1:1/m.gguf", "no connection to the server"),
    ] {
        for verb in ["inspect", "show"] {
            let error = modelfmt_in(folder.path(), &format!("{verb} {file}")).error();
            assert!(error.contains(file) && error.contains(why), "{error}");
        }
        let run = modelfmt_in(folder.path(), &format!("verify {file} --json"));
        assert_eq!(run.status, 1);
        let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&report["ok"], &report["path"]), (&false.into(), &file.into()));
        assert!(report["errors"][0].as_str().unwrap().contains(why), "{report}");
    }
}

#[test]
fn a_model_without_a_list_of_tensors_is_inspected_and_verified_and_not_converted() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(testdata("apr/v1-linear-regression.aprn"), folder.path().join("m.apr")).unwrap();
    let run = modelfmt_in(folder.path(), "inspect m.apr --json");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.status, &found["format"], &found["version"]), (0, &"aprn".into(), &"1.0".into()));
    assert_eq!(found["details"]["model_type"], "linear_regression");
    assert_eq!(found["metadata"]["model_name"], "line");
    assert_eq!(found["tensors"], serde_json::json!([]));
    assert_eq!(modelfmt_in(folder.path(), "verify m.apr").status, 0);
    for line in ["convert m.apr out.safetensors", "convert m.apr out.aero --lossy", "diff m.apr m.apr"] {
        let run = modelfmt_in(folder.path(), line);
        assert_eq!(run.status, 1, "{line}");
        let error = run.error();
        assert!(error.contains("m.apr: a model of aprender's first generation"), "{line}: {error}");
    }
    assert_eq!(names(folder.path()), ["m.apr"]);
    let mut damaged = fs::read(folder.path().join("m.apr")).unwrap();
    damaged[120] ^= 1;
    fs::write(folder.path().join("m.apr"), damaged).unwrap();
    let run = modelfmt_in(folder.path(), "verify m.apr");
    assert!(run.status == 1 && run.stdout.contains("crc"), "{}", run.stdout);
}

#[test]
fn every_truncation_is_one_error_line() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(testdata("reference/trained.mag")).unwrap();
    let path = folder.path().join("cut.mag");
    for len in (0..0x157).step_by(7) {
        fs::write(&path, &whole[..len]).unwrap();
        let error = modelfmt_in(folder.path(), "inspect cut.mag").error();
        assert!(error.starts_with("error: cut.mag: "), "{error}");
        assert!(len < 4 || error.contains(" byte "), "{error}");
    }
}

#[test]
fn a_count_that_the_file_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"MAG!\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0".to_vec();
    bytes.resize(100, 0);
    fs::write(folder.path().join("m.mag"), bytes).unwrap();
    let error = modelfmt_in(folder.path(), "inspect m.mag").error();
    assert!(error.contains("num_tensors") && error.contains("76"), "{error}");
}

#[test]
fn a_name_that_is_not_there_suggests_one_that_is() {
    let folder = folder_with_models();
    let error = modelfmt_in(folder.path(), "show trained.mag fc1.wieght").error();
    assert_eq!(error, "error: trained.mag: no tensor is named \"fc1.wieght\"; did you mean \"fc1.weight\"?");
    let error = modelfmt_in(folder.path(), "extract trained.mag nothing -o x.npy").error();
    assert_eq!(error, "error: trained.mag: no tensor is named \"nothing\"");
}

#[test]
fn a_file_that_is_not_there_suggests_one_that_is() {
    let folder = folder_with_models();
    let error = modelfmt_in(folder.path(), "inspect traned.mag").error();
    assert!(error.ends_with("; did you mean trained.mag?"), "{error}");
    modelfmt_in(folder.path(), "convert trained.mag set.safetensors --shard-size 100 --lossy").ok();
    let error = modelfmt_in(folder.path(), "inspect set.safetensors").error();
    assert!(error.ends_with("; did you mean set.safetensors.index.json?"), "{error}");
    // The parts of a set differ in their numbers, and one cannot replace another.
    let error = modelfmt_in(folder.path(), "inspect set-00009-of-00009.safetensors").error();
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn a_file_in_place_of_a_command_says_which_command_looks_at_it() {
    let folder = folder_with_models();
    let run = modelfmt_in(folder.path(), "trained.mag");
    assert!(
        run.status == 2 && run.stderr.contains("see what is in a file: modelfmt inspect"),
        "{}",
        run.stderr
    );
    assert!(!modelfmt_in(folder.path(), "missing.mag").stderr.contains("modelfmt inspect"));
}

#[test]
fn a_url_where_only_a_path_will_do_is_wrong_usage() {
    let folder = folder_with_models();
    let at = |line: &str| modelfmt_in(folder.path(), line);
    assert_eq!(at("keygen --type p256 -o key.pem").status, 0);
    for (line, why) in [
        ("edit s3://b/m.mag --set a=1", "only files of this machine are edited"),
        ("edit trained.mag --set a=1 -o s3://b/m.mag", "only files of this machine are edited"),
        ("sign https://h/m.mag --key key.pem", "only files and folders of this machine are signed"),
        ("outboard s3://b/m.mag", "which has to be on this machine"),
        ("keygen --type p256 -o s3://b/key.pem", "keys are written only to files"),
        ("extract trained.mag steps -o s3://b/w.npy", "extracted only to files"),
        ("seal --rekey s3://b/m.apr --to-recipient key.pem.pub", "only files of this machine are changed"),
    ] {
        let run = at(line);
        let said = run.status == 2 && run.stderr.contains("://") && run.stderr.contains(why);
        assert!(said, "{line}: {}", run.stderr);
    }
}

#[test]
fn a_folder_in_place_of_a_file_says_so() {
    let folder = folder_with_models();
    fs::create_dir(folder.path().join("out")).unwrap();
    for line in ["convert trained.mag out", "convert trained.mag new/", "convert trained.mag new/ --to aero"]
    {
        let run = modelfmt_in(folder.path(), line);
        let said = run.stderr.contains("it is a folder; name the file to write");
        assert!(run.status == 2 && said, "{line}: {}", run.stderr);
    }
    let error = modelfmt_in(folder.path(), "convert -r missing out --to aero").error();
    assert_eq!(error, "error: missing: there is no such folder");
    let error = modelfmt_in(folder.path(), "convert -r trained.mag out --to aero").error();
    assert_eq!(error, "error: trained.mag: -r takes folders, and this is not a folder");
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let folder = folder_with_models();
    fs::write(folder.path().join("w.npy"), "mine").unwrap();
    let error = modelfmt_in(folder.path(), "extract trained.mag fc1.weight -o w.npy").error();
    assert!(error.contains("w.npy"), "{error}");
    assert_eq!(fs::read(folder.path().join("w.npy")).unwrap(), b"mine");
    modelfmt_in(folder.path(), "extract trained.mag fc1.weight -o w.npy --force").ok();
    assert!(fs::read(folder.path().join("w.npy")).unwrap().starts_with(b"\x93NUMPY"));
    let error = modelfmt_in(folder.path(), "convert trained.mag simple_model.oinf").error();
    assert!(error.contains("simple_model.oinf"), "{error}");
    assert_eq!(names(folder.path()), ["simple_model.oinf", "trained.mag", "w.npy"]);
}

#[test]
fn places_that_cannot_be_written_to_leave_nothing_behind() {
    let folder = folder_with_models();
    fs::create_dir(folder.path().join("d.mag")).unwrap();
    let error = modelfmt_in(folder.path(), "convert simple_model.oinf no/such/folder.aero").error();
    assert!(
        error.starts_with("error: no/such/folder.aero: cannot be written: its folder does not exist"),
        "{error}"
    );
    modelfmt_in(folder.path(), "convert trained.mag d.mag").error();
    assert_eq!(names(folder.path()), ["d.mag", "simple_model.oinf", "trained.mag"]);
}

/// A limit on file sizes simulates a full disk: the write fails half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = folder_with_models();
    let script = format!("ulimit -f 4; exec {} convert simple_model.oinf m.aero", program());
    let output = command("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: ") && stderr.contains("m.aero"), "{stderr}");
    // The error is not about the folder, which is removed again.
    let script = format!("ulimit -f 4; exec {} extract simple_model.oinf a kernel -o out/", program());
    let output = command("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("cannot be written: File too large"), "{stderr}");
    assert_eq!(names(folder.path()), ["simple_model.oinf", "trained.mag"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_takes_nothing_is_an_error_of_every_command() {
    let folder = folder_with_models();
    for args in [
        "--help",
        "--version",
        "completions bash",
        "man",
        "inspect trained.mag",
        "inspect trained.mag --json",
        "show trained.mag",
        "verify trained.mag",
        "verify -r . --json",
        "diff trained.mag trained.mag",
        "extract trained.mag cube -o -",
        "convert trained.mag - --to aero",
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command(program());
        let output = command.args(args.split(' ')).current_dir(folder.path()).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}: {stderr}");
        assert!(stderr.contains("cannot write to standard output: "), "{args}: {stderr}");
    }
}

/// Few files, few threads and little memory must not cause a panic. `ulimit -u` has no effect on root, so a
/// memory limit also prevents threads.
#[cfg(target_os = "linux")]
#[test]
fn a_process_with_little_of_everything_says_so() {
    let folder = folder_with_models();
    // The program itself has to fit.
    let program_kib = fs::metadata(program()).unwrap().len() / 1024;
    let [some, little] = [30_000, 5_000].map(|kib| format!("-v {}", program_kib + kib));
    for limit in ["-n 4", "-n 8", &some, &little, "-u 1"] {
        for args in [
            "inspect trained.mag --hash",
            "show simple_model.oinf",
            "verify -r .",
            "diff trained.mag simple_model.oinf",
            "convert simple_model.oinf m.apr --force --lossy --compress lz4 --widen",
        ] {
            let script = format!("ulimit {limit}; exec {} {args}", program());
            let output = command("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{limit}: {args}: {stderr}");
            assert!(!stderr.contains("panic"), "{limit}: {args}: {stderr}");
        }
    }
}

#[test]
fn whoever_stops_reading_ends_the_program_quietly() {
    let path = testdata("reference/simple_model.oinf");
    let mut child = command(program())
        .args(["show".as_ref(), path.as_os_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = folder_with_models();
    for args in [
        "",
        "frobnicate",
        "inspect",
        "verify trained.mag --level deep",
        "convert trained.mag out.xyz",
        "convert trained.mag out.aero --shard-size 0",
        "convert trained.mag out.aero --uuid 12",
        "extract trained.mag cube -o cube.txt",
        "inspect trained.mag --tensors [",
        "show trained.mag fc[",
        "convert trained.mag out.aero --shard-size 2GX",
        "convert trained.mag out.aero --shard-size 0kb",
        "convert trained.mag out.aero --page-hashes=99999999999GiB",
    ] {
        let run = modelfmt_in(folder.path(), args);
        assert_eq!(run.status, 2, "{args}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_pattern_that_nothing_can_match_against_is_wrong_usage() {
    let folder = folder_with_models();
    let nested = format!("{}a{}", "{".repeat(300), "}".repeat(300));
    let long = "?".repeat(100_000);
    for bomb in [&nested, &long] {
        for args in [
            format!("inspect trained.mag --tensors {bomb}"),
            format!("convert trained.mag out.aero --include {bomb}"),
            format!("convert trained.mag out.aero --exclude {bomb}"),
            format!("show trained.mag {bomb}"),
        ] {
            let run = modelfmt_in(folder.path(), &args);
            assert_eq!(run.status, 2, "{}", run.stderr);
            assert!(run.stderr.starts_with("error: ") && run.stderr.len() < 500, "{}", run.stderr);
        }
    }
}

#[test]
fn a_selection_that_is_empty_is_an_error() {
    let folder = folder_with_models();
    for (args, option) in [
        ("inspect trained.mag --tensors w*", "--tensors \"w*\""),
        ("show trained.mag fc1.bias w*", "\"w*\""),
        ("convert trained.mag out.aero --include w*", "--include"),
        ("convert trained.mag out.aero --exclude *", "--exclude"),
    ] {
        let run = modelfmt_in(folder.path(), args);
        assert_eq!(run.stdout, "", "{args}");
        let why = format!(
            "error: trained.mag: after {option}, none of its 6 tensors is left; `modelfmt inspect` lists their names"
        );
        assert_eq!(run.error(), why);
    }
    let shown = modelfmt_in(folder.path(), "show trained.mag fc1.bias fc1.* steps").ok();
    let begins = |name: &str| shown.lines().position(|line| line.starts_with(name)).unwrap();
    assert!(begins("fc1.bias: ") < begins("fc1.weight: ") && begins("fc1.weight: ") < begins("steps: "));
    assert_eq!(shown.matches("fc1.bias: ").count(), 1);
}

#[test]
fn an_error_of_a_command_that_prints_json_is_an_object_with_a_code() {
    let folder = folder_with_models();
    fs::write(folder.path().join("text.mag"), "just some text").unwrap();
    fs::write(folder.path().join("cut.mag"), "MAG!\u{1}").unwrap();
    fs::write(folder.path().join("\u{202e}.mag"), "x").unwrap();
    for (args, status, code, text) in [
        ("inspect missing.mag --json", 1, "cannot-open", "missing.mag: cannot be opened: No such file"),
        ("inspect text.mag --json", 1, "unknown-format", "not a model file"),
        ("inspect cut.mag --json", 1, "broken-file", "cut.mag: "),
        ("inspect . --json", 1, "no-model", "it is a folder with"),
        ("inspect trained.mag --tensors w* --json", 1, "nothing-selected", "after --tensors \"w*\", none"),
        ("inspect trained.mag --tensors [ --json", 2, "usage", "--tensors"),
        ("diff trained.mag missing.mag --json", 1, "cannot-open", "missing.mag"),
        ("diff trained.mag \u{202e}.mag --json", 1, "unknown-format", "\u{202e}.mag"),
        ("verify -r . --json --level none", 2, "", ""),
    ] {
        let run = modelfmt_in(folder.path(), args);
        assert_eq!((run.status, &*run.stdout), (status, ""), "{args}: {}", run.stderr);
        if code.is_empty() {
            assert!(run.stderr.starts_with("error: "), "what no command was found in is text");
            continue;
        }
        assert_eq!(run.stderr.lines().count(), 1, "{args}: {}", run.stderr);
        assert!(!run.stderr.contains('\u{202e}'), "{}", run.stderr);
        let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        assert_eq!(error["code"], code, "{args}");
        assert!(error["error"].as_str().unwrap().contains(text), "{args}: {error}");
        assert!(error["caused_by"].is_array());
    }
    let run = modelfmt_in(folder.path(), "inspect text.mag");
    assert!(run.stderr.starts_with("error: text.mag: "), "text without --json: {}", run.stderr);
}

#[test]
fn names_from_a_file_do_not_reach_the_terminal_raw() {
    let folder = tempfile::tempdir().unwrap();
    let header = "{\"\\u001b[31mred\\u202e\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"__metadata__\":{\"k\":\"\\u001b]0;t\\u0007\"}}";
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.push(7);
    let path = folder.path().join("m.safetensors");
    fs::write(&path, bytes).unwrap();
    for verb in ["inspect", "show", "verify"] {
        let run = modelfmt([verb.as_ref(), path.as_os_str()]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert!(!run.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{verb}: {:?}", run.stdout);
    }
    let error = modelfmt_in(folder.path(), "show m.safetensors \u{1b}31mred").error();
    assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error:?}");
}

#[test]
fn paths_do_not_reach_the_terminal_raw_and_errors_stay_in_one_line() {
    let run = modelfmt(["inspect", "no\u{1b}[31m\nsuch"]);
    assert_eq!((run.status, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.starts_with("error: no\\u{1b}[31m\\nsuch: "), "{:?}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{:?}", run.stderr);
}

#[test]
fn what_exists_names_the_option_that_replaces_it() {
    let folder = folder_with_models();
    fs::write(folder.path().join("w.npy"), "mine").unwrap();
    let error = modelfmt_in(folder.path(), "extract trained.mag fc1.weight -o w.npy").error();
    assert_eq!(error, "error: w.npy: exists already; --force replaces it");
    let error = modelfmt_in(folder.path(), "convert trained.mag simple_model.oinf").error();
    assert_eq!(error, "error: simple_model.oinf: exists already; --force replaces it");
}

/// A socket stands for a device, because a failing test would remove a device for the whole machine.
#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_not_replaced_even_with_force() {
    use std::os::unix::fs::FileTypeExt;
    let folder = folder_with_models();
    let socket = folder.path().join("socket.mag");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(&socket, folder.path().join("link.mag")).unwrap();
    for target in ["socket.mag", "link.mag"] {
        let error = modelfmt_in(folder.path(), &format!("convert trained.mag {target} --force")).error();
        assert!(error.contains(target) && error.contains("not a regular file"), "{error}");
    }
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    assert!(fs::symlink_metadata(folder.path().join("link.mag")).unwrap().is_symlink());
}

/// The answer of `verify` and `diff` is their exit status, even if the reader has closed the output.
#[cfg(unix)]
#[test]
fn the_status_of_a_check_survives_a_reader_that_stops() {
    let folder = folder_with_models();
    modelfmt_in(folder.path(), "convert trained.mag halves.mag --cast f16").ok();
    for args in [["verify", "missing.mag", "trained.mag"], ["diff", "trained.mag", "halves.mag"]] {
        let output = with_closed_output(folder.path(), &args);
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), &b""[..]), "{args:?}");
    }
}

#[test]
fn splitting_a_model_is_no_difference() {
    let folder = folder_with_models();
    modelfmt_in(folder.path(), "convert trained.mag one.safetensors --lossy").ok();
    modelfmt_in(folder.path(), "convert one.safetensors m.safetensors.index.json --shard-size 100").ok();
    modelfmt_in(folder.path(), "diff one.safetensors m.safetensors.index.json").ok();
    modelfmt_in(folder.path(), "diff m.safetensors.index.json one.safetensors").ok();
}
