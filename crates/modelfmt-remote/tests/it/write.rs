//! Models are written into a bucket on a real server.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use modelfmt::convert::{ConvertOptions, Overwrite};
use modelfmt::{Conversion, Error, Execution, Format, Model};
use modelfmt_remote::{Environment, Location, NewObjects, Options, Store};
use modelfmt_write::{MemoryFile, NewFiles as _, Output as _, Sink as _};
use testkit::servers::S3;

static SERVER: LazyLock<S3> = LazyLock::new(S3::start);

/// Makes a bucket with this name, and returns new objects next to a key in it.
fn objects(bucket: &str, key: &str, overwrite: Overwrite) -> NewObjects {
    let environment = Environment::from_vars(SERVER.environment());
    let store = Store::new(Options::new().environment(environment).retries(0));
    let at: Location = format!("s3://{bucket}/{key}").parse().unwrap();
    NewObjects::new(store, &at, overwrite).unwrap()
}

/// Writes a model of 20 MiB, which takes three parts.
fn large(folder: &Path) -> Model {
    let rows = 5 << 10;
    let header =
        format!(r#"{{"w":{{"dtype":"F32","shape":[{rows},1024],"data_offsets":[0,{}]}}}}"#, rows * 4096);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend((0..rows * 1024).flat_map(|number: u32| number.to_le_bytes()));
    let path = folder.join("m.safetensors");
    std::fs::write(&path, file).unwrap();
    Model::open(path).unwrap()
}

fn options(format: Format) -> ConvertOptions {
    let mut options = ConvertOptions::default();
    options.aero.uuid = (format == Format::Aero).then_some([7; 16]);
    let is_named = format != Format::Mag;
    (options.metadata.model_name, options.metadata.architecture) =
        (is_named.then(|| "m".into()), is_named.then(|| "a".into()));
    options
}

#[test]
fn a_model_of_several_parts_is_what_it_is_on_a_disk() {
    SERVER.make_bucket("whole");
    let folder = tempfile::tempdir().unwrap();
    let model = large(folder.path());
    // In each of these formats, the head or a checksum is written last.
    for (format, key) in [(Format::Aero, "a b/重み.aero"), (Format::Mag, "m.mag"), (Format::Apr2, "m.apr")]
    {
        let options = options(format);
        let conversion = || Conversion::to_format(&model, format).options(&options).plan().unwrap();
        let local = MemoryFile::new();
        conversion().write_to_sink(&local, &Execution::default()).unwrap();
        let files = objects("whole", key, Overwrite::Refuse).expecting(conversion().nbytes());
        let object = files.create(files.file_name()).unwrap();
        conversion().write_to_sink(&object, &Execution::default()).unwrap();
        assert!(!SERVER.keys("whole").iter().any(|found| found == key));
        // Parts may still be on their way to the server.
        let begun = Instant::now();
        while SERVER.unfinished_uploads("whole") != [key] {
            assert!(begun.elapsed() < Duration::from_secs(30), "no upload of {key} begins");
        }
        object.commit().unwrap();
        assert_eq!(SERVER.unfinished_uploads("whole"), [""; 0]);
        let written = SERVER.get("whole", key).unwrap();
        assert!(written == local.into_bytes(), "{format}");
    }
}

#[test]
fn a_conversion_that_is_stopped_leaves_nothing() {
    SERVER.make_bucket("stopped");
    let folder = tempfile::tempdir().unwrap();
    let model = large(folder.path());
    let files = objects("stopped", "m.aero", Overwrite::Refuse);
    let object = files.create("m.aero").unwrap();
    let done = AtomicU64::new(0);
    let stop = |more: u64| match done.fetch_add(more, Ordering::Relaxed) {
        0..0x0100_0000 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let work = Execution { threads: 1, progress: Some(&stop) };
    let options = options(Format::Aero);
    let conversion = Conversion::to_format(&model, Format::Aero).options(&options).plan().unwrap();
    conversion.write_to_sink(&object, &work).unwrap_err();
    drop(object);
    assert_eq!((SERVER.keys("stopped"), SERVER.unfinished_uploads("stopped")), (vec![], vec![]));
}

#[test]
fn an_object_that_exists_is_replaced_only_if_it_may_be() {
    SERVER.make_bucket("kept");
    let write = |len: usize, overwrite| {
        let object = objects("kept", "k", overwrite).create("k")?;
        object.write_at(0, &vec![u8::try_from(len % 251).unwrap(); len])?;
        object.commit()
    };
    write(10, Overwrite::Refuse).unwrap();
    for len in [11, 9 << 20] {
        assert_eq!(write(len, Overwrite::Refuse).unwrap_err().kind(), ErrorKind::AlreadyExists, "{len}");
        assert_eq!(SERVER.get("kept", "k").unwrap(), [10; 10]);
    }
    assert_eq!(SERVER.unfinished_uploads("kept"), [""; 0]);
    for len in [9 << 20, 11] {
        write(len, Overwrite::Replace).unwrap();
        assert_eq!(SERVER.get("kept", "k").unwrap().len(), len);
    }
}

#[test]
fn a_set_appears_with_its_index() {
    SERVER.make_bucket("sets");
    let model = Model::open(testkit::testdata("safetensors").join("dtypes.safetensors")).unwrap();
    let mut options = ConvertOptions::default();
    (options.output.shard_size, options.tensors.include) = (Some(64), vec!["f*.x".parse().unwrap()]);
    let convert = |overwrite| {
        let files = objects("sets", "m/model.safetensors.index.json", overwrite);
        let conversion = Conversion::to_format(&model, Format::Safetensors).options(&options).plan().unwrap();
        conversion.write_to_files(files.file_name(), &files, &Execution::default())
    };
    let converted = convert(Overwrite::Refuse).unwrap();
    let mut names: Vec<String> = converted.files.iter().map(|file| format!("m/{}", file.path)).collect();
    names.sort();
    assert!(names.len() > 2 && SERVER.keys("sets") == names, "{names:?}");
    for file in &converted.files {
        assert_eq!(SERVER.get("sets", &format!("m/{}", file.path)).unwrap().len() as u64, file.nbytes);
    }
    assert!(matches!(convert(Overwrite::Refuse), Err(Error::Exists { .. })));
    convert(Overwrite::Replace).unwrap();
}

#[test]
fn what_a_server_refuses_is_an_error_that_says_where() {
    let object = objects("no-such-bucket", "k", Overwrite::Refuse).create("k").unwrap();
    object.write_at(0, b"abc").unwrap();
    let error = object.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().starts_with("s3://no-such-bucket/k: "), "{error}");
    for other in ["https://h/x.aero", "hf://o/r/x.aero", "file:///x.aero"] {
        let refused = NewObjects::new(Store::new(Options::new()), &other.parse().unwrap(), Overwrite::Refuse);
        assert!(refused.unwrap_err().to_string().contains("only buckets"), "{other}");
    }
}
