//! Adds a format as CONTRIBUTING.md describes it: a toy, in a copy of the project, whose program then has to
//! read it. The added lines are those of the document itself, so this fails if the document is wrong.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::run::{self, Result, exec, step};
use crate::{python, servers, workspace};

/// The toy's crate, its entry among the formats and its tests, and where each goes in the copy.
const PARTS: [(&str, &str); 3] = [
    ("xtask/toy/crate/", "crates/toy/"),
    ("xtask/toy/formats/", "crates/modelfmt-model/src/formats/"),
    ("xtask/toy/tests/", "crates/modelfmt/tests/"),
];
/// The variable that tells these tests where the toy's file is.
const FILE: &str = "MODELFMT_TOY";
/// All features of all crates, so that cargo reuses the third-party crates that the tests have built.
const AS_TESTS: [&str; 3] = ["--offline", "--quiet", "--all-features"];
const PROGRAM: [&str; 2] = ["--bin", "modelfmt"];

pub(super) fn check() -> Result {
    step("toy: a format, added as CONTRIBUTING says");
    let copy = workspace::target_dir().join("toy");
    copy_project(&copy)?;
    let document = fs::read_to_string(workspace::root().join("CONTRIBUTING.md"))?;
    for (file, old, new) in patched(&document, &copy)? {
        println!("{file}: {} lines more", new.lines().count() - old.lines().count());
        write_if_other(&copy.join(file), new.as_bytes())?;
    }
    let manifest = copy.join("Cargo.toml");
    let text = with_python(&of_another_version(&fs::read_to_string(&manifest)?)?)?;
    write_if_other(&manifest, text.as_bytes())?;
    let manifest = copy.join(python::MANIFEST);
    write_if_other(&manifest, as_member(&fs::read_to_string(&manifest)?).as_bytes())?;
    exec(cargo(&copy).args(["fmt", "--check", "--package", "modelfmt-toy"]))?;
    let entry = "crates/modelfmt-model/src/formats/toy.rs";
    exec(Command::new("rustfmt").args(["--check", "--edition", "2024", entry]).current_dir(&copy))?;
    exec(cargo(&copy).arg("build").args(AS_TESTS).args(PROGRAM))?;
    let folder = copy.join("tried");
    fs::create_dir_all(&folder)?;
    let toy = folder.join("model.toy");
    fs::write(&toy, toy_file())?;
    try_program(&copy, &toy)?;
    exec(cargo(&copy).arg("test").args(AS_TESTS).args(["--test", "toy"]).env(FILE, &toy))?;
    try_python(&copy, &toy)
}

fn cargo(copy: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    // Share the target folder, where the third-party crates are already built.
    cargo.current_dir(copy).env("CARGO_TARGET_DIR", workspace::target_dir());
    cargo
}

/// Copies the files of the project and of the toy into `copy`, and removes all others there except lock
/// files. Unchanged files keep their modification time, so that cargo builds them only once.
fn copy_project(copy: &Path) -> Result {
    let root = workspace::root();
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = run::output(workspace::command("git").args(listed))?;
    let mut kept = BTreeSet::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let Ok(bytes) = fs::read(root.join(path)) else { continue }; // deleted, but still listed
        for to in [Some(path.to_owned()), toy_path(path)].into_iter().flatten() {
            write_if_other(&copy.join(&to), &bytes)?;
            kept.insert(copy.join(to));
        }
    }
    for path in workspace::files(copy)?.into_iter().map(|path| copy.join(path)) {
        if !kept.contains(&path) && path.file_name().is_some_and(|name| name != "Cargo.lock") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Returns the root manifest with another version for our crates. The copy shares the target folder, where
/// cargo tells packages apart by version and by path within their workspace. With the same version, it would
/// confuse our crates with the copy's.
fn of_another_version(manifest: &str) -> Result<String> {
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or("Cargo.toml states no version of the workspace")?;
    Ok(manifest.replace(&format!("version = \"{version}\""), &format!("version = \"{version}-toy\"")))
}

/// Returns the root manifest with the Python package as a member, so that our crates are built once for both.
fn with_python(manifest: &str) -> Result<String> {
    const MEMBERS: &str = "members = [\n";
    if !manifest.contains(MEMBERS) {
        return Err("Cargo.toml lists no members".into());
    }
    Ok(manifest.replace(MEMBERS, &format!("{MEMBERS}    \"{}\",\n", python::PACKAGE)))
}

/// Returns the manifest of a workspace's root without what only a root has.
fn as_member(manifest: &str) -> String {
    let mut is_of_root = false;
    let mut kept = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_of_root = line == "[workspace]" || line.starts_with("[profile.");
        }
        if !is_of_root {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// Returns the path in the copy of a file of the toy. `None` for other files.
fn toy_path(path: &str) -> Option<String> {
    PARTS.iter().find_map(|(from, to)| Some(format!("{to}{}", path.strip_prefix(from)?)))
}

fn write_if_other(path: &Path, bytes: &[u8]) -> Result {
    if fs::read(path).ok().as_deref() != Some(bytes) {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Returns the files that the document's diff changes: path, old text, new text.
fn patched(document: &str, copy: &Path) -> Result<Vec<(String, String, String)>> {
    let section = document.split("\n## ").find(|section| section.starts_with("Adding a format"));
    let block = section.and_then(|section| section.split_once("```diff\n")?.1.split_once("```"));
    let (block, _) = block.ok_or("CONTRIBUTING.md, \"Adding a format\", has no ```diff block")?;
    let mut files = Vec::new();
    for part in block.split("--- ").skip(1) {
        let (file, lines) = part.split_once('\n').ok_or("a file without lines")?;
        let old = fs::read_to_string(copy.join(file))?;
        let new = insert(&old, lines).map_err(|line| format!("{file} has no line {line:?} any more"))?;
        files.push((file.to_owned(), old, new));
    }
    Ok(files)
}

/// Inserts the lines that begin with `+` after the lines that begin with a space, which the file must have in
/// this order. The error is the first line that it does not have. What the document calls `new` becomes
/// `toy`.
fn insert(old: &str, lines: &str) -> std::result::Result<String, String> {
    let mut new: Vec<String> = old.lines().map(str::to_owned).collect();
    let mut at = 0;
    for line in lines.lines() {
        if let Some(added) = line.strip_prefix('+') {
            new.insert(at, added.replace("new", "toy").replace("New", "Toy").replace("NEW", "TOY"));
            at += 1;
        } else {
            let context = line.strip_prefix(' ').unwrap_or(line);
            let found = new.iter().skip(at).position(|line| line == context);
            at += found.ok_or_else(|| context.to_owned())? + 1;
        }
    }
    Ok(new.join("\n") + "\n")
}

/// A Python program that serves a folder and prints the port.
const WEB_SERVER: &str = "
import sys
from werkzeug.serving import make_server
from werkzeug.utils import send_from_directory
from werkzeug.wrappers import Request

@Request.application
def serve(request):
    return send_from_directory(sys.argv[1], request.path.lstrip('/'), request.environ, conditional=True)

server = make_server('127.0.0.1', 0, serve, threaded=True)
print(server.port, flush=True)
server.serve_forever()
";

/// A Python program that reads, verifies, converts and edits a toy file.
const PYTHON: &str = "
import pathlib, shutil, sys, tempfile
import modelfmt

with modelfmt.open(sys.argv[1]) as model:
    assert model.format == 'toy', model.format
    assert model['w'].tolist() == [[1.5], [-2.0]] and model['up'].item() == 7
modelfmt.verify(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, 'm.aero')
    modelfmt.convert(sys.argv[1], path)
    assert modelfmt.load(path)['w'].tolist() == [[1.5], [-2.0]]
    edited = shutil.copy(sys.argv[1], folder)
    modelfmt.edit(edited, rename={'w': 'renamed'})
    assert modelfmt.load(edited)['renamed'].tolist() == [[1.5], [-2.0]]
";

/// The values of the two tensors of [`toy_file`].
const VALUES: [&[u8]; 2] = [&[0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0], &[7]];

/// Makes a file with the f32 tensor `w`, 1.5 and -2, and the u8 scalar `up`, 7.
fn toy_file() -> Vec<u8> {
    let mut file = b"TOY!\x02\0\0\0".to_vec();
    file.extend(b"\0\x02\x01\0\x40\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0w"); // [2, 1], at 64
    file.extend(b"\x01\0\x02\0\x48\0\0\0\0\0\0\0up"); // at 72
    file.resize(64, 0);
    file.extend(VALUES.concat());
    file
}

/// Checks that the program reads the toy's files like any other, also from a web server, and edits them.
fn try_program(copy: &Path, toy: &Path) -> Result {
    let other = toy.with_extension("safetensors");
    let program = |args: &[&str], file: &OsStr| {
        let mut run = cargo(copy);
        run.arg("run").args(AS_TESTS).args(PROGRAM).arg("--").args(args).arg(file);
        run
    };
    let inspect = |file| run::output(&mut program(&["inspect", "--json", "--hash"], file));

    let (toy, other) = (toy.as_os_str(), other.as_os_str());
    let found = inspect(toy)?;
    expect("inspect", &found, &[r#""format": "toy""#])?;
    holds_the_tensors(&found)?;
    let shown = run::output(&mut program(&["show"], toy))?;
    expect("show", &shown, &["w: f32[2, 1] = {", "1.5", "-2", "up: u8 = 7"])?;
    exec(&mut program(&["verify"], toy))?;
    exec(program(&["convert", "--force"], toy).arg(other))?;
    holds_the_tensors(&inspect(other)?)?;

    let server = WebServer::start(Path::new(toy).parent().unwrap_or(copy))?;
    let url = server.url("model.toy");
    holds_the_tensors(&inspect(url.as_ref())?)?;
    exec(&mut program(&["verify"], url.as_ref()))?;
    exec(program(&["convert", "--force"], url.as_ref()).arg(other))?;
    holds_the_tensors(&inspect(other)?)?;

    let edited = Path::new(toy).with_file_name("edited.toy");
    fs::copy(toy, &edited)?;
    exec(&mut program(&["edit", "--rename", "w=renamed"], edited.as_ref()))?;
    expect(
        "show",
        &run::output(&mut program(&["show"], edited.as_ref()))?,
        &["renamed: f32[2, 1]", "1.5", "-2"],
    )?;
    exec(&mut program(&["verify"], edited.as_ref()))
}

/// A web server for one folder, which answers range requests. It stops when this value is dropped.
struct WebServer {
    process: Child,
    port: String,
}

impl WebServer {
    fn start(folder: &Path) -> Result<Self> {
        let mut python = Command::new(servers::install()?);
        python.args(["-c", WEB_SERVER]).arg(folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Self { process: python.spawn()?, port: String::new() };
        let printed = server.process.stdout.take().ok_or("the web server prints nothing")?;
        BufReader::new(printed).read_line(&mut server.port)?;
        Ok(server)
    }

    fn url(&self, file: &str) -> String {
        format!("http://127.0.0.1:{}/{file}", self.port.trim())
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // It is no error if the process has already ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Checks that the Python package reads, converts and edits the toy's files too.
fn try_python(copy: &Path, toy: &Path) -> Result {
    // The file name of a cdylib has no hash, so that of testkit-wasm would replace the project's.
    let libraries = ["--workspace", "--exclude", "testkit-wasm", "--lib"];
    exec(cargo(copy).arg("build").args(AS_TESTS).args(libraries))?;
    let package = copy.join(python::PACKAGE).join("python");
    fs::copy(
        workspace::target_dir().join("debug/lib_modelfmt.so"),
        package.join("modelfmt/_modelfmt.abi3.so"),
    )?;
    let mut python = Command::new(python::install()?);
    exec(python.args(["-c", PYTHON]).arg(toy).env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1"))
}

fn expect(command: &str, found: &str, texts: &[&str]) -> Result {
    match texts.iter().find(|text| !found.contains(**text)) {
        Some(text) => Err(format!("{command} does not print {text}, but {found}").into()),
        None => Ok(()),
    }
}

/// Checks that the output of `inspect --json --hash` lists the two tensors, whatever the format.
fn holds_the_tensors(printed: &str) -> Result {
    let printed: Value = serde_json::from_str(printed)?;
    let tensors = printed.get("tensors").and_then(Value::as_array).into_iter().flatten();
    let of = |tensor: &Value| ["name", "dtype", "shape", "blake3"].map(|key| tensor.get(key).cloned());
    let found: Vec<_> = tensors.map(of).collect();
    let [w, up] = VALUES.map(|values| blake3::hash(values).to_hex().to_string());
    let expected = [
        [json!("w"), json!("f32"), json!([2, 1]), json!(w)],
        [json!("up"), json!("u8"), json!([]), json!(up)],
    ];
    if found == expected.map(|tensor| tensor.map(Some)) {
        Ok(())
    } else {
        Err(format!("inspect shows other tensors: {printed}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_behind_those_that_the_document_shows() {
        let old = "a\nb\nlist = [\n]\nb\n";
        assert_eq!(
            insert(old, "+mod new;\n list = [\n+  New\n b\n+end\n").unwrap(),
            "mod toy;\na\nb\nlist = [\n  Toy\n]\nb\nend\n"
        );
        assert_eq!(insert(old, " ]\n a\n"), Err("a".to_owned()), "in this order");
        assert_eq!(insert(old, " list = [ \n"), Err("list = [ ".to_owned()));
    }

    #[test]
    fn the_copy_has_another_version() {
        let manifest = "[workspace.package]\nversion = \"0.2.0\"\n[workspace.dependencies]\na = { path = \"a\", version = \"0.2.0\" }\nb = \"1\"\n";
        let other = of_another_version(manifest).unwrap();
        assert_eq!(other, manifest.replace("0.2.0", "0.2.0-toy"));
        assert!(of_another_version("[workspace]\n").is_err());
    }

    #[test]
    fn the_python_package_becomes_a_member() {
        let root = with_python("[workspace]\nmembers = [\n    \"a\",\n]\n").unwrap();
        assert_eq!(root, "[workspace]\nmembers = [\n    \"crates/modelfmt-py\",\n    \"a\",\n]\n");
        assert!(with_python("[package]\n").is_err());
        let own = "# A comment\n[workspace]\nresolver = \"3\"\n\n[package]\nname = \"p\"\n\n[profile.release]\nlto = true\n";
        assert_eq!(as_member(own), "# A comment\n[package]\nname = \"p\"\n\n");
    }

    #[test]
    fn a_document_without_the_lines_is_refused() {
        assert!(patched("## Adding a format\n\nIt is easy.\n", Path::new(".")).is_err());
    }

    #[test]
    fn parts_of_the_toy_go_where_a_format_has_them() {
        assert_eq!(toy_path("xtask/toy/crate/src/lib.rs").as_deref(), Some("crates/toy/src/lib.rs"));
        assert_eq!(
            toy_path("xtask/toy/formats/toy.rs").as_deref(),
            Some("crates/modelfmt-model/src/formats/toy.rs")
        );
        assert_eq!(toy_path("xtask/src/main.rs"), None);
    }
}
