//! Models of several files: writers that stop or are killed between the files, and readers that threads
//! share.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use modelfmt::{DType, Execution, Model, VerifyLevel};
use modelfmt_core::value::Object;
use modelfmt_write::{
    AtomicFile, BoxError, NewFiles, NewFolder, Output, Overwrite, Sink, TensorData, TensorSpec,
};

/// The names of the index of a set in each format, from which [`write`] knows the format.
const INDEXES: [&str; 3] = ["m.aeroset.json", "m.apr.json", "m.safetensors.index.json"];
const TENSORS: usize = 6;

/// Writes a set of tensors. All values of a tensor are the same number.
fn write(index: &str, values: [u8; TENSORS], nbytes: u64, files: &impl NewFiles) -> Result<(), String> {
    write_data(index, &values.map(|value| vec![value; nbytes as usize]), nbytes, files)
}

fn write_data(
    index: &str,
    values: &dyn TensorData,
    nbytes: u64,
    files: &impl NewFiles,
) -> Result<(), String> {
    let specs = || (0..TENSORS).map(|n| TensorSpec::new(format!("t.{n}"), DType::I8, vec![nbytes]));
    let (work, size) = (Execution::default(), 2 * nbytes + 1);
    if index == INDEXES[0] {
        let metadata = Object::from_iter([("model_name", "m"), ("architecture", "demo")]);
        let options = aero::WriteOptions::new().uuid([7; 16]).shard_size(size).part_size(size);
        let plan = aero::SetPlan::new(index, specs(), &metadata, &options).unwrap();
        plan.write(values, files, &work).map_err(|e| e.to_string())
    } else if index == INDEXES[1] {
        let options = apr2::WriteOptions::new().shard_size(size);
        let metadata = apr2::Metadata::new("demo", Object::new());
        let plan = apr2::SetPlan::new(index, specs(), &metadata, &options).unwrap();
        plan.write(values, files, &work).map_err(|e| e.to_string())
    } else {
        let options = modelfmt_safetensors::WriteOptions::new().shard_size(size);
        let plan = modelfmt_safetensors::SetPlan::new("m", specs(), None, &options).unwrap();
        plan.write(values, files, &work).map_err(|e| e.to_string())
    }
}

fn replace(folder: &Path, index: &str, value: u8, nbytes: u64) {
    write(index, [value; TENSORS], nbytes, &NewFolder::new(folder, Overwrite::Replace)).unwrap();
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let listed = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder in which at most this many files appear, as if the writer died between two of them.
struct StopsAt {
    inner: NewFolder,
    left: Arc<AtomicUsize>,
}

struct Stopping {
    inner: AtomicFile,
    left: Arc<AtomicUsize>,
}

impl NewFiles for StopsAt {
    type Output = Stopping;
    fn check(&self, path: &str) -> io::Result<()> {
        self.inner.check(path)
    }
    fn create(&self, path: &str) -> io::Result<Stopping> {
        Ok(Stopping { inner: self.inner.create(path)?, left: Arc::clone(&self.left) })
    }
}

impl Sink for Stopping {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }
}

impl Output for Stopping {
    fn read_back(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read_back(offset, out)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }
    fn remove_old(&self) -> io::Result<()> {
        self.inner.remove_old()
    }
    fn commit(self) -> io::Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => self.inner.commit(),
            Err(_) => Err(io::Error::other("the writer is gone")),
        }
    }
}

/// Returns the number that all values of a set have; `None` if there is no index. The set must be sound.
fn value_of(folder: &Path, index: &str, nbytes: u64) -> Option<u8> {
    if !folder.join(index).exists() {
        return None;
    }
    let model = Model::open(folder.join(index)).unwrap();
    let report = model.container().verify(VerifyLevel::Full, &Execution::default());
    assert!(report.is_ok(), "{index}: {:?}", report.errors);
    let values: Vec<Vec<u8>> = (0..TENSORS).map(|n| model.tensor(n).unwrap().bytes().to_vec()).collect();
    let value = values[0][0];
    assert!(values.iter().all(|values| *values == vec![value; nbytes as usize]), "{index} is of two writers");
    Some(value)
}

#[test]
fn a_set_appears_with_its_index_which_is_the_last_file() {
    const NBYTES: u64 = 500;
    for index in INDEXES {
        let folder = tempfile::tempdir().unwrap();
        replace(folder.path(), index, 1, NBYTES);
        let files = names(folder.path()).len();
        assert!(files >= 4, "{index} with {files} files");
        for stop in 0..files {
            let folder = tempfile::tempdir().unwrap();
            let new = |left: usize| StopsAt {
                inner: NewFolder::new(folder.path(), Overwrite::Replace),
                left: Arc::new(AtomicUsize::new(left)),
            };
            // In an empty folder: without an index there is no set.
            assert!(write(index, [1; TENSORS], NBYTES, &new(stop)).is_err(), "{index}, {stop}");
            let there = names(folder.path());
            assert_eq!(there.len(), stop, "{there:?}");
            assert!(!there.contains(&index.to_owned()), "{there:?}");
            // The next writer completes the set.
            replace(folder.path(), index, 2, NBYTES);
            assert_eq!(names(folder.path()).len(), files);
            assert_eq!(value_of(folder.path(), index, NBYTES), Some(2));

            // Over an existing set, its index is removed first. The indexes of APR2 and safetensors could not
            // distinguish an old file from a new one: the CRC-32 of a whole APR2 shard, which ends with its
            // own CRC-32, depends only on its length.
            assert!(write(index, [3; TENSORS], NBYTES, &new(stop)).is_err(), "{index}, {stop}");
            assert_eq!(names(folder.path()).len(), files - 1, "nothing else is left");
            assert_eq!(value_of(folder.path(), index, NBYTES), None);
            replace(folder.path(), index, 4, NBYTES);
            assert_eq!(value_of(folder.path(), index, NBYTES), Some(4));
        }
    }
}

#[test]
fn a_set_stays_as_it_is_until_the_new_one_is_written() {
    struct Fails;
    impl TensorData for Fails {
        fn read(&self, tensor: usize, _: u64, out: &mut [u8]) -> Result<(), BoxError> {
            out.fill(9);
            if tensor + 1 == TENSORS { Err("the last values cannot be had".into()) } else { Ok(()) }
        }
    }
    for index in INDEXES {
        let folder = tempfile::tempdir().unwrap();
        replace(folder.path(), index, 1, 500);
        let before = names(folder.path());
        let files = NewFolder::new(folder.path(), Overwrite::Replace);
        assert!(write_data(index, &Fails, 500, &files).is_err(), "{index}");
        assert_eq!(names(folder.path()), before);
        assert_eq!(value_of(folder.path(), index, 500), Some(1));
    }
}

/// The variable with the index of the set that the child writes again and again.
const VARIABLE: &str = "MODELFMT_TEST_INTERRUPTED_SET";
const NBYTES: u64 = 1 << 20;

/// Not a test by itself: the process that [`a_writer_of_a_set_that_is_killed_leaves_a_whole_set_or_none`]
/// kills.
#[test]
#[ignore = "it is started by another test, and never ends"]
fn child() {
    let path = std::env::var_os(VARIABLE).expect("started by the other test");
    let path = Path::new(&path);
    for value in (1..=100).cycle() {
        replace(path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap(), value, NBYTES);
    }
}

#[test]
fn a_writer_of_a_set_that_is_killed_leaves_a_whole_set_or_none() {
    const KILLS: usize = 6;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let (mut interrupted, mut between) = (0, 0);
    for index in INDEXES {
        let folder = tempfile::tempdir().unwrap();
        replace(folder.path(), index, 101, NBYTES);
        let whole = names(folder.path());
        for _ in 0..KILLS {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "robustness::sets::child", "--ignored"])
                .env(VARIABLE, folder.path().join(index))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            thread::sleep(Duration::from_millis(10 + (random >> 33) % 200));
            child.kill().unwrap(); // SIGKILL: no destructor runs
            assert!(!child.wait().unwrap().success());
            let mut others = names(folder.path());
            others.retain(|name| !whole.contains(name));
            let temporary = |name: &String| name.starts_with(".modelfmt-") && name.ends_with(".partial");
            assert!(others.iter().all(temporary), "{others:?}");
            assert!(others.len() <= whole.len(), "one for each file of the set at most: {others:?}");
            interrupted += usize::from(!others.is_empty());
            match value_of(folder.path(), index, NBYTES) {
                Some(value) => assert!((1..=101).contains(&value)),
                None => between += 1,
            }
        }
        replace(folder.path(), index, 102, NBYTES); // the next run removes what was left
        assert_eq!(value_of(folder.path(), index, NBYTES), Some(102));
        assert_eq!(names(folder.path()), whole);
    }
    println!(
        "{interrupted} of {} writers were killed at work, {between} between two files",
        KILLS * INDEXES.len()
    );
}

#[test]
fn threads_share_a_reader_of_a_set() {
    const THREADS: usize = 4;
    for index in INDEXES {
        let folder = tempfile::tempdir().unwrap();
        // Each tensor has other values, so that none can be mistaken for another.
        let values = std::array::from_fn(|n| n as u8);
        write(index, values, 3000, &NewFolder::new(folder.path(), Overwrite::Refuse)).unwrap();
        let alone = Model::open(folder.path().join(index)).unwrap();
        let expected: Vec<Vec<u8>> =
            (0..TENSORS).map(|n| alone.tensor(n).unwrap().bytes().to_vec()).collect();
        for round in 0..20 {
            // No file is open yet: the threads race for each file.
            let model = Model::open(folder.path().join(index)).unwrap();
            thread::scope(|scope| {
                let (model, expected) = (&model, &expected);
                let read = move |first: usize| {
                    let order = (0..TENSORS * 3).map(|n| (first * 2 + round + n) % TENSORS);
                    let same = |n: usize| *model.tensor(n).unwrap().bytes() == *expected[n];
                    order.into_iter().all(same)
                };
                let readers: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || read(first))).collect();
                let verifies = scope
                    .spawn(|| model.container().verify(VerifyLevel::Full, &Execution::default()).is_ok());
                assert!(readers.into_iter().all(|reader| reader.join().unwrap()), "{index}");
                assert!(verifies.join().unwrap(), "{index}");
            });
        }
    }
}
