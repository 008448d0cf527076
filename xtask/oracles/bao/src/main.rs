//! Makes outboards, and checks files by them, with the crate bao-tree.
//!
//! `make FILE…` writes `FILE.bao-tree` next to each file and prints a line with the hash. `check LIST` reads
//! a text with lines `HASH FILE OUTBOARD`, and prints for each line which bytes of the file pass, as
//! `START..END` in ascending order.

use std::error::Error;
use std::fs;

use bao_tree::io::outboard::{PreOrderMemOutboard, PreOrderOutboard};
use bao_tree::io::sync::{encode_ranges_validated, valid_ranges};
use bao_tree::{BaoTree, BlockSize, ChunkNum, ChunkRanges};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Chunk groups of 16 KiB.
const BLOCK: BlockSize = BlockSize::from_chunk_log(4);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", ref files @ ..] => files.iter().try_for_each(|file| Ok(println!("{}", make(file)?))),
        ["check", list] => {
            fs::read_to_string(list)?.lines().try_for_each(|line| Ok(println!("{}", check(line)?)))
        }
        _ => Err("make FILE… | check LIST".into()),
    }
}

fn make(path: &str) -> Result<String> {
    let outboard = PreOrderMemOutboard::create(fs::read(path)?, BLOCK);
    fs::write(format!("{path}.bao-tree"), &outboard.data)?;
    Ok(outboard.root.to_hex().to_string())
}

fn check(line: &str) -> Result<String> {
    let [hash, file, outboard] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(line.into()) };
    let (file, data) = (fs::read(file)?, fs::read(outboard)?);
    let tree = BaoTree::new(file.len() as u64, BLOCK);
    let outboard = PreOrderOutboard { root: hash.parse()?, tree, data };
    let mut passes: Vec<(u64, u64)> = Vec::new();
    for range in valid_ranges(&outboard, &file[..], &ChunkRanges::all()) {
        let range = range?;
        let (start, end) = (range.start.to_bytes(), range.end.to_bytes().min(file.len() as u64));
        match passes.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => passes.push((start, end)),
        }
    }
    // The encoder validates what it sends, and must accept these ranges too.
    for &(start, end) in &passes {
        let chunks = ChunkRanges::from(ChunkNum::full_chunks(start)..ChunkNum::chunks(end));
        encode_ranges_validated(&file[..], &outboard, &chunks, &mut Vec::new())?;
    }
    Ok(passes.iter().map(|(start, end)| format!("{start}..{end}")).collect::<Vec<_>>().join(" "))
}
