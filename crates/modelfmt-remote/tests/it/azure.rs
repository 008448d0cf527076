//! Models in an Azure container, on a server of other authors.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::io::ErrorKind;
use std::sync::LazyLock;

use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::{Conversion, Execution, Format, Model, OpenOptions};
use modelfmt_core::Source as _;
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{DiskCache, Environment, Error, Fault, Location, NewObjects, Options};
use modelfmt_write::{NewFiles as _, Output as _, Sink as _};
use testkit::servers::Azure;

static SERVER: LazyLock<Azure> = LazyLock::new(Azure::start);

fn options() -> Options {
    Options::new().front(64).retries(0).environment(Environment::from_vars(SERVER.environment()))
}

fn place(url: &str) -> Location {
    url.parse().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

#[test]
fn golden_files_and_a_set_are_read_by_ranges() {
    SERVER.make_container("golden");
    let store = Store::new(options()).unwrap();
    let open = |key: &str| {
        let place = place(&format!("az://golden/{key}"));
        let file = store.open(&place).unwrap();
        OpenOptions::new().open_source(key, Box::new(file), Some(store.beside(&place))).unwrap()
    };
    let folder = testkit::testdata("safetensors");
    for entry in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        SERVER.put("golden", &name, &std::fs::read(entry.path()).unwrap());
    }
    for name in ["dtypes.safetensors", "set.safetensors.index.json"] {
        let (remote, local) = (open(name), Model::open(folder.join(name)).unwrap());
        assert_eq!(remote.tensor_count(), local.tensor_count());
        for info in local.tensors() {
            let values = remote.tensor(info.name).unwrap();
            assert!(values.bytes() == local.tensor(info.name).unwrap().bytes(), "{name}: {}", info.name);
        }
    }
}

#[test]
fn a_blob_that_changes_or_is_missing_is_an_error() {
    SERVER.make_container("changing");
    SERVER.put("changing", "m", &bytes(100_000));
    let store = Store::new(options()).unwrap();
    let file = store.open(&place("az://changing/m")).unwrap();
    assert!(*file.read(5000..9000).unwrap() == bytes(100_000)[5000..9000]);
    SERVER.put("changing", "m", &bytes(100_000));
    let error = file.read(50_000..60_000).unwrap_err();
    assert!(matches!(Error::within(&error).unwrap().fault(), Fault::Changed), "{error}");
    let missing = |url: &str| store.open(&place(url)).unwrap_err();
    let error = missing("az://changing/none");
    assert!(matches!(error.fault(), Fault::NotFound(404)), "{error}");
    let error = missing("az://no-container/none");
    assert!(matches!(error.fault(), Fault::NoBucket), "{error}");
    SERVER.put("changing", "empty", b"");
    assert_eq!(store.open(&place("az://changing/empty")).unwrap().len(), 0);
}

#[test]
fn a_wrong_key_is_refused_and_not_shown() {
    SERVER.make_container("closed");
    SERVER.put("closed", "m", b"abc");
    let wrong = "c2VjcmV0LXNlY3JldA==";
    let environment = SERVER.environment().into_iter().map(|(name, value)| {
        (name, if name == "AZURE_STORAGE_ACCOUNT_KEY" { wrong.to_owned() } else { value })
    });
    let store = Store::new(options().environment(Environment::from_vars(environment))).unwrap();
    let error = store.open(&place("az://closed/m")).unwrap_err();
    assert!(matches!(error.fault(), Fault::Denied { status: 403, .. }), "{error}");
    assert!(!error.to_string().contains(wrong) && error.to_string().len() < 200, "{error}");
}

#[test]
fn models_are_written_whole_and_in_parts() {
    SERVER.make_container("written");
    let (folder, rows) = (tempfile::tempdir().unwrap(), 3 << 10);
    let header =
        format!(r#"{{"w":{{"dtype":"F32","shape":[{rows},1024],"data_offsets":[0,{}]}}}}"#, rows * 4096);
    let length = (header.len() as u64).to_le_bytes();
    let file = [&length[..], header.as_bytes(), &bytes(rows * 4096)].concat();
    std::fs::write(folder.path().join("m.safetensors"), file).unwrap();
    let model = Model::open(folder.path().join("m.safetensors")).unwrap();
    let options_of = |remote: Options| modelfmt_remote::Store::new(remote);
    let objects = |key: &str, overwrite| {
        NewObjects::new(options_of(options()), &place(&format!("az://written/{key}")), overwrite).unwrap()
    };
    let converting = ConvertOptions::default();
    // 12 MiB: two parts, many parts, or one request.
    for (key, part) in [("parts.mag", 8 << 20), ("many.mag", 1 << 20), ("whole.mag", 16 << 20)] {
        let conversion = Conversion::to_format(&model, Format::Mag).options(&converting).plan().unwrap();
        let object = objects(key, Overwrite::Refuse).part_size(part).create(key).unwrap();
        conversion.write_to_sink(&object, &Execution::default()).unwrap();
        assert!(SERVER.get("written", key).is_none());
        object.commit().unwrap();
        let local = folder.path().join(key);
        Conversion::to_format(&model, Format::Mag)
            .options(&converting)
            .plan()
            .unwrap()
            .write(&local, &Execution::default())
            .unwrap();
        assert!(SERVER.get("written", key).unwrap() == std::fs::read(local).unwrap(), "{key}");
        let again = objects(key, Overwrite::Refuse).part_size(part).create(key).unwrap();
        again.write_at(0, b"other").unwrap();
        assert_eq!(again.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    // An upload that is given up leaves no blob.
    let object = objects("given-up", Overwrite::Refuse).part_size(1 << 20).create("given-up").unwrap();
    object.write_at(0, &bytes(3 << 20)).unwrap();
    drop(object);
    assert!(SERVER.get("written", "given-up").is_none());
}

#[test]
fn a_container_is_cached_too() {
    SERVER.make_container("cached");
    SERVER.put("cached", "m", &bytes(1 << 20));
    let folder = tempfile::tempdir().unwrap();
    let read = || {
        let store = Store::new(options().cache(DiskCache::new(folder.path(), 1 << 30))).unwrap();
        let file = store.open(&place("az://cached/m")).unwrap();
        assert!(*file.read(0..1 << 20).unwrap() == bytes(1 << 20));
        store.traffic()
    };
    read();
    let second = read();
    assert_eq!((second.requests, second.bytes), (1, 1));
}
