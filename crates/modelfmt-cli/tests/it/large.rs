//! Models larger than the memory that converting them may take, and conversions that are interrupted. The
//! models are sparse files, which take no space on the disk.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{command, program};

const GIB: u64 = 1 << 30;

/// Writes a safetensors file of `tensors` tensors of 256 MiB each, all zeros.
fn sparse_model(path: &Path, tensors: u64) {
    let size = GIB / 4;
    let entry = |i: u64| {
        let (begin, end) = (i * size, (i + 1) * size);
        format!("\"t{i}\":{{\"dtype\":\"F32\",\"shape\":[8192,8192],\"data_offsets\":[{begin},{end}]}}")
    };
    let header = format!("{{{}}}", (0..tensors).map(entry).collect::<Vec<_>>().join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    fs::write(path, &bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes.len() as u64 + tensors * size).unwrap();
}

fn start(folder: &Path, args: &str) -> Child {
    let mut command = command(program());
    command.current_dir(folder).args(args.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
    testkit::signals::hears_signals(&mut command).spawn().unwrap()
}

/// Waits for the process and returns the most memory that it held, in KiB.
fn peak_memory(child: Child) -> u64 {
    peaks(child).0
}

/// Waits for the process and returns the most memory that it held, in KiB, with and without the pages of
/// files. These include the program's own pages, which are many in a build without optimization. The system
/// keeps the first peak, so polling misses it only at the very end.
fn peaks(mut child: Child) -> (u64, u64) {
    let status = format!("/proc/{}/status", child.id());
    let (mut peak, mut without_files) = (0, 0);
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        peak = field("VmHWM:").unwrap_or(peak);
        without_files = without_files.max(field("RssAnon:").unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return (peak, without_files);
        }
        sleep(Duration::from_millis(5));
    }
}

/// Half a million metadata keys in a file of 5 MB: no command takes more than a few times the file's size.
#[test]
fn many_keys_take_a_bounded_multiple_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..500_000).map(|n| format!("\"{n:x}\":\"\"")).collect();
    let header = format!("{{\"__metadata__\":{{{}}}}}", keys.join(","));
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    fs::write(folder.path().join("m.safetensors"), &file).unwrap();
    let bound = |times: u64| (32 << 10) + times * file.len() as u64 / 1024;
    for (args, times) in [
        ("inspect m.safetensors", 12),
        ("inspect m.safetensors --json", 12),
        ("convert m.safetensors m.mag --lossy", 40),
        ("convert m.safetensors m.oinf --lossy", 40),
    ] {
        let mut child = start(folder.path(), args);
        // The process may print more than a pipe can hold.
        let mut said = child.stderr.take().unwrap();
        let reading = std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let peak = peak_memory(child);
        reading.join().unwrap().unwrap();
        println!("{args}: {peak} KiB for {}", file.len());
        assert!(peak > 0 && peak <= bound(times), "{args}: {peak} KiB for {} bytes", file.len());
    }
}

#[test]
fn memory_does_not_grow_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    sparse_model(&folder.path().join("large.safetensors"), 12);
    sparse_model(&folder.path().join("small.safetensors"), 2);
    for args in [
        "convert large.safetensors large.apr --compress lz4",
        "verify large.apr",
        "convert large.safetensors q.apr --quantize q4_0 --compress lz4 --include t0",
        "convert small.safetensors small.mag",
        "extract small.safetensors t0 -o t0.npy --cast f16",
        "convert small.safetensors small.aero --tensor-hashes --page-hashes --control-hash --force",
        "verify small.aero",
    ] {
        let (peak, without_files) = peaks(start(folder.path(), args));
        println!("{args}: {peak} KiB, {without_files} KiB without files");
        assert!(without_files > 0 && without_files <= 16 << 10, "{args}: {without_files} KiB without files");
        assert!(peak <= 48 << 10, "{args}: {peak} KiB");
    }
}

/// Writes a GGUF file without tensors, with one key: a list of `len` bytes.
fn file_with_a_list(path: &Path, len: u64) {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    [0u64, 1, 1].iter().for_each(|n| bytes.extend(n.to_le_bytes())); // no tensors, one key, of one byte
    bytes.push(b'k');
    bytes.extend([9u32, 0].iter().flat_map(|n| n.to_le_bytes())); // an array of u8
    bytes.extend(len.to_le_bytes());
    bytes.resize(bytes.len() + usize::try_from(len).unwrap(), 200);
    fs::write(path, bytes).unwrap();
}

/// Only the beginning of a long list in the metadata is shown; its whole text would be many times as long.
#[test]
fn a_long_list_is_shown_in_no_more_memory_than_it_takes() {
    const LEN: u64 = 20 << 20;
    let folder = tempfile::tempdir().unwrap();
    file_with_a_list(&folder.path().join("half.gguf"), LEN / 2);
    file_with_a_list(&folder.path().join("list.gguf"), LEN);
    for command in ["inspect", "show"] {
        // The memory of the program itself, which is large in a debug build, is in both and cancels out.
        let half = peak_memory(start(folder.path(), &format!("{command} half.gguf")));
        let peak = peak_memory(start(folder.path(), &format!("{command} list.gguf")));
        // The list as in the file, and as a tree, in which a byte takes up to two.
        let grown = peak.saturating_sub(half);
        assert!(
            half > LEN >> 10 && grown <= 3 * (LEN >> 11) + (4 << 10),
            "{command}: {half}, then {peak} KiB"
        );
    }
}

#[test]
fn an_interrupted_conversion_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    sparse_model(&folder.path().join("large.safetensors"), 12);
    let mut child = start(folder.path(), "convert large.safetensors out.mag");
    let is_begun = || {
        fs::read_dir(folder.path())
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".partial"))
    };
    while !is_begun() {
        sleep(Duration::from_millis(1));
    }
    testkit::signals::send(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130), "it stops by itself, after cleaning up");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["large.safetensors"]);
}
