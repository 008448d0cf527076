//! `cargo xtask web`: builds the page and the npm package below `target/web/`, and runs their tests in
//! Chromium and under Node.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{self, Result, exec, step};
use crate::tally::{Runner, Tally};
use crate::wasm::{self, TARGET, Toolchain};
use crate::{reproducible, workspace};

/// The manifest of the workspace of both.
pub(crate) const MANIFEST: &str = "crates/modelfmt-web/Cargo.toml";
const DIR: &str = "crates/modelfmt-web";
/// The folder of files that the page and the package share.
const SHARED: &str = "js";
/// The scripts and styles of the page that the browser asks for. Each is bundled with what it imports.
const ENTRIES: [&str; 4] = ["main.js", "worker.js", "offline.js", "page.css"];
/// The module for a first look at a model, and the module with the rest of the code: checking, comparing,
/// converting.
const MODULES: [&str; 2] = ["modelfmt.wasm", "modelfmt-work.wasm"];
/// The program that splits a module, and Debian's package of it.
const SPLIT: &str = "wasm-split";
const SPLIT_PACKAGE: &str = "binaryen";
const FLAGS: [&str; 4] = ["-C", "target-feature=+simd128", "--cfg", "getrandom_backend=\"unsupported\""];
/// The files and folders that the library is built from.
const SOURCES: [&str; 4] = ["Cargo.lock", "crc32c", "crc32fast", "src"];
/// The instructions beyond WebAssembly 1.0 that the library is built with.
const INSTRUCTIONS: &[&str] = &[
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
    "--enable-simd",
];

/// Builds the page and the package. With `test`, runs their tests.
pub(crate) fn run(serve: bool, test: Option<&mut Tally>) -> Result {
    let modules = split(&build()?)?;
    let page = page(&modules)?;
    let package = assemble("npm", &modules)?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(workspace::root().join(license), package.join(license))?;
    }
    if let Some(tally) = test {
        tests(&page, &package, tally)?;
    }
    if serve {
        step("web: the page, until you stop it");
        exec(workspace::command("node").arg(dir().join("serve.mjs")).arg(&page))?;
    }
    Ok(())
}

/// Measures how fast the page verifies, in comparison with the program on one thread. `args` are the size of
/// the files in MiB and the number of rounds.
pub(crate) fn bench(args: &[OsString]) -> Result {
    // Not bundled, because the benchmark calls some of the scripts.
    let page = assemble("page", &split(&build()?)?)?;
    let tests = tests_folder()?;
    exec(workspace::cargo("build").args(["--release", "--package", "modelfmt-cli"]))?;
    step("bench: the page in Chromium");
    let mut node = workspace::command("node");
    node.arg(tests.join("bench.mjs")).arg(workspace::target_dir().join("bench-web")).args(args);
    node.env("MODELFMT_PAGE", page).env("MODELFMT_TESTDATA", workspace::root().join("testdata"));
    exec(node.env("MODELFMT_PROGRAM", workspace::target_dir().join("release/modelfmt")))
}

/// Returns the folder of the tests, and installs the packages that they need.
pub(crate) fn tests_folder() -> Result<PathBuf> {
    let tests = dir().join("tests");
    exec(
        workspace::command("npm").args(["ci", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&tests),
    )?;
    Ok(tests)
}

fn dir() -> PathBuf {
    workspace::root().join(DIR)
}

fn out() -> PathBuf {
    workspace::root().join("target/web")
}

/// Returns `cargo build` for the library, with the instructions that every browser has had since 2023. The
/// library makes no keys, so it has no source of randomness.
fn cargo(toolchain: &Toolchain) -> Result<Command> {
    let stage = out().join("sources");
    reproducible::stage(&dir(), &SOURCES, &stage)?;
    let mut cargo = toolchain.cargo("build");
    reproducible::build(&mut cargo, &FLAGS)
        .args(["--locked", "--manifest-path"])
        .arg(stage.join("Cargo.toml"));
    Ok(cargo)
}

/// Builds the library, and returns the module.
pub(crate) fn build() -> Result<PathBuf> {
    step("web: the library as WebAssembly");
    let toolchain = Toolchain::find(false)?;
    let mut cargo = cargo(&toolchain)?;
    let target = toolchain.target_dir().join("web/build");
    exec(cargo.arg("--release").arg("--target-dir").arg(&target))?;
    Ok(target.join(TARGET).join("release/modelfmt_web.wasm"))
}

/// Splits the module in two. The first part has the functions that are called when every golden file is
/// looked at: see `split.mjs`.
fn split(module: &Path) -> Result<PathBuf> {
    step("web: two modules");
    need_splitter()?;
    let folder = out().join("modules");
    fs::create_dir_all(&folder)?;
    let (counting, profile) = (folder.join("counting.wasm"), folder.join("profile"));
    let splitter = || {
        let mut split = workspace::command(SPLIT);
        split.args(INSTRUCTIONS).arg(module);
        split
    };
    exec(splitter().args(["--instrument", "--profile-export=write_profile", "-o"]).arg(&counting))?;
    let testdata = workspace::root().join("testdata");
    exec(
        workspace::command("node")
            .arg(dir().join("split.mjs"))
            .args([module, &counting, &testdata, &profile]),
    )?;
    let mut two = splitter();
    two.arg("--profile").arg(&profile).arg("--export-prefix=%");
    for (option, name) in ["-o1", "-o2"].iter().zip(MODULES) {
        two.arg(option).arg(folder.join(name));
    }
    exec(&mut two)?;
    Ok(folder)
}

fn need_splitter() -> Result {
    let is_there = || run::succeeds(workspace::command(SPLIT).arg("--version"));
    if is_there() || (wasm::install(&[SPLIT_PACKAGE]).is_ok() && is_there()) {
        return Ok(());
    }
    Err(format!("{SPLIT} is needed, which is in Debian's package {SPLIT_PACKAGE}").into())
}

/// Builds the page, which any static server can serve. Its scripts are many small files, of which esbuild
/// makes one for the page and one for its workers. That means fewer requests, and a third less to send.
fn page(modules: &Path) -> Result<PathBuf> {
    let tests = tests_folder()?;
    let page = assemble("page", modules)?;
    let parts = out().join("parts");
    if parts.exists() {
        fs::remove_dir_all(&parts)?;
    }
    fs::create_dir_all(&parts)?;
    for entry in fs::read_dir(&page)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "js" || extension == "css") {
            fs::rename(&path, parts.join(path.file_name().unwrap_or_default()))?;
        }
    }
    // A native program, or a script that starts one.
    let mut esbuild = workspace::command(tests.join("node_modules/.bin/esbuild"));
    esbuild.arg(format!("--outdir={}", page.display()));
    esbuild.args(["--bundle", "--minify", "--format=esm", "--charset=utf8", "--log-level=warning"]);
    exec(esbuild.args(ENTRIES.map(|name| parts.join(name))))?;
    list(&page)?;
    Ok(page)
}

/// Copies the files of the page or the npm package, and the modules, into a folder.
fn assemble(what: &str, modules: &Path) -> Result<PathBuf> {
    let folder = out().join(what);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for from in [what, SHARED] {
        copy_files(&dir().join(from), &folder)?;
    }
    for name in MODULES {
        fs::copy(modules.join(name), folder.join(name))?;
    }
    println!("{}", folder.display());
    Ok(folder)
}

/// Writes the list of the page's files for its service worker, and their version into the service worker.
fn list(page: &Path) -> Result {
    let entries = fs::read_dir(page)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = entries.collect::<Result<Vec<_>>>()?;
    names.sort();
    let mut hash = blake3::Hasher::new();
    for name in &names {
        hash.update(name.as_bytes()).update(blake3::hash(&fs::read(page.join(name))?).as_bytes());
    }
    fs::write(page.join("files.txt"), names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    let worker = page.join("offline.js");
    let version = hash.finalize().to_hex();
    let text = fs::read_to_string(&worker)?.replace("VERSION", version.get(..16).unwrap_or(&version));
    Ok(fs::write(worker, text)?)
}

/// Copies the files of a folder, which has no subfolders. Scripts and styles lose their comment lines and
/// indentation, an eighth of what would be sent.
fn copy_files(from: &Path, to: &Path) -> Result {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("js" | "css") => fs::write(copy, shortened(&path, &fs::read_to_string(&path)?)?)?,
            _ => fs::copy(&path, copy).map(drop)?,
        }
    }
    Ok(())
}

/// Removes comment lines and indentation from a script or style.
fn shortened(path: &Path, text: &str) -> Result<String> {
    let mut short = String::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        // The indentation in a multi-line template is part of its text.
        if line.matches('`').count() % 2 == 1 {
            return Err(format!("{}: a template of several lines: {line}", path.display()).into());
        }
        short.push_str(line);
        short.push('\n');
    }
    Ok(short)
}

/// Runs what is not a test: Rust's own checks.
pub(crate) fn checks(tally: &mut Tally) {
    step("web: checks");
    tally.check(workspace::cargo("fmt").args(["--manifest-path", MANIFEST, "--all", "--check"]));
    // For this machine: Debian has no clippy for WebAssembly, and nothing in the crate depends on the target.
    let mut clippy = workspace::cargo("clippy");
    clippy.args(["--quiet", "--locked", "--manifest-path", MANIFEST]);
    clippy.env("CARGO_TARGET_DIR", workspace::target_dir());
    tally.check(clippy.args(["--", "-D", "warnings"]));
}

/// Runs the tests, in the browser that `CHROMIUM` names or in Debian's.
fn tests(page: &Path, package: &Path, tally: &mut Tally) -> Result {
    step("web: tests of the crates that are there only for it");
    let mut own = workspace::cargo("test");
    own.args(["--quiet", "--locked", "--manifest-path", MANIFEST, "-p", "crc32c", "-p", "crc32fast"]);
    tally.run(Runner::Cargo, own.env("CARGO_TARGET_DIR", workspace::target_dir()));
    step("web: tests in Chromium and Node");
    let tests = tests_folder()?;
    // With all features, as `cargo test` builds it, so that cargo can reuse that build.
    exec(workspace::cargo("build").args(["--quiet", "--all-features", "--bin", "modelfmt"]))?;
    let mut node = workspace::command("node");
    let files = [
        "flow.test.mjs",
        "parts.test.mjs",
        "channel.test.mjs",
        "version.test.mjs",
        "page.test.mjs",
        "views.test.mjs",
        "verify.test.mjs",
        "npm.test.mjs",
        "package.test.mjs",
        "size.test.mjs",
    ]
    .map(|file| tests.join(file));
    // Two files at a time, because a test often waits for the browser.
    node.args(["--test", "--test-concurrency=2"]).args(files);
    node.env("MODELFMT_PAGE", page).env("MODELFMT_NPM", package);
    node.env("MODELFMT_PROGRAM", workspace::target_dir().join("debug/modelfmt"));
    tally.run(Runner::Node, node.env("MODELFMT_TESTDATA", workspace::root().join("testdata")));
    Ok(())
}
