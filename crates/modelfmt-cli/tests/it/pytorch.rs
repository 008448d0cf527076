//! Checkpoints of PyTorch and files of NumPy.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this is test code"
)]

use std::fs;
use std::path::Path;

use crate::common::{modelfmt_in, testdata};
use serde_json::{Value, json};
use testkit::{Pickler, TorchTensor, torch_pickle, torch_zip};

fn values(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 37 % 251) as u8).collect()
}

/// A checkpoint with the tensors `a` and `b`, each in its own storage.
fn checkpoint() -> Vec<u8> {
    let tensors = [TorchTensor::f32("a", "0", &[4, 6]), TorchTensor::f32("b", "1", &[3])];
    let pickle = torch_pickle(&tensors);
    torch_zip(&pickle, &[("0", &values(96)), ("1", &values(12))]).build()
}

/// A checkpoint that calls a function in addition to its tensor.
fn with_payload(key: &str) -> Vec<u8> {
    let mut pickle = Pickler::new(2);
    pickle.op(b"}(").text(key).tensor(&TorchTensor::f32("w", "0", &[2]));
    pickle.text("hook").global("os", "system").op(b"(").text("id").op(b"tRu");
    torch_zip(&pickle.stop(), &[("0", &values(8))]).build()
}

fn files_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_wrong_crc_is_damage_to_whatever_reads_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = checkpoint();
    let at = file.windows(12).rposition(|window| window == values(12)).unwrap();
    file[at] ^= 1;
    fs::write(folder.path().join("m.pt"), file).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    for args in ["convert m.pt out.safetensors", "extract m.pt b -o b.npy", "extract m.pt * -o all.npz"] {
        let failed = run(args);
        assert_eq!(failed.status, 1, "{args}: {}", failed.stderr);
        assert!(
            failed.stderr.contains("archive/data/1") && failed.stderr.contains("CRC-32"),
            "{}",
            failed.stderr
        );
        assert!(failed.stderr.contains("--no-verify"), "{args}: {}", failed.stderr);
        assert_eq!(files_in(folder.path()), ["m.pt"], "{args}");
    }
    // Tensors in another record can be read.
    run("extract m.pt a -o a.npy").ok();
    let verified = run("verify m.pt");
    assert!(verified.status == 1 && verified.stdout.contains("archive/data/1"), "{}", verified.stdout);
    run("convert m.pt out.safetensors --no-verify").ok();
    run("extract m.pt b -o b.npy --no-verify").ok();
    run("diff m.pt out.safetensors").ok();
}

#[test]
fn checkpoints_and_their_conversions_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.bin"), checkpoint()).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert a.bin b.safetensors").ok();
    let same = run("diff a.bin b.safetensors").ok();
    assert!(same.starts_with("same tensors, same values"), "{same}");
    for (from, name) in [("pytorch/views.pt", "v"), ("pytorch/deflated.pt", "d"), ("npy/stored.npz", "n")] {
        fs::copy(testdata(from), folder.path().join(name)).unwrap();
        run(&format!("convert {name} {name}.safetensors --lossy")).ok();
        let diff = run(&format!("diff {name} {name}.safetensors --ignore-metadata")).ok();
        assert!(diff.starts_with("same tensors, same values"), "{name}: {diff}");
    }
    // The output of `extract` is again a model.
    run("extract a.bin * -o a.npz").ok();
    run("diff a.bin a.npz --ignore-metadata").ok();
}

#[test]
fn a_folder_with_a_checkpoint_alone_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    fs::write(model.join("config.json"), "{\"hidden_size\": 4}").unwrap();
    fs::write(model.join("pytorch_model.bin"), checkpoint()).unwrap();
    // Files that training leaves next to a checkpoint do not count as other models.
    for name in ["training_args.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth"] {
        fs::write(model.join(name), with_payload("w")).unwrap();
    }
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let found = run("inspect model --json").json();
    assert_eq!((&found["format"], &found["path"]), (&json!("pytorch"), &json!("model")));
    run("convert model out.safetensors").ok();
    assert!(run("diff model out.safetensors").ok().starts_with("same tensors, same values"));
    // If there is also a model of another format, that one is used, with a note.
    fs::copy(folder.path().join("out.safetensors"), model.join("model.safetensors")).unwrap();
    let both = run("inspect model");
    assert!(both.stdout.starts_with("model: safetensors"), "{}", both.stdout);
    assert!(both.stderr.contains("pytorch_model.bin"), "{}", both.stderr);
}

#[test]
fn what_a_pickle_calls_is_said_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.pt"), with_payload("w")).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let warning = "warning: m.pt: record \"archive/data.pkl\" calls \"os.system\" at byte ";
    for args in [
        "inspect m.pt",
        "show m.pt w",
        "verify m.pt",
        "convert m.pt x.safetensors",
        "extract m.pt w -o w.npy",
    ] {
        for quiet in ["", " --quiet --force"] {
            let quiet = if args.starts_with("convert") || args.starts_with("extract") {
                quiet
            } else {
                quiet.trim_end_matches(" --force")
            };
            let done = run(&format!("{args}{quiet}"));
            assert_eq!(
                (done.status, done.stderr.matches(warning).count()),
                (0, 1),
                "{args}{quiet}: {}",
                done.stderr
            );
        }
    }
    let checked = run("check m.pt --json");
    assert_eq!(checked.status, 1);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    let globals = json!([
        "collections.OrderedDict",
        "os.system",
        "torch.FloatStorage",
        "torch._utils._rebuild_tensor_v2"
    ]);
    assert_eq!((&checked["globals"], &checked["runs_code"]), (&globals, &json!(true)));
    let details = &run("inspect m.pt --json").json()["details"];
    assert_eq!(details, &json!({"protocol": 2, "globals": globals}));

    // For a set, its files are reported.
    fs::write(folder.path().join("a.bin"), checkpoint()).unwrap();
    let index = r#"{"weight_map": {"a": "a.bin", "b": "a.bin", "w": "m.pt"}}"#;
    fs::write(folder.path().join("pytorch_model.bin.index.json"), index).unwrap();
    let set = "pytorch_model.bin.index.json";
    for command in ["inspect", "show", "verify"] {
        let done = run(&format!("{command} {set} --quiet"));
        assert!(
            done.stderr.starts_with(&format!("warning: {set}: m.pt: record ")),
            "{command}: {}",
            done.stderr
        );
    }
    let inspected = run(&format!("inspect {set} --json")).json();
    assert_eq!(
        (&inspected["format"], &inspected["details"]["protocol"]),
        (&json!("pytorch-sharded"), &json!(2))
    );
    assert_eq!(inspected["details"]["globals"], globals);
    assert!(inspected["notes"][0].as_str().unwrap().starts_with("m.pt: record "), "{inspected}");
    let checked = run(&format!("check {set}"));
    assert!(
        checked.status == 1 && checked.stdout.contains("m.pt: the pickle calls os.system"),
        "{}",
        checked.stdout
    );
}

/// Keys with dots in one dictionary, as `state_dict()` makes them.
#[test]
fn a_plain_state_dict_has_no_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut pickle = Pickler::new(2);
    pickle.op(b"}(").text("model.a").tensor(&TorchTensor::f32("a", "0", &[4, 6]));
    pickle.text("lm_head.weight").tensor(&TorchTensor::f32("m", "1", &[3])).op(b"u");
    let file = torch_zip(&pickle.stop(), &[("0", &values(96)), ("1", &values(12))]).build();
    fs::write(folder.path().join("pytorch_model.bin"), file).unwrap();
    let inspected = modelfmt_in(folder.path(), "inspect pytorch_model.bin");
    assert!(inspected.status == 0 && !inspected.stderr.contains("--root"), "{}", inspected.stderr);
}

#[test]
fn a_part_of_a_checkpoint_is_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut pickle = Pickler::new(2);
    pickle.op(b"}(").text("model").op(b"}(").text("a").tensor(&TorchTensor::f32("a", "0", &[4, 6])).op(b"u");
    pickle.text("optimizer").op(b"}(").text("m").tensor(&TorchTensor::f32("m", "1", &[3])).op(b"uu");
    let file = torch_zip(&pickle.stop(), &[("0", &values(96)), ("1", &values(12))]).build();
    fs::write(folder.path().join("m.ckpt"), file).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let note = "several parts hold tensors: model (96 bytes), optimizer (12 bytes)";
    assert!(run("inspect m.ckpt").stderr.contains(note));
    run("convert m.ckpt out.safetensors --root model").ok();
    assert_eq!(run("inspect out.safetensors --json").json()["tensors"][0]["name"], "a");
    run("diff m.ckpt out.safetensors --root model").ok();
    for (root, what) in [("nothing", "there is no"), ("model.a.b", "there is no")] {
        let failed = run(&format!("inspect m.ckpt --root {root}"));
        assert!(failed.status == 1 && failed.stderr.contains(what), "{}", failed.stderr);
    }
}

/// Programs that load a folder may load any checkpoint in it.
#[test]
fn check_looks_at_checkpoints_beside_the_model_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let hub = folder.path().join("hub");
    fs::create_dir(&hub).unwrap();
    fs::write(hub.join("pytorch_model.bin"), checkpoint()).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert hub hub/model.safetensors -q").ok();
    let good = run("check hub").ok();
    assert!(
        good.contains("ok hub: 2 tensors") && good.contains("ok hub/pytorch_model.bin: 2 tensors"),
        "{good}"
    );
    fs::write(hub.join("training_args.bin"), with_payload("w")).unwrap();
    let found = run("check hub");
    assert_eq!(found.status, 1, "{}", found.stdout);
    assert!(found.stdout.contains("FAILED hub/training_args.bin: 1 tensor"), "{}", found.stdout);
    assert!(found.stdout.contains("calls os.system") && found.stdout.ends_with("3 files: 2 ok, 1 failed\n"));
}

#[test]
fn a_pickle_without_tensors_is_not_converted() {
    let folder = tempfile::tempdir().unwrap();
    let mut pickle = Pickler::new(2);
    pickle.op(b"}").text("epoch").op(b"K\x07s");
    fs::write(folder.path().join("args.bin"), torch_zip(&pickle.stop(), &[]).build()).unwrap();
    let failed = modelfmt_in(folder.path(), "convert args.bin out.safetensors");
    assert_eq!(failed.status, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("args.bin: it holds no tensors"), "{}", failed.stderr);
    assert_eq!(files_in(folder.path()), ["args.bin"]);
}
