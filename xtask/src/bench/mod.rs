//! `cargo xtask bench`: builds the program and the measurements in release mode, and runs these. With `--quick`, which measures
//! nothing, what tests have built is good enough.

mod compare;
mod rows;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::docs::Part;
use crate::run::{Result, exec, step};
use crate::{oracles, python, web, workspace};

/// The table of the least favourable cases, which the measurements leave as `short.md`.
const TABLE: Part = Part {
    file: "docs/PERFORMANCE.md",
    begin: "<!-- made by `cargo xtask bench --write` -->",
    end: "<!-- end -->",
};
/// Every row and the plot of the README: what the measurements leave, and where it goes.
const FILES: [(&str, &str); 2] =
    [("performance.csv", "docs/performance.csv"), ("open.svg", "docs/img/open.svg")];
/// What draws how time and memory grow, in place of the rows, and what it leaves.
const GROWTH: &str = "--growth";
const PLOTS: [&str; 5] = [
    "growth-open.svg",
    "growth-open-memory.svg",
    "growth-verify.svg",
    "growth-convert.svg",
    "growth-memory.svg",
];
/// What part of the measurements, or small ones, no table may show.
const PARTIAL: &[&str] = &["--only", "--quick"];

/// Runs the measurements with `args`; with `--write` among them the documents get what was measured. With `--python` first, those of
/// the Python package; with `--web`, those of the page. With `--compare BASE`, another commit is measured too.
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
    let (profile, folder) =
        if args.iter().any(|arg| *arg == "--quick") { ("dev", "debug") } else { ("release", "release") };
    let packages = ["--profile", profile, "--package", "modelfmt-bench", "--package", "modelfmt-cli"];
    exec(workspace::cargo("build").args(packages))?;
    let target = workspace::target_dir();
    let mut bench = workspace::command(target.join(folder).join("modelfmt-bench"));
    // ggml's C is measured beside our encoders.
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
