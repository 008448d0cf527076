//! Measures the crates compared with the bare work that is unavoidable, and prints the ratios: `cargo xtask
//! bench`.
//!
//! Everything is measured in one run, alternating between ours and the other. Results are checked before they
//! are timed. Absolute times depend on the machine and the day; the ratios are the result.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a tool over files of its own making: a fault in it may end it"
)]

mod check;
mod checked;
mod convert;
mod edit;
mod fetch;
mod growth;
mod hub;
mod load;
mod lookup;
mod map;
mod memory;
mod oms;
mod open;
mod plot;
mod process;
mod proof;
mod pytorch;
mod quant;
mod race;
mod remote;
mod report;
mod schemes;
mod seal;
mod stats;
mod threads;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use modelfmt_bench::{Result, data};

use report::{Row, Target};

/// Measures everything in docs/PERFORMANCE.md, ours and the other in turn
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Args {
    /// Only the row of this name, or the group before its slash
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Tiny sizes and one round: that the measurements themselves work
    #[arg(long)]
    quick: bool,
    /// Rounds of every row, in place of its own number
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Writes every row as performance.csv, a short table as short.md and plots as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    tables: Option<PathBuf>,
    /// Where files are made, and removed at the end
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    growth: growth::Growth,
}

/// How much is measured.
#[derive(clap::Args, Clone)]
struct Sizes {
    /// Threads of ours and of the other
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Tensors of the model that is opened
    #[arg(long, default_value_t = 100_000)]
    open_tensors: usize,
    /// Tensors of the large model that is opened
    #[arg(long, default_value_t = 1_000_000)]
    many_tensors: usize,
    /// MiB of the file of which one tensor is read
    #[arg(long, default_value_t = 4096)]
    lookup_mib: u64,
    /// MiB of the files that are loaded; as much memory is needed
    #[arg(long, default_value_t = 4096)]
    load_mib: u64,
    /// MiB of the file that is loaded from a server; twice as much memory is needed
    #[arg(long, default_value_t = 1024)]
    remote_mib: u64,
    /// MiB of the sparse file that is repaired from a server
    #[arg(long, default_value_t = 8192)]
    fetch_mib: u64,
    /// MiB of the files that are verified, half of that where they are compressed
    #[arg(long, default_value_t = 1024)]
    verify_mib: u64,
    /// MiB of the file that is converted, a quarter of that where it is compressed
    #[arg(long, default_value_t = 2048)]
    convert_mib: u64,
    /// MiB of f32 that are quantized
    #[arg(long, default_value_t = 64)]
    quant_mib: usize,
    /// MiB of f32 of which statistics are made
    #[arg(long, default_value_t = 1024)]
    stats_mib: u64,
    /// MiB of the files that are encrypted and signed; five times as much memory is needed
    #[arg(long, default_value_t = 512)]
    seal_mib: u64,
}

impl Sizes {
    /// Returns sizes so small that everything takes seconds.
    fn quick(self) -> Self {
        Self {
            open_tensors: 1000,
            many_tensors: 2000,
            lookup_mib: 16,
            load_mib: 24,
            remote_mib: 24,
            fetch_mib: 64,
            verify_mib: 16,
            convert_mib: 64,
            quant_mib: 1,
            stats_mib: 4,
            seal_mib: 8,
            ..self
        }
    }
}

/// The state that all measurements share.
struct Bench {
    sizes: Sizes,
    quick: bool,
    only: Option<String>,
    rounds: Option<usize>,
    dir: Scratch,
    /// The program that measures memory.
    heap: PathBuf,
    /// The program `modelfmt`.
    program: PathBuf,
    rows: Vec<Row>,
    /// The curves for the plot of opening times, if these were measured.
    curves: Vec<plot::Curve>,
}

impl Bench {
    fn new(args: &Args) -> Result<Self> {
        let built = std::env::current_exe()?;
        let built = built.parent().ok_or("the program is in no folder")?;
        let dir = args.dir.clone().unwrap_or_else(|| built.parent().unwrap_or(built).join("bench"));
        let (sizes, rounds) = (args.sizes.clone(), args.rounds);
        let (sizes, rounds) = if args.quick { (sizes.quick(), rounds.or(Some(1))) } else { (sizes, rounds) };
        let [heap, program] = ["modelfmt-bench-heap", "modelfmt"].map(|name| built.join(name));
        let (quick, only) = (args.quick, args.only.clone());
        Ok(Self {
            sizes,
            quick,
            only,
            rounds,
            dir: Scratch::new(dir)?,
            heap,
            program,
            rows: Vec::new(),
            curves: Vec::new(),
        })
    }

    /// Checks whether a row was requested.
    fn wants(&self, id: &str) -> bool {
        let group_of = |only: &str| id.strip_prefix(only).is_some_and(|rest| rest.starts_with('/'));
        self.only.as_ref().is_none_or(|only| only == id || group_of(only))
    }

    /// Returns the number of rounds, unless the user chose another.
    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual).max(1)
    }

    /// Returns the path of a file for measurements.
    fn file(&self, name: &str) -> PathBuf {
        self.dir.0.join(name)
    }

    fn add(&mut self, mut row: Row) {
        if self.quick {
            row.target = Target::None; // so little work says nothing
        }
        println!("{row}");
        self.rows.push(row);
    }
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: PathBuf) -> Result<Self> {
        remove_folder(&path)?; // a run that was killed leaves files
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn remove_folder(path: &Path) -> Result {
    if path.exists() { Ok(fs::remove_dir_all(path)?) } else { Ok(()) }
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> Result {
    if path.exists() { Ok(fs::remove_file(path)?) } else { Ok(()) }
}

/// Returns an error unless `good`.
fn ensure(good: bool, what: impl FnOnce() -> String) -> Result {
    if good { Ok(()) } else { Err(what().into()) }
}

/// Formats a number with commas.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Describes the machine, and how busy it was before the measurements.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let load = read("/proc/loadavg");
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN);
    if load > 0.5 {
        eprintln!("warning: the machine is busy (load {load}): what uses several threads cannot be told");
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores; load before the run {load}")
}

fn run(args: &Args) -> Result {
    let machine = machine();
    println!("{machine}\n");
    let mut bench = Bench::new(args)?;
    if args.growth.is_asked() {
        return write(args, &args.growth.plots(&bench)?);
    }
    open::run(&mut bench)?;
    lookup::run(&mut bench)?;
    load::run(&mut bench)?;
    remote::run(&mut bench)?;
    fetch::run(&mut bench)?;
    verify::run(&mut bench)?;
    proof::run(&mut bench)?;
    convert::run(&mut bench)?;
    hub::run(&mut bench)?;
    schemes::run(&mut bench)?;
    pytorch::run(&mut bench)?;
    checked::run(&mut bench)?;
    check::run(&mut bench)?;
    edit::run(&mut bench)?;
    quant::run(&mut bench)?;
    stats::run(&mut bench)?;
    seal::run(&mut bench)?;
    oms::run(&mut bench)?;
    memory::run(&mut bench)?;
    process::run(&mut bench)?;
    let rows = &bench.rows;
    if rows.is_empty() {
        return Err("there is no row of that name".into());
    }
    let short = rows.iter().filter(|row| !row.is_reached()).count();
    println!("\n{} rows, {short} short of their target", rows.len());
    let mut files = vec![
        ("performance.csv".to_owned(), report::csv(rows)),
        ("short.md".to_owned(), format!("{machine}\n\n{}", report::short_table(rows))),
    ];
    if !bench.curves.is_empty() {
        files.push(("open.svg".to_owned(), open::plot(&bench.curves)));
    }
    write(args, &files)
}

/// Writes files into the requested folder, if there is one.
fn write(args: &Args, files: &[(String, String)]) -> Result {
    let Some(folder) = &args.tables else { return Ok(()) };
    fs::create_dir_all(folder)?;
    files.iter().try_for_each(|(name, text)| Ok(fs::write(folder.join(name), text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!([7, 1000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
