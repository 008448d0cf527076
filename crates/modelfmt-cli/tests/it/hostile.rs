//! Malicious files and streams: nothing disturbs the terminal, and nothing panics.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
#[cfg(target_os = "linux")]
use std::process::Stdio;

use crate::common::modelfmt_in;
#[cfg(target_os = "linux")]
use crate::common::{command, program};

/// Returns a safetensors file in which each tensor has one byte.
fn safetensors(tensors: &[(String, String)], metadata: &[(String, String)]) -> Vec<u8> {
    let text = |text: &String| serde_json::to_string(text).unwrap();
    let mut entries: Vec<String> =
        metadata.iter().map(|(key, value)| format!("{}:{}", text(key), text(value))).collect();
    let metadata = format!("\"__metadata__\":{{{}}}", entries.join(","));
    entries = vec![metadata];
    for (number, (name, shape)) in tensors.iter().enumerate() {
        let offsets = format!("[{number},{}]", number + 1);
        let shape = format!("\"shape\":[{shape}]");
        entries.push(format!("{}:{{\"dtype\":\"U8\",{shape},\"data_offsets\":{offsets}}}", text(name)));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + tensors.len(), 0);
    file
}

#[test]
fn json_holds_every_character_and_shows_none_that_moves_the_cursor() {
    let evil: Vec<String> = [
        "\u{1b}[31m",
        "\u{7f}",
        "\u{9b}31m",
        "\u{90}dcs",
        "\u{202e}",
        "\u{200b}",
        "\n",
        "\u{2028}",
        "\u{3164}",
        "\u{fe0f}",
        "\u{e0100}",
        "\"\\",
        "\u{85}",
        "\u{2066}",
    ]
    .map(|text| format!("a{text}b"))
    .to_vec();
    let folder = tempfile::tempdir().unwrap();
    let tensors: Vec<_> = evil.iter().map(|name| (name.clone(), "1".to_owned())).collect();
    let metadata: Vec<_> = evil.iter().map(|key| (key.clone(), key.clone())).collect();
    fs::write(folder.path().join("evil.safetensors"), safetensors(&tensors, &metadata)).unwrap();
    fs::write(folder.path().join("empty.safetensors"), safetensors(&[], &[])).unwrap();

    let run = modelfmt_in(folder.path(), "inspect evil.safetensors --json");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let names: Vec<&str> =
        found["tensors"].as_array().unwrap().iter().map(|tensor| tensor["name"].as_str().unwrap()).collect();
    assert_eq!(names, evil);
    evil.iter().for_each(|key| assert_eq!(found["metadata"][key], **key));

    for args in [
        "inspect evil.safetensors --json",
        "inspect evil.safetensors",
        "show evil.safetensors",
        "diff evil.safetensors empty.safetensors --json",
        "diff evil.safetensors empty.safetensors",
        "convert evil.safetensors x.oinf",
    ] {
        let run = modelfmt_in(folder.path(), args);
        let text = run.stdout + &run.stderr;
        let raw: Vec<char> =
            text.chars().filter(|&c| c != '\n' && modelfmt::wording::Printable::is_escaped(c)).collect();
        assert!(raw.is_empty(), "{args}: {raw:?}");
    }
}

#[test]
fn a_shape_of_many_dimensions_does_not_make_every_row_as_wide() {
    let folder = tempfile::tempdir().unwrap();
    let wide = vec!["1"; 255].join(",");
    let tensors: Vec<_> =
        (0..100).map(|n| (format!("t{n}"), if n == 0 { wide.clone() } else { "1".to_owned() })).collect();
    fs::write(folder.path().join("m.safetensors"), safetensors(&tensors, &[])).unwrap();
    let text = modelfmt_in(folder.path(), "inspect m.safetensors").stdout;
    assert!(text.len() < 100 * 300, "{}", text.len());
}

/// `/dev/full` accepts no output, and neither does a pipe whose reader has closed it.
#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_takes_nothing_changes_neither_work_nor_status() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = [("a".to_owned(), "1".to_owned())];
    fs::write(folder.path().join("m.safetensors"), safetensors(&tensors, &[])).unwrap();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for (args, status) in [
        ("convert m.safetensors m.aero", 0), // has notes
        ("convert m.safetensors m.aero", 1), // exists
        ("inspect missing", 1),
        ("convert m.safetensors m.unknown", 2),
    ] {
        let mut command = command(program());
        let done = command.args(args.split(' ')).current_dir(folder.path()).stderr(full()).status().unwrap();
        assert_eq!(done.code(), Some(status), "{args}");
    }
    assert_eq!(modelfmt_in(folder.path(), "verify m.aero").status, 0);
}

#[cfg(unix)]
#[test]
fn metadata_without_an_end_is_not_read_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.safetensors"), safetensors(&[("w".to_owned(), "1".to_owned())], &[]))
        .unwrap();
    let long = fs::File::create(folder.path().join("long.json")).unwrap();
    long.set_len(1 << 40).unwrap(); // it has no blocks
    for path in ["long.json", "/dev/zero"] {
        let run = modelfmt_in(folder.path(), &format!("convert m.safetensors m.aero --metadata {path}"));
        assert_eq!(run.status, 1, "{}", run.stderr);
        assert!(run.stderr.contains("it is longer than 256 MiB"), "{}", run.stderr);
        assert!(!folder.path().join("m.aero").exists());
    }
}
