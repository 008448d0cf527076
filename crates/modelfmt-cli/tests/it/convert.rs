//! Conversions by a user: converted, verified, compared, and converted back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;

use crate::common::{modelfmt, modelfmt_in, testdata};

fn folder_with(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(testdata("reference").join(name), folder.path().join(name)).unwrap();
    folder
}

#[test]
fn a_model_and_what_it_was_converted_to_are_the_same() {
    let folder = folder_with("trained.mag");
    for (there, options) in [
        ("m.aero", "--control-hash --page-hashes --tensor-hashes --shard-size 256"),
        ("plain.aero", "--no-zstd"),
        ("s.aeroset.json", "--shard-size 512"),
        ("m.apr", "--widen --compress lz4"),
        ("again.mag", "--checksum crc32"),
    ] {
        modelfmt_in(folder.path(), &format!("convert trained.mag {there} {options}")).ok();
        modelfmt_in(folder.path(), &format!("verify {there}")).ok();
        if there != "m.apr" {
            let same = modelfmt_in(folder.path(), &format!("diff trained.mag {there}")).ok();
            assert_eq!(same, "same tensors, same values, same metadata\n", "{there}");
        }
    }
    // APR2 has no booleans, so `mask` became u8: only its type has changed.
    let run = modelfmt_in(folder.path(), "diff trained.mag m.apr --json");
    assert_eq!(run.status, 1);
    let diff: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let changed = serde_json::json!([{"name": "mask", "what": ["dtype"], "max_abs": null, "max_rel": null}]);
    assert_eq!((&diff["changed"], &diff["metadata"]), (&changed, &serde_json::json!([])));
}

#[test]
fn a_file_comes_back_byte_for_byte() {
    let folder = folder_with("simple_model.oinf");
    for there in ["m.aero", "m.apr", "s.aeroset.json"] {
        modelfmt_in(folder.path(), &format!("convert simple_model.oinf {there}")).ok();
        modelfmt_in(folder.path(), &format!("convert {there} back.oinf --force")).ok();
        let [was, is] =
            ["simple_model.oinf", "back.oinf"].map(|name| fs::read(folder.path().join(name)).unwrap());
        assert!(was == is, "{there}");
    }
}

#[test]
fn a_tensor_that_is_extracted_is_what_numpy_would_write() {
    let folder = folder_with("trained.mag");
    modelfmt_in(folder.path(), "extract trained.mag steps -o steps.npy").ok();
    modelfmt_in(folder.path(), "extract trained.mag steps -o steps.bin").ok();
    let npy = fs::read(folder.path().join("steps.npy")).unwrap();
    let bin = fs::read(folder.path().join("steps.bin")).unwrap();
    let header_len = usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let header = std::str::from_utf8(&npy[10..10 + header_len]).unwrap();
    assert!(header.contains("'descr': '<i4'") && header.contains("'shape': (6,"), "{header}");
    assert_eq!(npy[10 + header_len..], bin);
    assert_eq!(bin.len(), 24);
}

#[test]
fn notes_and_losses_go_to_standard_error() {
    let folder = folder_with("simple_model.oinf");
    let run = modelfmt_in(folder.path(), "convert simple_model.oinf m.safetensors --lossy --exclude y");
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let (said, written) = run.stderr.trim_end().rsplit_once('\n').unwrap();
    assert!(said.lines().all(|line| line.starts_with("note: ") || line.starts_with("warning: dropped ")));
    assert!(written.starts_with("wrote m.safetensors: "), "{written}");
    let sizevars = "warning: dropped 2 size variables: safetensors has no size variables: \"B\", \"D\"\n";
    assert!(run.stderr.contains(sizevars), "{}", run.stderr);
    let quiet = modelfmt_in(folder.path(), "convert simple_model.oinf q.aero --quiet");
    assert_eq!((quiet.status, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn types_are_named_as_anyone_writes_them_for_some_tensors_or_all() {
    let folder = folder_with("trained.mag");
    let dtypes = |options: &str| {
        modelfmt_in(folder.path(), &format!("convert trained.mag out.safetensors --lossy --force {options}"))
            .ok();
        let run = modelfmt_in(folder.path(), "inspect out.safetensors --json");
        let inspected: serde_json::Value = serde_json::from_str(&run.ok()).unwrap();
        let tensors = inspected["tensors"].as_array().unwrap().clone();
        let dtype = |tensor: &serde_json::Value| tensor["dtype"].as_str().unwrap().to_owned();
        let named = tensors.iter().map(|tensor| (tensor["name"].as_str().unwrap().to_owned(), dtype(tensor)));
        named.collect::<std::collections::BTreeMap<_, _>>()
    };
    let plain = dtypes("");
    assert_eq!((plain["steps"].as_str(), plain["fc1.weight"].as_str()), ("i32", "f32"));
    for name in ["f16", "fp16", "float16", "half", "F16"] {
        let cast = dtypes(&format!("--cast {name}"));
        assert_eq!((cast["steps"].as_str(), cast["fc1.weight"].as_str()), ("i32", "f16"), "{name}");
    }
    let cast = dtypes("--cast BF16 --cast *.weight=fp16 --cast steps=int64");
    assert_eq!((cast["steps"].as_str(), cast["fc1.weight"].as_str()), ("i64", "f16"));
    let wrong = modelfmt_in(folder.path(), "convert trained.mag x.aero --cast fp8");
    assert_eq!(wrong.status, 2);
    assert!(wrong.stderr.contains("there are two of 8 bits, f8_e4m3 and f8_e5m2"), "{}", wrong.stderr);
    let nothing = modelfmt_in(folder.path(), "convert trained.mag x.aero --cast nosuch=f16");
    assert_eq!(nothing.status, 1);
    assert!(nothing.stderr.contains("--cast nosuch: no tensor has a matching name"), "{}", nothing.stderr);
}

#[test]
fn unsupported_items_of_one_kind_are_one_line_and_filters_say_what_they_leave_out() {
    let folder = folder_with("trained.mag");
    modelfmt_in(folder.path(), "convert trained.mag wide.safetensors --lossy --cast f64").ok();
    let run = modelfmt_in(folder.path(), "convert wide.safetensors out.mag");
    assert_eq!(run.status, 1);
    let lines: Vec<&str> =
        run.stderr.lines().filter(|line| line.contains("safetensors's f64 is not in mag")).collect();
    assert_eq!(lines.len(), 1, "{}", run.stderr);
    assert!(lines[0].contains(" tensors: safetensors's f64 is not in mag (--cast f32): \""), "{}", lines[0]);
    fs::copy(testdata("safetensors/names.safetensors"), folder.path().join("names.safetensors")).unwrap();
    let error = modelfmt_in(folder.path(), "convert names.safetensors out.oinf");
    let lines: Vec<&str> = error.stderr.lines().filter(|line| line.contains("names of oinf have")).collect();
    assert_eq!(lines.len(), 1, "{}", error.stderr);
    assert!(lines[0].starts_with("caused by: 11 tensors: "), "{}", lines[0]);
    let run = modelfmt_in(folder.path(), "convert trained.mag some.mag --include fc1.*");
    assert!(run.stderr.contains("note: --include leaves out "), "{}", run.stderr);
}

#[test]
fn patterns_that_exclude_nothing_and_tensors_without_data_are_noted() {
    let folder = folder_with("simple_model.oinf");
    let run = modelfmt_in(folder.path(), "convert simple_model.oinf a.aero --exclude nosuch.* --exclude x");
    assert!(run.stderr.contains("note: --exclude leaves out 1 of 5 tensors\n"), "{}", run.stderr);
    assert!(
        run.stderr.contains("note: --exclude nosuch.*: no tensor has a matching name\n"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("--exclude x:"), "{}", run.stderr);
    let kept = "note: aero has no tensors without data; they are stored in its metadata, for a conversion back: \"y\"\n";
    assert!(run.stderr.contains(kept), "{}", run.stderr);
    let run = modelfmt_in(folder.path(), "convert simple_model.oinf b.aero --exclude y");
    assert!(!run.stderr.contains("without data"), "{}", run.stderr);
    // A pattern that names a tensor which --include has already left out still matches.
    let run = modelfmt_in(folder.path(), "convert simple_model.oinf c.aero --include W.* --exclude x");
    assert!(!run.stderr.contains("no tensor has a matching name"), "{}", run.stderr);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

#[test]
fn blocks_that_the_target_lacks_can_be_decoded() {
    let path = testdata("gguf/types.gguf");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.mag");
    let run = modelfmt(["convert".as_ref(), path.as_os_str(), out.as_os_str()]);
    let line = run.stderr.lines().find(|line| line.contains("iq2_xxs")).unwrap_or_default();
    assert_eq!(
        line, "caused by: tensor \"iq2_xxs\": gguf's iq2_xxs is not in mag (--dequantize f32)",
        "{}",
        run.stderr
    );
}

#[test]
fn no_verify_opens_a_mag_whose_checksum_is_wrong() {
    let folder = folder_with("trained.mag");
    let mut bytes = fs::read(folder.path().join("trained.mag")).unwrap();
    bytes[8] ^= 1; // of the checksum
    fs::write(folder.path().join("bad.mag"), &bytes).unwrap();
    for job in ["convert bad.mag out.mag", "extract bad.mag cube -o cube.npy"] {
        let error = modelfmt_in(folder.path(), job).error();
        assert!(error.starts_with("error: bad.mag: header, checksum at byte 8: "), "{error}");
        assert!(
            error.ends_with("the file is damaged; nothing was written. --no-verify takes values as they are"),
            "{error}"
        );
        modelfmt_in(folder.path(), &format!("{job} --no-verify")).ok();
    }
    modelfmt_in(folder.path(), "diff out.mag trained.mag").ok();
    let error = modelfmt_in(folder.path(), "show bad.mag").error();
    assert!(error.ends_with("the file is damaged"), "{error}");
    // The option does not help if more than the checksum is wrong.
    fs::write(folder.path().join("cut.mag"), &bytes[..40]).unwrap();
    let error = modelfmt_in(folder.path(), "convert cut.mag cut.aero").error();
    assert!(!error.contains("--no-verify"), "{error}");
}

#[test]
fn damage_does_not_pass() {
    let folder = folder_with("one-shard.aero");
    let mut bytes = fs::read(folder.path().join("one-shard.aero")).unwrap();
    bytes[1500] ^= 1; // of the weights
    fs::write(folder.path().join("bad.aero"), &bytes).unwrap();
    let tensor = "embed.weight";
    for job in
        ["convert bad.aero out.aero", "convert bad.aero out.aeroset.json", "convert bad.aero -  --to aero"]
    {
        let error = modelfmt_in(folder.path(), job).error();
        assert!(
            error.starts_with("error: bad.aero: WTSH chunk \"weights.shard0\" at byte 1200: "),
            "{error}"
        );
        assert!(error.ends_with("nothing was written. --no-verify takes values as they are"), "{error}");
    }
    let error = modelfmt_in(folder.path(), &format!("extract bad.aero {tensor} -o out.bin")).error();
    assert!(error.contains("WTSH chunk"), "{error}");
    let run = modelfmt_in(folder.path(), &format!("extract bad.aero {tensor} -o -"));
    assert_eq!((run.status, run.stdout.as_str()), (1, ""));
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    modelfmt_in(folder.path(), "convert bad.aero out.aero --no-verify").ok();
    modelfmt_in(folder.path(), "verify out.aero").ok();
    modelfmt_in(folder.path(), &format!("extract bad.aero {tensor} -o out.bin --no-verify")).ok();
    modelfmt_in(folder.path(), &format!("extract one-shard.aero {tensor} -o good.bin")).ok();
}

#[test]
fn weights_of_8_bits_are_multiplied_by_their_scales() {
    let folder = tempfile::tempdir().unwrap();
    let header = r#"{"w":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},"w_factor":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([0x38, 0x40, 0xb8, 0x30]); // 1, 2, -1, 0.5
    file.extend([0.5f32, 10.0].iter().flat_map(|x| x.to_le_bytes()));
    fs::write(folder.path().join("m.safetensors"), file).unwrap();
    let shown = modelfmt_in(folder.path(), "show m.safetensors w").ok();
    assert!(shown.starts_with("w: f8_e4m3[2, 2] = {\n{ 1, 2 } ,\n{ -1, 0.5 } ,\n}\n"), "{shown}");
    let run = modelfmt_in(folder.path(), "convert m.safetensors out.aero --dequantize bf16");
    assert_eq!(run.status, 1);
    let why = "tensor \"w\": no scales for this f8_e4m3 are known; if it has none, cast it instead (--scale WEIGHT=SCALE)";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    let command = "convert m.safetensors out.aero --dequantize bf16 --scale *=*_factor";
    let run = modelfmt_in(folder.path(), command);
    assert!(
        run.stderr.contains("note: 1 tensor of scales left out: weights are multiplied by them\n"),
        "{}",
        run.stderr
    );
    let shown = modelfmt_in(folder.path(), "show out.aero w").ok();
    assert!(shown.starts_with("w: bf16[2, 2] = {\n{ 0.5, 1 } ,\n{ -10, 5 } ,\n}\n"), "{shown}");
    let run = modelfmt_in(folder.path(), "convert m.safetensors b.aero --dequantize bf16 --scale w");
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("give WEIGHT=SCALE, the names of two tensors"), "{}", run.stderr);
    let run = modelfmt_in(folder.path(), "convert m.safetensors b.aero --scale w=w_factor");
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--scale: it is used only when weights are dequantized"), "{}", run.stderr);
}

#[test]
fn a_preset_gives_each_tensor_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let header = r#"{"lm_head.weight":{"dtype":"F32","shape":[2,256],"data_offsets":[0,2048]},"model.layers.0.mlp.up_proj.weight":{"dtype":"F32","shape":[2,256],"data_offsets":[2048,4096]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([0; 4096]);
    fs::write(folder.path().join("m.safetensors"), file).unwrap();
    let run = modelfmt_in(folder.path(), "convert m.safetensors out.aero --quantize Q4_K_M");
    assert!(run.stderr.contains("wrote out.aero: 2 tensors (1 became q4_k, 1 q6_k), "), "{}", run.stderr);
    let run = modelfmt_in(folder.path(), "convert m.safetensors b.aero --quantize q4_k_l");
    assert_eq!(run.status, 2);
    assert!(
        run.stderr.contains("and the presets q2_k_s q3_k_s q3_k_m q3_k_l q4_k_s q4_k_m q5_k_s q5_k_m"),
        "{}",
        run.stderr
    );
    let run = modelfmt_in(folder.path(), "convert m.safetensors b.aero --quantize lm*=q4_k_m");
    assert!(run.stderr.contains("wrote b.aero: 2 tensors (1 became q6_k), "), "{}", run.stderr);
}

#[test]
fn several_models_become_one() {
    let folder = folder_with("trained.mag");
    let run = |args: &str| modelfmt_in(folder.path(), args);
    run("convert trained.mag a.mag --include fc1.* -q").ok();
    run("convert trained.mag b.aero --exclude fc1.* -q").ok();
    run("convert a.mag b.aero both.mag").ok();
    assert_eq!(run("diff trained.mag both.mag").ok(), "same tensors, same values, same metadata\n");
    let error = run("convert a.mag b.aero trained.mag all.mag").error();
    assert_eq!(
        error,
        "error: trained.mag: tensor \"steps\" (and 5 more) is in b.aero too, and a model cannot have two tensors with one name; \
         rename one of them"
    );
    assert!(!folder.path().join("all.mag").exists());
    // No input is replaced, not even the last one.
    let error = run("convert a.mag b.aero b.aero --force").error();
    assert!(error.contains("b.aero"), "{error}");
    for wrong in ["convert a.mag", "convert - - out.mag", "convert a.mag b.aero o.mag --pin aero:00"] {
        assert_eq!(run(wrong).status, 2, "{wrong}");
    }
}

#[test]
fn a_dry_run_ends_as_the_real_run_would() {
    let folder = folder_with("trained.mag");
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let count = || fs::read_dir(&folder).unwrap().count();
    let said = run("convert trained.mag m.aero --dry-run --dedupe --rename fc1.*=fc.* --exclude cube");
    assert!(said.stdout.starts_with("would write m.aero: 5 tensors, "), "{}", said.stdout);
    assert!(said.stderr.contains("note: --rename gives 2 tensors another name\n"), "{}", said.stderr);
    assert!(said.stderr.contains("note: --exclude leaves out 1 of 6 tensors\n"), "{}", said.stderr);
    assert_eq!((said.status, count()), (0, 1));
    let error = run("convert trained.mag m.safetensors --dry-run").error();
    assert!(error.contains("does not fit safetensors"), "{error}");
    let said = run("convert trained.mag m.safetensors --dry-run --lossy");
    assert_eq!(said.stderr.matches("warning: would drop metadata key").count(), 3, "{}", said.stderr);
    assert!(
        said.stdout.starts_with(
            "would write m.safetensors: 6 tensors, 939 B\n\ntensors\n   steps       i32   [6]\n"
        ),
        "{}",
        said.stdout
    );
    let error = run("convert trained.mag none/m.aero --dry-run").error();
    assert!(error.contains("its folder does not exist"), "{error}");
    assert_eq!(run("convert trained.mag - --to aero --dry-run").status, 0);
    assert_eq!(count(), 1);
    run("convert trained.mag m.aero -q").ok();
    let error = run("convert trained.mag m.aero --dry-run").error();
    assert!(error.contains("exists already; --force"), "{error}");
}

#[test]
fn a_program_gets_an_object() {
    let folder = folder_with("trained.mag");
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let done = run("convert trained.mag m.safetensors --lossy --json --threads 1");
    assert_eq!(done.stderr, "");
    let done = done.json();
    let size = fs::metadata(folder.path().join("m.safetensors")).unwrap().len();
    assert_eq!(done["files"], serde_json::json!([{"path": "m.safetensors", "size": size}]));
    assert_eq!(done["dropped"].as_array().unwrap().len(), 3);
    assert_eq!(done["dropped"][0]["what"], "metadata key \"lr\"");
    let dry = run("convert trained.mag n.safetensors --lossy --json --dry-run").json();
    assert_eq!((&dry["dry_run"], &dry["size"], &dry["notes"]), (&true.into(), &size.into(), &done["notes"]));
    let failed = run("convert trained.mag o.safetensors --json");
    assert_eq!((failed.status, failed.stdout.as_str()), (1, ""));
    let error: serde_json::Value = serde_json::from_str(&failed.stderr).unwrap();
    assert_eq!((&error["code"], error["caused_by"].as_array().unwrap().len()), (&"unsupported".into(), 3));
    for wrong in ["convert trained.mag - --to aero --json", "convert trained.mag o.aero --threads 0"] {
        assert_eq!(run(wrong).status, 2, "{wrong}");
    }
}

/// Values that a cast does not keep are reported on one line, with their share.
#[test]
fn tensors_with_values_beyond_the_range_of_their_type_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let large = [1e6f32, 1.0];
    let write = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("w{n}")).collect();
        let tensors = names.iter().map(|name| (name.as_str(), modelfmt::View::new(&large, [2]).unwrap()));
        modelfmt::save(folder.path().join(name), tensors, &modelfmt::Object::default()).unwrap();
    };
    let warnings = |run: crate::common::Run| {
        assert_eq!(run.status, 0, "{}", run.stderr);
        let lines = run.stderr.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    write("few.safetensors", 3);
    write("many.safetensors", 12);
    let few = warnings(modelfmt_in(folder.path(), "convert few.safetensors a.safetensors --cast f16"));
    let line = r#"warning: of the values of 3 tensors as f16 50 % became infinite: "w0", "w1", "w2""#;
    assert_eq!(few, [line]);
    let many =
        warnings(modelfmt_in(folder.path(), "convert many.safetensors b.safetensors --cast i8 --quiet"));
    let line = r#"warning: of the values of 12 tensors as i8 50 % became the smallest or largest: "w0", "w1", "w2" and 9 more"#;
    assert_eq!(many, [line]);
    let listed =
        modelfmt_in(folder.path(), "convert many.safetensors c.safetensors --cast f16 --json").json();
    assert_eq!(listed["clipped"].as_array().unwrap().len(), 12);
    let one = warnings(modelfmt_in(folder.path(), "extract few.safetensors w1 -o w1.npy --cast f16"));
    assert!(one.len() == 1 && one[0].contains("\"w1\""), "{one:?}");
}

/// Rules from several options form one list.
#[test]
fn rules_of_types_count_in_the_order_of_the_command_line() {
    let folder = folder_with("trained.mag");
    let run = |options: &str| {
        modelfmt_in(folder.path(), &format!("convert trained.mag out.aero --force {options}"))
    };
    let one = run("--quantize f16 --cast fc1.weight=f64");
    assert!(one.stderr.contains("wrote out.aero: 6 tensors (2 became f16, 1 f64), "), "{}", one.stderr);
    let other = run("--cast fc1.weight=f64 --quantize f16");
    let warning = "warning: --cast 'fc1.weight=f64' has no effect, because a later rule decides the 1 tensor that it is for; \
                   the order that works, general rules first: --quantize f16 --cast 'fc1.weight=f64'\n";
    assert!(other.stderr.contains(warning), "{}", other.stderr);
    assert!(other.stderr.contains("(3 became f16), "), "{}", other.stderr);
    let dry = run("--cast f16 --dry-run").ok();
    assert!(dry.starts_with("would write out.aero: 6 tensors (3 would become f16), "), "{dry}");
    assert!(dry.contains("\n   fc1.weight  f16   [4, 4]     cast f16\n"), "{dry}");
    let json = run("--cast fc1.weight=f64 --cast bf16 --json").json();
    let changed = serde_json::json!({"tensor": "fc1.weight", "from": "f32", "to": "bf16"});
    assert!(json["changed"].as_array().unwrap().contains(&changed), "{}", json["changed"]);
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
    for (options, status, why) in [
        ("--cast q4_k", 2, "error: --cast: values cannot be cast to q4_k; "),
        ("--cast q4_k", 2, "use --quantize q4_k"),
        ("--cast *=q4_k_m", 2, "use --quantize q4_k_m"),
        ("--quantize i8", 2, "use --cast i8"),
        (
            "--dequantize f32",
            1,
            "error: trained.mag: --dequantize f32: finds nothing to act on: no tensor is quantized",
        ),
        ("--cast steps=f32 --quantize *=q8_0", 1, "\"*=q8_0\" cannot quantize it"),
    ] {
        let run = run(options);
        assert_eq!(run.status, status, "{options}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{options}: {}", run.stderr);
    }
}

/// Options may come before, between and after the arguments, and a path may begin with a hyphen.
#[test]
fn options_stand_anywhere() {
    let folder = folder_with("trained.mag");
    fs::copy(folder.path().join("trained.mag"), folder.path().join("two.mag")).unwrap();
    modelfmt_in(folder.path(), "keygen --type x25519 -o me.key").ok();
    modelfmt_in(folder.path(), "keygen --type p256 -o sign.key").ok();
    for (command, arguments, option) in [
        ("inspect", &["trained.mag", "two.mag"][..], "--summary"),
        ("show", &["trained.mag", "steps", "mask"], "--json"),
        ("check", &["trained.mag", "two.mag"], "--threads=1"),
        ("verify", &["trained.mag", "two.mag"], "--level=control"),
        ("convert", &["trained.mag", "out.aero"], "--force"),
        (
            "convert",
            &["trained.mag", "out.aero"],
            "--force --cast f16 --uuid 00000000000000000000000000000000",
        ),
        ("extract", &["trained.mag", "steps", "mask"], "-o out.npz --force"),
        ("diff", &["trained.mag", "two.mag"], "--norms"),
        ("edit", &["two.mag"], "--set epoch=4"),
        ("plan", &["trained.mag", "steps", "mask"], "--json"),
        ("outboard", &["trained.mag"], "--force"),
        ("sign", &["trained.mag"], "--key sign.key --force"),
        ("seal", &["trained.mag", "sealed.apr"], "--widen --force --to-recipient me.key.pub"),
        ("unseal", &["sealed.apr", "plain.apr"], "--identity me.key --force"),
    ] {
        for place in 0..=arguments.len() {
            let (before, after) = arguments.split_at(place);
            let line = format!("{command} {} {option} {}", before.join(" "), after.join(" "));
            let run = modelfmt_in(folder.path(), &line);
            assert_eq!(run.status, 0, "{line}: {}", run.stderr);
        }
    }
    modelfmt_in(folder.path(), "convert --lossy -- trained.mag -x.safetensors").ok();
    modelfmt_in(folder.path(), "convert -- -x.safetensors two.aero").ok();
    let one = modelfmt_in(folder.path(), "convert trained.mag --force");
    assert_eq!(one.status, 2);
    assert!(one.stderr.contains("give IN, the model to read, and OUT"), "{}", one.stderr);
}

#[test]
fn what_is_excluded_may_be_in_two_of_the_models() {
    let folder = folder_with("trained.mag");
    let run = |options: &str| {
        modelfmt_in(folder.path(), &format!("convert trained.mag other.mag both.aero {options}"))
    };
    modelfmt_in(folder.path(), "convert trained.mag other.mag --include {mask,steps} --rename steps=more")
        .ok();
    assert!(run("").error().contains("other.mag: tensor \"mask\" is in trained.mag too"));
    let done = run("--exclude mask");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("note: --exclude leaves out 2 of 8 tensors\n"), "{}", done.stderr);
}

/// Warnings of one kind are one line, however many keys are dropped.
#[test]
fn what_is_dropped_is_a_line_for_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let metadata: modelfmt::Object = (0..500).map(|n| (format!("key{n}"), "text")).collect();
    let tensors = [("w", modelfmt::View::new(&[1.0f32], [1]).unwrap())];
    modelfmt::save(folder.path().join("m.safetensors"), tensors, &metadata).unwrap();
    let run = modelfmt_in(folder.path(), "convert m.safetensors m.mag --lossy --quiet");
    let line = "warning: dropped 500 metadata keys: mag holds integers below 2^63 and floats, not a string: \
                \"key0\", \"key1\", \"key2\" and 497 more\n";
    assert_eq!((run.status, &*run.stderr), (0, line));
}

/// Sets with a given number of files have no more files than that or than there are tensors, and the files
/// are about equally large.
#[test]
fn a_number_of_files_is_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = vec![1.0_f32; 1500];
    let tensors: Vec<(String, usize)> = (0..40).map(|n| (format!("t{n}"), 1000 + 70 * (n % 7))).collect();
    let views = tensors
        .iter()
        .map(|(name, len)| (name.as_str(), modelfmt::View::new(&numbers[..*len], [*len as u64]).unwrap()));
    let keys = ["model_name", "architecture", "model_type"].map(|key| (key, modelfmt::Value::from("m")));
    modelfmt::save(folder.path().join("m.safetensors"), views, &modelfmt::Object::from_iter(keys)).unwrap();
    let run = |args: &str| modelfmt_in(folder.path(), args);
    let names = ["out/m.safetensors", "out/m.gguf", "out/m.apr", "out/m.aeroset.json"];
    for (name, number) in names.iter().flat_map(|name| [1, 2, 7, 40, 1000].map(|number| (name, number))) {
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        run(&format!("convert m.safetensors {name} --shards {number} --quiet")).ok();
        let files = fs::read_dir(&out).unwrap().map(Result::unwrap);
        let parts = files.filter(|file| {
            let name = file.file_name();
            // The index of an AEROSET is also an AERO; the others are JSON, even that of APR2.
            !["m.apr", "m.aeroset.json", "m.index.aero"].iter().any(|index| name == *index)
                && !name.to_str().unwrap().ends_with(".index.json")
        });
        let sizes: Vec<u64> = parts.map(|file| file.metadata().unwrap().len()).collect();
        let expected = number.min(40);
        assert_eq!(sizes.len(), expected, "{name} {number}: {sizes:?}");
        let most = *sizes.iter().max().unwrap() as f64;
        let average = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        assert!(most < 1.5 * average, "{name} {number}: {sizes:?}");
        let index = fs::read_dir(&out).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
        assert!(!index.is_empty());
        let whole = run("diff m.safetensors out --ignore-metadata");
        assert_eq!((whole.status, &*whole.stderr), (0, ""), "{name} {number}");
        fs::remove_dir_all(&out).unwrap();
    }
    fs::create_dir(folder.path().join("out")).unwrap();
    for (args, why) in [
        ("out/m.aero --shards 2", "--shards: aero does not have this option; it is for aeroset, apr2"),
        ("out/m.mag --shards 2", "--shards: mag does not have this option"),
        ("out/m.gguf --shards 0", "not a number from 1 to 4294967295"),
        ("out/m.gguf --shards 2 --shard-size 1000", "cannot be used with"),
    ] {
        let failed = run(&format!("convert m.safetensors {args}"));
        assert!(failed.status == 2 && failed.stderr.contains(why), "{}", failed.stderr);
    }
    let dry = run("convert m.safetensors out/m.safetensors --shards 3 --dry-run --quiet");
    assert_eq!(
        (dry.status, fs::read_dir(folder.path().join("out")).unwrap().count()),
        (0, 0),
        "{}",
        dry.stderr
    );
}

/// If no disk has room for the output, this is reported before values are read: how much is needed, and
/// where.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_known_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let nbytes = 1_u64 << 43; // 8 TiB of zeros, which take no room
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{nbytes}]}}}}"#, nbytes / 4);
    let path = folder.path().join("sparse.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    if let Err(error) = file.set_len(8 + header.len() as u64 + nbytes) {
        eprintln!("skipped: no file here can have 8 TiB: {error}");
        return;
    }
    for command in [
        "convert sparse.safetensors out.aero",
        "convert sparse.safetensors out.aero --dry-run",
        "convert sparse.safetensors out.gguf --map none",
        "convert sparse.safetensors out.aeroset.json --shard-size 1000GB",
    ] {
        let run = modelfmt_in(folder.path(), command);
        assert_eq!(run.status, 1, "{command}: {}", run.stderr);
        let said = "cannot be written: it takes 8796093022208 bytes or more, and there is room for ";
        assert!(run.stderr.contains(said), "{command}: {}", run.stderr);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{command}");
    }
}
