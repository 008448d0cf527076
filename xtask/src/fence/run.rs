//! Runs cases, and removes from their output what differs from run to run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::cases::{Case, Step};
use super::secrets::Secrets;
use crate::run::Result;
use crate::workspace;

/// What a case did.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) steps: Vec<Said>,
    /// The files that are new or changed, with their bytes, and those that are gone (`None`).
    pub(super) files: BTreeMap<String, Option<Vec<u8>>>,
}

/// What one run printed.
#[derive(Debug)]
pub(super) struct Said {
    /// The exit status, or the signal that ended the program.
    pub(super) exit: String,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// The program and the folders for running cases.
pub(super) struct Runner {
    pub(super) program: PathBuf,
    pub(super) testdata: PathBuf,
    /// A folder of our own, which is removed at the end.
    pub(super) scratch: PathBuf,
    pub(super) secrets: Secrets,
}

impl Runner {
    /// Runs all cases, on as many threads as there are cores. Returns what `each` returns, in the order of
    /// `cases`.
    pub(super) fn all<T: Send>(
        &self,
        cases: &[Case],
        each: impl Fn(&Case, &Outcome) -> T + Sync,
    ) -> Result<Vec<T>> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let work = || -> std::result::Result<(), String> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(number) else { return Ok(()) };
                let outcome = self.run(case, number).map_err(|error| format!("{}: {error}", case.name))?;
                let result = each(case, &outcome);
                done.lock().map_err(|_| "a thread has panicked")?.insert(number, result);
            }
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let joined = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a thread has panicked".into())));
            joined.collect::<std::result::Result<Vec<_>, _>>()
        })?;
        Ok(done.into_inner().map_err(|_| "a thread has panicked")?.into_values().collect())
    }

    /// Runs one case, in a folder named by `number`.
    fn run(&self, case: &Case, number: usize) -> Result<Outcome> {
        let outer = self.scratch.join(number.to_string());
        let (folder, temporary) = (outer.join("case"), outer.join("tmp"));
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(&temporary)?;
        let before = self.place(case, &folder)?;
        let mut steps = Vec::new();
        for step in &case.steps {
            steps.push(self.step(step, &folder, &temporary)?);
        }
        let mut files = after(&folder, &before)?;
        // Files left in the folder for temporary files are recorded too. There should be none.
        files.extend(
            after(&temporary, &BTreeMap::new())?
                .into_iter()
                .map(|(name, bytes)| (format!("tmp/{name}"), bytes)),
        );
        fs::remove_dir_all(&outer)?;
        Ok(Outcome { steps, files })
    }

    /// Writes the files of a case into its folder, and returns their contents.
    pub(super) fn place(&self, case: &Case, folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut placed = BTreeMap::new();
        for (number, input) in case.files.iter().enumerate() {
            let mut bytes = match self.secrets.get(&input.origin) {
                Some(secret) => secret.to_vec(),
                None => fs::read(self.testdata.join(&input.origin))?,
            };
            if let Some(damage) = case.damage.filter(|_| number == 0) {
                damage.apply(&mut bytes);
            }
            let path = folder.join(&input.path);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(&path, &bytes)?;
            placed.insert(input.path.clone(), bytes);
        }
        Ok(placed)
    }

    fn step(&self, step: &Step, folder: &Path, temporary: &Path) -> Result<Said> {
        let mut command = Command::new(&self.program);
        command.args(&step.args).current_dir(folder).env_clear();
        command.envs([("COLUMNS", "100"), ("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("TZ", "UTC")]);
        command.env("HOME", temporary).env("TMPDIR", temporary);
        command.stdin(match &step.stdin {
            Some(file) => fs::File::open(folder.join(file))?.into(),
            None => Stdio::null(),
        });
        let output =
            command.output().map_err(|error| format!("cannot run {}: {error}", self.program.display()))?;
        let exit = match output.status.code() {
            Some(code) => code.to_string(),
            None => output.status.to_string().replace(' ', "-"),
        };
        Ok(Said { exit, stdout: settled(output.stdout, folder), stderr: settled(output.stderr, folder) })
    }
}

/// Returns the files of a folder that are not as they were: new, changed, or gone (`None`).
fn after(folder: &Path, before: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Option<Vec<u8>>>> {
    let mut changed = BTreeMap::new();
    let found = workspace::files(folder)?;
    for name in &found {
        let bytes = fs::read(folder.join(name))?;
        if before.get(name) != Some(&bytes) {
            changed.insert(without_random(name), Some(bytes));
        }
    }
    changed.extend(before.keys().filter(|name| !found.contains(*name)).map(|name| (name.clone(), None)));
    Ok(changed)
}

/// Replaces the folder, times, and random parts of names in a text. Bytes that are not UTF-8 stay as they
/// are.
fn settled(bytes: Vec<u8>, folder: &Path) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => {
            let text = text.replace(&folder.display().to_string(), "DIR");
            without_random(&without_times(&text)).into_bytes()
        }
        Err(error) => error.into_bytes(),
    }
}

/// Replaces `… in 0.03 s`, as at the end of the line that says what was written, by `… in N s`, and the same
/// for `"seconds":0.03`.
fn without_times(text: &str) -> String {
    const BEFORE: [&str; 2] = [" in ", "\"seconds\":"];
    let mut settled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, before)) = BEFORE.iter().filter_map(|b| Some((rest.find(b)?, *b))).min() {
        let (head, tail) = rest.split_at(at + before.len());
        settled.push_str(head);
        let number = tail.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(tail.len());
        let (_, after) = tail.split_at(number);
        let is_time = number > 0 && (before != " in " || is_seconds(after));
        if is_time {
            settled.push('N');
        }
        rest = if is_time { after } else { tail };
    }
    settled + rest
}

fn is_seconds(after: &str) -> bool {
    after.strip_prefix(" s").is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Replaces the random digits in names of temporary files, `.modelfmt-…`.
fn without_random(text: &str) -> String {
    const START: &str = ".modelfmt-";
    const MIN_DIGITS: usize = 8;
    let mut parts = text.split(START);
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        settled.push_str(START);
        let end =
            part.find(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c))).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let is_random = |word: &&str| word.len() >= MIN_DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
        let words = name.split_inclusive(['-', '.']).map(|word| {
            let bare = word.trim_end_matches(['-', '.']);
            if is_random(&bare) { word.replace(bare, "HEX") } else { word.to_owned() }
        });
        settled.extend(words);
        settled.push_str(rest);
    }
    settled
}

/// Writes what a case did into a folder, for people.
pub(super) fn write(outcome: &Outcome, folder: &Path) -> Result {
    fs::create_dir_all(folder)?;
    for (number, said) in outcome.steps.iter().enumerate() {
        let mut file = fs::File::create(folder.join(format!("run-{}", number + 1)))?;
        writeln!(file, "exit status {}", said.exit)?;
        for (name, bytes) in [("standard output", &said.stdout), ("standard error", &said.stderr)] {
            if !bytes.is_empty() {
                write!(file, "--- {name}\n{}", readable(bytes))?;
            }
        }
    }
    for (name, bytes) in &outcome.files {
        let path = folder.join("files").join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, bytes.as_deref().unwrap_or(b"(the file is gone)\n"))?;
    }
    Ok(())
}

/// Returns the text with its JSON laid out in lines, so that two texts can be compared.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let pretty = |line: &str| -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(line).ok().filter(|_| line.starts_with('{'))?;
        serde_json::to_string_pretty(&value).ok()
    };
    text.lines().map(|line| pretty(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_taken_out() {
        let said = |text: &str| String::from_utf8(settled(text.into(), Path::new("/tmp/x/1"))).unwrap();
        assert_eq!(
            said("wrote a: 3 tensors in 0.03 s\nin 5 s, in 12 s"),
            "wrote a: 3 tensors in N s\nin 5 s, in N s"
        );
        assert_eq!(said("2 of 3 in 7 shards; in 9 MiB"), "2 of 3 in 7 shards; in 9 MiB");
        assert_eq!(said("{\"seconds\":0.0,\"a\":1}"), "{\"seconds\":N,\"a\":1}");
        assert_eq!(said("/tmp/x/1/out.aero exists"), "DIR/out.aero exists");
        assert_eq!(
            said("a/.modelfmt-0123456789abcdef-deadbeef.partial is locked; 0123456789abcdef"),
            "a/.modelfmt-HEX-HEX.partial is locked; 0123456789abcdef"
        );
        assert_eq!(settled(vec![0xff, b' '], Path::new("/")), [0xff, b' ']);
    }

    #[test]
    fn json_is_laid_out() {
        assert_eq!(readable(b"note\n{\"a\":[1]}"), "note\n{\n  \"a\": [\n    1\n  ]\n}\n");
    }
}
