//! Loads, slices and plans of every golden file, compared with tensors that are read one by one.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::HashSet;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use modelfmt::convert::Compression;
use modelfmt::modelfmt_core::AnyError;
use modelfmt::modelfmt_core::Encoding;
use modelfmt::modelfmt_core::load::{self, LoadOptions};
use modelfmt::modelfmt_core::plan::{Pick, PlanOptions, Slice};
use modelfmt::modelfmt_core::read::Reading;
use modelfmt::{Error, Execution, Format, Model, Object, OpenOptions, View};

/// Returns the models among the golden files, including those of other tools.
fn golden() -> Vec<PathBuf> {
    let mut found = testkit::all_golden_files();
    found.retain(|path| Model::open(path).is_ok_and(|model| model.open_all().is_ok()));
    assert!(found.len() > 50, "{found:?}");
    found
}

fn threads(threads: usize) -> Execution<'static> {
    Execution { threads, progress: None }
}

/// Reads each tensor that can be read, one by one.
fn one_by_one(model: &Model) -> Vec<(Pick, Vec<u8>)> {
    let picks = model.picks::<&str>(&[]).unwrap_or_default();
    let read = |pick: Pick| {
        let tensor = model.tensor(pick.position).ok()?;
        Some((pick, tensor.bytes().to_vec()))
    };
    picks.into_iter().filter_map(read).collect()
}

#[test]
fn every_golden_file_loads_as_it_is_read() {
    for path in golden() {
        let name = path.display().to_string();
        let model = Model::open(&path).unwrap();
        let (picks, expected): (Vec<Pick>, Vec<Vec<u8>>) = one_by_one(&model).into_iter().unzip();
        let small = PlanOptions { gap: 3, max_request: 37 };
        for (options, work) in [
            (LoadOptions::new(), threads(3)),
            (LoadOptions::new().verify(true).uncached(true).drop_cache(true), threads(1)),
            (LoadOptions::new().verify(true).plan(small), threads(4)),
            (LoadOptions::new().plan(PlanOptions { gap: u64::MAX, max_request: 1000 }), threads(2)),
        ] {
            let (loaded, _) = model.load(&picks, &options, &work).unwrap();
            for (tensor, expected) in loaded.iter().zip(&expected) {
                assert_eq!(*tensor.bytes, expected[..], "{name}: {}, {options:?}", tensor.position);
                let info = model.container().info(tensor.position).unwrap();
                assert_eq!(tensor.view(info.name).unwrap().info(), info, "{name}");
            }
            // In another order, some twice.
            let mut back: Vec<Pick> = picks.iter().rev().cloned().collect();
            back.extend(picks.first().cloned());
            let mut memory: Vec<Vec<u8>> = back
                .iter()
                .map(|pick| vec![7; index(load::nbytes(model.container(), pick).unwrap())])
                .collect();
            let mut buffers: Vec<&mut [u8]> = memory.iter_mut().map(|buffer| &mut buffer[..]).collect();
            model.load_into(&back, &mut buffers, &options, &work).unwrap();
            assert!(memory.iter().eq(expected.iter().rev().chain(expected.first())), "{name}: {options:?}");
        }
    }
}

/// Returns slices for a tensor of this rank.
fn slices(rank: usize) -> Vec<Slice> {
    let texts: &[&str] = match rank {
        0 => &[],
        1 => &["0:0", "1:", "::2", "-3:", "0", ":1000:3"],
        _ => &["0", "-1:", "::2", ":,::2", "1:,-1", "::3,1::2", "0:1,0", ":,:1"],
    };
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn slices_of_every_golden_file_are_parts_of_its_tensors() {
    let mut taken = 0;
    for path in golden() {
        let name = path.display().to_string();
        let model = Model::open(&path).unwrap();
        for (Pick { position, .. }, whole) in one_by_one(&model) {
            let info = model.container().info(position).unwrap();
            for slice in slices(info.shape.len()) {
                let Ok(sliced) = slice.of(&info) else {
                    let error = model.slice(info.name, &slice).unwrap_err();
                    assert!(
                        matches!(&error, Error::File { error, .. }
                        if matches!(error.inner(), AnyError::Slice { .. })),
                        "{name}: {error}"
                    );
                    continue;
                };
                taken += 1;
                let runs = sliced.runs.iter().flat_map(|run| &whole[index(run.start)..index(run.end)]);
                let expected: Vec<u8> = runs.copied().collect();
                let found = model.container().slice(position, &slice, Reading::PLAIN).unwrap();
                assert_eq!(found.bytes(), expected, "{name}: {} [{slice}]", info.name);
                assert_eq!(found.shape(), sliced.shape);
                let checked = model.container().slice(position, &slice, Reading::CHECKED);
                match (model.container().tensor(position, Reading::CHECKED), checked) {
                    (_, Ok(checked)) => {
                        assert_eq!(checked.bytes(), expected, "{name}: {} [{slice}]", info.name);
                    }
                    (Err(whole), Err(part)) => assert!(
                        matches!(
                            (whole.inner(), part.inner()),
                            (AnyError::NoHash { .. }, AnyError::NoHash { .. })
                        ),
                        "{name}: {part}"
                    ),
                    (Ok(_), Err(part)) => panic!("{name}: {} [{slice}]: {part}", info.name),
                }
                let pick = Pick::part(position, slice.clone());
                let options = LoadOptions::new().plan(PlanOptions { gap: 2, max_request: 50 });
                let (loaded, _) = model.load(std::slice::from_ref(&pick), &options, &threads(2)).unwrap();
                assert_eq!(*loaded[0].bytes, expected[..], "{name}: {} [{slice}]", info.name);
                // The bytes that a slice reads are among the bytes of the whole tensor.
                let plan = |pick| model.plan(&[pick], PlanOptions { gap: 0, max_request: 1 << 20 }).unwrap();
                let (part, all) = (plan(pick), plan(Pick::whole(position)));
                assert!(part.totals().read <= all.totals().read);
                if !model.location(position).unwrap().encoding.is_compressed() {
                    assert!(all.totals().read == 0 || part.totals().read == expected.len() as u64, "{name}");
                }
            }
        }
    }
    assert!(taken > 1000, "{taken}");
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

/// Writes a file with tensors of these lengths into its own folder; `ending` chooses the format.
fn written(ending: &str, lens: &[usize], aero_hashes: bool) -> (tempfile::TempDir, PathBuf, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("model.{ending}"));
    let values: Vec<Vec<u8>> = lens
        .iter()
        .enumerate()
        .map(|(seed, &len)| (0..len).map(|n| ((n * n + seed * 7) >> 3).to_le_bytes()[0]).collect())
        .collect();
    let shapes: Vec<[u64; 1]> = lens.iter().map(|&len| [len as u64]).collect();
    let views = values.iter().zip(&shapes).enumerate();
    let views = views.map(|(n, (bytes, shape))| (format!("t{n}"), View::new(bytes, *shape).unwrap()));
    modelfmt::save(&path, views, &Object::new()).unwrap();
    if aero_hashes {
        let model = Model::open(&path).unwrap();
        let mut options = modelfmt::convert::ConvertOptions::default();
        options.aero.tensor_hashes = true;
        options.aero.page_hashes = Some(1 << 16);
        let out = folder.path().join("hashed.aero");
        modelfmt::Conversion::new(&model, &out).to(Format::Aero).options(&options).write().unwrap();
        return (folder, out, values);
    }
    (folder, path, values)
}

fn all(model: &Model) -> Vec<Pick> {
    model.picks::<&str>(&[]).unwrap()
}

/// Returns the inner error of a load.
fn error_of(result: Result<impl std::fmt::Debug, Error>) -> AnyError {
    match result.unwrap_err() {
        Error::File { error, .. } => error.into_inner(),
        other => panic!("{other}"),
    }
}

#[test]
fn large_and_small_tensors_are_loaded_by_several_threads() {
    let lens = [5 << 20, 3, 0, 70_000, 1, 2, 9 << 20, 100_001, 63];
    for (ending, hashes) in [("safetensors", false), ("aero", true), ("oinf", false), ("apr", false)] {
        let (_folder, path, values) = written(ending, &lens, hashes);
        let model = Model::open(&path).unwrap();
        let done = AtomicU64::new(0);
        let count = |nbytes| {
            done.fetch_add(nbytes, Ordering::Relaxed);
            ControlFlow::Continue(())
        };
        let work = Execution { threads: 4, progress: Some(&count) };
        for verify in [false, true] {
            let options = LoadOptions::new().verify(verify);
            let (loaded, report) = model.load(&all(&model), &options, &work).unwrap();
            assert!(report.notes.is_empty());
            let covered = verify && matches!(ending, "aero" | "apr");
            assert_eq!(report.unverified == 0, covered, "{ending}: {report:?}");
            for tensor in &loaded {
                let info = model.container().info(tensor.position).unwrap();
                let number: usize = info.name[1..].parse().unwrap();
                assert!(*tensor.bytes == values[number][..], "{ending}: {}", info.name);
                assert!(tensor.bytes.as_ptr().addr().is_multiple_of(64));
            }
        }
        let total: usize = lens.iter().sum();
        assert_eq!(done.load(Ordering::Relaxed), 2 * total as u64, "{ending}: progress");
    }
}

#[test]
fn plans_say_what_verifies_each_range() {
    let (_folder, path, values) = written("aero", &[300_000, 100], true);
    let model = Model::open(&path).unwrap();
    let whole = model.plan_verified(&all(&model), PlanOptions { gap: 0, max_request: 1 << 20 }).unwrap();
    let (at, end) = (model.location(0).unwrap().offset.unwrap(), whole.ranges()[0].runs.hull().end);
    assert!(whole.proofs().iter().all(|cover| cover.by == "blake3" && cover.file == 0));
    assert!(
        whole.proofs_of(&whole.ranges()[0]).any(|cover| cover.range.start <= at && end <= cover.range.end)
    );
    // For a part, its pages: 64 KiB each.
    let slice: Slice = "100000:100010".parse().unwrap();
    let picks = [Pick::part(0, slice)];
    let part = model.plan_verified(&picks, PlanOptions::local()).unwrap();
    let [cover] = part.proofs() else { panic!("{:?}", part.proofs()) };
    assert!(cover.range.start <= at + 100_000 && at + 100_010 <= cover.range.end);
    assert!(cover.range.end - cover.range.start <= 1 << 16);
    let (loaded, report) = model.load(&picks, &LoadOptions::new().verify(true), &threads(1)).unwrap();
    assert!(*loaded[0].bytes == values[0][100_000..100_010] && report.unverified == 0);
    // A format without digests has no proofs.
    let (_folder, path, _) = written("safetensors", &[10], false);
    let model = Model::open(&path).unwrap();
    assert!(model.plan_verified(&all(&model), PlanOptions::local()).unwrap().proofs().is_empty());
}

#[test]
fn damage_is_found_while_values_are_loaded() {
    for (ending, hashes) in [("aero", true), ("apr", false)] {
        let (_folder, path, _) = written(ending, &[100_000, 3 << 20, 77], hashes);
        let mut bytes = fs::read(&path).unwrap();
        let place = Model::open(&path).unwrap().location(1).unwrap();
        bytes[index(place.offset.unwrap()) + 12_345] ^= 1;
        fs::write(&path, bytes).unwrap();
        let model = Model::open(&path).unwrap();
        let load = |options: LoadOptions| model.load(&all(&model), &options, &threads(2));
        load(LoadOptions::new()).unwrap();
        let error = error_of(load(LoadOptions::new().verify(true)));
        assert!(matches!(error, AnyError::Malformed { .. }), "{ending}: {error}");
        for (slice, is_damaged) in [("::3", true), ("1000000::3", ending == "apr"), ("12345::900000", true)] {
            let slice = slice.parse().unwrap();
            assert!(model.slice("t1", &slice).is_ok());
            let checked = model.checked().slice("t1", &slice).map(|_| ());
            match is_damaged {
                true => {
                    assert!(matches!(error_of(checked), AnyError::Malformed { .. }), "{ending} [{slice}]");
                }
                false => checked.unwrap(),
            }
        }
    }
}

#[test]
fn several_threads_load_one_slice() {
    let (_folder, path, values) = written("safetensors", &[8 << 20], false);
    let model = Model::open(&path).unwrap();
    for text in ["::2", "5::100000"] {
        let seen = Mutex::new(HashSet::new());
        let until = Instant::now() + Duration::from_secs(20);
        // A thread that has done a part waits until another thread has done one too.
        let wait = |_| {
            seen.lock().unwrap().insert(std::thread::current().id());
            while seen.lock().unwrap().len() < 2 && Instant::now() < until {
                std::thread::yield_now();
            }
            ControlFlow::Continue(())
        };
        let work = Execution { threads: 2, progress: Some(&wait) };
        let options = LoadOptions::new().plan(PlanOptions { gap: 64, max_request: 4 << 20 });
        let slice: Slice = text.parse().unwrap();
        let runs = slice.of(&model.container().info(0).unwrap()).unwrap().runs;
        let expected: Vec<u8> = runs.iter().map(|run| values[0][index(run.start)]).collect();
        let (loaded, _) = model.load(&[Pick::part(0, slice)], &options, &work).unwrap();
        assert!(*loaded[0].bytes == expected[..], "{text}");
        assert_eq!(seen.lock().unwrap().len(), 2, "{text}");
    }
}

#[test]
fn a_file_that_changes_is_a_named_error() {
    let (_folder, path, _) = written("safetensors", &[3 << 20, 100], false);
    let good = fs::read(&path).unwrap();
    let changes: [fn(&fs::File); 3] = [
        |file| file.set_len(file.metadata().unwrap().len() + 1).unwrap(),
        |file| file.set_len(1 << 20).unwrap(),
        |file| file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap(), // as any write does
    ];
    for change in changes {
        fs::write(&path, &good).unwrap();
        let model = Model::open(&path).unwrap();
        let pieces = AtomicU64::new(0);
        let touch = |_| {
            if pieces.fetch_add(1, Ordering::Relaxed) == 0 {
                change(&fs::File::options().write(true).open(&path).unwrap());
            }
            ControlFlow::Continue(())
        };
        let options = LoadOptions::new().plan(PlanOptions { gap: 0, max_request: 1 << 20 });
        for threads in [1, 1, 2] {
            // The second and third time, the file has changed before the load begins.
            let work = Execution { threads, progress: Some(&touch) };
            let error = model.load(&all(&model), &options, &work).unwrap_err();
            assert_eq!(error.code(), "changed", "{error}");
            assert!(error.to_string().contains("model.safetensors"), "{error}");
        }
        assert_ne!(pieces.load(Ordering::Relaxed), 0);
    }
    // Another file that gets the same name does not affect the open file.
    fs::write(&path, &good).unwrap();
    let model = Model::open(&path).unwrap();
    fs::rename(&path, path.with_extension("old")).unwrap();
    fs::write(&path, b"another").unwrap();
    model.load(&all(&model), &LoadOptions::new(), &threads(1)).unwrap();
}

#[test]
fn buffers_of_another_length_and_a_stop_are_errors() {
    let (_folder, path, _) = written("oinf", &[1000, 10], false);
    let model = Model::open(&path).unwrap();
    let (mut a, mut b) = (vec![0; 1000], vec![0; 11]);
    let options = LoadOptions::new();
    let result = model.load_into(&all(&model), &mut [&mut a, &mut b], &options, &threads(1));
    assert!(matches!(error_of(result), AnyError::OutOfRange { .. }));
    let result = model.load_into(&all(&model), &mut [&mut a], &options, &threads(1));
    assert!(matches!(error_of(result), AnyError::Io { .. }));
    let stop = |_| ControlFlow::Break(());
    let work = Execution { threads: 2, progress: Some(&stop) };
    assert!(matches!(error_of(model.load(&all(&model), &options, &work)), AnyError::Cancelled));
    let absent = [Pick::whole(99)];
    assert!(matches!(error_of(model.load(&absent, &options, &threads(1))), AnyError::NotFound { .. }));
    assert!(matches!(error_of(model.plan(&absent, PlanOptions::local())), AnyError::NotFound { .. }));
}

#[test]
fn sets_are_planned_and_loaded_file_by_file() {
    let (folder, path, values) = written("safetensors", &[40_000, 50_000, 60_000], false);
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.output.shard_size = Some(100_000);
    let index_path = folder.path().join("set.safetensors.index.json");
    let model = Model::open(&path).unwrap();
    modelfmt::Conversion::new(&model, &index_path)
        .to(Format::SafetensorsSharded)
        .options(&options)
        .write()
        .unwrap();
    let set = OpenOptions::new().open(&index_path).unwrap();
    let plan = set.plan(&all(&set), PlanOptions::local()).unwrap();
    assert!(plan.ranges().len() > 1);
    assert!(plan.ranges().iter().all(|range| plan.file(range.file).is_some()));
    let totals = plan.totals();
    assert_eq!((totals.wanted, totals.overhead()), (150_000, 0));
    let (loaded, _) = set.load(&all(&set), &LoadOptions::new().verify(true), &threads(3)).unwrap();
    for tensor in loaded {
        let name = set.container().info(tensor.position).unwrap().name.to_owned();
        assert!(*tensor.bytes == values[name[1..].parse::<usize>().unwrap()][..]);
    }
}

#[test]
fn a_slice_of_a_compressed_tensor_reads_its_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.apr");
    let rows: Vec<u8> = (0..64 * 65_536_u32).map(|n| (n / 700).to_le_bytes()[0]).collect();
    let plain = folder.path().join("model.safetensors");
    let view = View::new(&rows, [64, 65_536]).unwrap();
    modelfmt::save(&plain, [("w", view)], &Object::new()).unwrap();
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.apr2.compress = Some(Compression::Lz4);
    modelfmt::Conversion::new(&Model::open(&plain).unwrap(), &path)
        .to(Format::Apr2)
        .options(&options)
        .write()
        .unwrap();
    let model = Model::open(&path).unwrap();
    assert_eq!(model.location(0).unwrap().encoding, Encoding::Lz4);
    let planned = |text: &str| {
        let pick = Pick::part(0, text.parse().unwrap());
        model.plan(&[pick], PlanOptions { gap: 0, max_request: 1 << 30 }).unwrap()
    };
    let whole = model.plan(&[Pick::whole(0)], PlanOptions::local()).unwrap().totals().read;
    let one: Range<u64> = planned("40").ranges()[0].runs.hull();
    let two = planned("40:42").ranges()[0].runs.hull();
    assert!((one.end - one.start) * 50 < whole && one.start == two.start && one.end < two.end);
    let columns = planned("::16, :100").totals();
    assert!(columns.requests == 4 && columns.read * 10 < whole, "{columns:?} of {whole}");
    let slice = model.slice("w", &"::16, :100".parse().unwrap()).unwrap();
    let expected: Vec<u8> = (0..4).flat_map(|row| &rows[row * 16 * 65_536..][..100]).copied().collect();
    assert_eq!(slice.bytes(), expected);
}

/// A file that is compressed as a whole is in memory once it is open: nothing more is read, and its checksum
/// is checked only if this is requested.
#[test]
fn a_file_that_is_compressed_as_a_whole_counts_as_checked_only_if_it_was() {
    for name in ["apr/lz4.apr", "apr/zstd.apr"] {
        let model = Model::open(testkit::testdata(name)).unwrap();
        let picks = all(&model);
        let nbytes: u64 = model.tensors().map(|info| info.nbytes).sum();
        let unverified = |verify| {
            let options = LoadOptions::new().verify(verify);
            model.load(&picks, &options, &threads(1)).unwrap().1.unverified
        };
        assert!(nbytes > 0);
        assert_eq!([false, true].map(unverified), [nbytes, 0], "{name}");
    }
}
