//! `modelfmt convert MODEL.gguf FOLDER/ --to hf`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;

use crate::common::modelfmt_in;
use crate::hub_inspect::{CONFIG, folder};

#[test]
fn a_folder_comes_back() {
    let folder = folder(CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    fs::write(folder.path().join("generation_config.json"), r#"{"temperature": 0.6}"#).unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    run("convert model.safetensors out/m.gguf --quiet").ok();
    let dry = run("convert out/m.gguf back/ --to hf --dry-run --json").json();
    assert_eq!((&dry["format"], &dry["dry_run"]), (&"hf".into(), &true.into()));
    let q = dry["programs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["tensor"].as_str().unwrap().contains("q_proj"));
    assert_eq!(q.unwrap()["from"][0], "blk.0.attn_q.weight");
    assert!(!folder.path().join("back").exists());
    let done = run("convert out/m.gguf back/ --to hf --json").json();
    assert_eq!(done["dropped"].as_array().unwrap().len(), 0);
    let names: Vec<&str> =
        done["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["model.safetensors", "config.json", "generation_config.json"]);
    let notes = done["notes"].to_string();
    assert!(
        notes.contains(
            "had \\\"model.layers.0.self_attn.rotary_emb.inv_freq\\\", which the GGUF does not have"
        ),
        "{notes}"
    );
    let value = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(folder.path().join(path)).unwrap()).unwrap()
    };
    assert_eq!(value("back/config.json"), value("config.json"));
    assert_eq!(value("back/generation_config.json"), value("generation_config.json"));
    let diff = |args: &str| -> serde_json::Value { serde_json::from_str(&run(args).stdout).unwrap() };
    let found = diff("diff model.safetensors back/model.safetensors --json");
    assert_eq!(found["only_in_a"].as_array().map(Vec::len), Some(1), "{found}");
    let is_empty = |found: &serde_json::Value, keys: &[&str]| {
        keys.iter().all(|key| found[key].as_array().is_some_and(Vec::is_empty))
    };
    assert!(is_empty(&found, &["only_in_b", "changed"]), "{found}");
    // The folder becomes the same GGUF again, except for its name and what was left out.
    run("convert back/ out/again.gguf --quiet").ok();
    let found = diff("diff out/m.gguf out/again.gguf --json");
    assert!(is_empty(&found, &["only_in_a", "only_in_b", "changed"]), "{found}");
}

#[test]
fn what_is_refused_names_what_helps() {
    let folder = folder(CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    fs::create_dir(folder.path().join("out")).unwrap();
    run("convert model.safetensors out/m.gguf --quiet").ok();
    for (args, status, why) in [
        ("convert out/m.gguf out/ --to hf", 1, "--force"),
        ("convert out/m.gguf - --to hf", 2, "--to hf writes a folder"),
        ("convert -r out/ all/ --to hf", 2, "one at a time"),
        ("convert out/m.gguf back/ --to hf --map none", 2, "is made by a map"),
        ("convert out/m.gguf back/ --to hf --stringify --pre x", 2, "--pre"),
        ("convert model.safetensors back/ --to hf", 2, "made of a GGUF or of another such folder"),
    ] {
        let done = run(args);
        assert_eq!(done.status, status, "{args}: {}", done.stderr);
        assert!(done.stderr.contains(why), "{args}: {}", done.stderr);
        assert!(!folder.path().join("back").exists(), "{args}");
    }
    // Without the metadata that carry the map, the types of norms are not known.
    run("edit out/m.gguf --unset modelfmt.hub.map --quiet").ok();
    let done = run("convert out/m.gguf back/ --to hf");
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("--lossy") && done.stderr.contains("output_norm.weight"), "{}", done.stderr);
    let done = run("convert out/m.gguf back/ --to hf --lossy");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(
        done.stderr.contains("warning: not restored exactly: 3 tensors: its type before it became f32"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_batch_makes_a_model_again_if_what_is_beside_it_has_changed() {
    let folder = folder(CONFIG);
    fs::create_dir(folder.path().join("in")).unwrap();
    for name in ["model.safetensors", "config.json"] {
        fs::rename(folder.path().join(name), folder.path().join("in").join(name)).unwrap();
    }
    let run = |args: &str| modelfmt_in(folder.path(), args).stderr;
    let command = "convert -r in out --to gguf";
    let said = run(command);
    assert!(said.contains("1 model converted"), "{said}");
    let said = run(command);
    assert!(said.contains("1 done before"), "{said}");
    let config = folder.path().join("in/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "\n").unwrap();
    let said = run(command);
    assert!(said.contains("--force replaces it") && !said.contains("done before"), "{said}");
    let said = run(&format!("{command} --force"));
    assert!(said.contains("1 model converted"), "{said}");
    // A config without a family is distinguished from a missing config.
    fs::write(&config, "{}").unwrap();
    let said = run("convert in/model.safetensors new.gguf");
    assert!(said.contains("because the config.json beside the model has no `model_type`"), "{said}");
}

/// The weights get another type, and the other files stay the same, except for the type in config.json.
#[test]
fn a_folder_becomes_another() {
    let folder = folder(&CONFIG.replacen('{', r#"{"torch_dtype": "float32", "#, 1));
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let text = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
    fs::write(folder.path().join("generation_config.json"), "{\"temperature\":  0.6}").unwrap();
    fs::write(folder.path().join("README.md"), "---\nlicense: mit\n---\n# A model\n").unwrap();
    let done = run("convert . half/ --to hf --cast f16");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("config.json states float16 now"), "{}", done.stderr);
    assert_eq!(text("half/config.json"), text("config.json").replace("float32", "float16"));
    assert_eq!(text("half/generation_config.json"), "{\"temperature\":  0.6}");
    let found = run("diff . half/ --json");
    let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["metadata"][0]["key"], "config.json.torch_dtype", "{found}");
    assert_eq!(found["metadata"].as_array().map(Vec::len), Some(1), "{found}");
    assert!(found["changed"].as_array().unwrap().iter().all(|one| one["what"][0] == "dtype"), "{found}");
    // The licence is stored in a GGUF, and comes back with the card.
    fs::create_dir(folder.path().join("out")).unwrap();
    run("convert half/ out/m.gguf --quiet").ok();
    let license = run("inspect out/m.gguf --get general.license").ok();
    assert_eq!(license.trim_matches(['"', '\n']), "mit");
    run("convert out/m.gguf back/ --to hf --quiet").ok();
    assert_eq!(text("back/README.md"), text("README.md"));
    run("convert out/m.gguf wide/ --to hf --cast f32 --quiet").ok();
    assert!(text("wide/config.json").contains("float32"), "{}", text("wide/config.json"));
    // Spaces and the order of keys make no difference to a proof.
    fs::write(folder.path().join("back/generation_config.json"), "{ \"temperature\": 0.6 }").unwrap();
    let proof = run("prove half/ back/ --json");
    assert!(!proof.stdout.contains("generation_config.json\",\"result\":\"changed"), "{}", proof.stdout);
}
