//! Sets, splits and repositories: several files, whose names are untrusted.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use modelfmt::convert::ConvertOptions;
use modelfmt::{Conversion, Format, Model};
use modelfmt_remote::blocking::Store;
use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions};

use super::{asked, content, fetch_from, names};
use crate::common::{Reply, Server};

/// Serves a local folder.
fn folder_server(folder: &Path) -> Server {
    let folder = folder.to_owned();
    Server::start(move |request| {
        let file = folder.join(request.target.trim_start_matches('/'));
        fs::read(file).map_or(Reply::status(404), |bytes| Reply::file(request, &bytes, "\"1\""))
    })
}

/// Writes a set in a format, whose index has this name.
fn set(folder: &Path, name: &str, format: Format) {
    let from = Model::open(testkit::testdata("safetensors/dtypes.safetensors")).unwrap();
    let mut options = ConvertOptions::default();
    if format == Format::AeroSet {
        (options.metadata.model_name, options.metadata.architecture) =
            (Some("m".to_owned()), Some("a".to_owned()));
    }
    options.output.shard_size = Some(300);
    options.metadata.lossy = true;
    options.tensors.include = ["f32.x", "f16.x", "bf16.x"].map(str::to_owned).to_vec();
    Conversion::new(&from, folder.join(name)).to(format).options(&options).write().unwrap();
}

fn same(one: &Path, other: &Path) {
    assert_eq!(names(one), names(other));
    for name in names(one) {
        assert!(fs::read(one.join(&name)).unwrap() == fs::read(other.join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn sets_come_whole_and_their_index_last() {
    for (name, format, by) in [
        ("m.safetensors.index.json", Format::SafetensorsSharded, Some(CheckedBy::Etag)),
        ("m.aeroset.json", Format::AeroSet, Some(CheckedBy::Etag)),
        ("m.gguf", Format::GgufSharded, Some(CheckedBy::Etag)),
    ] {
        let made = tempfile::tempdir().unwrap();
        set(made.path(), name, format);
        let server = folder_server(made.path());
        let first =
            names(made.path()).into_iter().find(|file| file == name || file.contains("-00002-of-")).unwrap();
        let index = if format == Format::GgufSharded { first } else { name.to_owned() };
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new");
        let done = fetch_from(&server, &[server.url(&index)], &out, &FetchOptions::new())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        same(&out, made.path());
        assert_eq!(done.files.len(), names(&out).len(), "{name}");
        assert_eq!((done.size, done.kept), (done.fetched, 0), "{name}");
        assert_eq!(done.checked_by, by, "{name}");
        if format == Format::AeroSet {
            assert!(
                done.files.iter().filter(|file| file.checked_by == Some(CheckedBy::Sha256)).count() >= 1,
                "{done:?}"
            );
        }
        if format != Format::GgufSharded {
            let last = server.requests().last().unwrap().target.clone();
            assert!(!last.ends_with("json"), "{last}");
        }
    }
}

#[test]
fn a_stopped_set_goes_on() {
    let made = tempfile::tempdir().unwrap();
    set(made.path(), "m.safetensors.index.json", Format::SafetensorsSharded);
    let server = folder_server(made.path());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let size: u64 =
        names(made.path()).iter().map(|name| fs::metadata(made.path().join(name)).unwrap().len()).sum();
    let shard = names(made.path()).into_iter().find(|name| name.contains("-00001-of-")).unwrap();
    let first = fs::metadata(made.path().join(shard)).unwrap().len();
    let stop = |now: modelfmt_remote::fetch::FetchProgress| match now.done > first {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let url = [server.url("m.safetensors.index.json")];
    let error = fetch_from(&server, &url, &out, &FetchOptions::new().progress(&stop)).unwrap_err();
    assert!(matches!(error, FetchError::Stopped), "{error}");
    assert!(!out.join("m.safetensors.index.json").exists());
    assert!(names(&out).iter().any(|name| name.ends_with(".safetensors")));
    let done = fetch_from(&server, &url, &out, &FetchOptions::new()).unwrap();
    same(&out, made.path());
    assert!(done.kept > 0 && done.kept + done.fetched <= size + size / 2, "{done:?}");
}

/// A file that was changed after it arrived belongs to the user, even if the server has another version by
/// now.
#[test]
fn a_stopped_set_does_not_replace_what_was_changed_meanwhile() {
    for (is_longer, new_tag) in [(false, false), (true, false), (false, true), (true, true)] {
        let made = tempfile::tempdir().unwrap();
        set(made.path(), "m.safetensors.index.json", Format::SafetensorsSharded);
        let shard = names(made.path()).into_iter().find(|name| name.contains("-00001-of-")).unwrap();
        let first = fs::metadata(made.path().join(&shard)).unwrap().len();
        let out = tempfile::tempdir().unwrap();
        let stop = |now: modelfmt_remote::fetch::FetchProgress| match now.done > first {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let server = folder_server(made.path());
        let url = [server.url("m.safetensors.index.json")];
        fetch_from(&server, &url, out.path(), &FetchOptions::new().progress(&stop)).unwrap_err();
        let path = out.path().join(&shard);
        let mut mine = fs::read(&path).unwrap();
        *mine.last_mut().unwrap() ^= 1;
        mine.extend_from_slice(if is_longer { b"mine" } else { b"" });
        fs::write(&path, &mine).unwrap();
        let from = made.path().to_owned();
        let server = Server::start(move |request| {
            let file = from.join(request.target.trim_start_matches('/'));
            let tag = if new_tag { "\"2\"" } else { "\"1\"" };
            fs::read(file).map_or(Reply::status(404), |bytes| Reply::file(request, &bytes, tag))
        });
        let url = [server.url("m.safetensors.index.json")];
        let error = fetch_from(&server, &url, out.path(), &FetchOptions::new()).unwrap_err();
        assert!(matches!(error, FetchError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("--force"), "{error}");
        assert!(fs::read(&path).unwrap() == mine);
        fetch_from(&server, &url, out.path(), &FetchOptions::new().force(true)).unwrap();
        same(out.path(), made.path());
    }
}

#[test]
fn names_of_an_index_never_leave_the_folder() {
    for bad in [
        "../x.safetensors",
        "/x.safetensors",
        "a\\\\b.safetensors",
        "C:x.safetensors",
        "a//b.safetensors",
        "x\\u0000.safetensors",
    ] {
        let index = format!("{{\"metadata\":{{}},\"weight_map\":{{\"w\":\"{bad}\"}}}}");
        let server = super::files(vec![("m.safetensors.index.json", index.into_bytes())]);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a").join("b");
        let url = [server.url("m.safetensors.index.json")];
        let done = fetch_from(&server, &url, &out, &FetchOptions::new());
        // If the index is refused as a whole, it is treated like any other file.
        if let Err(error) = &done {
            assert!(matches!(error, FetchError::Name { .. } | FetchError::Local { .. }), "{bad}: {error}");
        }
        assert!(names(folder.path()).iter().all(|name| name == "a"), "{bad}: {:?}", names(folder.path()));
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.target == "/m.safetensors.index.json"), "{bad}");
    }
}

/// Serves a repository as Hugging Face does: its list, and its files.
fn hub(listing: &'static str, files: Vec<(&'static str, Vec<u8>)>) -> Server {
    Server::start(move |request| {
        let path = request.target.split('?').next().unwrap();
        if path.starts_with("/api/models/o/r/tree/main") {
            return Reply::status(200).body(listing.as_bytes()).with("x-repo-commit", &"c".repeat(40));
        }
        let name = path.strip_prefix(&format!("/o/r/resolve/{}/", "c".repeat(40))).unwrap_or("none");
        match files.iter().find(|(known, _)| *known == name) {
            Some((_, bytes)) => Reply::file(request, bytes, &format!("\"{name}\"")),
            None => Reply::status(404),
        }
    })
}

#[test]
fn names_of_a_listing_never_leave_the_folder() {
    for bad in [
        "../x",
        "/etc/x",
        "a/../../x",
        "a\\\\x",
        "a:x",
        "x\\u0000",
        "config.json/x",
        "CONFIG.JSON",
        ".m.modelfmt-fetch",
        "nul",
    ] {
        let listing = format!(
            "[{{\"type\":\"file\",\"path\":\"config.json\"}},{{\"type\":\"file\",\"path\":\"{bad}\"}}]"
        );
        let server = hub(Box::leak(listing.into_boxed_str()), vec![("config.json", b"{}".to_vec())]);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("r");
        let error =
            fetch_from(&server, &["hf://o/r".parse().unwrap()], &out, &FetchOptions::new()).unwrap_err();
        assert!(matches!(error, FetchError::Name { .. }), "{bad}: {error}");
        assert!(names(folder.path()).is_empty(), "{bad}");
        assert_eq!(server.requests().len(), 1, "{bad}");
    }
}

#[test]
fn a_repository_comes_at_one_commit_and_is_checked_by_what_the_hub_states() {
    const LISTING: &str = r#"[
        {"type":"directory","path":"sub","oid":"1"},
        {"type":"file","path":".gitattributes","size":3,"oid":"2"},
        {"type":"file","path":"config.json","size":2,"oid":"3"},
        {"type":"file","path":"model.safetensors","size":4000000,"oid":"4","lfs":{"oid":"HASH","size":4000000}},
        {"type":"file","path":"pytorch_model.bin","size":5,"oid":"5"},
        {"type":"file","path":"sub/vocab.txt","size":5,"oid":"6"}
    ]"#;
    let weights = content(4_000_000);
    let hash = testkit_sha256(&weights);
    let listing: &'static str = Box::leak(LISTING.replace("HASH", &hash).into_boxed_str());
    let files = vec![
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", weights.clone()),
        ("sub/vocab.txt", b"vocab".to_vec()),
    ];
    let server = hub(listing, files);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("r");
    let url = ["hf://o/r".parse().unwrap()];
    let done = fetch_from(&server, &url, &out, &FetchOptions::new()).unwrap();
    assert_eq!(names(&out), ["config.json", "model.safetensors", "sub"]);
    assert!(fs::read(out.join("model.safetensors")).unwrap() == weights);
    assert_eq!(fs::read(out.join("sub/vocab.txt")).unwrap(), b"vocab");
    assert!(done.notes.iter().any(|note| note.contains("pytorch_model.bin")), "{:?}", done.notes);
    let by: Vec<_> = done.files.iter().map(|file| file.checked_by).collect();
    assert_eq!(by, [Some(CheckedBy::Etag), Some(CheckedBy::Sha256), Some(CheckedBy::Etag)]);

    // Fetches again: an equal file stays, and a damaged file is fetched as a whole.
    let mut damaged = weights.clone();
    damaged[7] ^= 1;
    fs::write(out.join("model.safetensors"), damaged).unwrap();
    server.forget();
    let again = fetch_from(&server, &url, &out, &FetchOptions::new()).unwrap();
    assert!(fs::read(out.join("model.safetensors")).unwrap() == weights);
    assert_eq!(again.files[1].fetched, 4_000_000);
    server.forget();
    let again = fetch_from(&server, &url, &out, &FetchOptions::new()).unwrap();
    assert_eq!((again.files[1].kept, again.files[1].fetched), (4_000_000, 0));
    assert!(asked(&server, &format!("o/r/resolve/{}/model.safetensors", "c".repeat(40)), 4_000_000).1 <= 1);
    // A file about which nothing is known is not replaced.
    fs::write(out.join("config.json"), b"{\"mine\": 1}").unwrap();
    let error = fetch_from(&server, &url, &out, &FetchOptions::new()).unwrap_err();
    assert!(matches!(error, FetchError::Refused { .. }), "{error}");
    assert_eq!(fs::read(out.join("config.json")).unwrap(), b"{\"mine\": 1}");
    let only = FetchOptions::new().include(["*.txt".to_owned()]);
    let done = fetch_from(&server, &url, &folder.path().join("only"), &only).unwrap();
    assert_eq!((done.files.len(), names(&folder.path().join("only"))), (1, vec!["sub".to_owned()]));
}

fn testkit_sha256(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, bytes).unwrap();
    let source = modelfmt_core::source::FileSource::open(&path).unwrap();
    let hash = modelfmt::aero::sha256(&source, &modelfmt::Execution::default()).unwrap();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_single_file_of_a_hub_has_its_hash() {
    let weights = content(1 << 20);
    let hash = format!("\"{}\"", testkit_sha256(&weights));
    let served = weights.clone();
    let server = Server::start(move |request| match request.target.as_str() {
        "/o/r/resolve/main/m.bin" => {
            Reply::status(302).with("location", "/cdn/m").with("x-linked-etag", &hash)
        }
        "/cdn/m" => Reply::file(request, &served, "\"s3\""),
        _ => Reply::status(404),
    });
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.bin");
    let store = Store::new(server.options()).unwrap();
    let url = ["hf://o/r/m.bin".parse().unwrap()];
    let done = store.fetch(&url, &out, &FetchOptions::new()).unwrap();
    assert_eq!(done.checked_by, Some(CheckedBy::Sha256));
    assert!(fs::read(&out).unwrap() == weights);
    let again = store.fetch(&url, &out, &FetchOptions::new()).unwrap();
    assert_eq!((again.kept, again.fetched), (1 << 20, 0));
}
