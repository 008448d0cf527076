//! `modelfmt show`: parts of tensors, only statistics, bars, JSON.
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
    // A negative position, in a tensor of one dimension.
    assert!(run(&["fc1.bias", "--slice", "-1"]).ok().starts_with("fc1.bias[-1]: f32 = 0.113094\n"));
    // Blocks are decoded.
    let blocks = show("one-shard.aero", &["blk.0.q4_0", "--slice", "1", "--stats"]).ok();
    assert!(blocks.starts_with("blk.0.q4_0[1]: q4_0[32]\n- [nbytes: 18, min: "), "{blocks}");
    let error = run(&["mask", "--slice", "0,0"]).error();
    assert!(error.contains("mask"), "{error}");
    assert_eq!(run(&["mask", "--slice", "a:b"]).status, 2);
}

/// Values of blocks that a slice cuts equal those of the whole tensor at these positions.
#[test]
fn a_slice_cuts_blocks() {
    let file = "../gguf/types.gguf";
    let values = |name: &str, slice: &str| {
        let part = show(file, &[name, "--slice", slice, "--json"]).json();
        let part = part["tensors"][0].clone();
        assert_eq!(part["truncated"], false, "{name} {slice}");
        let count = |key: &str| part["stats"][key].as_u64().unwrap();
        let counted = ["count", "nan", "pos_inf", "neg_inf"].map(count).iter().sum::<u64>();
        assert_eq!(counted, part["values"].as_array().unwrap().len() as u64, "{name} {slice}");
        part
    };
    let all = show(file, &["--json", "--stats"]).json();
    let mut compared = 0;
    for tensor in all["tensors"].as_array().unwrap() {
        let (name, shape) = (tensor["name"].as_str().unwrap(), &tensor["shape"]);
        let [rows, columns] = &shape.as_array().unwrap()[..] else { continue };
        // Some of the many types of blocks are enough.
        if !["q4_0", "q8_0", "q6_k", "q4_k", "iq2_s", "tq1_0", "i8", "i64"].contains(&name) {
            continue;
        }
        let [rows, columns] = [rows, columns].map(|size| usize::try_from(size.as_u64().unwrap()).unwrap());
        let whole = values(name, ":")["values"].as_array().unwrap().clone();
        assert_eq!(whole.len(), rows * columns, "{name}");
        let (last, at) = (rows - 1, |row: usize, column: usize| whole[row * columns + column].clone());
        for (slice, expected) in [
            (":,3:5", (0..rows).flat_map(|row| [at(row, 3), at(row, 4)]).collect::<Vec<_>>()),
            ("-1,::7", (0..columns).step_by(7).map(|column| at(last, column)).collect()),
            (":,-1", (0..rows).map(|row| at(row, columns - 1)).collect()),
            ("0,5", vec![at(0, 5)]),
            ("0:1,1:", (1..columns).map(|column| at(0, column)).collect()),
        ] {
            assert_eq!(values(name, slice)["values"], json!(expected), "{name} {slice}");
            compared += 1;
        }
    }
    assert_eq!(compared, 40);
    let text = show("one-shard.aero", &["blk.0.q4_0", "--slice", ":,3:5"]).ok();
    assert!(text.starts_with("blk.0.q4_0[:,3:5]: q4_0[2, 2] = {\n"), "{text}");
}

/// JSON lists up to 10,000 values of a slice; if there are more, it lists none.
#[test]
fn json_lists_the_values_of_a_slice_up_to_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    let header = r#"{"w":{"dtype":"U8","shape":[10001],"data_offsets":[0,10001]}}"#;
    let values: Vec<u8> = (0..10_001_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat())
        .unwrap();
    let show = |args: &[&str]| {
        let run = modelfmt([&["show", path.to_str().unwrap(), "w", "--json"], args].concat());
        run.json()["tensors"][0].clone()
    };
    let part = show(&["--slice", "1:"]);
    assert_eq!((&part["values"], &part["truncated"]), (&json!(values[1..]), &json!(false)));
    let whole = show(&["--slice", ":"]);
    assert_eq!((&whole["values"], &whole["truncated"]), (&Value::Null, &json!(true)));
    assert_eq!(whole["first"], json!([0, 1, 2, 3, 4]));
    for args in [&[][..], &["--slice", ":", "--stats"]] {
        let object = show(args);
        assert!(object.get("values").is_none() && object.get("truncated").is_none(), "{object}");
    }
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
