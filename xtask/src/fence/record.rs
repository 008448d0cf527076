//! The record of what each case did: a line for each case, sorted by name, below the file that it is about.
//!
//! `COMMANDS | EXIT STDOUT STDERR | … | FILES`: for each run, its exit status and short hashes of its output,
//! then one hash of the files that it left. `-` stands for empty output. The name of a case is its file, `: `
//! and the commands. The lines of a file are indented, so that `git diff` shows the file above each change.

use std::collections::BTreeMap;

use super::cases::Case;
use super::run::Outcome;
use crate::run::Result;

const BETWEEN: &str = " | ";
/// Separates the file and the commands in a name.
const IN_NAME: &str = ": ";
/// Hexadecimal digits of a hash. The chance that a change goes unseen is below 10^-13.
const DIGITS: usize = 12;

/// What each case did, by name.
pub(super) type Record = BTreeMap<String, String>;

/// Returns what a case did, as it stands in the record.
pub(super) fn fingerprint(case: &Case, outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    for said in &outcome.steps {
        // What the program prints about a random file, such as its hash, is random too.
        let [stdout, stderr] =
            [&said.stdout, &said.stderr].map(|text| if case.is_random { shape(text) } else { hash(text) });
        parts.push(format!("{} {stdout} {stderr}", said.exit));
    }
    let mut files = Vec::new();
    for (name, bytes) in &outcome.files {
        let what = match bytes {
            None => "gone".to_owned(),
            Some(bytes) if case.is_random => bytes.len().to_string(),
            Some(bytes) => blake3::hash(bytes).to_hex().to_string(),
        };
        files.extend(format!("{name}\0{what}\0").into_bytes());
    }
    parts.push(hash(&files));
    parts.join(BETWEEN)
}

fn hash(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    blake3::hash(bytes).to_hex().chars().take(DIGITS).collect()
}

/// Hashes a text, with the same word in place of every word of eight or more hexadecimal digits, such as a
/// key or a CRC.
fn shape(text: &[u8]) -> String {
    const MIN_DIGITS: usize = 8;
    let is_random = |word: &[u8]| word.len() >= MIN_DIGITS && word.iter().all(u8::is_ascii_hexdigit);
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    let words: Vec<&[u8]> = words.map(|word| if is_random(word) { b"HEX" } else { word }).collect();
    hash(&words.join(&b' '))
}

/// Returns the text of the file.
pub(super) fn print(record: &Record) -> String {
    let mut text = String::new();
    let mut last = "";
    for (name, what) in record {
        let (file, commands) = name.split_once(IN_NAME).unwrap_or((name, ""));
        if file != last {
            text.push_str(&format!("{file}\n"));
            last = file;
        }
        text.push_str(&format!(" {commands}{BETWEEN}{what}\n"));
    }
    text
}

/// Parses the text of the file.
pub(super) fn parse(text: &str) -> Result<Record> {
    let mut record = Record::new();
    let mut file = "";
    for (number, line) in text.lines().enumerate() {
        let Some(line) = line.strip_prefix(' ') else {
            file = line;
            continue;
        };
        let (commands, what) =
            line.split_once(BETWEEN).ok_or_else(|| format!("line {}: no {BETWEEN:?}", number + 1))?;
        let name = format!("{file}{IN_NAME}{commands}");
        if record.insert(name, what.to_owned()).is_some() {
            return Err(format!("line {}: {commands:?} is there twice", number + 1).into());
        }
    }
    Ok(record)
}

/// A case that did something other than what is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) name: String,
    /// What differs, for people.
    pub(super) what: String,
}

/// Returns the differences between what was recorded and what was found, sorted by name.
pub(super) fn differences(recorded: &Record, found: &Record) -> Vec<Difference> {
    let names: std::collections::BTreeSet<_> = recorded.keys().chain(found.keys()).collect();
    let difference = |name: &&String| {
        let what = match (recorded.get(*name), found.get(*name)) {
            (Some(old), Some(new)) if old == new => return None,
            (Some(old), Some(new)) => describe(old, new),
            (None, _) => "is not recorded".to_owned(),
            (_, None) => "is recorded, and there is no such case any more".to_owned(),
        };
        Some(Difference { name: (*name).clone(), what })
    };
    names.iter().filter_map(difference).collect()
}

fn describe(old: &str, new: &str) -> String {
    let [old, new] = [old, new].map(|text| text.split(BETWEEN).collect::<Vec<_>>());
    if old.len() != new.len() {
        return format!("{} runs, not {}", new.len().saturating_sub(1), old.len().saturating_sub(1));
    }
    let mut found = Vec::new();
    for (number, (a, b)) in old.iter().zip(&new).enumerate() {
        let run = if old.len() > 2 { format!(" of run {}", number + 1) } else { String::new() };
        let [a, b] = [a, b].map(|part| part.split(' ').collect::<Vec<_>>());
        for (at, name) in ["exit", "stdout", "stderr"].iter().enumerate() {
            match (a.get(at), b.get(at)) {
                (Some(a), Some(b)) if a == b => {}
                _ if a.len() == 1 => found.push("files".to_owned()),
                (Some(a), Some(b)) if *name == "exit" => found.push(format!("exit status{run} {a} → {b}")),
                _ => found.push(format!("{name}{run}")),
            }
            if a.len() == 1 {
                break;
            }
        }
    }
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::run::Said;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = "a/b.c\n cut to 5 | 0 - - | -\n inspect @ | 0 0123456789ab - | -\nb\n x; y | 0 - - | 1 - ff | 00\n";
        let record = parse(text).unwrap();
        assert_eq!(record["a/b.c: inspect @"], "0 0123456789ab - | -");
        assert_eq!(print(&record), text);
        assert!(parse("a\n inspect").is_err() && parse("a\n b | 0\n b | 1").is_err());
    }

    #[test]
    fn what_differs_is_said() {
        let [old, new] = [
            "f\n a | 0 aa - | -\n b | 0 a b | 0 a b | f\n c | 0 a - | -\n d | 0 - - | -",
            "f\n a | 1 - bb | -\n b | 0 a b | 0 a c | e\n e | 0 - - | -\n d | 0 - - | -",
        ]
        .map(|text| parse(text).unwrap());
        let found = differences(&old, &new);
        let found: Vec<_> = found.iter().map(|d| format!("{}: {}", d.name, d.what)).collect();
        assert_eq!(
            found,
            [
                "f: a: exit status 0 → 1, stdout, stderr",
                "f: b: stderr of run 2, files",
                "f: c: is recorded, and there is no such case any more",
                "f: e: is not recorded"
            ]
        );
        assert!(differences(&old, &old).is_empty());
    }

    #[test]
    fn a_fingerprint_has_all_that_a_case_did() {
        let said = |stdout: &str| Said { exit: "0".into(), stdout: stdout.into(), stderr: Vec::new() };
        let of = |stdout: &str, bytes: &str, is_random: bool| {
            let case =
                Case { name: String::new(), files: Vec::new(), damage: None, steps: Vec::new(), is_random };
            let files = [("out".to_owned(), Some(bytes.into()))].into();
            fingerprint(&case, &Outcome { steps: vec![said(stdout)], files })
        };
        assert_eq!(of("a", "b", false), of("a", "b", false));
        assert_ne!(of("a", "b", false), of("a", "c", false));
        assert_ne!(of("a", "b", false), of("", "b", false));
        assert!(of("", "b", false).starts_with("0 - - | "));
        let keys = ["key 0123456789abcdef", "key fedcba9876543210"];
        assert_eq!(of(keys[0], "b", true), of(keys[1], "c", true));
        assert_ne!(of(keys[0], "b", true), of(keys[0], "cc", true));
        assert_ne!(of(keys[0], "b", false), of(keys[1], "b", false));
    }
}
