//! How much memory an open model or its statistics take: a program of its own, because its allocator counts, which would slow the
//! others down.

use std::error::Error;
use std::path::Path;

use tensor_core::Container;
use testkit::{CountingAllocator, held, peak};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["open", format, path] => open(format, &std::fs::read(path)?),
        ["stats", threads, path] => stats(threads.parse()?, Path::new(path)),
        _ => Err("open FORMAT PATH, or stats THREADS PATH".into()),
    }
}

/// Prints what the heap holds of an open model, and what it held at most meanwhile.
fn open(format: &str, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    let ((reader, held), peak) = peak(|| held(|| reader(format, bytes)));
    println!("{held} {peak}");
    drop(reader?);
    Ok(())
}

fn reader<'a>(format: &str, bytes: &'a [u8]) -> Result<Box<dyn Container + 'a>, Box<dyn Error>> {
    Ok(match format {
        "apr2" => Box::new(apr2::Reader::from_source(bytes)?),
        "mag" => Box::new(mag::Reader::from_source(bytes)?),
        "oinf" => Box::new(oinf::Reader::from_source(bytes)?),
        "aero" => Box::new(aero::Reader::from_source(bytes)?),
        _ => return Err(format!("{format} is not measured").into()),
    })
}

/// Computes the statistics of the first tensor and prints the most memory that the process held, in bytes.
fn stats(threads: usize, path: &Path) -> Result<(), Box<dyn Error>> {
    let model = modelfmt::Model::open(path)?;
    modelfmt::stats(&model, 0, &modelfmt::Work { threads, progress: None })?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    println!("{}", kib.parse::<u64>()? << 10);
    Ok(())
}
