//! URLs of folders: the files in them, and the model that each is opened as.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::path::Path;

use crate::common::{Reply, Server};
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::{Error, Execution, Format, Model, OpenOptions, VerifyLevel};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::{Environment, Fault, Location, models};
use testkit::servers::S3;

fn parsed(url: &str) -> Location {
    url.parse().unwrap()
}

/// Makes a bucket with folders that contain one model, a set, several models, no model, a split, and the
/// parts of a set without its index.
fn bucket() -> (S3, Store) {
    let s3 = S3::start();
    s3.make_bucket("bucket");
    let put = |key: &str, from: &Path| s3.put("bucket", key, &std::fs::read(from).unwrap());
    let one = testkit::testdata("safetensors/dtypes.safetensors");
    put("one/model.safetensors", &one);
    s3.put("bucket", "one/config.json", b"{}");
    s3.put("bucket", "one/.hidden.aero", b"");
    put("one/more/other.safetensors", &one);
    for entry in std::fs::read_dir(testkit::testdata("safetensors")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("set") {
            put(&format!("set/{name}"), &entry.path());
        }
    }
    put("several/b.safetensors", &one);
    put("several/a.safetensors", &one);
    s3.put("bucket", "none/README.md", b"no model");
    let folder = tempfile::tempdir().unwrap();
    let mut options = modelfmt::convert::ConvertOptions::default();
    options.output.shard_size = Some(300);
    options.tensors.include = ["f32.x", "f16.x", "bf16.x"].map(str::to_owned).to_vec();
    let split = folder.path().join("split.gguf");
    modelfmt::Conversion::new(&Model::open(&one).unwrap(), &split)
        .to(Format::Gguf)
        .options(&options)
        .write()
        .unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        put(&format!("split/{}", entry.file_name().to_str().unwrap()), &entry.path());
    }
    let store =
        Store::new(crate::common::options().environment(Environment::from_vars(s3.environment()))).unwrap();
    (s3, store)
}

#[test]
fn a_folder_with_one_model_stands_for_it() {
    let (_s3, store) = bucket();
    let open = |url: &str| models::open(&store, &parsed(url), &OpenOptions::new());
    for (url, model) in [
        ("s3://bucket/one/", "s3://bucket/one/model.safetensors"),
        // A URL without the slash names a folder too, if there is no file of that name.
        ("s3://bucket/one", "s3://bucket/one/model.safetensors"),
        ("s3://bucket/one/more/", "s3://bucket/one/more/other.safetensors"),
        ("s3://bucket/set/", "s3://bucket/set/set.safetensors.index.json"),
    ] {
        let found = open(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(found.path().to_str(), Some(model), "{url}");
        let report = models::verify(
            &store,
            &parsed(url),
            &OpenOptions::new(),
            VerifyLevel::Full,
            &Execution::default(),
        );
        assert!(report.is_ok() && report.path.to_str() == Some(model), "{report:?}");
    }
    let split = open("s3://bucket/split/").unwrap();
    assert_eq!((split.format(), split.tensor_count()), (Format::GgufSharded, 3));
    for (url, says) in [
        (
            "s3://bucket/several/",
            "it is a folder with 2 models; name one of them: a.safetensors, b.safetensors",
        ),
        ("s3://bucket/none/", "it is a folder without a model file"),
        ("s3://bucket", "it is a folder without a model file"),
        ("s3://bucket/missing/", "there is no such file"),
        ("s3://bucket/missing", "there is no such file"),
        ("s3://missing/", "there is no bucket of that name"),
        ("s3://missing/m.aero", "there is no bucket of that name"),
    ] {
        let error = open(url).unwrap_err();
        let text = with_causes(&error);
        assert!(text.contains(says) && text.starts_with(url), "{url}: {text}");
    }
}

#[test]
fn a_folder_says_what_is_in_it() {
    let (_s3, store) = bucket();
    let list = |url: &str| store.list(&parsed(url)).unwrap();
    assert_eq!(list("s3://bucket/one"), [".hidden.aero", "config.json", "model.safetensors", "more/"]);
    assert_eq!(list("s3://bucket/one/more/"), ["other.safetensors"]);
    assert_eq!(list("s3://bucket"), ["none/", "one/", "set/", "several/", "split/"]);
    assert!(list("s3://bucket/missing/").is_empty());
    let fault = store.open(&parsed("s3://bucket/one/")).unwrap_err().fault().clone();
    assert!(matches!(fault, Fault::Folder(_)), "{fault:?}");
}

#[test]
fn a_web_server_is_not_asked_what_is_in_a_folder() {
    let server = Server::start(|_| Reply::status(200).body(b"<html><a href=m.aero>"));
    let store = Store::new(server.options()).unwrap();
    for path in ["", "models/"] {
        let error = models::open(&store, &server.url(path), &OpenOptions::new()).unwrap_err();
        assert!(matches!(error, Error::Open { .. }), "{error:?}");
        assert!(error.to_string().contains("it is a folder, and a web server does not say"), "{error}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_list_without_end_is_not_read_into_memory() {
    let server = Server::start(|_| {
        let head = "<ListBucketResult><IsTruncated>false</IsTruncated>";
        Reply::status(200).body(format!("{head}{}</ListBucketResult>", " ".repeat(16 << 20)).as_bytes())
    });
    let store = Store::new(server.options()).unwrap();
    let fault = store.list(&parsed("s3://bucket/")).unwrap_err().fault().clone();
    assert_eq!(fault, Fault::Answer("the list is too long"));
    let fault = store.list(&parsed("hf://o/r")).unwrap_err().fault().clone();
    assert_eq!(fault, Fault::Answer("the list is too long"));
}

#[test]
fn a_repository_lists_its_files() {
    let model = std::fs::read(testkit::testdata("safetensors/dtypes.safetensors")).unwrap();
    let server = Server::start(move |request| match request.target.as_str() {
        "/api/models/o/r/tree/main" => {
            let more = "</api/models/o/r/tree/main?cursor=2>; rel=\"next\"";
            let body = br#"[{"type":"directory","path":"sub","size":0},{"type":"file","path":"README.md"}]"#;
            Reply::status(200).with("link", more).body(body)
        }
        "/api/models/o/r/tree/main?cursor=2" => {
            Reply::status(200).body(br#"[{"type":"file","path":"model.safetensors","size":7}]"#)
        }
        "/api/models/o/r/tree/v1/sub" => {
            let body = br#"[{"type":"file","path":"sub/a.gguf"},{"type":"file","path":"sub/b.gguf"}]"#;
            Reply::status(200).body(body)
        }
        "/api/models/o/bad/tree/main" => Reply::status(200).body(b"<html>"),
        "/o/r/resolve/main/model.safetensors" => Reply::file(request, &model, "\"1\""),
        _ => Reply::status(404),
    });
    let store = Store::new(server.options()).unwrap();
    assert_eq!(store.list(&parsed("hf://o/r")).unwrap(), ["README.md", "model.safetensors", "sub/"]);
    let open = |url: &str| models::open(&store, &parsed(url), &OpenOptions::new());
    assert_eq!(open("hf://o/r").unwrap().path(), Path::new("hf://o/r/model.safetensors"));
    for (url, says) in [
        ("hf://o/r/sub@v1", "2 models; name one of them: a.gguf, b.gguf"),
        ("hf://o/r/sub/@v1", "2 models; name one of them: a.gguf, b.gguf"),
        ("hf://o/none", "there is no such file"),
        ("hf://o/bad", "it is not a list of files"),
    ] {
        let error = open(url).unwrap_err().to_string();
        assert!(error.contains(says), "{url}: {error}");
    }
}
