//! Commands that are killed (SIGKILL) at any moment: there is the old model or the new one, and the same
//! command then ends as if nothing had happened. `cargo xtask kills` does it thousands of times.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{command, modelfmt_in, program, run};

/// The variable with the number of kills of each test, and the number without it.
const VARIABLE: &str = "MODELFMT_KILLS";
const KILLS: u32 = 8;

/// What a folder holds, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// A command that changes a model or makes one, and is killed.
struct Case<'a> {
    /// What the folder holds before.
    before: Files,
    args: &'a str,
    /// The file that is the model, or the index of a set.
    model: &'a str,
    /// The options that `verify` needs.
    verified_with: &'a str,
    /// Whether each run makes other bytes, such as encrypted ones.
    is_random: bool,
    /// Whether the command may run again when its work is done.
    again: bool,
}

fn kills() -> u32 {
    std::env::var(VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap())
}

fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// A safetensors file of a few tensors, with this metadata.
fn safetensors(metadata: &str, fill: u8) -> Vec<u8> {
    const NBYTES: usize = 200_000;
    let tensors: Vec<String> = (0..6)
        .map(|at| {
            let (begin, end) = (at * NBYTES, (at + 1) * NBYTES);
            format!(r#""t{at}":{{"dtype":"U8","shape":[{NBYTES}],"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    let header = format!(r#"{{"__metadata__":{{"k":"{metadata}"}},{}}}"#, tensors.join(","));
    let values = vec![fill; 6 * NBYTES];
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat()
}

impl Case<'_> {
    fn command(&self, folder: &Path) -> Command {
        let mut command = command(program());
        command.current_dir(folder).args(self.args.split_whitespace()).arg("--quiet");
        command
    }

    fn folder(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &self.before {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    /// Kills the command at moments that are spread over its whole run. A run that ends before does not count.
    fn check(&self) {
        let whole = self.folder();
        let begin = Instant::now();
        run(&mut self.command(whole.path())).ok();
        let mut micros = u64::try_from(begin.elapsed().as_micros()).unwrap();
        let after = files(whole.path());
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut killed = 0;
        while killed < kills() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let moment = Duration::from_micros((random >> 33) % micros);
            let folder = self.folder();
            let mut child = self.command(folder.path()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(moment); // nothing is waited for: any moment has to do
            child.kill().unwrap();
            let was_late = child.wait().unwrap().success();
            // On a machine that is less busy than at first, the command ends sooner.
            micros = if was_late { (micros - micros / 16).max(1_000) } else { micros + 100 };
            killed += u32::from(!was_late);
            self.check_killed(folder.path(), &after, moment);
        }
    }

    fn check_killed(&self, folder: &Path, after: &Files, moment: Duration) {
        let what = format!("{} killed after {moment:?}", self.args);
        // The next edit undoes or completes an edit that was killed.
        if files(folder).keys().any(|name| name.ends_with(".modelfmt-undo")) {
            modelfmt_in(folder, &format!("edit {}", self.model)).ok();
        }
        let mut found = files(folder);
        found.retain(|name, _| !name.starts_with('.'));
        let stays = |name: &&String| self.before.contains_key(*name);
        assert!(
            after.keys().filter(stays).all(|name| found.contains_key(name)),
            "{what}: {:?}",
            found.keys()
        );
        if found.contains_key(self.model) && !self.is_random {
            assert!(found == self.before || found == *after, "{what}: neither the old state nor the new one");
        }
        for (name, bytes) in found {
            let is_whole = [&self.before, after].iter().any(|state| state.get(&name) == Some(&bytes));
            assert!(is_whole || (self.is_random && name == self.model), "{what}: {name}");
        }
        let verify = || modelfmt_in(folder, &format!("verify {} {}", self.model, self.verified_with));
        if folder.join(self.model).exists() {
            verify().ok();
        }
        let is_done = files(folder).get(self.model) == after.get(self.model);
        if self.again || !is_done {
            run(&mut self.command(folder)).ok();
            verify().ok();
        }
        let mut found = files(folder);
        if is_done && !self.again {
            // The next command that writes into the folder removes what was left.
            found.retain(|name, _| !name.starts_with('.'));
        }
        assert!(found.keys().eq(after.keys()), "{what}: {:?}", found.keys());
        for (name, bytes) in found {
            assert!(after[&name] == bytes || (self.is_random && name == self.model), "{what}: {name}");
        }
    }
}

fn only<const N: usize>(files: [(&str, Vec<u8>); N]) -> Files {
    files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Returns a set of three files in safetensors.
fn set() -> Files {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("from"), safetensors("v", 1)).unwrap();
    modelfmt_in(folder.path(), "convert from m.safetensors.index.json --shards 3").ok();
    fs::remove_file(folder.path().join("from")).unwrap();
    files(folder.path())
}

fn deterministic<'a>(before: Files, args: &'a str, model: &'a str) -> Case<'a> {
    Case { before, args, model, verified_with: "", is_random: false, again: true }
}

#[test]
fn an_edit_in_place() {
    // A header of many pages, so a journal is needed.
    let before = only([
        ("m.safetensors", safetensors(&"x".repeat(300_000), 1)),
        ("keys.json", format!(r#"{{"k":"{}"}}"#, "y".repeat(299_000)).into_bytes()),
    ]);
    deterministic(before, "edit m.safetensors --metadata keys.json", "m.safetensors").check();
}

#[test]
fn an_edit_that_moves_the_values() {
    let before = only([
        ("m.safetensors", safetensors("x", 1)),
        ("keys.json", format!(r#"{{"k":"{}"}}"#, "y".repeat(9_000)).into_bytes()),
    ]);
    deterministic(before, "edit m.safetensors --metadata keys.json", "m.safetensors").check();
}

#[test]
fn an_edit_of_several_files() {
    let model = "m.safetensors.index.json";
    let case = deterministic(set(), "edit m.safetensors.index.json --rename t*=u*", model);
    Case { again: false, ..case }.check();
}

#[test]
fn a_conversion_that_replaces_a_file() {
    let [old, new] = [safetensors("old", 1), safetensors("new", 2)].map(|bytes| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("m.safetensors"), bytes).unwrap();
        modelfmt_in(folder.path(), "convert m.safetensors m.apr --to apr2").ok();
        files(folder.path())
    });
    let before = only([("m.apr", old["m.apr"].clone()), ("m.safetensors", new["m.safetensors"].clone())]);
    deterministic(before, "convert m.safetensors m.apr --to apr2 --force", "m.apr").check();
}

#[test]
fn a_conversion_to_a_set() {
    let before = only([("from.safetensors", safetensors("new", 2))]);
    let args = "convert from.safetensors m.safetensors.index.json --shards 3 --force";
    deterministic(before, args, "m.safetensors.index.json").check();
}

#[test]
fn a_conversion_that_encrypts() {
    let before = only([("from.safetensors", safetensors("new", 2)), ("key", "17".repeat(32).into_bytes())]);
    Case {
        before,
        args: "convert from.safetensors m.apr --to apr2 --seal --key-file key --key-id k --force",
        model: "m.apr",
        verified_with: "--key-file key",
        is_random: true,
        again: true,
    }
    .check();
}

#[cfg(feature = "remote")]
#[test]
fn a_fetch() {
    let (served, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(served.path().join("m.safetensors"), safetensors("served", 3)).unwrap();
    let nginx = testkit::servers::Nginx::start(served.path(), work.path());
    let args = format!("fetch {}/m.safetensors m.safetensors", nginx.endpoint());
    Case { again: false, ..deterministic(Files::new(), &args, "m.safetensors") }.check();
}
