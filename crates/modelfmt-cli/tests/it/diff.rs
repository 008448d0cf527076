//! `modelfmt diff` with norms and a tolerance.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::{modelfmt_in, testdata};
use serde_json::{Value, json};

#[test]
fn norms_and_tolerance_are_options() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(testdata("reference/trained.mag"), folder.path().join("whole.mag")).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert whole.mag a.mag --include {cube,fc1.*} --quiet").ok();
    run("convert a.mag b.mag --cast f16 --quiet").ok();
    run("convert b.mag c.mag --cast f32 --quiet").ok();
    let found = run("diff a.mag c.mag --norms --json");
    assert_eq!(found.status, 1);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let changed = found["changed"].as_array().unwrap();
    let norms: Vec<f64> = changed.iter().map(|changed| changed["rel_norm"].as_f64().unwrap()).collect();
    assert!(norms.len() == 3 && norms.is_sorted_by(|a, b| a >= b), "{norms:?}");
    assert!(changed.iter().all(|changed| changed["cosine"].as_f64().unwrap() > 0.999_999));
    let plain = run("diff a.mag c.mag --json");
    let plain: Value = serde_json::from_str(&plain.stdout).unwrap();
    assert!(plain["changed"][0].get("rmse").is_none());
    assert_eq!(
        run("diff a.mag c.mag --tolerance 1e-3").ok(),
        "same tensors, values within 1.000e-3, same metadata\n"
    );
    assert_eq!(run("diff a.mag c.mag --tolerance 1e-6").status, 1);
    for wrong in ["--tolerance=-1", "--tolerance=NaN", "--tolerance few"] {
        assert_eq!(run(&format!("diff a.mag c.mag {wrong}")).status, 2, "{wrong}");
    }

    std::fs::write(folder.path().join("meta.json"), r#"{"epoch": 8}"#).unwrap();
    run("convert a.mag d.mag --metadata meta.json --quiet").ok();
    assert_eq!(run("diff a.mag d.mag").status, 1);
    assert_eq!(
        run("diff a.mag d.mag --ignore-metadata").ok(),
        "same tensors, same values, metadata not compared\n"
    );
    let found = run("diff a.mag d.mag --ignore-metadata --json").json();
    assert_eq!((&found["same"], &found["metadata"]), (&json!(true), &json!([])));
}

#[test]
fn long_metadata_is_cut_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, change: &dyn Fn(&mut Vec<String>)| {
        let mut tokens: Vec<String> = (0..100_000).map(|n| format!("token {n}")).collect();
        change(&mut tokens);
        let meta = json!({"tokens": tokens, "template": format!("{}{name}", "x".repeat(9000))});
        std::fs::write(folder.path().join("meta.json"), meta.to_string()).unwrap();
        let from = testdata("safetensors/dtypes.safetensors");
        let args = format!(
            "convert {} {name}.gguf --include f32.x --metadata meta.json --lossy --quiet",
            from.display()
        );
        modelfmt_in(folder.path(), &args).ok();
    };
    write("a", &|_| {});
    write("b", &|tokens| {
        tokens[70_000] = "other".to_owned();
        tokens[80_000] = "another".to_owned();
    });
    write("c", &|tokens| tokens.truncate(99_990));
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let text = run("diff a.gguf b.gguf");
    assert!(text.stdout.len() < 2000, "{}", text.stdout.len());
    assert!(
        text.stdout
            .contains("2 of 100,000 entries differ, the first is [70000]: \"token 70000\" is now \"other\"")
            && text.stdout.contains("from character 9000 on"),
        "{}",
        text.stdout
    );
    assert!(run("diff a.gguf c.gguf").stdout.contains("100,000 entries are now 99,990, 10 differ"));
    let found = run("diff a.gguf b.gguf --json");
    assert!(found.stdout.len() < 30_000);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let of =
        |key: &str| found["metadata"].as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap();
    assert_eq!(of("tokens")["entries"], json!({"a": 100_000, "b": 100_000, "differ": 2, "first": 70_000}));
    assert_eq!((&of("tokens")["truncated"], &of("tokens")["a"][0]), (&json!(true), &json!("token 0")));
    assert_eq!(of("template")["entries"], Value::Null);
}

#[test]
fn a_nan_is_no_infinity() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("a", 2.0_f32), ("nan", f32::NAN), ("inf", f32::INFINITY)] {
        let head = br#"{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#;
        let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(head);
        [1.0, value, 3.0].iter().for_each(|value: &f32| bytes.extend_from_slice(&value.to_le_bytes()));
        std::fs::write(folder.path().join(format!("{name}.safetensors")), bytes).unwrap();
    }
    let run = |args: &str| modelfmt_in(folder.path(), &format!("diff --norms {args}"));
    for (pair, text, number) in [
        ("a.safetensors nan.safetensors", "\n~ w       values, a NaN  NaN      NaN", "NaN"),
        ("nan.safetensors inf.safetensors", "\n~ w       values, a NaN  NaN      NaN", "NaN"),
        ("a.safetensors inf.safetensors", "\n~ w       values  inf ", "Infinity"),
    ] {
        let said = run(pair).stdout;
        assert!(said.contains(text) && said.contains("inf") == (number != "NaN"), "{pair}: {said}");
        let found: Value = serde_json::from_str(&run(&format!("--json {pair}")).stdout).unwrap();
        assert_eq!(
            (&found["changed"][0]["max_abs"], &found["changed"][0]["rmse"]),
            (&json!(number), &json!("NaN"))
        );
        assert_eq!(run(&format!("{pair} --tolerance 1e9")).status, 1);
    }
}

/// The bars are proportional, lines fit a known width, and the last line says how many tensors there are.
#[test]
fn the_table_is_as_wide_as_lines_are() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, change: f32| {
        let long = "layer.with.a.long.name.".repeat(2);
        let values: Vec<f32> = (1..=64).map(|n| n as f32).collect();
        let more: Vec<f32> = values.iter().map(|value| value + change).collect();
        let most: Vec<f32> = values.iter().map(|value| value + 4.0 * change).collect();
        let tensors = [("a", &values), ("b", &more), (&*long, &most)];
        let views = tensors.map(|(name, values)| (name, modelfmt::View::new(values, [64]).unwrap()));
        modelfmt::save(folder.path().join(name), views, &modelfmt::Object::new()).unwrap();
    };
    write("x.safetensors", 0.0);
    write("y.safetensors", 0.5);
    for columns in [40, 80, 200] {
        let mut command = crate::common::command(crate::common::program());
        command.args(["diff", "--norms", "x.safetensors", "y.safetensors"]).current_dir(folder.path());
        let run = crate::common::run(command.env("COLUMNS", columns.to_string()));
        let text = &run.stdout;
        assert!(text.lines().all(|line| line.chars().count() <= columns.max(51)), "{text}");
        assert!(text.ends_with("\n2 of 3 tensors differ\n"), "{text}");
        assert_eq!(text.contains("cosine"), columns == 200, "{text}");
        let bar = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.chars().filter(|c| *c == '█').count()
        };
        if columns == 200 {
            assert_eq!((bar("~ layer.with"), bar("~ b")), (40, 10), "{text}");
        }
    }
}

#[test]
fn a_folder_of_the_hub_is_compared_with_its_gguf_by_the_map() {
    let folder = crate::hub_inspect::folder(crate::hub_inspect::CONFIG);
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert model.safetensors m.gguf --cast f16 --quiet").ok();
    std::fs::create_dir(folder.path().join("hub")).unwrap();
    for name in ["model.safetensors", "config.json"] {
        std::fs::rename(folder.path().join(name), folder.path().join("hub").join(name)).unwrap();
    }
    for args in ["hub m.gguf", "m.gguf hub"] {
        let found = run(&format!("diff {args} --ignore-metadata --ignore-dtype --norms"));
        assert!(
            found.stderr.contains("note: hub is compared as the GGUF that its map makes"),
            "{}",
            found.stderr
        );
        assert_eq!((found.status, &*found.stdout), (0, "same tensors, same values, metadata not compared\n"));
    }
    let found = run("diff hub m.gguf --ignore-metadata");
    assert!(found.stdout.contains("~ blk.0.attn_q.weight") && found.status == 1, "{}", found.stdout);
}

#[test]
fn a_gguf_file_without_a_name_in_common_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(testdata("reference/trained.mag"), folder.path().join("m.mag")).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert m.mag m.gguf --include fc1.bias --rename fc1.bias=blk.0.b --lossy --stringify --quiet").ok();
    let found = run("diff m.mag m.gguf");
    assert_eq!(found.status, 1);
    assert!(
        found.stderr.contains("note: A and B have no tensor name in common. m.mag: it is not a folder"),
        "{}",
        found.stderr
    );
    run("convert m.mag same.gguf --lossy --stringify --widen --quiet").ok();
    assert_eq!(run("diff m.mag same.gguf").stderr, "");
}
