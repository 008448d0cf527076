//! Fetches files: checking a damaged copy is compared with bare reads and BLAKE3, and fetching new files with
//! bare requests.

use std::fs::{self, File};
use std::hint::black_box;
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use modelfmt::Execution;
use modelfmt_core::source::FileSource;
use modelfmt_core::{DType, Source as _};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::fetch::FetchOptions;
use modelfmt_remote::{Environment, Location, Options};
use modelfmt_write::{FileSink, write_outboard};
use testkit::servers::Nginx;

use crate::data::{Form, Noise, Tensors, Values};
use crate::race::{on_threads, race, seconds};
use crate::remote::get;
use crate::report::{Row, Target, Unit};
use crate::{Bench, Result, ensure, memory, remove};

/// The number of requests at once, for us and for the bare side.
const REQUESTS: u16 = 16;
/// The size of a bare request, and of the pieces that are hashed.
const BLOCK: usize = 4 << 20;
const PIECE: usize = 1 << 20;

/// Fetches from a local nginx.
pub(crate) fn run(bench: &mut Bench) -> Result {
    let ids = ["fetch/check", "fetch/memory", "fetch/new", "fetch/verified", "fetch/verified-unchecked"];
    if !ids.iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let work = std::path::absolute(bench.file("nginx-fetch"))?;
    fs::create_dir(&work)?;
    let nginx = Nginx::start(&std::path::absolute(&bench.dir.0)?, &work);
    check(bench, &nginx)?;
    new(bench, &nginx)
}

fn store() -> Result<Store> {
    let environment = Environment::from_vars([("", ""); 0]);
    Ok(Store::new(Options::new().environment(environment).in_flight(REQUESTS, 64 << 20))?)
}

/// Writes the outboard of a file next to it, and returns the hash.
fn with_outboard(path: &Path, threads: usize) -> Result<[u8; 32]> {
    let sink = FileSink(File::create(outboard_of(path))?);
    Ok(write_outboard(&FileSource::open(path)?, &sink, &Execution { threads, progress: None })?)
}

fn outboard_of(path: &Path) -> std::path::PathBuf {
    format!("{}.obao4", path.display()).into()
}

/// Measures a sparse file with a damaged copy next to it.
fn check(bench: &mut Bench, nginx: &Nginx) -> Result {
    let [check, memory] = ["fetch/check", "fetch/memory"];
    if !(bench.wants(check) || bench.wants(memory)) {
        return Ok(());
    }
    let (good, copy, threads) = (bench.file("fetch-good"), bench.file("fetch-copy"), bench.sizes.threads);
    let len = bench.sizes.fetch_mib << 20;
    for path in [&good, &copy] {
        File::create(path)?.set_len(len)?;
    }
    let hash = with_outboard(&good, threads)?;
    let bad = [len / 7, len / 2 + 12_345, len - 1];
    let damage = || -> Result {
        let file = File::options().write(true).open(&copy)?;
        bad.iter().try_for_each(|at| file.write_all_at(&[1], *at))?;
        Ok(())
    };
    let (store, url) = (store()?, location(nginx, "fetch-good")?);
    let repair = || -> Result {
        damage()?;
        let done = store.fetch(
            std::slice::from_ref(&url),
            &copy,
            &FetchOptions::new().pin(hash).threads(threads),
        )?;
        ensure(done.bad == 3 && done.fetched <= 48 << 10, || format!("{done:?}"))
    };
    let bare = || {
        let source = FileSource::open(&copy)?;
        on_threads(
            threads,
            (len as usize).div_ceil(PIECE),
            || vec![0; PIECE],
            |buffer, number| {
                let at = number * PIECE;
                let piece = &mut buffer[..PIECE.min(len as usize - at)];
                assert!(source.read_into(at as u64, piece).is_ok(), "a file is read");
                black_box(blake3::hash(piece));
            },
        );
        Ok(())
    };
    if bench.wants(check) {
        let race = race(bench.rounds(3), || seconds(repair), || seconds(bare))?;
        bench.add(Row {
            id: check.to_owned(),
            work: format!(
                "find and repair 3 bad bytes of {} MiB: speed of bare reads of 1 MiB and the BLAKE3 of each on {threads} threads",
                bench.sizes.fetch_mib
            ),
            case: "a sparse file, by its outboard".to_owned(),
            samples: race.speedups(),
            unit: Unit::Times,
            target: Target::AtLeast(0.85),
            note: race.times(),
        });
    }
    if bench.wants(memory) {
        damage()?;
        let pin = format!("b3:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let text = format!("{}/fetch-good", nginx.endpoint());
        let peak = memory::peak(bench, "fetch", &[Path::new(&text), &copy], &["--pin", &pin])?;
        bench.add(Row {
            id: memory.to_owned(),
            work: format!("memory of `modelfmt fetch` that repairs {} MiB", bench.sizes.fetch_mib),
            case: "a sparse file, by its outboard".to_owned(),
            samples: vec![peak / f64::from(1 << 20)],
            unit: Unit::MiB,
            target: Target::AtMost(64.0),
            note: String::new(),
        });
    }
    [&good, &outboard_of(&good), &copy].into_iter().try_for_each(|path| remove(path))
}

fn location(nginx: &Nginx, name: &str) -> Result<Location> {
    Ok(format!("{}/{name}", nginx.endpoint()).parse()?)
}

/// Measures a new file: with bare requests, plain, and verified on the way.
fn new(bench: &mut Bench, nginx: &Nginx) -> Result {
    const NAME: &str = "fetch-new";
    let [new, verified, unchecked] = ["fetch/new", "fetch/verified", "fetch/verified-unchecked"];
    if ![new, verified, unchecked].iter().any(|id| bench.wants(id)) {
        return Ok(());
    }
    let (path, out, threads) = (bench.file(NAME), bench.file("fetch-out"), bench.sizes.threads);
    let tensors = Tensors::layers(DType::F16, 32, bench.sizes.remote_mib << 20);
    tensors.to_file(Form::Safetensors, &Noise::new(Values::F16), &path)?;
    let hash = with_outboard(&path, threads)?;
    let address = nginx.endpoint().trim_start_matches("http://").to_owned();
    let (store, url, len) = (store()?, location(nginx, NAME)?, fs::metadata(&path)?.len());
    let ours = |pin: bool| -> Result {
        let _ = fs::remove_file(&out);
        let options = FetchOptions::new().threads(threads);
        store.fetch(std::slice::from_ref(&url), &out, &if pin { options.pin(hash) } else { options })?;
        Ok(())
    };
    let bare = || bare(&address, NAME, &out, len);
    let sides: [&dyn Fn() -> Result; 3] = [&|| ours(false), &|| ours(true), &bare];
    for side in sides {
        side()?;
        ensure(fs::read(&out)? == fs::read(&path)?, || "another file came".to_owned())?;
    }
    let mib = bench.sizes.remote_mib;
    if bench.wants(new) {
        let race = race(bench.rounds(5), || seconds(|| ours(false)), || seconds(bare))?;
        bench.add(Row {
            id: new.to_owned(),
            work: format!(
                "fetch a new file of {mib} MiB, flushed: speed of bare requests and writes of 4 MiB, {REQUESTS} at once on both sides"
            ),
            case: "by its entity tag".to_owned(),
            samples: race.speedups(),
            unit: Unit::Times,
            target: Target::AtLeast(0.9),
            note: race.times(),
        });
    }
    let plain = || ours(false);
    let beside: [(_, &dyn Fn() -> Result, _, _); 2] = [
        (verified, &bare, "bare requests and writes of 4 MiB", Target::AtMost(1.1)),
        (unchecked, &plain, "the same unchecked", Target::None),
    ];
    for (id, other, what, target) in beside {
        if !bench.wants(id) {
            continue;
        }
        let race = race(bench.rounds(5), || seconds(|| ours(true)), || seconds(other))?;
        bench.add(Row {
            id: id.to_owned(),
            work: format!("fetch a new file of {mib} MiB, flushed: time of {what}"),
            case: "every piece checked by an outboard".to_owned(),
            samples: race.costs(),
            unit: Unit::Times,
            target,
            note: race.times(),
        });
    }
    drop(store);
    [&path, &outboard_of(&path), &out].into_iter().try_for_each(|path| remove(path))
}

/// Uses several connections, with one request after the other on each, and writes each answer at its
/// position.
fn bare(address: &str, name: &str, out: &Path, len: u64) -> Result {
    let _ = fs::remove_file(out);
    let file = File::create(out)?;
    let failed = Mutex::new(None);
    on_threads(
        REQUESTS.into(),
        (len as usize).div_ceil(BLOCK),
        || (TcpStream::connect(address), vec![0; BLOCK]),
        |(stream, block), number| {
            let at = (number * BLOCK) as u64;
            let block = &mut block[..BLOCK.min((len - at) as usize)];
            let got = match stream {
                Ok(stream) => get(stream, address, name, at, block),
                Err(error) => Err(error.to_string().into()),
            };
            if let Err(error) = got.and_then(|()| Ok(file.write_all_at(block, at)?)) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        },
    );
    file.sync_all()?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}
