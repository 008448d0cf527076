//! `modelfmt show`: parts of tensors, statistics alone, bars, JSON.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::{modelfmt, testdata};
use serde_json::{Value, json};

fn show(file: &str, args: &[&str]) -> crate::common::Run {
    let path = testdata("reference").join(file);
    modelfmt([&["show", path.to_str().unwrap()], args].concat())
}

#[test]
fn the_statistics_of_a_slice_are_those_of_its_values() {
    let run = |args: &[&str]| show("trained.mag", args);
    let whole = run(&["cube", "--json"]).json();
    assert_eq!(whole["tensors"][0]["first"].as_array().unwrap().len(), 5);
    let part = run(&["cube", "--slice", "1,2:4,::3", "--json"]).json();
    let part = &part["tensors"][0];
    assert_eq!((&part["shape"], &part["slice_shape"]), (&json!([3, 5, 7]), &json!([2, 3])));
    assert_eq!(part["slice"], "1,2:4,::3");
    let values: Vec<f64> = part["first"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    let stats = &part["stats"];
    assert_eq!((values.len(), &stats["count"]), (6, &json!(6)));
    let mean = values.iter().sum::<f64>() / 6.0;
    assert!((stats["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(stats["min"], json!(least));
    let text = run(&["cube", "--slice", "1,2:4,::3"]).ok();
    assert!(text.starts_with("cube[1,2:4,::3]: f32[2, 3] = {\n"), "{text}");
    // A negative position, and of a tensor of one dimension.
    assert!(run(&["fc1.bias", "--slice", "-1"]).ok().starts_with("fc1.bias[-1]: f32 = 0.113094\n"));
    // Blocks are decoded, and not cut.
    let blocks = show("one-shard.aero", &["blk.0.q4_0", "--slice", "1", "--stats"]).ok();
    assert!(blocks.starts_with("blk.0.q4_0[1]: q4_0[32]\n- [nbytes: 18, min: "), "{blocks}");
    let error = show("one-shard.aero", &["blk.0.q4_0", "--slice", ":,3:5"]).error();
    assert!(error.contains("32 elements to a block"), "{error}");
    let error = run(&["mask", "--slice", "0,0"]).error();
    assert!(error.contains("mask"), "{error}");
    assert_eq!(run(&["mask", "--slice", "a:b"]).status, 2);
}

#[test]
fn statistics_alone_have_no_values_and_no_histogram() {
    let text = show("trained.mag", &["--stats"]).ok();
    assert_eq!(text.matches("- [nbytes: ").count(), 6);
    assert!(!text.contains("hist") && !text.contains(" = ") && !text.contains("epoch"), "{text}");
    let object = show("trained.mag", &["mask", "--stats", "--json"]).json();
    assert!(object["tensors"][0].get("first").is_none());
    assert_eq!(object["tensors"][0]["stats"]["histogram"][1], json!({"value": true, "count": 5}));
}

#[test]
fn json_has_exact_values_and_says_where_there_are_none() {
    let all = show("one-shard.aero", &["--json"]).json();
    let tensors = all["tensors"].as_array().unwrap();
    assert_eq!((tensors.len(), &all["format"]), (18, &json!("aero")));
    let of = |name: &str| tensors.iter().find(|tensor| tensor["name"] == name).unwrap();
    assert_eq!(of("empty")["stats"], Value::Null);
    assert_eq!(of("int.i64")["first"].as_array().unwrap().len(), 4);
    let u64s = show("one-shard.aero", &["int.u64"]).ok();
    let values: Vec<String> =
        of("int.u64")["first"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert!(u64s.contains(&values.join(", ")), "{u64s} {values:?}");
    let odd =
        modelfmt(["show", "--json", testdata("safetensors/dtypes.safetensors").to_str().unwrap(), "f16.x"])
            .json();
    assert!(odd["tensors"][0]["first"].as_array().unwrap().contains(&json!("NaN")), "{odd}");
    assert_eq!(odd["tensors"][0]["stats"]["nan"], 2);
    let error = show("trained.mag", &["nothing", "--json"]);
    assert!(error.status == 1 && error.stderr.contains("\"code\":\"no-such-tensor\""), "{}", error.stderr);
}

#[test]
fn bars_are_for_those_who_ask() {
    let plain = show("trained.mag", &["fc1.weight"]).ok();
    let bars = show("trained.mag", &["fc1.weight", "--bars"]).ok();
    assert!(!plain.contains('█') && bars.contains("[0.20342,0.287247):4   █"), "{bars}");
    assert_eq!(plain.lines().count(), bars.lines().count());
    assert_eq!(show("trained.mag", &["--bars", "--json"]).status, 2);
}
