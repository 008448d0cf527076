//! Prints a line for every file of testdata/ and of the fuzzer's kept inputs: a checksum of everything that
//! the readers return for it and for damaged copies of it. `cargo xtask ci` compares the lines of builds with
//! different features.
#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "this is test code"
)]

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use modelfmt_core::source::{Folder, MemoryFiles, SharedFiles, shared_files};
use modelfmt_core::value::Object;
use modelfmt_core::{Container, DType, Execution, VerifyLevel};
use modelfmt_write::{MemoryFile, TensorSpec};
use testkit::crc32;

/// The number of copies of each file with one bit flipped, and of copies that are cut short.
const FLIPS: usize = 150;
const CUTS: usize = 30;

fn main() -> Result<(), Box<dyn Error>> {
    let root = testkit::testdata("");
    let files = shared_files(Folder::new(&root));
    for name in testkit_wasm::models_below(&root)? {
        println!("{name} {:08x}", outcomes(&name, &fs::read(root.join(&name))?, &files));
    }
    let nothing = shared_files(MemoryFiles::default());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, ending) in TARGETS {
        for path in listed(&corpus.join(target))? {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
            let bytes = fs::read(&path)?;
            println!("{target}/{name} {:08x}", outcomes(&format!("{name}.{ending}"), &bytes, &nothing));
        }
    }
    for (name, bytes) in large() {
        println!(
            "{name} of {} bytes {:08x} {:08x}",
            bytes.len(),
            crc32(&bytes),
            outcome(name, &bytes, &nothing)
        );
    }
    Ok(())
}

/// Fuzz targets whose inputs are files, and the extension of these files.
const TARGETS: [(&str, &str); 7] = [
    ("aero_parse", "aero"),
    ("apr_parse", "apr"),
    ("apr2_parse", "apr"),
    ("gguf_parse", "gguf"),
    ("mag_parse", "mag"),
    ("oinf_parse", "oinf"),
    ("safetensors_parse", "safetensors"),
];

fn listed(folder: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns a checksum of the results for the file and its damaged copies.
fn outcomes(name: &str, bytes: &[u8], files: &SharedFiles) -> u32 {
    let mut all = outcome(name, bytes, files).to_le_bytes().to_vec();
    let mut random = u64::from(crc32(bytes)) | 1;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(random >> 33).unwrap_or(0) % bound.max(1)
    };
    for _ in 0..FLIPS {
        // Half of the flips are in the first bytes, where the structure is.
        let bound = if next(2) == 0 { bytes.len() } else { bytes.len().min(512) };
        let mut copy = bytes.to_vec();
        let bit = next(8 * bound);
        if let Some(byte) = copy.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        all.extend(outcome(name, &copy, files).to_le_bytes());
    }
    for _ in 0..CUTS {
        all.extend(outcome(name, &bytes[..next(bytes.len())], files).to_le_bytes());
    }
    crc32(&all)
}

fn outcome(name: &str, bytes: &[u8], files: &SharedFiles) -> u32 {
    let opened = testkit_wasm::open_source(name, Box::new(bytes.to_vec()), files);
    crc32(opened.map_or_else(|error| error.to_string(), |opened| all_of(&*opened)).as_bytes())
}

/// Returns everything that a reader reports, errors included.
fn all_of(container: &dyn Container) -> String {
    let mut out = String::new();
    let metadata = (container.version(), container.metadata(), container.details());
    let _ = writeln!(out, "{metadata:?}");
    for number in 0..container.tensor_count() {
        let _ = writeln!(out, "{:?} {:?}", container.info(number), container.location(number));
        let values = container.read(number).map(|bytes| crc32(&bytes));
        let mut part = [0; 5];
        let part = container.values_into(number, 2, &mut part, None).map(|()| part);
        let _ = writeln!(out, "{values:?} {part:?}");
    }
    for level in [VerifyLevel::Header, VerifyLevel::Control, VerifyLevel::Full] {
        let _ = writeln!(out, "{:?}", container.verify(level, &Execution::default()));
    }
    out
}

/// Makes files that are large enough for several threads, written by the default number of threads.
fn large() -> [(&'static str, Vec<u8>); 2] {
    let specs = || (0..5u64).map(|n| TensorSpec::new(format!("t.{n}"), DType::F32, vec![(n + 1) << 17]));
    let values: Vec<Vec<u8>> =
        (0..5usize).map(|n| (0..(n + 1) << 19).map(|i| (i >> n) as u8).collect()).collect();
    let (aero, apr) = (MemoryFile::new(), MemoryFile::new());
    let metadata = Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
    let options = aero::WriteOptions::new()
        .uuid([7; 16])
        .tensor_hashes(true)
        .control_hash(true)
        .page_hashes(Some(4096))
        .shard_size(3 << 20);
    let plan = aero::Plan::new(specs(), &metadata, &options).expect("a plan");
    plan.write(&values, &aero, &Execution::default()).expect("memory takes everything");
    let metadata = apr2::Metadata::new("demo", Object::new());
    let options = apr2::WriteOptions::new().compression(apr2::Compression::Lz4);
    let plan = apr2::Plan::new(specs(), &metadata, &options).expect("a plan");
    plan.write(&values, &apr, &Execution::default()).expect("memory takes everything");
    [("large.aero", aero.into_bytes()), ("large.apr", apr.into_bytes())]
}
