//! SIGINT and SIGTERM end every command soon, with the usual exit status of shells, and nothing is left
//! behind. The commands work on sparse files of 64 GiB, which take no space on the disk.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use testkit::signals::{self, SignalSet, hears_signals, ignores_signals, is_among};

use crate::common::{command, fill_header, modelfmt_in, program};

/// The signals, with the exit status of each.
const SIGNALS: [(&str, i32); 2] = [("INT", 130), ("TERM", 143)];

/// The processor time that a program may take to end, in hundredths of a second. The elapsed time would
/// depend on other processes.
const SOON: u64 = 100;

/// The numbers of signals.
const HUP: u32 = 1;
const INT: u32 = 2;
const TERM: u32 = 15;

fn safetensors(path: &Path, header: &str, values: u64) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    fs::write(path, &bytes).unwrap();
    lengthen(path, bytes.len() as u64 + values);
}

fn lengthen(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Writes one tensor of 8 GiB, for which most disks have room, all zeros.
fn large(path: &Path) {
    const LEN: u64 = 8 << 30;
    let header =
        format!("{{\"t\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,{LEN}]}}}}", LEN / 4);
    safetensors(path, &header, LEN);
}

/// Writes an OINF file of one tensor of 64 GiB of booleans, each of which `verify` reads. The program writes
/// a small one, whose lengths are then increased.
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

/// Writes a file with so many tensors that opening it takes a while.
fn many_tensors(path: &Path) {
    let entry =
        |n: u32| format!("\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[{n},{}]}}", n + 1);
    let entries: Vec<String> = (0..1_000_000).map(entry).collect();
    safetensors(path, &format!("{{{}}}", entries.join(",")), 1_000_000);
}

fn start(folder: &Path, args: &str) -> Child {
    start_as(folder, args, hears_signals)
}

fn start_as(folder: &Path, args: &str, signals: fn(&mut Command) -> &mut Command) -> Child {
    let mut command = command(program());
    command.current_dir(folder).args(args.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = signals(&mut command).spawn().unwrap();
    until(&mut child, args, |child| is_among(child, SignalSet::Heard, TERM));
    // Also waits until the program works: until it has taken longer than any start, or reads its input.
    if args.ends_with(" -") && args.starts_with("inspect") {
        fill_header(&mut child);
    } else {
        until(&mut child, args, |child| worked(child) >= 20);
    }
    child
}

/// Waits until a condition holds, as long as the program runs.
#[track_caller]
fn until(child: &mut Child, args: &str, is_so: impl Fn(&Child) -> bool) {
    while !is_so(child) {
        assert!(child.try_wait().unwrap().is_none(), "{args}");
        sleep(Duration::from_millis(1));
    }
}

/// Returns the processor time that a program has taken, in hundredths of a second. Also works after its end,
/// until it is waited for.
fn worked(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // After the name, which is in brackets, the state is the first field, and the times in user and system
    // mode are the 12th and 13th.
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Sends a signal. The program must end with the status, stop working, and say that nothing was written if it
/// was to write a file.
#[track_caller]
fn ends_soon(mut child: Child, (name, status): (&str, i32), args: &str) {
    let before = worked(&child);
    signals::send(&child, name);
    let _stays_open = child.stdin.take();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap(); // until it ends
    let took = worked(&child) - before;
    let said = if args.contains(" out.") { "interrupted; nothing was written\n" } else { "" };
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(status), said), "{args}");
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(took < SOON * cores, "{args}: {took} hundredths of a second on {cores} cores");
}

#[test]
fn every_command_ends_soon_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    large(&folder.path().join("same.safetensors"));
    large_booleans(folder.path());
    many_tensors(&folder.path().join("many.safetensors"));
    let before = names(folder.path());
    for signal in SIGNALS {
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
            ends_soon(child, signal, args);
            assert_eq!(names(folder.path()), before, "{args}");
        }
    }
}

#[test]
fn a_second_signal_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    let mut child = start(folder.path(), "convert large.safetensors out.mag");
    until(&mut child, "it writes", |_| names(folder.path()).len() == 2);
    signals::send(&child, "TERM");
    signals::send(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let status = output.status.code().unwrap();
    assert!(status == 130 || status == 143, "{status}");
    assert_eq!(names(folder.path()), ["large.safetensors"]);
}

/// Shells start background jobs like this, and so does `nohup`.
#[test]
fn a_signal_that_is_ignored_from_the_start_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    large(&folder.path().join("large.safetensors"));
    let args = "inspect large.safetensors --hash";
    let child = start_as(folder.path(), args, ignores_signals);
    for number in [HUP, INT] {
        assert!(is_among(&child, SignalSet::Ignored, number) && !is_among(&child, SignalSet::Heard, number));
    }
    signals::send(&child, "HUP");
    signals::send(&child, "INT");
    ends_soon(child, ("TERM", 143), args);
}
