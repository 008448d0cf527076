//! The cases of the fence: the files, and what is done with each.

use std::fs;
use std::path::Path;

use super::commands;
use super::damage::{self, Damage};
use crate::run::Result;
use crate::workspace;

/// A case: files in an empty folder of its own, and runs of the program there.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The file, the damage to it and the commands. Unique, and enough to run the case by hand.
    pub(super) name: String,
    /// The files in the folder, first the file that the case is about.
    pub(super) files: Vec<Input>,
    /// The damage to the first file.
    pub(super) damage: Option<Damage>,
    /// The runs of the program, in order.
    pub(super) steps: Vec<Step>,
    /// Whether the output is random. Then only the names and lengths of files count.
    pub(super) is_random: bool,
}

/// A file in the folder of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// The path in the folder.
    pub(super) path: String,
    /// The path below `testdata/`, or one of [`SECRETS`].
    pub(super) origin: String,
}

/// One run of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) args: Vec<String>,
    /// The file in the folder to use as standard input.
    pub(super) stdin: Option<String>,
}

/// The path prefix of each set's files, and the file by which the set is opened.
const SETS: &[(&str, &str)] = &[
    ("aero/set/", "aero/set/model.aeroset.json"),
    ("apr2/set/", "apr2/set/sharded.apr"),
    ("reference/aeroset/", "reference/aeroset/model.aeroset.json"),
    ("reference/gguf/split-", "reference/gguf/split-00001-of-00003.gguf"),
    ("safetensors/set", "safetensors/set.safetensors.index.json"),
    ("seal/set/", "seal/set/model.apr"),
];
const ENDINGS: &[&str] = &[
    ".aero",
    ".apr",
    ".aprn",
    ".gguf",
    ".mag",
    ".oinf",
    ".safetensors",
    ".aeroset.json",
    ".safetensors.index.json",
];
/// Files that are not models.
const OTHERS: &[&str] =
    &["gguf/types.txt", "keys/rsa.pub", "oms/sample/config.json", "quant/q4_0.bin", "seal/vectors.json"];

/// Files with secrets that open the encrypted files of `testdata/seal/`, made from `seal/vectors.json`.
pub(super) const SECRETS: &[&str] = &["phrase", "raw", "recipient"];

/// A file to run commands with.
struct Subject<'a> {
    /// The path below `testdata/`.
    path: &'a str,
    kind: Kind,
    /// The file itself, then the other files of its set.
    files: Vec<&'a str>,
    blake3: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One file.
    Single,
    /// The file by which a set is opened.
    Set,
    /// Another file of a set.
    Part,
    /// Not a model.
    Other,
}

/// Returns all cases over `testdata`, sorted by name.
pub(super) fn all(testdata: &Path) -> Result<Vec<Case>> {
    let listed = workspace::files(testdata)?;
    // The conformance suite has a test of its own.
    let paths = listed.iter().map(String::as_str).filter(|path| !path.starts_with("conformance/"));
    let paths: Vec<&str> = paths.collect();
    let mut cases = Vec::new();
    let mut last: Option<&str> = None;
    for path in paths.iter().copied() {
        let kind = kind(path);
        let Some(kind) = kind else { continue };
        let bytes = fs::read(testdata.join(path))?;
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        let subject = Subject { path, kind, files: companions(path, kind, &paths), blake3 };
        for line in lines(&subject, last) {
            cases.push(case(&subject, &line, &paths));
        }
        if matches!(kind, Kind::Single | Kind::Set) {
            cases.extend(
                damage::chosen(path, bytes.len()).into_iter().map(|damage| damaged(&subject, damage, &paths)),
            );
            last = Some(path);
        }
    }
    let nothing = Subject { path: "", kind: Kind::Other, files: Vec::new(), blake3: String::new() };
    cases.extend(commands::WITHOUT_FILE.iter().map(|line| case(&nothing, line, &paths)));
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    match cases.windows(2).find(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        Some(pair) => {
            Err(format!("two cases have the name {:?}", pair.first().map(|case| &case.name)).into())
        }
        None => Ok(cases),
    }
}

fn kind(path: &str) -> Option<Kind> {
    if OTHERS.contains(&path) {
        return Some(Kind::Other);
    }
    if !ENDINGS.iter().any(|ending| path.ends_with(ending)) {
        return None;
    }
    Some(match set_of(path) {
        None => Kind::Single,
        Some((_, whole)) if whole == path => Kind::Set,
        Some(_) => Kind::Part,
    })
}

fn set_of(path: &str) -> Option<(&'static str, &'static str)> {
    SETS.iter().copied().find(|(start, _)| path.starts_with(start))
}

/// Returns the file itself, then the other files of its set.
fn companions<'a>(path: &'a str, kind: Kind, paths: &[&'a str]) -> Vec<&'a str> {
    let set = set_of(path).filter(|_| kind != Kind::Other);
    let others = paths.iter().copied().filter(|other| {
        set.is_some_and(|(start, _)| other.starts_with(start)) && *other != path && !other.ends_with(".txt")
    });
    std::iter::once(path).chain(others).collect()
}

/// Returns the lines of commands for a file. `last` is the previous model, which the file is compared with.
fn lines(subject: &Subject<'_>, last: Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = match subject.kind {
        Kind::Part | Kind::Other => commands::SHORT.iter().map(|line| (*line).to_owned()).collect(),
        Kind::Single | Kind::Set => commands::full(subject.kind == Kind::Set),
    };
    if subject.kind == Kind::Single || subject.kind == Kind::Set {
        lines.extend(last.into_iter().flat_map(commands::compared));
    }
    if subject.path.starts_with("seal/") && subject.path.ends_with(".apr") {
        lines.extend(commands::SEALED.iter().map(|line| (*line).to_owned()));
    }
    lines
}

/// Makes the case of a line of commands (see [`commands`]).
fn case(subject: &Subject<'_>, line: &str, paths: &[&str]) -> Case {
    let name = if subject.path.is_empty() {
        format!("program: {line}")
    } else {
        format!("{}: {line}", subject.path)
    };
    let mut files: Vec<_> = subject
        .files
        .iter()
        .map(|origin| Input { path: file_name(origin).to_owned(), origin: (*origin).to_owned() })
        .collect();
    let (line, is_random) = match line.strip_suffix(commands::RANDOM) {
        Some(line) => (line, true),
        None => (line, false),
    };
    let mut steps = Vec::new();
    for step in line.split("; ") {
        let mut run = Step { args: Vec::new(), stdin: None };
        for word in step.split(' ').filter(|word| !word.is_empty()) {
            if let Some(origin) = word.strip_prefix('+') {
                let path = other(origin, paths, &mut files);
                run.args.push(path);
            } else if word == "<@" {
                run.stdin = Some(file_name(subject.path).to_owned());
            } else {
                let word = if word == "@" { file_name(subject.path) } else { word };
                run.args.push(word.replace("%b3", &subject.blake3).replace("%u", commands::UUID));
            }
        }
        steps.push(run);
    }
    Case { name, files, damage: None, steps, is_random }
}

/// Adds another file of `testdata/`, and its set, to the folder of a case. Returns the path there.
fn other(origin: &str, paths: &[&str], files: &mut Vec<Input>) -> String {
    if SECRETS.contains(&origin) {
        files.push(Input { path: format!("other/{origin}"), origin: origin.to_owned() });
    }
    let Some(origin) = paths.iter().copied().find(|path| *path == origin) else {
        return format!("other/{}", file_name(origin));
    };
    let kind = kind(origin).unwrap_or(Kind::Other);
    for file in companions(origin, kind, paths) {
        let input = Input { path: format!("other/{}", file_name(file)), origin: file.to_owned() };
        if !files.contains(&input) {
            files.push(input);
        }
    }
    format!("other/{}", file_name(origin))
}

fn damaged(subject: &Subject<'_>, damage: Damage, paths: &[&str]) -> Case {
    let case = case(subject, commands::DAMAGED, paths);
    Case { name: format!("{}: {damage}", subject.path), damage: Some(damage), ..case }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn testdata() -> std::path::PathBuf {
        workspace::root().join("testdata")
    }

    #[test]
    fn every_model_has_cases_and_names_are_lines() {
        let cases = all(&testdata()).unwrap();
        assert!(cases.len() > 5000, "{}", cases.len());
        for file in workspace::files(&testdata()).unwrap() {
            let is_model =
                !file.starts_with("conformance/") && ENDINGS.iter().any(|ending| file.ends_with(ending));
            assert!(
                !is_model || cases.iter().any(|case| case.name.starts_with(&format!("{file}: "))),
                "{file}"
            );
        }
        assert!(cases.iter().all(|case| !case.name.contains(" | ") && !case.name.contains('\n')));
    }

    #[test]
    fn a_line_becomes_runs() {
        let paths = ["aero/set/a.aero", "aero/set/model.aeroset.json", "b/b.gguf"];
        let subject = Subject {
            path: "b/b.gguf",
            kind: Kind::Single,
            files: vec!["b/b.gguf"],
            blake3: "ff".to_owned(),
        };
        let case =
            case(&subject, "diff @ +aero/set/model.aeroset.json; verify - --pin b3:%b3 <@ (random)", &paths);
        let args: Vec<_> = case.steps.iter().map(|step| step.args.join(" ")).collect();
        assert_eq!(args, ["diff b.gguf other/model.aeroset.json", "verify - --pin b3:ff"]);
        assert_eq!(case.steps[1].stdin.as_deref(), Some("b.gguf"));
        let files: Vec<_> = case.files.iter().map(|input| input.path.as_str()).collect();
        assert_eq!(files, ["b.gguf", "other/model.aeroset.json", "other/a.aero"]);
        assert!(case.is_random);
    }

    #[test]
    fn files_of_a_set_are_known() {
        assert!(SETS.iter().all(|(_, whole)| testdata().join(whole).is_file()));
        assert!(OTHERS.iter().all(|other| testdata().join(other).is_file()));
        assert!(kind("safetensors/set-00001-of-00005.safetensors") == Some(Kind::Part));
        assert!(kind("safetensors/set.safetensors.index.json") == Some(Kind::Set));
        assert!(kind("gguf/empty.gguf") == Some(Kind::Single) && kind("gguf/empty.txt").is_none());
    }
}
