//! `cargo xtask bench`: builds the program and the measurements in release mode, and runs the measurements.
//! `--quick` measures nothing and therefore uses the builds of the tests.

mod compare;
mod rows;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::docs::Part;
use crate::run::{Result, exec, step};
use crate::{oracles, python, web, workspace};

/// Where the table of the least favourable cases goes. The measurements write it as `short.md`.
const TABLE: Part = Part {
    file: "docs/PERFORMANCE.md",
    begin: "<!-- made by `cargo xtask bench --write` -->",
    end: "<!-- end -->",
};
/// The file of all rows and the plot of the README: the name that the measurements give, and the destination.
const FILES: [(&str, &str); 2] =
    [("performance.csv", "docs/performance.csv"), ("open.svg", "docs/img/open.svg")];
/// The option that plots how time and memory grow, in place of the rows. The plots are listed below.
const GROWTH: &str = "--growth";
const PLOTS: [&str; 5] = [
    "growth-open.svg",
    "growth-open-memory.svg",
    "growth-verify.svg",
    "growth-convert.svg",
    "growth-memory.svg",
];
/// Options that measure only a part, or small sizes. Their results must not get into the documents.
const PARTIAL: &[&str] = &["--only", "--quick"];

/// Runs the measurements with `args`. With `--write` among them, the results go into the documents. If
/// `--python` comes first, measures the Python package; if `--web` does, the page. With `--compare BASE`,
/// another commit is measured too.
pub(crate) fn run(args: &[OsString]) -> Result {
    if let Some((_, args)) = args.split_first().filter(|(first, _)| *first == "--python") {
        return python::bench(args);
    }
    if let Some((_, args)) = args.split_first().filter(|(first, _)| *first == "--web") {
        return web::bench(args);
    }
    if args.iter().any(|arg| arg == "--compare") {
        return compare::run(args);
    }
    let (writes, args): (Vec<_>, Vec<_>) = args.iter().partition(|arg| *arg == "--write");
    let is_partial = |arg: &&OsString| PARTIAL.iter().any(|name| arg.to_string_lossy().starts_with(name));
    if let Some(arg) = args.iter().find(|arg| !writes.is_empty() && is_partial(arg)) {
        return Err(format!("--write is for all of it, without {}", arg.display()).into());
    }
    step("bench");
    // The program is measured too, and so is the memory of a process with a counting allocator.
    let (folder, built): (&str, &[&str]) = if args.iter().any(|arg| *arg == "--quick") {
        ("debug", &["--all-features", "--bins"])
    } else {
        ("release", &["--release", "--package", "modelfmt-bench", "--package", "modelfmt-cli"])
    };
    exec(workspace::cargo("build").args(built))?;
    let target = workspace::target_dir();
    let mut bench = workspace::command(target.join(folder).join("modelfmt-bench"));
    // Our encoders are compared with ggml's C.
    bench.args(&args).env(oracles::PYTHON, oracles::install()?);
    let tables = target.join("bench-tables");
    if !writes.is_empty() {
        bench.arg("--tables").arg(&tables);
    }
    exec(&mut bench)?;
    if writes.is_empty() {
        return Ok(());
    }
    if args.iter().any(|arg| *arg == GROWTH) {
        let copy = |name: &str| fs::copy(tables.join(name), workspace::root().join("docs/img").join(name));
        return PLOTS.iter().try_for_each(|name| Ok(copy(name).map(drop)?));
    }
    write(&tables)
}

fn write(tables: &Path) -> Result {
    TABLE.write(&fs::read_to_string(tables.join("short.md"))?)?;
    for (left, place) in FILES {
        fs::copy(tables.join(left), workspace::root().join(place))?;
    }
    Ok(())
}
