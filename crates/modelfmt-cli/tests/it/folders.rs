//! Folders in place of files: the one model in a folder, and `verify -r`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{modelfmt_in, testdata};
use serde_json::Value;

fn copy(name: &str, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(testdata("reference").join(name), to).unwrap();
}

/// Makes a folder with files that are often next to a model.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    for (name, text) in [
        ("config.json", "{\"hidden_size\": 4, \"weight\": {}}"),
        ("tokenizer.json", "{\"model\": {\"vocab\": [\"a\", {\"weight_map\": 1}]}}"),
        ("README.md", "# A model\n"),
        (".gitattributes", "*.safetensors filter=lfs\n"),
        (".old.gguf", "GGUF"),
        ("pytorch_model.bin", "\u{80}\u{2}"),
    ] {
        fs::write(model.join(name), text).unwrap();
    }
    fs::write(model.join("pytorch_model.bin"), b"\x80\x02}q\x00.").unwrap();
    folder
}

/// For a folder whose models are in subfolders, the error names those. Checkpoints of other kinds are named
/// as a whole.
#[test]
fn folders_of_other_kinds_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (root, write) = (folder.path(), |path: &str, content: &[u8]| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    });
    write("sd/model_index.json", b"{\"_class_name\": \"StableDiffusionPipeline\"}");
    write("sd/scheduler/scheduler_config.json", b"{}");
    for part in ["unet", "vae", "text_encoder"] {
        copy("trained.mag", &root.join(format!("sd/{part}/model.safetensors")));
    }
    let error = modelfmt_in(root, "inspect sd").error();
    let expected =
        "it is a pipeline of diffusers; name one of its subfolders with models: text_encoder, unet, vae";
    assert!(error.contains(expected), "{error}");
    modelfmt_in(root, "inspect sd/vae").ok();

    write("dcp/.metadata", b"\x80\x04\x95");
    for name in ["__0_0.distcp", "__1_0.distcp"] {
        write(
            &format!("dcp/{name}"),
            b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0archive/data.pkl",
        );
    }
    write("orbax/_CHECKPOINT_METADATA", b"{}");
    write("orbax/default/manifest.ocdbt", b"x");
    for (name, kind) in [("dcp", "(DCP)"), ("orbax", "Orbax")] {
        let error = modelfmt_in(root, &format!("inspect {name}")).error();
        assert!(error.contains(kind), "{error}");
    }
    // Each is named once, and not file by file.
    let run = modelfmt_in(root, "verify -r .");
    assert_eq!(run.stderr.matches("(DCP)").count(), 1, "{}", run.stderr);
    assert_eq!(run.stderr.matches("Orbax").count(), 1, "{}", run.stderr);
    assert!(!run.stderr.contains("of PyTorch"), "{}", run.stderr);
}

#[test]
fn a_folder_with_one_model_stands_for_it() {
    let folder = folder();
    let error = modelfmt_in(folder.path(), "inspect model").error();
    assert!(
        error.starts_with("error: model: it is a folder without a model that modelfmt reads; of pytorch_model.bin: it is a pickle"),
        "{error}"
    );
    copy("trained.mag", &folder.path().join("model/weights"));
    assert!(modelfmt_in(folder.path(), "inspect model").ok().starts_with("model: mag 1, "));
    for args in [
        "verify model/",
        "show model fc1.bias",
        "extract model fc1.bias -o b.bin",
        "diff model model/weights",
    ] {
        modelfmt_in(folder.path(), args).ok();
    }

    // The files of a set belong to it; any other file is another model.
    let set = "convert model/weights model/m.safetensors --shard-size 500 --lossy";
    modelfmt_in(folder.path(), set).ok();
    let error = modelfmt_in(folder.path(), "inspect model").error();
    assert_eq!(
        error,
        "error: model: it is a folder with 2 models; name one of them: m.safetensors.index.json, weights"
    );
    let verified = modelfmt_in(folder.path(), "verify model");
    assert_eq!(verified.status, 1, "{}", verified.stdout);
    assert_eq!(verified.stderr, "note: `verify -r` takes every model below a folder\n");
    fs::remove_file(folder.path().join("model/weights")).unwrap();
    let json = modelfmt_in(folder.path(), "inspect model --json").json();
    assert_eq!((&json["format"], &json["path"]), (&"safetensors-sharded".into(), &"model".into()));
    assert_eq!(json["tensors"].as_array().unwrap().len(), 6);

    // A file whose name is that of a model counts as one, whatever its content.
    fs::write(folder.path().join("model/broken.gguf"), "").unwrap();
    assert!(modelfmt_in(folder.path(), "inspect model").error().contains("2 models"));
}

#[test]
fn every_kind_of_index_stands_for_its_folder() {
    for (target, format) in
        [("s.aeroset.json", "aeroset"), ("s.apr", "apr2-sharded"), ("s.safetensors", "safetensors-sharded")]
    {
        let folder = tempfile::tempdir().unwrap();
        copy("simple_model.oinf", &folder.path().join("simple_model.oinf"));
        fs::create_dir(folder.path().join("out")).unwrap();
        let convert = format!(
            "convert simple_model.oinf out/{target} --shard-size 4000 --lossy --widen --exclude x --exclude y"
        );
        modelfmt_in(folder.path(), &convert).ok();
        assert!(fs::read_dir(folder.path().join("out")).unwrap().count() > 2, "{format}");
        assert_eq!(modelfmt_in(folder.path(), "inspect out --json").json()["format"], format);
        let all = modelfmt_in(folder.path(), "verify -r out").ok();
        assert!(all.ends_with("1 file: 1 ok, 0 failed; 0 other files skipped\n"), "{all}");
    }
}

/// Makes a tree with models, links and loops of links.
fn tree() -> tempfile::TempDir {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    copy("trained.mag", &path("a/b/c/trained.mag"));
    copy("simple_model.oinf", &path("a/no-ending"));
    copy("one-shard.aero", &path("z.aero"));
    fs::create_dir(path(".hidden")).unwrap();
    copy("one-shard.aero", &path(".hidden/h.aero"));
    let set = "convert z.aero set/m.safetensors --shard-size 200 --lossy --dequantize f32 --exclude complex*";
    fs::create_dir(path("set")).unwrap();
    modelfmt_in(folder.path(), set).ok();
    symlink("..", path("a/loop")).unwrap();
    symlink("a", path("again")).unwrap();
    symlink("missing", path("a/dangling")).unwrap();
    for n in 0..30 {
        fs::create_dir(path(&format!("a/d{n}"))).unwrap();
        symlink(format!("../d{}", n + 1), path(&format!("a/d{n}/left"))).unwrap();
        symlink(format!("../d{}", n + 1), path(&format!("a/d{n}/right"))).unwrap();
    }
    folder
}

#[test]
fn verify_walks_folders() {
    let folder = tree();
    let run = modelfmt_in(folder.path(), "verify -r .");
    let verified: Vec<&str> =
        run.stdout.lines().filter_map(|line| line.strip_prefix("ok ")?.split(" (").next()).collect();
    assert_eq!(
        verified,
        ["./a/b/c/trained.mag", "./a/no-ending", "./set/m.safetensors.index.json", "./z.aero"],
        "{}",
        run.stderr
    );
    let last = run.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("4 files: 4 ok, 0 failed; ")
            && last.contains(" other files skipped: 1 of Python's pickle, ")
            && last.ends_with(" that are no models"),
        "{last}"
    );
    assert!(
        run.stderr.starts_with("note: ./model/pytorch_model.bin: skipped: it is a pickle"),
        "{}",
        run.stderr
    );
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert_eq!(run.status, 0);

    let run = modelfmt_in(folder.path(), "verify -r . --json");
    let paths: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["path"].clone()).collect();
    assert_eq!(paths, verified);
    assert!(run.stderr.lines().last().unwrap().starts_with("4 files: "), "{}", run.stderr);
    let quiet = modelfmt_in(folder.path(), "verify -r . --json --quiet");
    assert_eq!((quiet.stdout, quiet.stderr), (run.stdout, String::new()));
}

#[test]
fn what_is_damaged_is_not_skipped() {
    let folder = tree();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a/cut.safetensors"), b"\x40\0\0\0\0\0\0\0{\"a\":").unwrap();
    fs::write(path("a/empty.aero"), "").unwrap();
    fs::write(path("set/m-00001-of-00009.safetensors"), "not named by the index").unwrap();
    symlink("nothing", path("a/lost.gguf")).unwrap();
    let run = modelfmt_in(folder.path(), "verify -r .");
    assert_eq!(run.status, 1);
    let failed: Vec<&str> =
        run.stdout.lines().filter_map(|line| line.strip_prefix("FAILED ")?.split(" (").next()).collect();
    assert_eq!(failed, ["./a/cut.safetensors", "./a/empty.aero", "./set/m-00001-of-00009.safetensors"]);
    assert!(run.stderr.contains("error: ./a/lost.gguf: cannot be opened: No such file"), "{}", run.stderr);
    assert!(run.stdout.contains("7 files: 4 ok, 3 failed, 1 not readable; "), "{}", run.stdout);
}

#[test]
fn a_cache_whose_files_are_links_is_verified_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    copy("trained.mag", &path("trained.mag"));
    fs::create_dir_all(path("cache/snapshots")).unwrap();
    modelfmt_in(folder.path(), "convert trained.mag set.safetensors --shard-size 500 --lossy").ok();
    fs::create_dir(path("cache/blobs")).unwrap();
    let files =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for (number, name) in files.filter(|name| name.starts_with("set")).enumerate() {
        fs::rename(path(&name), path(&format!("cache/blobs/{number}"))).unwrap();
        symlink(format!("../blobs/{number}"), path(&format!("cache/snapshots/{name}"))).unwrap();
    }
    let run = modelfmt_in(folder.path(), "verify -r cache");
    assert!(run.stdout.starts_with("ok cache/snapshots/set.safetensors.index.json ("), "{}", run.stdout);
    assert!(run.stdout.ends_with("1 file: 1 ok, 0 failed; 0 other files skipped\n"), "{}", run.stdout);
}

#[test]
fn folders_that_are_too_deep_or_closed_are_failures() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d/".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    copy("trained.mag", &folder.path().join("m.mag"));
    let run = modelfmt_in(folder.path(), "verify -r .");
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains(": more than 100 folders deep"), "{}", run.stderr);
    assert!(run.stdout.contains("1 file: 1 ok, 0 failed, 1 not readable; "), "{}", run.stdout);

    fs::create_dir(folder.path().join("none")).unwrap();
    let error = modelfmt_in(folder.path(), "verify -r none");
    assert_eq!((error.status, error.stderr.as_str()), (1, "error: there is no model to verify\n"));
    let missing = modelfmt_in(folder.path(), "verify -r missing");
    assert_eq!(missing.status, 1);
    assert!(missing.stdout.contains("No such file"), "{}", missing.stdout);
}
