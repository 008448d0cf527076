//! Checks the output of each command, errors included, against the transcripts in `tests/cmd`, which
//! [trycmd](https://docs.rs/trycmd) runs.
//!
//! The commands of a transcript run one after the other in their own folder with the files below.
//! `TRYCMD=overwrite cargo test -p modelfmt-cli --test it cmd` records them again. `[..]` stands for any text
//! within a line and `...` for any lines. Write these where runs differ: for times, new keys and encrypted
//! data.
#![cfg(unix)] // errors of the system read otherwise on Windows
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::testdata;

/// The files for the commands, and their names in the folder.
const FILES: [(&str, &str); 20] = [
    ("reference/trained.mag", "trained.mag"),
    ("reference/simple_model.oinf", "simple_model.oinf"),
    ("reference/one-shard.aero", "one-shard.aero"),
    ("reference/trained.mag", "models/trained.mag"),
    ("reference/gguf/split-00001-of-00003.gguf", "split-00001-of-00003.gguf"),
    ("reference/gguf/split-00002-of-00003.gguf", "split-00002-of-00003.gguf"),
    ("reference/gguf/split-00003-of-00003.gguf", "split-00003-of-00003.gguf"),
    ("keys/ed25519.pem", "ed25519.pem"),
    ("keys/ed25519.pub", "ed25519.pub"),
    ("keys/x25519.pem", "x25519.pem"),
    ("keys/x25519.pub", "x25519.pub"),
    ("keys/x25519.peer.pub", "peer.pub"),
    ("safetensors/set.safetensors.index.json", "set.safetensors.index.json"),
    ("safetensors/set-00001-of-00005.safetensors", "set-00001-of-00005.safetensors"),
    ("safetensors/set-00002-of-00005.safetensors", "set-00002-of-00005.safetensors"),
    ("safetensors/set-00003-of-00005.safetensors", "set-00003-of-00005.safetensors"),
    ("safetensors/set-00004-of-00005.safetensors", "set-00004-of-00005.safetensors"),
    ("safetensors/set-00005-of-00005.safetensors", "set-00005-of-00005.safetensors"),
    ("safetensors/set-00001-of-00005.safetensors", "parts/set-00001-of-00005.safetensors"),
    ("safetensors/set-00002-of-00005.safetensors", "parts/set-00002-of-00005.safetensors"),
];

/// Fills a folder with them, and with files that are damaged or not models.
fn fill(folder: &Path) {
    for (from, to) in FILES {
        let to = folder.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(testdata(from), to).unwrap();
    }
    let mut damaged = fs::read(testdata("reference/one-shard.aero")).unwrap();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    fs::write(folder.join("damaged.aero"), &damaged).unwrap();
    fs::create_dir(folder.join("cut")).unwrap();
    fs::write(folder.join("cut/m.aero"), &damaged[..1500]).unwrap();
    fs::write(folder.join("notes.txt"), "no model\n").unwrap();
    fs::write(folder.join("weights.pt"), b"\x80\x02}q\x00.").unwrap();
}

/// Returns the transcripts, sorted by name.
fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn transcripts_are_true() {
    let work = tempfile::tempdir().unwrap();
    for path in transcripts() {
        let copy = work.path().join(path.file_name().unwrap());
        fs::copy(&path, &copy).unwrap();
        fill(&copy.with_extension("in"));
        // trycmd lets a command write only if there is such a folder.
        fs::create_dir(copy.with_extension("out")).unwrap();
    }
    let cases = trycmd::TestCases::new();
    cases.register_bin("modelfmt", Path::new(crate::common::program()));
    // Like a terminal of unknown width, whatever the terminal of these tests is.
    cases.case(work.path().join("*.trycmd")).env("NO_COLOR", "1").env("COLUMNS", "");
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cases.run()));
    if std::env::var("TRYCMD").as_deref() == Ok("overwrite") {
        for path in transcripts() {
            fs::copy(work.path().join(path.file_name().unwrap()), path).unwrap();
        }
    }
    if let Err(failed) = run {
        std::panic::resume_unwind(failed);
    }
}

/// trycmd replaces every `\` by `/`, for the paths of Windows, so `\"` would be recorded wrongly.
#[test]
fn transcripts_have_no_escaped_quotes() {
    for path in transcripts() {
        assert!(!fs::read_to_string(&path).unwrap().contains("/\""), "{}", path.display());
    }
}

/// A new command needs a transcript.
#[test]
fn every_command_has_a_transcript() {
    let help = crate::common::modelfmt(["--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    let all: String = transcripts().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for command in commands.filter(|command| *command != "help") {
        assert!(all.contains(&format!("\n$ modelfmt {command} ")), "no transcript runs {command}");
    }
}
