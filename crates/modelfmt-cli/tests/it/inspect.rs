//! `modelfmt inspect`: several files, other orders, sums, and the width of lines.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common::{command, modelfmt, program, testdata};
use serde_json::{Value, json};

/// Returns the output for lines of this width.
fn printed(columns: &str, args: &[&str]) -> String {
    let output = command(program()).arg("inspect").args(args).env("COLUMNS", columns).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn longest(text: &str) -> usize {
    text.lines().skip(1).map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn lines_fit_where_their_width_is_known() {
    let files = [
        "reference/one-shard.aero",
        "reference/trained.mag",
        "reference/simple_model.oinf",
        "gguf/types.gguf",
    ];
    for file in files {
        let path = testdata(file);
        let path = path.to_str().unwrap();
        for args in [&[path][..], &[path, "--tree"], &[path, "--summary"]] {
            for columns in [60, 80, 120, 300] {
                let text = printed(&columns.to_string(), args);
                assert!(longest(&text) <= columns, "{columns} columns: {text}");
            }
        }
    }
    // A wide line shows more than 200 characters of a value, a narrow one fewer.
    let aero = testdata("reference/one-shard.aero");
    let aero = aero.to_str().unwrap();
    let wide = longest(&printed("300", &[aero]));
    assert!(wide > 210, "{wide}");
    // A name is never cut.
    let narrow = printed("20", &[aero, "--tensors", "after.*"]);
    assert!(narrow.contains("   after.odd.f32\n       f32  [5]  20 B\n"), "{narrow}");
    // A width that is not a number is ignored.
    assert_eq!(printed("0", &[aero]), printed("wide", &[aero]));
}

/// Together, the columns of a table would be too wide here, although each line has room.
#[test]
fn a_line_of_a_tree_is_a_tensor_where_it_has_room() {
    let aero = testdata("reference/one-shard.aero");
    let text = printed("36", &[aero.to_str().unwrap(), "--tree"]);
    assert!(text.contains("   embed.weight   f32 [16, 8]  512 B\n"), "{text}");
    let text = printed("33", &[aero.to_str().unwrap(), "--tree"]);
    assert!(text.contains("   int.          7 tensors  116 B\n"), "{text}");
    assert!(text.contains("   embed.weight\n"), "{text}");
}

#[test]
fn several_files_are_an_object_a_line_and_one_that_is_bad_keeps_none_back() {
    let (a, b) = (testdata("reference/trained.mag"), testdata("reference/simple_model.oinf"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let run = modelfmt(["inspect", "--json", a, "missing.aero", b]);
    assert_eq!(run.status, 1);
    let objects: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&objects[0]["format"], &objects[1]["format"], objects.len()),
        (&json!("mag"), &json!("oinf"), 2)
    );
    assert_eq!(objects[0], modelfmt(["inspect", "--json", a]).json());
    assert!(run.stderr.starts_with(r#"{"error":"missing.aero: cannot be opened"#), "{}", run.stderr);
    let run = modelfmt(["inspect", "missing.aero", a, b]);
    let summary = modelfmt(["inspect", "--summary", a, b]).ok();
    assert_eq!(run.status, 1);
    assert_eq!((summary.lines().count(), summary.lines().nth(6)), (13, Some("")), "{summary}");
    let pin = format!("b3:{}", "0".repeat(64));
    assert_eq!(modelfmt(["inspect", a, b, "--pin", &pin]).status, 2);
    assert_eq!(modelfmt(["inspect", a, "--tree", "--summary"]).status, 2);
}

#[test]
fn tensors_are_sorted_grouped_and_summed_up() {
    let path = testdata("reference/one-shard.aero");
    let path = path.to_str().unwrap();
    let list = |args: &[&str], key: &str| -> Vec<Value> {
        let object = modelfmt([&["inspect", "--json", path], args].concat()).json();
        object["tensors"].as_array().unwrap().iter().map(|tensor| tensor[key].clone()).collect()
    };
    let sizes: Vec<u64> = list(&["--sort", "size"], "nbytes").iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[0] == 512, "{sizes:?}");
    let names = list(&["--sort", "name"], "name");
    assert!(names.is_sorted_by_key(|name| name.as_str().unwrap().to_owned()), "{names:?}");
    let dtypes = list(&["--sort", "dtype"], "dtype");
    assert_eq!((&dtypes[0], &dtypes[dtypes.len() - 1]), (&json!("bool"), &json!("q4_0")));
    assert_eq!(modelfmt(["inspect", path, "--sort", "shape"]).status, 2);

    let object = modelfmt(["inspect", "--json", "--tree", path]).json();
    let tree = object["tree"].as_array().unwrap();
    let int = json!({"prefix": "int.", "depth": 0, "tensors": 7, "elements": 28, "nbytes": 116});
    assert!(tree.contains(&int), "{tree:?}");
    let after = tree.iter().position(|branch| *branch == int).unwrap() + 1;
    assert_eq!((&tree[after]["prefix"], &tree[after]["depth"]), (&json!("int.u8"), &json!(1)));
    let object = modelfmt(["inspect", "--json", "--summary", path]).json();
    assert_eq!(object["summary"]["tensors"], 18);
    assert!(object.get("tensors").is_none() && object.get("metadata").is_none());
    let sum = |key: &str| {
        let dtypes = object["summary"]["dtypes"].as_array().unwrap();
        dtypes.iter().map(|dtype| dtype[key].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("tensors"), sum("nbytes")), (18, object["summary"]["nbytes"].as_u64().unwrap()));
}

/// No line is longer than the width of the terminal, if that is enough for the longest name.
#[test]
fn the_list_of_a_set_fits_sixty_columns() {
    let path = testdata("safetensors/set.safetensors.index.json");
    for columns in ["60", "200"] {
        let text = printed(columns, &[path.to_str().unwrap()]);
        let tensors = text.split_once("\ntensors\n").unwrap().1;
        let longest = tensors.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= columns.parse().unwrap(), "{columns}: {text}");
        assert!(tensors.contains("set-00001-of-00005.safetensors"), "{text}");
    }
}

/// A long list that is cut, such as a tokenizer's, shows its length.
#[test]
fn a_long_list_says_how_many_items_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let tokens: modelfmt::Value = (0..32_000).map(|number| format!("token{number}")).collect();
    let metadata = modelfmt::Object::from_iter([("tokens", tokens)]);
    let view = modelfmt::View::new(&[1.0f32], [1]).unwrap();
    modelfmt::save(&path, [("w", view)], &metadata).unwrap();
    let text = printed("", &[path.to_str().unwrap()]);
    assert!(text.contains("\"token7\",") && text.contains("… (32,000 in all)"), "{text}");
    let text = printed("60", &[path.to_str().unwrap()]);
    assert!(text.contains("… (32,000 in all)") && longest(&text) <= 60, "{text}");
}

/// Writes a safetensors file of zeros, which takes no space on the disk.
fn write_sparse(path: &std::path::Path, tensors: impl IntoIterator<Item = (String, &'static str, Vec<u64>)>) {
    let (mut entries, mut at) = (Vec::new(), 0);
    for (name, dtype, shape) in tensors {
        let end = at + shape.iter().product::<u64>() * if dtype == "F32" { 4 } else { 2 };
        entries
            .push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    let header = format!("{{{}}}", entries.join(","));
    let head = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(path, &head).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_len(head.len() as u64 + at).unwrap();
}

/// Returns the tensors of a Llama with 7 billion parameters in the order of their names, as on the hub. Every
/// third layer has one in f32.
fn llama() -> Vec<(String, &'static str, Vec<u64>)> {
    let layer = |layer: u64| {
        let of = |name: &str, shape: &[u64]| {
            (format!("model.layers.{layer}.{name}.weight"), "BF16", shape.to_vec())
        };
        let down = if layer.is_multiple_of(3) { "F32" } else { "BF16" };
        let mut tensors = vec![of("input_layernorm", &[4096]), of("post_attention_layernorm", &[4096])];
        tensors.extend(["q", "k", "v", "o"].map(|part| of(&format!("self_attn.{part}_proj"), &[4096, 4096])));
        tensors.extend(["gate", "up"].map(|part| of(&format!("mlp.{part}_proj"), &[11008, 4096])));
        tensors.push((format!("model.layers.{layer}.mlp.down_proj.weight"), down, vec![4096, 11008]));
        tensors
    };
    let outer = |name: &str, shape: &[u64]| (format!("{name}.weight"), "BF16", shape.to_vec());
    let mut tensors: Vec<_> = (0..32).flat_map(layer).collect();
    tensors.extend([outer("lm_head", &[32000, 4096]), outer("model.embed_tokens", &[32000, 4096])]);
    tensors.push(outer("model.norm", &[4096]));
    tensors.sort();
    tensors
}

#[test]
fn a_llama_is_on_one_screen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    write_sparse(&path, llama());
    let path = path.to_str().unwrap();
    for columns in [80, 200] {
        let text = printed(&columns.to_string(), &[path]);
        assert!(text.lines().count() <= 25 && longest(&text) <= columns, "{text}");
        assert!(text.contains("   model.layers.0–31 × 9 tensors  "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    let wide = printed("200", &[path]);
    let bf16 = wide.lines().find(|line| line.starts_with("   bf16  280 tensors  ")).unwrap();
    assert!(bf16.contains("11.63 GiB   86.3%  ████") && bf16.chars().count() > 120, "{wide}");
    let down = "     mlp.down_proj.weight             bf16, f32  [4096, 11008]    3.61 GiB  f32 in 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30\n";
    assert!(wide.contains(down), "{wide}");
    // Units are below each other, and only in that column.
    let ends: Vec<usize> = wide
        .lines()
        .filter(|line| line.contains(".weight  "))
        .filter_map(|line| line.char_indices().position(|(at, _)| line[at..].starts_with("iB")))
        .collect();
    assert!(ends.len() == 12 && ends.iter().all(|end| *end == ends[0]), "{wide}");
    // Tensors that were chosen are listed one by one.
    let lines = |args: &[&str]| {
        let text = printed("200", &[&[path], args].concat());
        text.lines().filter(|line| line.contains(".weight  ")).count()
    };
    assert_eq!((lines(&["--all"]), lines(&["--sort", "name"]), lines(&["--top", "40"])), (291, 291, 40));
    assert_eq!(lines(&["--tensors", "*.3.*"]), 9);
    assert_eq!(modelfmt(["inspect", path, "--all", "--tree"]).status, 2);
    // JSON keeps the order of the file and all tensors.
    let object = modelfmt(["inspect", "--json", path]).json();
    assert_eq!(object["tensors"].as_array().unwrap().len(), 291);
}

#[test]
fn escapes_are_for_terminals_that_want_them() {
    let path = testdata("reference/trained.mag");
    let with = |variables: &[(&str, &str)]| {
        let mut command = command(program());
        command.arg("inspect").arg(&path).envs(variables.iter().copied());
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = with(&[]);
    assert!(!plain.contains('\u{1b}') && plain.contains("█"), "{plain:?}");
    let forced = with(&[("CLICOLOR_FORCE", "1")]);
    assert!(forced.contains("\u{1b}[1mtensors\u{1b}[0m\n"), "{forced:?}");
    assert_eq!(with(&[("NO_COLOR", "1")]), plain);
    let ascii = with(&[("LANG", "C")]);
    assert!(ascii.contains("###") && !ascii.contains('█'), "{ascii}");
}

#[test]
fn a_list_that_nobody_asked_for_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    write_sparse(&path, (0..1500_u64).map(|n| (format!("t{n}x"), "F32", vec![2])));
    let text = printed("80", &[path.to_str().unwrap()]);
    assert!(
        text.contains("\n   t999x  f32  [2]  8 B\n   … and 500 tensors more, 3.91 KiB; --all lists each\n"),
        "{text}"
    );
    let text = printed("80", &[path.to_str().unwrap(), "--all"]);
    assert!(text.contains("   t1499x  f32  [2]  8 B\n") && !text.contains('…'), "{text}");
}
