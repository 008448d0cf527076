//! Loads over files that do not respond at once, with responses in any order.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use modelfmt::modelfmt_core::load::LoadOptions;
use modelfmt::modelfmt_core::plan::{Pick, PlanOptions};
use modelfmt::modelfmt_core::{AnyError, Bytes, Execution, Fetch, FetchFiles};
use testkit::{Step, Steps, block_on};

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

/// Random numbers from a seed.
#[derive(Debug)]
struct Random(Cell<u64>);

impl Random {
    fn below(&self, n: usize) -> usize {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        index(next >> 33) % n.max(1)
    }
}

/// Records of the requests to all files of a model.
#[derive(Debug)]
struct Traffic {
    random: Random,
    /// The lengths of the requests in progress.
    under_way: RefCell<Vec<u64>>,
    most: Cell<(usize, u64)>,
    count: Cell<usize>,
}

impl Traffic {
    fn new(seed: u64) -> Rc<Self> {
        let random = Random(Cell::new(seed));
        Rc::new(Self { random, under_way: RefCell::default(), most: Cell::default(), count: Cell::default() })
    }

    fn begin(&self, len: u64) {
        let mut under_way = self.under_way.borrow_mut();
        under_way.push(len);
        let (requests, nbytes) = self.most.get();
        self.most.set((requests.max(under_way.len()), nbytes.max(under_way.iter().sum())));
    }
}

/// A file that responds later: sooner or later than to earlier requests.
#[derive(Debug)]
struct Late {
    bytes: Vec<u8>,
    traffic: Rc<Traffic>,
}

/// A request, for as long as somebody waits for it.
struct UnderWay<'a>(&'a Traffic, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way.borrow_mut();
        let at = under_way.iter().position(|len| *len == self.1).unwrap();
        under_way.swap_remove(at);
    }
}

impl Fetch for Late {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        let traffic = &*self.traffic;
        let request = UnderWay(traffic, range.end - range.start);
        traffic.count.set(traffic.count.get() + 1);
        traffic.begin(request.1);
        let mut turns = 1 + traffic.random.below(6);
        poll_fn(|_| match turns {
            0 => Poll::Ready(()),
            _ => {
                turns -= 1;
                Poll::Pending
            }
        })
        .await;
        self.bytes.fetch(range).await
    }
}

/// The files of a folder, as [`Late`] files.
#[derive(Debug)]
struct LateFolder(PathBuf, Rc<Traffic>);

impl FetchFiles for LateFolder {
    type File = Late;

    async fn fetch_file(&self, path: &str) -> io::Result<Late> {
        Ok(Late { bytes: std::fs::read(self.0.join(path))?, traffic: Rc::clone(&self.1) })
    }
}

/// Returns all tensors that have values, and for those with rows also a part; each with its values.
fn expected(path: &Path) -> Vec<(Pick, Vec<u8>)> {
    let model = modelfmt::Model::open(path).unwrap();
    let mut all = Vec::new();
    for pick in model.picks::<&str>(&[]).unwrap() {
        let part = Pick::part(pick.position, "1::2".parse().unwrap());
        if let Ok(slice) = model.slice(pick.position, part.slice.as_ref().unwrap()) {
            all.push((part, slice.bytes().to_vec()));
        }
        let values = model.tensor(pick.position).unwrap().bytes().to_vec();
        all.push((pick, values));
    }
    all
}

fn options(verify: bool) -> [LoadOptions; 3] {
    let plan = |gap, max_request| LoadOptions::new().verify(verify).plan(PlanOptions { gap, max_request });
    [LoadOptions::new().verify(verify), plan(0, 50).in_flight(5, 200), plan(300, 1000).in_flight(2, u64::MAX)]
}

const FILES: [&str; 9] = [
    "aero/hashes.aero",
    "aero/shards.aero",
    "apr/names.apr",
    "apr2/lz4.apr",
    "gguf/types.gguf",
    "mag/names.mag",
    "mag/dtypes-crc32.mag",
    "oinf/dtypes.oinf",
    "safetensors/names.safetensors",
];

/// Loads through the `AsyncReader` of a crate, verified and unverified, with responses in random orders, and
/// fed by hand.
macro_rules! loads {
    ($crate_name:ident, $path:expr) => {{
        let bytes = std::fs::read($path).unwrap();
        let (picks, values): (Vec<Pick>, Vec<Vec<u8>>) = expected($path).into_iter().unzip();
        let empty = || values.iter().map(|values| vec![7; values.len()]).collect::<Vec<_>>();
        for (seed, verify) in [(1, false), (2, true), (3, false), (4, true), (5, true)] {
            for (number, options) in options(verify).into_iter().enumerate() {
                let name = format!("{} {seed} {number}", $path.display());
                let traffic = Traffic::new(seed);
                let late = Late { bytes: bytes.clone(), traffic: Rc::clone(&traffic) };
                let reader = block_on($crate_name::AsyncReader::from_source(late)).unwrap();
                traffic.most.take();
                let mut found = empty();
                let mut buffers: Vec<&mut [u8]> = found.iter_mut().map(|buffer| &mut buffer[..]).collect();
                let work = Execution::sequential();
                let loaded = block_on(reader.load_into(&picks, &mut buffers, &options, &work)).unwrap();
                assert!(found == values, "{name}");
                let (requests, _) = traffic.most.get();
                assert!(requests <= [16, 5, 2][number], "{name}: {requests} requests");
                assert!(traffic.under_way.borrow().is_empty());
                let whole = modelfmt::Model::open($path).unwrap();
                let (_, report) = whole.load(&picks, &options, &work).unwrap();
                assert_eq!((loaded.unverified, loaded.notes), (report.unverified, report.notes), "{name}");
            }
        }
        // By hand, in pieces of any size and order.
        for seed in 0..6 {
            let random = Random(Cell::new(seed));
            let options = options(seed % 2 == 0)[index(seed) % 3];
            let picks = picks.clone();
            let mut found = empty();
            let task = async |fed| {
                let reader = $crate_name::AsyncReader::from_source(fed).await.unwrap();
                let mut buffers: Vec<&mut [u8]> = found.iter_mut().map(|buffer| &mut buffer[..]).collect();
                reader.load_into(&picks, &mut buffers, &options, &Execution::sequential()).await.unwrap();
                found
            };
            let mut steps = Steps::new(bytes.len() as u64, task);
            let found = loop {
                match steps.step() {
                    Step::Done(found) => break found,
                    Step::Need(mut ranges) => {
                        while !ranges.is_empty() {
                            let Range { start, end } = ranges.swap_remove(random.below(ranges.len()));
                            let cut = start + random.below(index(end - start)) as u64;
                            for part in [cut..end, start..cut] {
                                steps.feed(part.start, &bytes[index(part.start)..index(part.end)]);
                            }
                        }
                    }
                }
            };
            assert!(found == values, "{} {seed}", $path.display());
        }
    }};
}

#[test]
fn whatever_the_order_the_values_are_the_same() {
    for path in FILES.map(golden).iter().filter(|path| path.exists()) {
        match path.parent().unwrap().file_name().unwrap().to_str().unwrap() {
            "aero" => loads!(aero, path),
            "apr" => loads!(apr, path),
            "apr2" => loads!(apr2, path),
            "gguf" => loads!(modelfmt_gguf, path),
            "mag" => loads!(mag, path),
            "oinf" => loads!(oinf, path),
            _ => loads!(modelfmt_safetensors, path),
        }
    }
}

#[test]
fn sets_are_loaded_from_several_files_at_once() {
    macro_rules! loads_set {
        ($crate_name:ident, $path:literal) => {{
            let path = golden($path);
            let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
            let (picks, values): (Vec<Pick>, Vec<Vec<u8>>) = expected(&path).into_iter().unzip();
            for (seed, verify) in [(1, false), (2, true), (3, true)] {
                for options in options(verify) {
                    let files = LateFolder(folder.to_owned(), Traffic::new(seed));
                    let set = block_on($crate_name::AsyncSetReader::from_files(files, name)).unwrap();
                    let mut found: Vec<Vec<u8>> = values.iter().map(|values| vec![7; values.len()]).collect();
                    let mut buffers: Vec<&mut [u8]> =
                        found.iter_mut().map(|buffer| &mut buffer[..]).collect();
                    let work = Execution::sequential();
                    let loaded = block_on(set.load_into(&picks, &mut buffers, &options, &work)).unwrap();
                    assert!(found == values, "{} {seed}", $path);
                    let whole = modelfmt::Model::open(&path).unwrap();
                    let (_, report) = whole.load(&picks, &options, &work).unwrap();
                    assert_eq!(loaded.unverified, report.unverified, "{} {seed}", $path);
                }
            }
        }};
    }
    loads_set!(modelfmt_safetensors, "safetensors/set.safetensors.index.json");
    loads_set!(aero, "aero/set/model.aeroset.json");
    loads_set!(apr2, "apr2/set/sharded.apr");
}

/// Returns a file with tensors of 1,000 bytes.
fn forty() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let values: Vec<u8> = (0..40_000_u32).map(|n| (n / 7).to_le_bytes()[0]).collect();
    let views = values.chunks(1000).enumerate();
    let views = views.map(|(n, bytes)| (format!("t{n:02}"), modelfmt::View::new(bytes, [1000]).unwrap()));
    modelfmt::save(&path, views, &modelfmt::Object::new()).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn as_many_requests_and_bytes_are_under_way_as_are_allowed() {
    let bytes = forty();
    let plan = PlanOptions { gap: 0, max_request: 1000 };
    for (requests, nbytes, expected) in
        [(8, u64::MAX, (8, 8000)), (8, 4500, (4, 4000)), (0, 0, (1, 1000)), (100, u64::MAX, (40, 40_000))]
    {
        let traffic = Traffic::new(9);
        let late = Late { bytes: bytes.clone(), traffic: Rc::clone(&traffic) };
        let reader = block_on(modelfmt_safetensors::AsyncReader::from_source(late)).unwrap();
        traffic.most.take();
        traffic.count.set(0);
        let picks: Vec<Pick> = (0..40).map(Pick::whole).collect();
        let mut found = vec![0; 40_000];
        let mut buffers: Vec<&mut [u8]> = found.chunks_mut(1000).collect();
        let filled = std::sync::atomic::AtomicU64::new(0);
        let count = |more| {
            filled.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let work = Execution { threads: 1, progress: Some(&count) };
        let options = LoadOptions::new().plan(plan).in_flight(requests, nbytes);
        block_on(reader.load_into(&picks, &mut buffers, &options, &work)).unwrap();
        assert!(found == bytes[bytes.len() - 40_000..]);
        assert_eq!((traffic.most.get(), traffic.count.get()), (expected, 40));
        assert_eq!(filled.load(std::sync::atomic::Ordering::Relaxed), 40_000);
        // One request for all, if it may be that long.
        let mut buffers: Vec<&mut [u8]> = found.chunks_mut(1000).collect();
        traffic.count.set(0);
        let options = options.plan(PlanOptions::remote());
        block_on(reader.load_into(&picks, &mut buffers, &options, &work)).unwrap();
        assert_eq!(traffic.count.get(), 1);
    }
}

#[test]
fn what_goes_wrong_ends_a_load() {
    let path = golden("aero/hashes.aero");
    let (picks, values): (Vec<Pick>, Vec<Vec<u8>>) = expected(&path).into_iter().unzip();
    let good = std::fs::read(&path).unwrap();
    let load = |bytes: &[u8], picks: &[Pick], options: LoadOptions, work: &Execution<'_>| {
        let traffic = Traffic::new(4);
        let late = Late { bytes: bytes.to_vec(), traffic: Rc::clone(&traffic) };
        let reader = block_on(aero::AsyncReader::from_source(late)).unwrap();
        let mut found: Vec<Vec<u8>> = values.iter().map(|values| vec![7; values.len()]).collect();
        let mut buffers: Vec<&mut [u8]> = found.iter_mut().map(|buffer| &mut buffer[..]).collect();
        let loaded = block_on(reader.load_into(picks, &mut buffers, &options, work));
        assert!(traffic.under_way.borrow().is_empty(), "requests that nobody waits for are dropped");
        loaded.map_err(AnyError::from)
    };
    let at = modelfmt::Model::open(&path).unwrap().location(0).unwrap().offset.unwrap();
    let mut damaged = good.clone();
    damaged[index(at)] ^= 1;
    for options in options(true) {
        let sequential = Execution::sequential();
        let error = load(&damaged, &picks, options, &sequential).unwrap_err();
        assert!(matches!(error, AnyError::Malformed { .. }), "{error}");
        load(&damaged, &picks, options.verify(false), &sequential).unwrap();
        let stop = |_| ControlFlow::Break(());
        let stopped = Execution { threads: 1, progress: Some(&stop) };
        assert!(matches!(load(&good, &picks, options, &stopped), Err(AnyError::Cancelled)));
        let fewer = load(&good, &picks[1..], options, &sequential).unwrap_err();
        assert!(matches!(fewer, AnyError::Io { .. }), "{fewer}");
        let mut absent = picks.clone();
        absent[0] = Pick::whole(999);
        assert!(matches!(load(&good, &absent, options, &sequential), Err(AnyError::NotFound { .. })));
        let mut longer = picks.clone();
        longer.swap(0, 1);
        let longer = load(&good, &longer, options, &sequential);
        assert!(matches!(longer, Err(AnyError::OutOfRange { .. })), "{longer:?}");
    }
}
