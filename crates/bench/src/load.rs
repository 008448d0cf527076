//! Loads a whole model into memory, compared with bare reads of the same bytes, and with other loaders.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use modelfmt::{Execution, Model};
use modelfmt_core::load::LoadOptions;
use modelfmt_core::plan::Pick;
use modelfmt_core::{AlignedBuf, DType, author::PIECE};
use safetensors_oracle::SafeTensors;

use crate::data::{Form, Noise, Tensors, Values};
use crate::map::map;
use crate::open::measured;
use crate::race::{Race, on_threads, race, seconds};
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, remove};

/// The size of a bare read.
const BLOCK: usize = 4 << 20;

const FORMS: [Form; 2] = [Form::Safetensors, Form::AeroAll];
const KINDS: [&str; 10] = [
    "warm",
    "verified",
    "cold",
    "memory",
    "memory-verified",
    "beside-rust",
    "beside-cat",
    "beside-python",
    "beside-fastsafetensors",
    "beside-runai",
];

/// Loads models of one size in two formats.
pub(crate) fn run(bench: &mut Bench) -> Result {
    for form in FORMS {
        let id = |kind: &str| format!("load/{kind}-{}", form.name());
        if !KINDS.iter().any(|kind| bench.wants(&id(kind))) {
            continue;
        }
        let path = bench.file("load");
        let tensors = Tensors::layers(DType::F16, 32, bench.sizes.load_mib << 20);
        tensors.to_file(form, &Noise::new(Values::F16), &path)?;
        File::open(&path)?.sync_all()?; // what is dirty stays in the cache
        let loaded = Loaded::new(&path, form, bench.sizes.threads)?;
        warm(bench, &id("warm"), loaded)?;
        let loaded = Loaded::new(&path, form, bench.sizes.threads)?;
        if form == Form::AeroAll {
            verified(bench, &id("verified"), &loaded)?;
        } else {
            beside(bench, id, &loaded)?;
        }
        drop(loaded);
        // The file is unchanged, but has been written to.
        cold(bench, &id("cold"), Loaded::new(&path, form, bench.sizes.threads)?)?;
        memory(bench, id, form, &path, tensors.nbytes())?;
        remove(&path)?;
    }
    Ok(())
}

/// A model, and memory for all of its tensors that has been touched.
struct Loaded {
    path: PathBuf,
    form: Form,
    threads: usize,
    model: Model,
    picks: Vec<Pick>,
    /// The position of each tensor in the memory: as in the file, so that the disk can fill the memory
    /// directly.
    places: Vec<Range<usize>>,
    /// The first byte of values in the file, and the end of the last.
    begin: u64,
    end: u64,
    memory: Mutex<AlignedBuf>,
    /// The number of bytes in the memory before the first value, which has the same offset in its page as in
    /// the file.
    skip: usize,
}

impl Loaded {
    fn new(path: &Path, form: Form, threads: usize) -> Result<Self> {
        let model = Model::open(path)?;
        let picks = model.picks::<&str>(&[])?;
        let plan = model.plan(&picks, modelfmt_core::plan::PlanOptions::local())?;
        let hulls = || plan.ranges().iter().map(|range| range.runs.hull());
        let (begin, end) = (hulls().map(|hull| hull.start).min(), hulls().map(|hull| hull.end).max());
        let (begin, end) = begin.zip(end).ok_or("no tensor has values")?;
        let places = picks.iter().map(|pick| {
            let stored = model.container().stored(pick.position)?;
            let start = (stored.offset.ok_or("a tensor has no values")? - begin) as usize;
            Ok(start..start + stored.nbytes as usize)
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        let mut memory = AlignedBuf::zeroed((end - begin) as usize + 4096)?;
        let skip = (begin as usize).wrapping_sub(memory.as_ptr().addr()) % 4096;
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1); // pages that are only promised are not touched
        let memory = Mutex::new(memory);
        Ok(Self { path: path.to_owned(), form, threads, model, picks, places, begin, end, memory, skip })
    }

    fn nbytes(&self) -> u64 {
        self.end - self.begin
    }

    fn ours(&self, options: &LoadOptions) -> Result {
        let mut memory = self.memory.lock().map_err(|_| "the memory is broken")?;
        let (mut rest, mut at) = (&mut memory[self.skip..], 0);
        let mut buffers = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let (buffer, after) = rest[place.start - at..].split_at_mut(place.len());
            buffers.push(buffer);
            (rest, at) = (after, place.end);
        }
        let work = Execution { threads: self.threads, progress: None };
        self.model.load_into(&self.picks, &mut buffers, options, &work)?;
        Ok(())
    }

    /// Reads the same bytes of the file, including gaps, by bare positioned reads on as many threads.
    fn bare(&self) -> Result {
        let file = File::open(&self.path)?;
        let mut memory = self.memory.lock().map_err(|_| "the memory is broken")?;
        let blocks: Vec<_> =
            memory[self.skip..][..self.nbytes() as usize].chunks_mut(BLOCK).map(Mutex::new).collect();
        on_threads(
            self.threads,
            blocks.len(),
            || (),
            |(), number| {
                let mut block = blocks[number].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let read = file.read_exact_at(&mut block, self.begin + (number * BLOCK) as u64);
                assert!(read.is_ok(), "{read:?}");
            },
        );
        Ok(())
    }

    /// Computes BLAKE3 of the same bytes, in pieces of a size for which it is fast.
    fn hash(&self) -> Result {
        let memory = self.memory.lock().map_err(|_| "the memory is broken")?;
        let pieces: Vec<_> = memory[self.skip..][..self.nbytes() as usize].chunks(PIECE as usize).collect();
        on_threads(
            self.threads,
            pieces.len(),
            || (),
            |(), number| {
                black_box(blake3::hash(pieces[number]));
            },
        );
        Ok(())
    }

    /// Makes bare reads that bypass the page cache, of the same size and on as many threads.
    fn bare_uncached(&self) -> Result {
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(&self.path)?;
        let begin = self.begin / 4096 * 4096;
        let count = (self.end - begin).div_ceil(BLOCK as u64) as usize;
        on_threads(
            self.threads,
            count,
            || AlignedBuf::zeroed(BLOCK + 4096).ok(),
            |buffer, number| {
                let buffer = buffer.as_mut().map(|buffer| &mut buffer[..]).unwrap_or_default();
                let aligned = buffer.as_ptr().addr().next_multiple_of(4096) - buffer.as_ptr().addr();
                let at = begin + (number * BLOCK) as u64;
                let read = file.read_at(&mut buffer[aligned..aligned + BLOCK], at);
                assert!(
                    read.as_ref().is_ok_and(|&n| n as u64 >= (self.end - at).min(BLOCK as u64)),
                    "{read:?}"
                );
            },
        );
        Ok(())
    }

    /// Returns the time that fio measures, with the same block size and as many jobs.
    fn fio(&self) -> Result<f64> {
        let part = (self.nbytes() / self.threads as u64 / BLOCK as u64).max(1) * BLOCK as u64;
        let output = Command::new("fio")
            .args(["--name=load", "--rw=read", "--direct=1", "--bs=4M", "--ioengine=psync", "--minimal"])
            .args(["--group_reporting", "--thread", "--readonly"])
            .arg(format!("--filename={}", self.path.display()))
            .args([format!("--numjobs={}", self.threads), format!("--size={part}")])
            .arg(format!("--offset_increment={part}"))
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The seventh field is the bandwidth of reads in KiB per second.
        let rate = text.lines().find_map(|line| line.split(';').nth(6)?.parse::<f64>().ok());
        let rate = rate.filter(|&rate| rate > 0.0).ok_or_else(|| format!("fio says {text}"))?;
        Ok(self.nbytes() as f64 / (rate * 1024.0))
    }

    /// Removes the file from the page cache.
    fn forget(&self) -> Result {
        self.model.container().source_of(0)?.drop_cached();
        Ok(())
    }

    fn row(&self, id: &str, work: String, samples: Vec<f64>, target: Target, race: &Race) -> Row {
        let rates = race.rates(self.nbytes() as usize);
        let rate = rates.iter().copied().fold(0.0, f64::max);
        Row {
            id: id.to_owned(),
            work,
            case: self.form.title().to_owned(),
            samples,
            unit: Unit::Times,
            target,
            note: format!("{}; {rate:.1} GB/s at best", race.times()),
        }
    }
}

/// Checks that the loaded values equal those in the file, and that a changed byte is found.
fn is_right(loaded: &Loaded) -> Result {
    loaded.ours(&LoadOptions::new())?;
    let memory = loaded.memory.lock().map_err(|_| "the memory is broken")?;
    for (info, place) in loaded.model.tensors().zip(&loaded.places) {
        let same = *loaded.model.tensor(info.name)?.bytes() == memory[loaded.skip..][place.clone()];
        ensure(same, || format!("{} is loaded as something else", info.name))?;
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "its memory is given back")]
fn warm(bench: &mut Bench, id: &str, loaded: Loaded) -> Result {
    if !bench.wants(id) {
        return Ok(());
    }
    is_right(&loaded)?;
    let options = LoadOptions::new();
    let race = race(bench.rounds(7), || seconds(|| loaded.ours(&options)), || seconds(|| loaded.bare()))?;
    let work = format!(
        "load {} MiB that are in the page cache into touched memory: speed of bare positioned reads of the same bytes on {} threads",
        bench.sizes.load_mib, loaded.threads
    );
    bench.add(loaded.row(id, work, race.speedups(), Target::AtLeast(0.9), &race));
    Ok(())
}

fn verified(bench: &mut Bench, id: &str, loaded: &Loaded) -> Result {
    if !bench.wants(id) {
        return Ok(());
    }
    let options = LoadOptions::new().verify(true);
    let file = File::options().read(true).write(true).open(&loaded.path)?;
    let (middle, mut byte) = ((loaded.begin + loaded.end) / 2, [0]);
    file.read_exact_at(&mut byte, middle)?;
    file.write_all_at(&[byte[0] ^ 1], middle)?;
    let damaged = Loaded::new(&loaded.path, loaded.form, loaded.threads)?.ours(&options);
    file.write_all_at(&byte, middle)?;
    file.sync_all()?;
    ensure(damaged.is_err(), || "a changed byte was loaded as verified".to_owned())?;
    let loaded = Loaded::new(&loaded.path, loaded.form, loaded.threads)?;
    let bare = || seconds(|| loaded.bare().and_then(|()| loaded.hash()));
    let race = race(bench.rounds(7), || seconds(|| loaded.ours(&options)), bare)?;
    let work = format!(
        "load {} MiB that are in the page cache, verified by the hash of each tensor: time of bare reads and then the bare BLAKE3 on {} threads",
        bench.sizes.load_mib, loaded.threads
    );
    bench.add(loaded.row(id, work, race.costs(), Target::AtMost(1.15), &race));
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "its memory is given back")]
fn cold(bench: &mut Bench, id: &str, loaded: Loaded) -> Result {
    if !bench.wants(id) {
        return Ok(());
    }
    let has_fio = Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let has_fio = has_fio.is_ok_and(|status| status.success());
    let options = LoadOptions::new().uncached(true).drop_cache(true);
    let ours = || {
        loaded.forget()?;
        seconds(|| loaded.ours(&options))
    };
    let other = || {
        loaded.forget()?;
        if has_fio { loaded.fio() } else { seconds(|| loaded.bare_uncached()) }
    };
    let race = race(bench.rounds(5), ours, other)?;
    let by = if has_fio { "fio" } else { "bare reads past the page cache" };
    let work = format!(
        "load {} MiB that are not in the page cache: speed of {by}, blocks of 4 MiB on {} threads",
        bench.sizes.load_mib, loaded.threads
    );
    bench.add(loaded.row(id, work, race.speedups(), Target::AtLeast(0.9), &race));
    Ok(())
}

/// Measures the peak memory of a process that loads the model, beyond the tensors.
fn memory(bench: &mut Bench, id: impl Fn(&str) -> String, form: Form, path: &Path, nbytes: u64) -> Result {
    for (kind, how) in [("memory", "plain"), ("memory-verified", "verified")] {
        let id = id(kind);
        if !bench.wants(&id) {
            continue;
        }
        let threads = bench.sizes.threads.to_string();
        let args = [OsStr::new("load"), OsStr::new(how), OsStr::new(&threads), path.as_os_str()];
        let [peak] = measured(&bench.heap, &args)?;
        bench.add(Row {
            id,
            work: format!("memory of a process that loads {} MiB, beyond the tensors", bench.sizes.load_mib),
            case: format!("{}{}", form.title(), if how == "verified" { ", verified" } else { "" }),
            samples: vec![(peak - nbytes as f64) / f64::from(1 << 20)],
            unit: Unit::MiB,
            target: Target::AtMost(32.0),
            note: String::new(),
        });
    }
    Ok(())
}

/// The name of the row, its description, and a function that returns its time.
type Other<'a> = (&'static str, &'static str, Box<dyn Fn() -> Result<f64> + 'a>);

/// Compares other loaders of safetensors files. They use memory of their own, so ours also allocates new
/// memory here.
fn beside(bench: &mut Bench, id: impl Fn(&str) -> String, loaded: &Loaded) -> Result {
    let work = Execution { threads: loaded.threads, progress: None };
    let ours = || seconds(|| Ok(loaded.model.load(&loaded.picks, &LoadOptions::new(), &work)?));
    let mib = bench.sizes.load_mib;
    let mut others: Vec<Other<'_>> = vec![
        (
            "beside-rust",
            "`SafeTensors` over a map, each tensor copied",
            Box::new(|| seconds(|| copied(&loaded.path))),
        ),
        ("beside-cat", "`cat FILE >/dev/null`", Box::new(|| seconds(|| cat(&loaded.path)))),
    ];
    for (kind, loader, name) in PYTHON {
        match python(loader) {
            Some(python) => {
                others.push((kind, name, Box::new(move || load_file(&python, loader, &loaded.path))));
            }
            None if bench.wants(&id(kind)) => {
                eprintln!("no Python that has {loader}: see crates/bench/load_file.py");
            }
            None => {}
        }
    }
    for (kind, name, other) in others {
        let id = id(kind);
        if bench.wants(&id) {
            let race = race(bench.rounds(5), ours, &other)?;
            let work =
                format!("load {mib} MiB that are in the page cache into new memory: faster than {name}");
            bench.add(loaded.row(&id, work, race.speedups(), Target::None, &race));
        }
    }
    Ok(())
}

fn copied(path: &Path) -> Result<Vec<Vec<u8>>> {
    let map = map(path)?;
    let model = SafeTensors::deserialize(&map)?;
    Ok(model.tensors().iter().map(|(_, view)| view.data().to_vec()).collect())
}

fn cat(path: &Path) -> Result {
    let status = Command::new("cat").arg(path).stdout(Stdio::null()).status()?;
    ensure(status.success(), || "cat fails".to_owned())
}

/// Loaders in Python: the row, the name in `load_file.py`, and a description.
const PYTHON: [(&str, &str, &str); 3] = [
    ("beside-python", "safetensors", "Python's `safetensors.numpy.load_file`"),
    ("beside-fastsafetensors", "fastsafetensors", "fastsafetensors without GDS, into torch's memory"),
    ("beside-runai", "runai", "runai-model-streamer, into torch's memory"),
];
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/load_file.py");

/// Returns a Python with that loader: the one that a variable names, or that of the oracles.
fn python(loader: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = ["MODELFMT_BENCH_PYTHON", "MODELFMT_ORACLES_PYTHON"].into_iter().filter_map(std::env::var_os);
    let mut all = named.map(PathBuf::from).chain([root.join("target/oracles/bin/python")]);
    all.find(|python| {
        let has = Command::new(python).args([SCRIPT, loader]).stderr(Stdio::null()).status();
        has.is_ok_and(|status| status.success())
    })
}

/// Returns the time that Python reports, without its own start.
fn load_file(python: &Path, loader: &str, path: &Path) -> Result<f64> {
    let output = Command::new(python).args([SCRIPT, loader]).arg(path).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim().parse().map_err(|_| format!("{SCRIPT} {loader} prints {text:?}"))?)
}
