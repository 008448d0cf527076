//! The costs of reading: round trips and bytes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "this is test code"
)]

use std::fmt::Write as _;
use std::time::Duration;

use crate::common::{Reply, Server};
use modelfmt::modelfmt_core::source::BoxSource;
use modelfmt::{Format, Model, OpenOptions, Pin};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Location, SiblingFiles, Store as Remote, models};

/// The number of tensors. Each has 16 bytes and contains its number.
const TENSORS: u32 = 100_000;
const FRONT: u64 = 512 << 10;

fn name(number: u32) -> String {
    format!("model.layers.{number}.weight")
}

/// Returns the header of a safetensors file whose tensors have these lengths.
fn header(tensors: impl Iterator<Item = (String, u64)>) -> Vec<u8> {
    let (mut json, mut at) = ("{".to_owned(), 0);
    for (name, len) in tensors {
        let comma = if at == 0 { "" } else { "," };
        write!(
            json,
            "{comma}\"{name}\":{{\"dtype\":\"U8\",\"shape\":[{len}],\"data_offsets\":[{at},{}]}}",
            at + len
        )
        .unwrap();
        at += len;
    }
    json.push('}');
    while json.len() % 8 != 0 {
        json.push(' ');
    }
    [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat()
}

fn safetensors() -> Vec<u8> {
    let mut bytes = header((0..TENSORS).map(|number| (name(number), 16)));
    for number in 0..TENSORS {
        bytes.extend([number.to_le_bytes(); 4].concat());
    }
    bytes
}

fn is_right(values: &[u8], number: u32) -> bool {
    values == [number.to_le_bytes(); 4].concat()
}

#[test]
fn one_tensor_of_many_takes_two_round_trips_after_the_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("m.safetensors");
    std::fs::write(&from, safetensors()).unwrap();
    let model = Model::open(&from).unwrap();
    // For an AERO file, the first request returns nearly all of the index, which is compressed.
    for (to, most) in [("m.safetensors", 3), ("m.aero", 2), ("m.apr", 3)] {
        let path = folder.path().join(to);
        if path != from {
            let format = if to.ends_with("aero") { Format::Aero } else { Format::Apr2 };
            let options = modelfmt::convert::ConvertOptions::default();
            modelfmt::Conversion::new(&model, &path).to(format).options(&options).write().unwrap();
        }
        let bytes = std::fs::read(&path).unwrap();
        let index = bytes.len() as u64 - u64::from(TENSORS) * 16;
        // Simultaneous requests are one round trip, so requests have to take some time.
        let wait = Some(Duration::from_millis(200));
        let server = Server::start(move |request| Reply { wait, ..Reply::file(request, &bytes, "\"1\"") });
        for place in [server.url(&format!("bucket/{to}")), format!("s3://bucket/{to}").parse().unwrap()] {
            server.forget();
            let store = Store::new(server.options()).unwrap();
            let source: BoxSource = Box::new(store.open(&place).unwrap());
            let remote = OpenOptions::new()
                .open_source(&place.to_string(), source, Some(store.beside(&place)))
                .unwrap();
            assert!(is_right(remote.tensor(&name(77_777)).unwrap().bytes(), 77_777));
            let (waves, traffic) = (server.waves(), store.traffic());
            assert!(waves <= most, "{place}: {waves} round trips, {traffic:?}");
            assert!(traffic.bytes <= index + 16 + FRONT, "{place}: {traffic:?}, index {index}");
        }
    }
}

/// A file of 100 GB, which is zeros except for the header and the last tensor.
#[test]
fn a_tensor_of_a_hundred_gigabytes_costs_its_bytes() {
    const LARGE: u64 = 100_000_000_000;
    let head = header([("large".to_owned(), LARGE), ("small".to_owned(), 16)].into_iter());
    let len = head.len() as u64 + LARGE + 16;
    let data = head.len() as u64;
    let byte = move |at: u64| match head.get(at as usize) {
        Some(byte) => *byte,
        None if at < data + LARGE => 0,
        None => 7,
    };
    let server =
        Server::start(move |request| Reply::part(request, len, "\"1\"", |range| range.map(&byte).collect()));
    let place = server.url("large.safetensors");
    let store = Store::new(server.options()).unwrap();
    let source: BoxSource = Box::new(store.open(&place).unwrap());
    let remote = OpenOptions::new().open_source("large", source, None).unwrap();
    assert_eq!(remote.tensor("small").unwrap().bytes(), [7; 16]);
    assert_eq!(*remote.read_range("large", 99_999_999_000..LARGE).unwrap(), [0; 1000]);
    let traffic = store.traffic();
    assert_eq!((traffic.requests, traffic.bytes), (3, FRONT + 16 + 1000));
}

/// Returns an AERO file with two tensors over several shards, made with `options`, and its pin.
fn aero(options: &modelfmt::convert::ConvertOptions) -> (Vec<u8>, Pin) {
    const LEN: u64 = 9_000_000;
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.safetensors"), folder.path().join("m.aero"));
    let mut bytes = header([("a".to_owned(), LEN), ("b".to_owned(), LEN + 7)].into_iter());
    bytes.extend((0..2 * LEN + 7).map(|at| ((at * at) >> 5) as u8));
    std::fs::write(&from, bytes).unwrap();
    let work = modelfmt::Execution::sequential();
    modelfmt::Conversion::new(&Model::open(&from).unwrap(), &to)
        .to(Format::Aero)
        .options(options)
        .execution(&work)
        .write()
        .unwrap();
    let pins = Model::open(&to).unwrap().pins().unwrap();
    (std::fs::read(&to).unwrap(), pins[0])
}

/// Returns files whose values are proved by the hashes of their shards, of their tensors, and of their pages.
fn pinned() -> [(&'static str, Vec<u8>, Pin); 3] {
    let mut named = modelfmt::convert::ConvertOptions::default();
    (named.metadata.model_name, named.metadata.architecture) = (Some("m".to_owned()), Some("a".to_owned()));
    let (mut tensors, mut pages) = (named.clone(), named.clone());
    (tensors.aero.tensor_hashes, pages.aero.page_hashes) = (true, Some(4 << 20));
    [("shard", named), ("tensors", tensors), ("pages", pages)].map(|(name, options)| {
        let (bytes, pin) = aero(&options);
        (name, bytes, pin)
    })
}

/// Verifies and converts a model. Returns the report, the result of the conversion, and the number of
/// requests for each.
fn jobs(
    server: &Server,
    place: &Location,
    options: &OpenOptions,
) -> (modelfmt::verify::FileReport, Result<Vec<u8>, modelfmt::Error>, [u64; 2]) {
    let work = modelfmt::Execution::sequential();
    let store = || Store::new(server.options()).unwrap();
    let (verifying, converting) = (store(), store());
    let report = models::verify(&verifying, place, options, modelfmt::VerifyLevel::Full, &work);
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("m.safetensors");
    let mut how = modelfmt::convert::ConvertOptions::default();
    how.metadata.lossy = true;
    let converted = models::open(&converting, place, options).and_then(|model| {
        modelfmt::Conversion::new(&model, &to)
            .to(Format::Safetensors)
            .options(&how)
            .execution(&work)
            .write()?;
        Ok(std::fs::read(&to).unwrap())
    });
    assert_eq!(converted.is_ok(), to.exists());
    (report, converted, [verifying, converting].map(|store| store.traffic().requests))
}

#[test]
fn a_pin_costs_no_second_pass() {
    for (name, bytes, pin) in pinned() {
        let len = bytes.len() as u64;
        let server = Server::of(bytes);
        for place in [server.url("bucket/m.aero"), "s3://bucket/m.aero".parse().unwrap()] {
            let (report, plain, without) = jobs(&server, &place, &OpenOptions::new());
            assert!(report.is_ok(), "{:?}", report.report.errors);
            server.forget();
            let (report, pinned, with) = jobs(&server, &place, &OpenOptions::new().pin(pin));
            assert!(report.is_ok(), "{:?}", report.report.errors);
            assert!(pinned.unwrap() == plain.unwrap());
            assert_eq!(with.iter().sum::<u64>(), server.requests().len() as u64);
            for (with, without) in with.into_iter().zip(without) {
                assert!(
                    with * 10 <= without * 11,
                    "{name} at {place}: {with} requests, {without} without the pin"
                );
            }
            let asked = server.requests().into_iter().filter_map(|request| request.range(len));
            let asked = asked.map(|range| range.end - range.start).sum::<u64>();
            assert!(asked < 2 * len + (2 << 20), "{name} at {place}: {asked} of twice {len} bytes");
        }
    }
}

#[test]
fn a_pin_that_costs_one_pass_proves_every_byte() {
    for (name, bytes, pin) in pinned() {
        for at in [1_000_000, bytes.len() / 2, bytes.len() - 400_000] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let server = Server::of(changed);
            let (report, converted, _) = jobs(&server, &server.url("m.aero"), &OpenOptions::new().pin(pin));
            assert!(!report.is_ok(), "{name}: byte {at}");
            let error = converted.unwrap_err();
            assert!(error.to_string().contains("m.aero"), "{name}: byte {at}: {error}");
        }
    }
}

/// The asynchronous readers, for a file and for a set, over objects.
#[test]
fn readers_that_await_read_the_same() {
    let testdata = testkit::testdata("safetensors");
    let local = Model::open(testdata.join("set.safetensors.index.json")).unwrap();
    let server = Server::start(move |request| {
        let file = testdata.join(request.target.trim_start_matches("/bucket/"));
        std::fs::read(file).map_or(Reply::status(404), |bytes| Reply::file(request, &bytes, "\"1\""))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Remote::new(server.options().front(100));
    runtime.block_on(async {
        let place = "s3://bucket/dtypes.safetensors".parse().unwrap();
        let reader =
            modelfmt::safetensors::AsyncReader::from_source(store.open(&place).await.unwrap()).await.unwrap();
        let file = Model::open(testkit::testdata("safetensors").join("dtypes.safetensors")).unwrap();
        for tensor in file.tensors() {
            assert_eq!(
                reader.tensor(tensor.name).await.unwrap().bytes(),
                file.tensor(tensor.name).unwrap().bytes()
            );
        }
        let index = "s3://bucket/set.safetensors.index.json".parse().unwrap();
        let files = SiblingFiles::new(store.clone(), index);
        let set = modelfmt::safetensors::AsyncSetReader::from_files(files, "set.safetensors.index.json")
            .await
            .unwrap();
        for tensor in local.tensors() {
            assert_eq!(
                set.tensor(tensor.name).await.unwrap().bytes(),
                local.tensor(tensor.name).unwrap().bytes()
            );
        }
    });
}

/// Returns a checkpoint with `count` storages of `len` bytes each.
fn checkpoint(count: usize, len: usize) -> Vec<u8> {
    let keys: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let tensors: Vec<testkit::TorchTensor> = keys
        .iter()
        .map(|key| testkit::TorchTensor::f32(&format!("layers.{key}"), key, &[len as u64 / 4]))
        .collect();
    let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    let storages: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &content[..])).collect();
    testkit::torch_zip(&testkit::torch_pickle(&tensors), &storages).build()
}

/// The directory is at the end of an archive, and there is a header before each record. Headers that are
/// close together are read in one request.
#[test]
fn a_checkpoint_costs_its_directory_its_pickle_and_its_headers() {
    // A few large storages, and many small ones: the maximum number of requests, and of bytes in addition to
    // the tensor's own.
    for (count, len, requests, bytes) in [(8, 4 << 20, 13, 1 << 20), (5_000, 256, 60, 6 << 20)] {
        let file = checkpoint(count, len);
        let size = file.len() as u64;
        let server = Server::of(file);
        let place = server.url("bucket/pytorch_model.bin");
        let store = Store::new(server.options()).unwrap();
        let model = models::open(&store, &place, &OpenOptions::new()).unwrap();
        assert_eq!((model.format(), model.tensor_count()), (Format::Pytorch, count));
        assert_eq!(model.tensor("layers.3").unwrap().bytes().len(), len);
        let traffic = store.traffic();
        assert!(traffic.requests <= requests, "{count} storages: {traffic:?}");
        assert!(traffic.bytes <= bytes + len as u64, "{count} storages: {traffic:?} of {size} bytes");
        assert_eq!(server.requests().len() as u64, traffic.requests);

        // A conversion checks the CRC-32s in the same pass that reads the values.
        server.forget();
        let (report, converted, _) = jobs(&server, &place, &OpenOptions::new());
        assert!(report.is_ok() && converted.is_ok(), "{:?}", report.report.errors);
        let asked = server.requests().into_iter().filter_map(|request| request.range(size));
        let asked = asked.map(|range| range.end - range.start).sum::<u64>();
        assert!(asked <= 2 * size + 2 * bytes, "{count} storages: {asked} of twice {size} bytes");
    }
}

#[test]
fn an_archive_of_arrays_costs_its_directory_and_its_headers() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("m.pt"), folder.path().join("m.npz"));
    std::fs::write(&from, checkpoint(8, 4 << 20)).unwrap();
    let model = Model::open(&from).unwrap();
    let how = modelfmt::extract::ExtractAllAs::Npz;
    modelfmt::extract::extract_all(
        &model,
        &["*"],
        &to,
        how,
        &Default::default(),
        &modelfmt::Execution::sequential(),
    )
    .unwrap();
    let server = Server::of(std::fs::read(&to).unwrap());
    let store = Store::new(server.options()).unwrap();
    let model = models::open(&store, &server.url("m.npz"), &OpenOptions::new()).unwrap();
    assert_eq!((model.format(), model.tensor_count()), (Format::Npz, 8));
    assert_eq!(model.tensor("layers.3").unwrap().bytes().len(), 4 << 20);
    let traffic = store.traffic();
    assert!(traffic.requests <= 13 && traffic.bytes <= 6 << 20, "{traffic:?}");
}

/// Returns a store with a cache in a folder.
fn cached(server: &Server, folder: &std::path::Path) -> Store {
    Store::new(server.options().cache(modelfmt_remote::DiskCache::new(folder, 1 << 30))).unwrap()
}

/// Pages of the cache end at multiples of 256 KiB. A tensor that crosses such an end is read in one request.
#[test]
fn a_tensor_that_straddles_pages_of_the_cache_is_one_request() {
    const PAGE: u64 = 256 << 10;
    let bytes: Vec<u8> = (0..6 << 20u64).map(|at: u64| (at * 31 + at / 251) as u8).collect();
    for (offset, len) in [
        (5 * PAGE - 20, 40),
        (5 * PAGE - 563, 300_000),
        (3 * PAGE - 7, 2 * PAGE + 9),
        (8 * PAGE, PAGE),
        (4 * PAGE + 1, 9 * PAGE),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::of(bytes.clone());
        let store = cached(&server, folder.path());
        let file = store.open(&server.url("m")).unwrap();
        assert_eq!(server.requests().len(), 1);
        let mut out = vec![0; len as usize];
        modelfmt_core::Source::read_into(&file, offset, &mut out).unwrap();
        assert!(out == bytes[offset as usize..][..len as usize]);
        let asked: Vec<_> =
            server.requests()[1..].iter().filter_map(|request| request.range(6 << 20)).collect();
        assert_eq!(asked.len(), 1, "{offset}: {asked:?}");
        // The part that is in a page of the cache is not requested again, and the rest is still one request.
        server.forget();
        let wider = cached(&server, folder.path()).open(&server.url("m")).unwrap();
        let mut out = vec![0; len as usize + PAGE as usize];
        modelfmt_core::Source::read_into(&wider, offset, &mut out).unwrap();
        assert!(out == bytes[offset as usize..][..out.len()]);
        let asked: Vec<_> =
            server.requests()[1..].iter().filter_map(|request| request.range(6 << 20)).collect();
        assert!(
            asked.len() <= 1 && asked.iter().all(|range| range.end - range.start <= 2 * PAGE),
            "{offset}: {asked:?}"
        );
    }
}

#[test]
fn one_tensor_of_many_takes_two_round_trips_with_a_cache_too_and_none_when_it_is_warm() {
    let bytes = safetensors();
    let wait = Some(Duration::from_millis(200));
    let server = Server::start(move |request| Reply { wait, ..Reply::file(request, &bytes, "\"1\"") });
    let folder = tempfile::tempdir().unwrap();
    let place = server.url("bucket/m.safetensors");
    let read = |store: &Store| {
        let model = models::open(store, &place, &OpenOptions::new()).unwrap();
        assert!(is_right(model.tensor(&name(77_777)).unwrap().bytes(), 77_777));
    };
    read(&cached(&server, folder.path()));
    assert!(server.waves() <= 3, "{} round trips", server.waves());
    server.forget();
    read(&cached(&server, folder.path()));
    assert_eq!(server.requests().len(), 1, "with a tag, the server is asked once");
    server.forget();
    // As if it were opened with a pin. The tests of the program use real pins.
    let trusting = cached(&server, folder.path()).revalidating(false);
    let source: BoxSource = Box::new(trusting.open(&place).unwrap());
    let model = OpenOptions::new().open_source("m", source, None).unwrap();
    assert!(is_right(model.tensor(&name(77_777)).unwrap().bytes(), 77_777));
    assert_eq!(server.requests().len(), 0, "it is not asked");
}

/// Four readers that start with an empty cache at the same moment.
#[test]
fn those_who_want_the_same_at_once_fetch_it_once() {
    for len in [1_000_000u64, 2_700_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + at / 251) as u8).collect();
        let read = |server: &Server, folder: &std::path::Path| {
            let file = cached(server, folder).open(&server.url("m")).unwrap();
            let mut out = vec![0; len as usize];
            modelfmt_core::Source::read_into(&file, 0, &mut out).unwrap();
            assert!(out == bytes);
        };
        let sent = |server: &Server| {
            let ranges = server.requests();
            let ranges = ranges.iter().filter_map(|request| request.range(len));
            ranges.map(|range| range.end - range.start).sum::<u64>()
        };
        let alone = Server::of(bytes.clone());
        read(&alone, tempfile::tempdir().unwrap().path());
        let folder = tempfile::tempdir().unwrap();
        let served = bytes.clone();
        // Responses take some time, so that all readers have started before the first response is complete.
        let wait = Some(Duration::from_millis(50));
        let server = Server::start(move |request| Reply { wait, ..Reply::file(request, &served, "\"1\"") });
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| read(&server, folder.path()));
            }
        });
        assert!(sent(&server) * 10 <= sent(&alone) * 13, "{} of {}", sent(&server), sent(&alone));
    }
}
