//! Golden files, read by ranges from servers of other authors.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::path::{Path, PathBuf};

use modelfmt::{Model, OpenOptions};
use modelfmt_remote::blocking::{File, Store};
use modelfmt_remote::{Environment, Location, Options};
use testkit::servers::{Nginx, S3};

/// Returns all golden files that are single-file models.
fn golden() -> Vec<PathBuf> {
    let folders = [
        ("aero", "aero"),
        ("mag", "mag"),
        ("oinf", "oinf"),
        ("apr2", "apr"),
        ("apr", "apr"),
        ("safetensors", "safetensors"),
        ("gguf", "gguf"),
        ("npy", "npy"),
        ("npy", "npz"),
        ("pytorch", "pt"),
    ];
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(|(folder, ending)| testkit::golden_files(folder, ending)).collect();
    files.retain(|path| Model::open(path).is_ok());
    assert!(files.len() > 30);
    files
}

/// Returns a store whose first requests are so short that the rest is requested by ranges.
fn store(environment: Environment) -> Store {
    Store::new(Options::new().front(64).retries(0).environment(environment)).unwrap()
}

fn open(store: &Store, url: &str) -> Model {
    let place: Location = url.parse().unwrap();
    let file = store.open(&place).unwrap_or_else(|e| panic!("{e}"));
    OpenOptions::new().open_source(url, Box::new(file), Some(store.beside(&place))).unwrap()
}

fn assert_same(remote: &Model, local: &Model) {
    assert_eq!(remote.format(), local.format());
    assert_eq!(remote.tensor_count(), local.tensor_count());
    for (found, info) in remote.tensors().zip(local.tensors()) {
        assert_eq!((found.name, found.dtype, found.shape), (info.name, info.dtype, info.shape));
        match (remote.tensor(info.name), local.tensor(info.name)) {
            (Ok(remote), Ok(local)) => assert!(remote.bytes() == local.bytes(), "{}", info.name),
            (Err(_), Err(_)) => {} // it is only declared
            _ => panic!("{}", info.name),
        }
    }
}

fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
    format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap())
}

#[test]
fn golden_files_are_read_from_nginx() {
    let work = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(&testkit::testdata("").canonicalize().unwrap(), work.path());
    let store = store(Environment::from_vars([("", ""); 0]));
    for path in golden() {
        let local = Model::open(&path).unwrap();
        assert_same(&open(&store, &format!("{}/{}", nginx.endpoint(), name(&path))), &local);
    }
    let counted = store.traffic().requests;
    let requests = nginx.requests(usize::try_from(counted).unwrap());
    assert_eq!(requests.len() as u64, counted, "what is counted is what is asked");
    for request in &requests {
        assert_eq!(request.status, 206, "{request:?}");
        assert!(request.what.starts_with("GET ") && request.range.starts_with("bytes="), "{request:?}");
        let is_first = request.range == "bytes=0-63" || request.range.starts_with("bytes=-");
        assert!(is_first || request.if_match.starts_with('"'), "{request:?}");
    }
}

#[test]
fn golden_files_are_read_from_a_bucket() {
    let s3 = S3::start();
    s3.make_bucket("golden");
    let store = store(Environment::from_vars(s3.environment()));
    for path in golden() {
        let name = name(&path);
        s3.put("golden", &name, &std::fs::read(&path).unwrap());
        assert_same(&open(&store, &format!("s3://golden/{name}")), &Model::open(&path).unwrap());
    }
}

#[test]
fn a_set_is_read_from_a_bucket() {
    let s3 = S3::start();
    s3.make_bucket("sets");
    let folder = testkit::testdata("safetensors");
    for file in
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        s3.put("sets", file.file_name().unwrap().to_str().unwrap(), &std::fs::read(&file).unwrap());
    }
    let index = "set.safetensors.index.json";
    let remote = open(&store(Environment::from_vars(s3.environment())), &format!("s3://sets/{index}"));
    assert_same(&remote, &Model::open(folder.join(index)).unwrap());
}

fn read_all(file: &File) -> std::io::Result<Vec<u8>> {
    use modelfmt_core::Source as _;
    let mut out = vec![0; usize::try_from(file.len()).unwrap()];
    file.read_into(0, &mut out)?;
    Ok(out)
}

#[test]
fn a_file_that_changes_is_an_error_and_never_a_mixture() {
    let s3 = S3::start();
    s3.make_bucket("changes");
    s3.put("changes", "m", &[1; 1000]);
    let (folder, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("m"), [1; 1000]).unwrap();
    let nginx = Nginx::start(folder.path(), work.path());
    let store = store(Environment::from_vars(s3.environment()));
    let urls = ["s3://changes/m".to_owned(), format!("{}/m", nginx.endpoint())];
    let files = urls.map(|url| store.open(&url.parse().unwrap()).unwrap());
    for file in &files {
        assert_eq!(read_all(file).unwrap(), [1; 1000]);
    }
    s3.put("changes", "m", &[2; 1000]);
    // nginx distinguishes versions of a file by second and length.
    std::fs::write(folder.path().join("m"), [2; 1001]).unwrap();
    for file in &files {
        let error = read_all(file).unwrap_err();
        assert!(error.to_string().contains("has changed on the server"), "{error}");
    }
}

#[test]
fn what_is_not_signed_reads_nothing_of_a_bucket_that_wants_it() {
    let s3 = S3::start();
    s3.make_bucket("private");
    s3.put("private", "m", b"0123456789");
    let anonymous = s3.environment().into_iter().filter(|(name, _)| !name.contains("KEY"));
    let environment: Vec<(&str, String)> = anonymous.collect();
    let place: Location = "s3://private/m".parse().unwrap();
    let error = store(Environment::from_vars(environment.clone())).open(&place).unwrap_err();
    assert!(error.to_string().contains("AWS_SKIP_SIGNATURE"), "{error}");
    let skipping = environment.into_iter().chain([("AWS_SKIP_SIGNATURE", "true".to_owned())]);
    let error = store(Environment::from_vars(skipping)).open(&place).unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    let missing =
        store(Environment::from_vars(s3.environment())).open(&"s3://private/n".parse().unwrap()).unwrap_err();
    assert!(missing.to_string().contains("no such file"), "{missing}");
}
