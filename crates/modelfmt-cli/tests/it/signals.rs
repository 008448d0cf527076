//! SIGINT and SIGTERM end every command soon, with the exit status that shells know, and leave nothing behind. What the
//! commands work on are sparse files of 64 GiB, which take no room on the disk.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{modelfmt_in, program};

/// The signals, with the exit status of each.
const SIGNALS: [(&str, i32); 2] = [("INT", 130), ("TERM", 143)];

/// A second is promised; the machine that runs this may have other things to do.
const SOON: Duration = Duration::from_secs(10);

fn safetensors(path: &Path, header: &str, values: u64) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    fs::write(path, &bytes).unwrap();
    lengthen(path, bytes.len() as u64 + values);
}

fn lengthen(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// One tensor of 64 GiB, all zeros.
fn large(path: &Path) {
    const LEN: u64 = 64 << 30;
    let header =
        format!("{{\"t\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,{LEN}]}}}}", LEN / 4);
    safetensors(path, &header, LEN);
}

/// An OINF file of one tensor of 64 GiB of booleans, each of which `verify` looks at. The program writes a small one,
/// whose lengths are then made larger.
fn large_booleans(folder: &Path) {
    const SMALL: u64 = 1_000_003;
    const MORE: u64 = 64 << 30;
    let header = format!("{{\"t\":{{\"dtype\":\"BOOL\",\"shape\":[{SMALL}],\"data_offsets\":[0,{SMALL}]}}}}");
    safetensors(&folder.join("small.safetensors"), &header, SMALL);
    modelfmt_in(folder, "convert small.safetensors large.oinf").ok();
    fs::remove_file(folder.join("small.safetensors")).unwrap();
    let path = folder.join("large.oinf");
    let mut bytes = fs::read(&path).unwrap();
    let len = bytes.len() as u64;
    for number in [SMALL, SMALL, len] {
        let place = bytes.windows(8).position(|window| window == number.to_le_bytes()).unwrap();
        bytes[place..place + 8].copy_from_slice(&(number + MORE).to_le_bytes());
    }
    bytes.truncate(4096);
    fs::write(&path, bytes).unwrap();
    lengthen(&path, len + MORE);
}

/// A file with so many tensors that opening it takes a while.
fn many_tensors(path: &Path) {
    let entry =
        |n: u32| format!("\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[{n},{}]}}", n + 1);
    let entries: Vec<String> = (0..1_000_000).map(entry).collect();
    safetensors(path, &format!("{{{}}}", entries.join(",")), 1_000_000);
}

fn start(folder: &Path, args: &str) -> Child {
    let mut command = Command::new(program());
    command.current_dir(folder).args(args.split_whitespace());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // Until it hears signals, and then until it works.
    let hears = |text: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << 14) != 0)
    };
    while !hears(&fs::read_to_string(&status).unwrap()) {
        assert!(child.try_wait().unwrap().is_none(), "{args}");
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_millis(200));
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn ends_soon(mut child: Child, status: i32, args: &str) {
    let begun = Instant::now();
    let _stays_open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < SOON, "{args}: {:?}", begun.elapsed());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.as_str()), (Some(status), ""), "{args}");
}

#[test]
fn every_command_ends_soon_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    large(&folder.path().join("same.safetensors"));
    large_booleans(folder.path());
    many_tensors(&folder.path().join("many.safetensors"));
    let before = names(folder.path());
    for (name, status) in SIGNALS {
        for args in [
            "inspect large.safetensors --hash",
            "inspect many.safetensors --json",
            "show large.safetensors",
            "verify large.oinf",
            "verify many.safetensors large.oinf",
            "diff large.safetensors same.safetensors",
            "extract large.safetensors t -o t.npy",
            "inspect -",
            "extract large.safetensors t -o -",
            "convert large.safetensors - --to mag",
            "convert large.safetensors out.mag",
            "convert large.safetensors out.apr --compress lz4",
            "convert large.safetensors out.aero --tensor-hashes",
            "convert large.safetensors out.aeroset.json",
            "convert large.safetensors out.safetensors.index.json --shard-size 1GiB",
        ] {
            let child = start(folder.path(), args);
            signal(&child, name);
            ends_soon(child, status, args);
            assert_eq!(names(folder.path()), before, "{args}");
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    let child = start(folder.path(), "convert large.safetensors out.mag");
    assert_eq!(names(folder.path()).len(), 2, "it writes");
    signal(&child, "TERM");
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let status = output.status.code().unwrap();
    assert!(status == 130 || status == 143, "{status}");
    assert_eq!(names(folder.path()), ["large.safetensors"]);
}

/// As a shell starts what runs in its background, and `nohup` everything.
#[test]
fn a_signal_that_is_ignored_from_the_start_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    let script = format!("trap '' INT HUP; exec {} inspect large.safetensors --hash", program());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    sleep(Duration::from_millis(500));
    signal(&child, "INT");
    signal(&child, "HUP");
    sleep(Duration::from_millis(1000));
    assert!(child.try_wait().unwrap().is_none());
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
