//! Measures the memory of an open model, its statistics or another program. It is a separate program because
//! its counting allocator would slow others down, and because it is small: a process starts with the peak of
//! its parent process.

use std::path::Path;
use std::process::{Command, Stdio};

use modelfmt_bench::Result;
use modelfmt_bench::data::FORMS;
use nix::sys::resource::{UsageWho, getrusage};
use testkit::{CountingAllocator, held, peak};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> Result {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["open", format, path] => open(format, &std::fs::read(path)?),
        ["open-path", path, name] => open_path(Path::new(path), name),
        ["stats", threads, path] => stats(threads.parse()?, Path::new(path)),
        ["load", how, threads, path] => load(how == "verified", threads.parse()?, Path::new(path)),
        ["run", program, ref args @ ..] => run(program, args),
        _ => {
            Err("open FORMAT PATH, open-path PATH NAME, stats THREADS PATH, load HOW THREADS PATH, or run PROGRAM ARGUMENTS"
                .into())
        }
    }
}

/// Prints how much heap an open model holds, and the peak while it was opened.
fn open(format: &str, bytes: &[u8]) -> Result {
    let form = FORMS.into_iter().find(|form| form.name() == format).ok_or("the format is not measured")?;
    let ((reader, held), peak) = peak(|| held(|| form.open(bytes)));
    println!("{held} {peak}");
    drop(reader?);
    Ok(())
}

/// Opens a file by its path, reads a tensor and prints the peak memory of this process.
fn open_path(path: &Path, name: &str) -> Result {
    let model = modelfmt::Model::open(path)?;
    model.tensor(name)?;
    print_peak()
}

/// Computes the statistics of the first tensor and prints the peak memory of this process.
fn stats(threads: usize, path: &Path) -> Result {
    let model = modelfmt::Model::open(path)?;
    modelfmt::show::stats(&model, 0, &modelfmt::Execution { threads, progress: None })?;
    print_peak()
}

/// Loads a model and prints the peak memory of this process.
fn load(verify: bool, threads: usize, path: &Path) -> Result {
    let model = modelfmt::Model::open(path)?;
    let picks = model.picks::<&str>(&[])?;
    let options = modelfmt_core::load::LoadOptions::new().verify(verify);
    let (tensors, _) = model.load(&picks, &options, &modelfmt::Execution { threads, progress: None })?;
    print_peak()?;
    drop(tensors);
    Ok(())
}

fn print_peak() -> Result {
    // The usage that the system reports starts with that of the parent process; this value does not.
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    println!("{}", kib.parse::<u64>()? << 10);
    Ok(())
}

/// Runs a program and prints its peak memory.
fn run(program: &str, args: &[&str]) -> Result {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    println!("{}", getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() << 10); // Linux counts in KiB
    Ok(())
}
