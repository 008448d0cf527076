use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use modelfmt::convert::ConvertOptions;
use modelfmt::{Conversion, Execution, Format, Model};
use modelfmt_write::{MemoryFile, MemoryFolder, Output as _, Sink as _};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::*;

/// A bucket in memory that counts its requests. Some requests can be made to fail.
#[derive(Debug, Default)]
struct Bucketful {
    inner: InMemory,
    begun: AtomicUsize,
    parts: AtomicUsize,
    completed: AtomicUsize,
    aborted: AtomicUsize,
    /// The number of the first part that is refused.
    refuses_from: Option<usize>,
    /// How long it takes to create an upload.
    begins_after: std::time::Duration,
    /// How long it takes to abort an upload.
    aborts_after: std::time::Duration,
    /// The number of aborts that fail before one succeeds.
    failing_aborts: usize,
    is_aborted: std::sync::atomic::AtomicBool,
}

impl std::fmt::Display for Bucketful {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bucket")
    }
}

#[async_trait]
impl ObjectStore for Bucketful {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        self.inner.put_opts(at, bytes, options).await
    }
    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }
    async fn get_opts(&self, at: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.inner.get_opts(at, options).await
    }
    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> StoreResult<Vec<bytes::Bytes>> {
        self.inner.get_ranges(at, ranges).await
    }
    fn delete_stream(
        &self,
        at: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(at)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl MultipartStore for Bucketful {
    async fn create_multipart(&self, at: &Path) -> StoreResult<MultipartId> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.begins_after).await;
        self.inner.create_multipart(at).await
    }
    async fn put_part(
        &self,
        at: &Path,
        id: &MultipartId,
        number: usize,
        bytes: PutPayload,
    ) -> StoreResult<PartId> {
        self.parts.fetch_add(1, Ordering::Relaxed);
        if self.refuses_from.is_some_and(|from| number >= from) {
            let source = "<html>a page with a secret</html>".into();
            return Err(object_store::Error::PermissionDenied { path: at.to_string(), source });
        }
        self.inner.put_part(at, id, number, bytes).await
    }
    async fn complete_multipart(
        &self,
        at: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> StoreResult<PutResult> {
        self.completed.fetch_add(1, Ordering::Relaxed);
        self.inner.complete_multipart(at, id, parts).await
    }
    async fn abort_multipart(&self, at: &Path, id: &MultipartId) -> StoreResult<()> {
        let number = self.aborted.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.aborts_after).await;
        if number < self.failing_aborts {
            return Err(object_store::Error::Generic { store: "a bucket", source: "busy".into() });
        }
        self.is_aborted.store(true, Ordering::Relaxed);
        self.inner.abort_multipart(at, id).await
    }
}

/// `abort_uploads` aborts all uploads of the process, so a test that calls it runs while no other test
/// writes.
static WRITING: RwLock<()> = RwLock::new(());

enum Turn {
    BesideOthers { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// New objects in such a bucket, in small parts.
struct Files {
    store: Arc<Bucketful>,
    part_size: u64,
    overwrite: Overwrite,
    _turn: Turn,
}

impl Files {
    fn new(part_size: u64) -> Self {
        let guard = WRITING.read().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(part_size, Turn::BesideOthers { _guard: guard })
    }

    /// Returns the files for a test that calls `abort_uploads`.
    fn alone(part_size: u64) -> Self {
        let guard = WRITING.write().unwrap_or_else(PoisonError::into_inner);
        Self::in_turn(part_size, Turn::Alone { _guard: guard })
    }

    fn in_turn(part_size: u64, turn: Turn) -> Self {
        Self { store: Arc::default(), part_size, overwrite: Overwrite::Refuse, _turn: turn }
    }

    fn target(&self, path: &str) -> Target {
        let at = Bucket { service: crate::Service::S3, bucket: "b".to_owned(), key: path.to_owned() };
        Target::new(Arc::<Bucketful>::clone(&self.store), at).unwrap()
    }

    fn begin(&self, path: &str, reads_back: bool) -> io::Result<Upload> {
        Upload::begin(self.target(path), self.part_size, self.overwrite, reads_back)
    }

    fn get(&self, path: &str) -> Option<Vec<u8>> {
        let target = self.target(path);
        let got = target.ask(|store, path| async move { store.get(&path).await?.bytes().await });
        got.ok().map(|bytes| bytes.to_vec())
    }

    fn counted(&self) -> [usize; 4] {
        let store = &*self.store;
        [&store.begun, &store.parts, &store.completed, &store.aborted]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

impl NewFiles for Files {
    type Output = Upload;

    fn check(&self, path: &str) -> io::Result<()> {
        match self.overwrite {
            Overwrite::Refuse => self.target(path).expect_none(),
            Overwrite::Replace => Ok(()),
        }
    }
    fn create(&self, path: &str) -> io::Result<Upload> {
        self.begin(path, false)
    }
    fn create_to_read_back(&self, path: &str) -> io::Result<Upload> {
        self.begin(path, true)
    }
}

fn model() -> Model {
    Model::open(testkit::testdata("safetensors").join("dtypes.safetensors")).unwrap()
}

/// Sets options that some formats require and others refuse. A UUID that AERO makes itself would differ each
/// time.
fn name_it(options: &mut ConvertOptions, format: Format) {
    let is_aero = matches!(format, Format::Aero | Format::AeroSet);
    let is_named = is_aero || format.name().starts_with("apr");
    options.aero.uuid = is_aero.then_some([7; 16]);
    options.metadata.model_name = is_named.then(|| "m".to_owned());
    options.metadata.architecture = is_named.then(|| "a".to_owned());
}

#[test]
fn an_object_appears_when_it_is_complete() {
    let files = Files::new(4);
    let upload = files.create("a/k").unwrap();
    assert_eq!(upload.name(), "s3://b/a/k");
    for (at, bytes) in [(4, &b"efghij"[..]), (10, b"kl"), (0, b"abcd"), (12, b"m")] {
        upload.write_at(at, bytes).unwrap();
        assert_eq!(files.get("a/k"), None);
    }
    upload.commit().unwrap();
    assert_eq!(files.get("a/k").unwrap(), b"abcdefghijklm");
    assert_eq!(files.counted(), [1, 4, 1, 0]);
}

#[test]
fn a_small_object_is_one_request_and_an_empty_one_too() {
    let files = Files::new(4);
    for (key, bytes) in [("three", &b"abc"[..]), ("none", b"")] {
        let upload = files.create(key).unwrap();
        upload.write_at(0, bytes).unwrap();
        upload.commit().unwrap();
        assert_eq!(files.get(key).unwrap(), bytes);
    }
    assert_eq!(files.counted(), [0, 0, 0, 0]);
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let files = Files::new(4);
    let upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 40]).unwrap();
    drop(upload);
    let [begun, .., completed, aborted] = files.counted();
    assert_eq!((begun, completed, aborted, files.get("k")), (1, 0, 1, None));
    // An upload from which nothing was sent costs no request.
    let upload = files.create("k").unwrap();
    upload.write_at(0, b"abc").unwrap();
    drop(upload);
    assert_eq!((files.counted()[3], files.get("k")), (1, None));
}

#[test]
fn parts_are_taken_back_from_a_bucket_that_fails_at_first() {
    let mut files = Files::new(4);
    Arc::get_mut(&mut files.store).unwrap().failing_aborts = 2;
    let upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 40]).unwrap();
    drop(upload);
    assert_eq!(files.counted()[3], 3);
    assert!(files.store.is_aborted.load(Ordering::Relaxed));
}

#[test]
fn what_is_given_up_while_it_begins_is_taken_back_if_it_begins_soon() {
    for (millis, aborted) in [(100, 1), (60_000, 0)] {
        let mut files = Files::new(4);
        Arc::get_mut(&mut files.store).unwrap().begins_after = std::time::Duration::from_millis(millis);
        let upload = files.create("k").unwrap();
        upload.write_at(0, &[1; 16]).unwrap();
        drop(upload);
        let [begun, _, completed, aborts] = files.counted();
        assert_eq!((begun, completed, aborts), (1, 0, aborted));
    }
}

#[test]
fn a_program_that_ends_waits_for_what_is_being_taken_back() {
    let mut files = Files::alone(4);
    Arc::get_mut(&mut files.store).unwrap().aborts_after = std::time::Duration::from_millis(300);
    let upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 40]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(upload));
        while files.counted()[3] == 0 {
            std::thread::yield_now();
        }
        abort_uploads(std::time::Duration::from_secs(5));
        assert!(files.store.is_aborted.load(Ordering::Relaxed));
    });
}

#[test]
fn a_program_that_ends_takes_all_of_it_back() {
    let files = Files::alone(4);
    let upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 40]).unwrap();
    abort_uploads(std::time::Duration::from_secs(5));
    assert_eq!(files.counted()[3], 1);
    assert!(upload.write_at(40, b"more").is_err());
    assert!(upload.commit().is_err());
    assert_eq!((files.counted()[2..].to_vec(), files.get("k")), (vec![0, 1], None));
}

#[test]
fn a_finished_object_does_not_appear_after_that() {
    let files = Files::alone(4);
    let mut upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 3]).unwrap(); // one request, when it has to appear
    upload.finish().unwrap();
    abort_uploads(std::time::Duration::from_secs(5));
    assert!(upload.commit().is_err());
    assert_eq!(files.get("k"), None);
}

#[test]
fn what_is_printed_for_programmers_has_no_credentials() {
    let _turn = WRITING.read().unwrap_or_else(PoisonError::into_inner);
    let variables = [("AZURE_STORAGE_ACCOUNT_NAME", "a"), ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=c2VjcmV0")];
    let store = Store::new(crate::Options::new().environment(crate::Environment::from_vars(variables)));
    let objects = NewObjects::new(store, &"az://container/k".parse().unwrap(), Overwrite::Refuse).unwrap();
    let upload = objects.create("k").unwrap();
    let text = format!("{upload:?} {objects:?}");
    assert!(text.contains("az://container/k") && !text.contains("c2VjcmV0"), "{text}");
}

#[test]
fn a_writer_that_waits_for_its_parts_gets_an_error_when_they_are_taken_back() {
    let mut files = Files::alone(4);
    Arc::get_mut(&mut files.store).unwrap().begins_after = std::time::Duration::from_secs(60);
    let upload = files.create("k").unwrap();
    upload.write_at(0, &[1; 8]).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| upload.commit());
        std::thread::sleep(std::time::Duration::from_millis(100)); // it waits by then
        abort_uploads(std::time::Duration::from_secs(5));
        assert!(writer.join().unwrap().is_err());
    });
}

#[test]
fn what_exists_is_kept_unless_it_may_be_replaced() {
    let mut files = Files::new(4);
    let write = |files: &Files, bytes: &[u8]| {
        let upload = files.create("k")?;
        upload.write_at(0, bytes)?;
        upload.commit()
    };
    write(&files, b"one").unwrap();
    // In one request, and in parts.
    for bytes in [&b"two"[..], b"two parts"] {
        assert_eq!(write(&files, bytes).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(files.get("k").unwrap(), b"one");
    }
    assert_eq!(files.check("k").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(files.counted()[2..], [0, 1]);
    files.overwrite = Overwrite::Replace;
    files.check("k").unwrap();
    for bytes in [&b"two"[..], b"two parts"] {
        write(&files, bytes).unwrap();
        assert_eq!(files.get("k").unwrap(), bytes);
    }
    let upload = files.create("k").unwrap();
    upload.remove_old().unwrap();
    upload.remove_old().unwrap();
    assert_eq!(files.get("k"), None);
}

#[test]
fn a_part_that_is_refused_is_an_error_that_says_where() {
    let mut files = Files::new(4);
    Arc::get_mut(&mut files.store).unwrap().refuses_from = Some(2);
    let upload = files.create("k").unwrap();
    let written = (0..100).try_for_each(|number| upload.write_at(number * 4, b"abcd"));
    let error = written.and_then(|()| upload.commit()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let text = error.to_string();
    assert!(text.starts_with("s3://b/k: ") && !text.contains("secret"), "{text}");
    assert_eq!((files.counted()[2], files.get("k")), (0, None));
    assert!(files.counted()[1] < 20, "a writer goes on after an error");
}

#[test]
fn an_object_of_too_many_parts_is_refused() {
    let files = Files::new(1);
    let upload = files.create("k").unwrap();
    let error = (0..20_000).try_for_each(|at| upload.write_at(at, b"x")).unwrap_err();
    assert!(error.to_string().contains("--shard-size"), "{error}");
    let at: Location = "s3://b/k".parse().unwrap();
    let new = |nbytes| {
        NewObjects::new(Store::new(crate::Options::default()), &at, Overwrite::Refuse)
            .unwrap()
            .expecting(nbytes)
    };
    for nbytes in [0, 1 << 30, 100 << 30, 1 << 40, 5 << 40] {
        let part_size = new(nbytes).part_size;
        assert!(part_size >= PART_SIZE && nbytes.div_ceil(part_size) <= PARTS, "{nbytes}");
    }
    assert_eq!(new(u64::MAX).file_name(), "k");
}

#[test]
fn every_format_is_written_as_it_is_on_a_disk() {
    let model = model();
    let mut options = ConvertOptions::default();
    (options.types.widen, options.metadata.lossy) = (true, true);
    options.tensors.include = vec!["*f32*".parse().unwrap()];
    for format in ["aero", "mag", "oinf", "apr2", "safetensors", "gguf", "apr"] {
        let format: Format = format.parse().unwrap();
        name_it(&mut options, format);
        let local = MemoryFile::new();
        Conversion::to_format(&model, format)
            .options(&options)
            .plan()
            .unwrap()
            .write_to_sink(&local, &Execution::default())
            .unwrap();
        let expected = local.into_bytes();
        for part_size in [1 << 20, 100, 7] {
            let files = Files::new(part_size);
            let upload = files.create("m").unwrap();
            let conversion = Conversion::to_format(&model, format).options(&options).plan().unwrap();
            conversion.write_to_sink(&upload, &Execution::default()).unwrap();
            upload.commit().unwrap();
            assert!(files.get("m").unwrap() == expected, "{format} {part_size}");
        }
    }
}

#[test]
fn sets_are_written_as_they_are_on_a_disk() {
    let model = model();
    let mut options = ConvertOptions::default();
    (options.types.widen, options.metadata.lossy, options.output.shard_size) = (true, true, Some(64));
    options.tensors.include = ["f32.x", "f16.x", "bf16.x", "i8.x"].map(|glob| glob.parse().unwrap()).into();
    let names = [
        ("aeroset", "m.aeroset.json"),
        ("apr2", "m.apr"),
        ("safetensors", "m.safetensors.index.json"),
        ("gguf", "m.gguf"),
    ];
    for (format, name) in names {
        let format: Format = format.parse().unwrap();
        name_it(&mut options, format);
        let local = MemoryFolder::default();
        let conversion = || {
            Conversion::to_format(&model, format).options(&options).plan().unwrap_or_else(|e| panic!("{e:?}"))
        };
        conversion().write_to_files(name, &local, &Execution::default()).unwrap();
        let local = local.files().0;
        assert!(local.len() > 2, "{format}");
        for part_size in [1 << 20, 100] {
            let files = Files::new(part_size);
            conversion().write_to_files(name, &files, &Execution::default()).unwrap();
            for (name, bytes) in &local {
                assert!(files.get(name).as_deref() == Some(&**bytes), "{name} {part_size}");
            }
            let error = conversion().write_to_files(name, &files, &Execution::default()).unwrap_err();
            assert!(matches!(error, modelfmt::Error::Exists { .. }), "{error}");
        }
    }
}
