//! Policies: every file is judged, whichever command reads it and by whichever path. Each refusal has an
//! allowed counterpart, with the same command and the same policy.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is test code")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use modelfmt_keys::{KeyType, PrivateKey};

use crate::common::{Run, command, modelfmt, program};

/// Commands that read files: `{}` in the arguments is `good` or `evil`, and only the former is allowed.
const READERS: &[(&str, &[&str])] = &[
    ("inspect", &["inspect", "{}/m.safetensors"]),
    ("inspect", &["inspect", "--hash", "good/m.safetensors", "{}/m.safetensors"]),
    ("inspect", &["inspect", "{}/index.safetensors.index.json"]),
    ("show", &["show", "{}/m.safetensors"]),
    ("check", &["check", "{}/m.safetensors"]),
    ("verify", &["verify", "{}/m.safetensors"]),
    ("verify", &["verify", "-r", "{}"]),
    ("verify", &["verify", "-r", "{}", "--resume", "done.jsonl"]),
    ("verify", &["verify", "{}/other.safetensors", "--key", "key.pub"]),
    ("verify", &["verify", "{}/signed", "--key", "key.pub"]),
    ("convert", &["convert", "{}/m.safetensors", "out.aero"]),
    ("convert", &["convert", "{}/m.safetensors", "out.aero", "--dry-run"]),
    ("convert", &["convert", "{}/m.safetensors", "good/other.safetensors", "out.aero"]),
    ("convert", &["convert", "good/other.safetensors", "{}/m.safetensors", "out.aero"]),
    ("convert", &["convert", "-r", "{}/sub", "out", "--to", "mag"]),
    ("convert", &["convert", "good/m.safetensors", "out.safetensors", "--lora", "{}/adapter"]),
    ("convert", &["convert", "good/hub", "out.gguf", "--lora", "{}/adapter"]),
    ("convert", &["convert", "good/adapter", "out.gguf", "--base", "{}/hub"]),
    (
        "convert",
        &["convert", "good/wide.safetensors", "out.gguf", "--quantize", "q4_k", "--imatrix", "{}/im.dat"],
    ),
    ("convert", &["convert", "good/hub", "out.gguf", "--map", "{}/map.toml"]),
    ("convert", &["convert", "good/m.safetensors", "out.aero", "--metadata", "{}/meta.json"]),
    ("extract", &["extract", "{}/m.safetensors", "w", "-o", "out.bin"]),
    ("diff", &["diff", "{}/m.safetensors", "good/m.safetensors"]),
    ("diff", &["diff", "good/m.safetensors", "{}/m.safetensors"]),
    ("prove", &["prove", "{}/m.safetensors", "good/m.safetensors"]),
    ("prove", &["prove", "good/m.safetensors", "{}/m.safetensors"]),
    ("prove", &["prove", "good/m.safetensors", "good/m.safetensors", "--lora", "{}/zero"]),
    ("prove", &["prove", "good/wide.safetensors", "good/wide.safetensors", "--imatrix", "{}/im.dat"]),
    ("bom", &["bom", "{}/m.safetensors"]),
    ("bom", &["bom", "good/m.safetensors", "{}/m.safetensors"]),
    ("bom", &["bom", "{}/index.safetensors.index.json", "--tensors"]),
    ("bom", &["bom", "{}/hub", "-o", "out.json"]),
    ("report", &["report", "{}/m.safetensors", "-o", "out.html"]),
    ("report", &["report", "good/m.safetensors", "{}/m.safetensors", "-o", "out.html"]),
    ("edit", &["edit", "{}/m.safetensors", "--set", "a=b"]),
    ("edit", &["edit", "{}/m.safetensors", "--set", "a=b", "-o", "out.safetensors"]),
    ("edit", &["edit", "{}/m.safetensors", "--set", "a=b", "--dry-run"]),
    ("edit", &["edit", "good/m.safetensors", "--metadata", "{}/meta.json", "--dry-run"]),
    ("edit", &["edit", "{}/index.safetensors.index.json", "--set", "a=b"]),
    ("edit", &["edit", "{}/m.safetensors", "--set", "a=b", "--sign", "key"]),
    ("edit", &["edit", "{}/s.apr", "--set", "a=b", "--sign", "inside"]),
    ("plan", &["plan", "{}/m.safetensors"]),
    ("outboard", &["outboard", "{}/m.safetensors"]),
    ("sign", &["sign", "{}/m.safetensors", "--key", "key"]),
    ("sign", &["sign", "{}/sub", "--key", "key"]),
    ("sign", &["sign", "{}/s.apr", "--key", "inside"]),
    (
        "seal",
        &[
            "seal",
            "{}/m.safetensors",
            "out.apr",
            "--to-recipient",
            "reader.pub",
            "--model-name",
            "m",
            "--model-type",
            "t",
            "--architecture",
            "a",
        ],
    ),
    ("seal", &["seal", "{}/sealed.apr", "--rekey", "--identity", "reader", "--to-recipient", "reader.pub"]),
    ("unseal", &["unseal", "{}/sealed.apr", "out.aero", "--identity", "reader"]),
];

/// Commands that read no model.
const OTHERS: &[&str] = &["keygen", "completions", "man", "help"];

/// A working folder with models in `good` and in `evil`.
struct Place(tempfile::TempDir);

/// Returns a safetensors file with tensors of f32.
fn safetensors(tensors: &[(&str, &[u64], f32)]) -> Vec<u8> {
    let (mut header, mut values) = (Vec::new(), Vec::new());
    for (name, shape, value) in tensors {
        let count: u64 = shape.iter().product();
        let begin = values.len();
        (0..count).for_each(|at| values.extend_from_slice(&(value * (at % 7 + 1) as f32).to_le_bytes()));
        header.push(format!(
            r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{begin},{}]}}"#,
            values.len()
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat()
}

const Q: &str = "model.layers.0.self_attn.q_proj";

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, key_type, seed) in [
            ("key", KeyType::P256, 7),
            ("other", KeyType::P256, 8),
            ("inside", KeyType::Ed25519, 7),
            ("second", KeyType::Ed25519, 8),
            ("reader", KeyType::X25519, 7),
        ] {
            let key = PrivateKey::from_bytes(key_type, &[seed; 32]).unwrap();
            place.write(name, key.to_pem().unwrap().as_bytes());
            place.write(&format!("{name}.pub"), key.public().to_pem().as_bytes());
        }
        for side in ["good", "evil"] {
            place.models(side);
        }
        place.policy("match = [\"ROOT/good/**\"]");
        place
    }

    fn models(&self, side: &str) {
        let weight = format!("{Q}.weight");
        let model = safetensors(&[("w", &[4, 8], 1.0), (&weight, &[8, 8], 1.0)]);
        let write = |name: &str, bytes: &[u8]| self.write(&format!("{side}/{name}"), bytes);
        write("m.safetensors", &model);
        write("sub/m.safetensors", &safetensors(&[("w", &[4, 8], 1.0)]));
        write("signed/m.safetensors", &safetensors(&[("w", &[4, 8], 1.0)]));
        write("other.safetensors", &safetensors(&[("v", &[4, 8], 2.0)]));
        write("wide.safetensors", &safetensors(&[("blk.0.attn_q.weight", &[2, 256], 1.0)]));
        write("part.safetensors", &safetensors(&[("w", &[4, 8], 1.0)]));
        write(
            "index.safetensors.index.json",
            br#"{"metadata":{"total_size":128},"weight_map":{"w":"part.safetensors"}}"#,
        );
        let mut matrix = 1_i32.to_le_bytes().to_vec();
        let name = "blk.0.attn_q.weight";
        matrix.extend(u32::try_from(name.len()).unwrap().to_le_bytes());
        matrix.extend(name.as_bytes());
        matrix.extend([1_i32, 256].iter().flat_map(|number| number.to_le_bytes()));
        (0..256).for_each(|at| matrix.extend((1.0 + at as f32).to_le_bytes()));
        write("im.dat", &matrix);
        write("map.toml", include_bytes!("../../../modelfmt-hub/maps/llama.toml"));
        write("meta.json", br#"{"model_name": "m", "architecture": "a"}"#);
        for (folder, value) in [("adapter", 1.0), ("zero", 0.0)] {
            let [a, b] = ["A", "B"].map(|side| format!("base_model.model.{Q}.lora_{side}.weight"));
            write(
                &format!("{folder}/adapter_model.safetensors"),
                &safetensors(&[(&a, &[2, 8], value), (&b, &[8, 2], value)]),
            );
            write(
                &format!("{folder}/adapter_config.json"),
                br#"{"peft_type":"LORA","r":2,"lora_alpha":2,"base_model_name_or_path":"org/none"}"#,
            );
        }
        self.hub(side);
        for args in [
            format!("sign {side}/signed --key key"),
            format!("sign {side}/other.safetensors --key key"),
            format!(
                "convert {side}/m.safetensors {side}/s.apr --sign inside --revision 5 --model-name m --model-type t --architecture a"
            ),
            format!(
                "seal {side}/m.safetensors {side}/sealed.apr --to-recipient reader.pub --model-name m --model-type t --architecture a"
            ),
        ] {
            self.run(&args.split(' ').collect::<Vec<_>>()).ok();
        }
    }

    /// Writes a Llama with one layer.
    fn hub(&self, side: &str) {
        self.write(
            &format!("{side}/hub/config.json"),
            br#"{"model_type":"llama","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,
                "intermediate_size":8,"vocab_size":5,"max_position_embeddings":16,"rms_norm_eps":1e-5,"rope_theta":10000.0}"#,
        );
        let layer = |name: &str| format!("model.layers.0.{name}.weight");
        let squares = [
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ];
        let norms = ["input_layernorm", "post_attention_layernorm"];
        let names: Vec<(String, &[u64])> = squares
            .iter()
            .map(|name| (layer(name), &[8_u64, 8][..]))
            .chain(norms.iter().map(|name| (layer(name), &[8_u64][..])))
            .collect();
        let mut tensors: Vec<(&str, &[u64], f32)> =
            names.iter().map(|(name, shape)| (name.as_str(), *shape, 1.0)).collect();
        tensors.extend([
            ("model.embed_tokens.weight", &[5, 8][..], 1.0),
            ("model.norm.weight", &[8][..], 1.0),
            ("lm_head.weight", &[5, 8][..], 2.0),
        ]);
        self.write(&format!("{side}/hub/model.safetensors"), &safetensors(&tensors));
    }

    fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Writes a policy with one rule, in which ROOT is this folder.
    fn policy(&self, rule: &str) {
        self.whole(&format!("[[rule]]\n{rule}"));
    }

    fn whole(&self, text: &str) {
        self.write("policy.toml", text.replace("ROOT", &self.root().display().to_string()).as_bytes());
    }

    /// Runs the program without a policy.
    fn run(&self, args: &[&str]) -> Run {
        crate::common::run(command(program()).current_dir(self.root()).args(args))
    }

    fn judged(&self, args: &[&str]) -> Run {
        self.run(&[args, &["--policy", "policy.toml"]].concat())
    }

    #[track_caller]
    fn allows(&self, args: &[&str]) {
        let run = self.judged(args);
        assert_eq!(run.status, 0, "{args:?}\n{}{}", run.stdout, run.stderr);
    }

    /// Returns the error about a file that is refused.
    #[track_caller]
    fn refuses(&self, args: &[&str]) -> String {
        let run = self.judged(args);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.status, 1, "{args:?}\n{said}");
        assert!(said.contains("policy"), "{args:?}\n{said}");
        said
    }
}

#[test]
fn every_command_that_reads_obeys() {
    for (_, args) in READERS {
        for side in ["good", "evil"] {
            let place = Place::new();
            let args: Vec<String> = args.iter().map(|arg| arg.replace("{}", side)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            if side == "good" {
                place.allows(&args);
            } else {
                if args.contains(&"--resume") {
                    place.run(&args).ok(); // it was ok before
                }
                place.refuses(&args);
                let written = fs::read_dir(place.root()).unwrap().map(|entry| entry.unwrap().file_name());
                let outputs: Vec<_> =
                    written.filter(|name| name.to_string_lossy().starts_with("out.")).collect();
                assert!(outputs.is_empty(), "{args:?}: {outputs:?}");
            }
        }
    }
}

#[test]
fn no_command_is_missing_in_the_table() {
    let help = modelfmt(["--help"]).ok();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A continuation line is indented further.
    let commands = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: BTreeSet<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    let known = READERS.iter().map(|(command, _)| *command).chain(OTHERS.iter().copied()).chain(["fetch"]);
    assert_eq!(commands.difference(&known.collect()).collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(commands.len() > 15, "{help}");
}

#[test]
fn a_path_is_judged_where_it_leads() {
    let place = Place::new();
    let root = place.root();
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(root.join(to), root.join(from)).unwrap();
    link("good/to-evil.safetensors", "evil/m.safetensors");
    link("good/folder", "evil");
    link("evil/to-good.safetensors", "good/m.safetensors");
    link("good/part-evil.safetensors", "evil/part.safetensors");
    link("evil/part-good.safetensors", "good/part.safetensors");
    for side in ["good", "evil"] {
        for part in ["good", "evil"] {
            let name = format!("{side}/{part}.safetensors.index.json");
            let file =
                if side == part { "part.safetensors".to_owned() } else { format!("part-{part}.safetensors") };
            place.write(
                &name,
                format!(r#"{{"metadata":{{"total_size":128}},"weight_map":{{"w":"{file}"}}}}"#).as_bytes(),
            );
        }
    }
    let absolute = |name: &str| root.join(name).display().to_string();
    for (path, is_allowed) in [
        ("good/m.safetensors".to_owned(), true),
        ("evil/m.safetensors".to_owned(), false),
        (absolute("good/m.safetensors"), true),
        (absolute("evil/m.safetensors"), false),
        ("evil/../good/m.safetensors".to_owned(), true),
        ("good/../evil/m.safetensors".to_owned(), false),
        ("good/sub/../../evil/m.safetensors".to_owned(), false),
        ("evil/to-good.safetensors".to_owned(), true),
        ("good/to-evil.safetensors".to_owned(), false),
        ("good/folder/m.safetensors".to_owned(), false),
        (format!("file://{}", absolute("good/m.safetensors")), true),
        (format!("file://{}", absolute("evil/m.safetensors")), false),
        (format!("file://{}", absolute("good/%2e%2e/evil/m.safetensors")), false),
        ("good/sub".to_owned(), true),
        ("evil/sub".to_owned(), false),
        ("good/good.safetensors.index.json".to_owned(), true),
        ("good/evil.safetensors.index.json".to_owned(), false),
        ("evil/good.safetensors.index.json".to_owned(), false),
    ] {
        let args = ["inspect", "--hash", &path];
        if is_allowed { place.allows(&args) } else { drop(place.refuses(&args)) }
    }
}

#[test]
fn standard_input_takes_the_default() {
    let place = Place::new();
    let inspect = |script: &str| {
        let script = script.replace("PROGRAM", program());
        crate::common::run(command("sh").current_dir(place.root()).args(["-c", &script]))
    };
    for (default, status) in [("", 1), ("default = \"refuse\"\n", 1), ("default = \"allow\"\n", 0)] {
        place.whole(&format!("{default}[[rule]]\nmatch = [\"**\"]"));
        for script in [
            "PROGRAM inspect - --policy policy.toml < good/m.safetensors",
            "PROGRAM inspect /dev/stdin --policy policy.toml < good/m.safetensors",
            "cat good/m.safetensors | PROGRAM inspect - --policy policy.toml",
        ] {
            assert_eq!(inspect(script).status, status, "{default}{script}");
        }
    }
    // The default also applies to files that no rule matches.
    place.whole("default = \"allow\"\n[[rule]]\nmatch = [\"ROOT/evil/**\"]\nformats = [\"gguf\"]");
    place.allows(&["inspect", "good/m.safetensors"]);
    place.refuses(&["inspect", "evil/m.safetensors"]);
}

#[test]
fn the_first_rule_counts() {
    let place = Place::new();
    let rule = |pattern: &str, rest: &str| format!("[[rule]]\nmatch = [\"ROOT/good/{pattern}\"]\n{rest}\n");
    place.whole(&(rule("m.*", "formats = [\"gguf\"]") + &rule("**", "")));
    let said = place.refuses(&["inspect", "good/m.safetensors"]);
    assert!(
        said.contains("rule 1 (") && said.contains("/good/m.*") && said.contains("policy.toml"),
        "{said}"
    );
    assert!(said.contains("it is safetensors, and the rule opens only gguf"), "{said}");
    place.allows(&["inspect", "good/other.safetensors"]);
    place.whole(&(rule("**", "") + &rule("m.*", "formats = [\"gguf\"]")));
    place.allows(&["inspect", "good/m.safetensors"]);
    // A single star does not match subfolders.
    place.whole(&rule("*", ""));
    place.allows(&["inspect", "good/m.safetensors"]);
    place.refuses(&["inspect", "good/sub/m.safetensors"]);
}

#[test]
fn what_a_rule_demands() {
    let place = Place::new();
    place.run(&["sign", "good/s.apr", "--key", "second"]).ok();
    place
        .run(&[
            "convert",
            "good/other.safetensors",
            "good/set.aeroset.json",
            "--model-name",
            "m",
            "--architecture",
            "a",
        ])
        .ok();
    fs::copy(place.root().join("inside.pub"), place.root().join("copy.pub")).unwrap();
    let b3 = |name: &str| blake3::hash(&fs::read(place.root().join(name)).unwrap()).to_hex().to_string();
    let (right, wrong) = (b3("good/m.safetensors"), b3("good/other.safetensors"));
    let pin = |hash: &str| format!("pins = {{ \"m.safetensors\" = \"b3:{hash}\" }}");
    for (rule, file, is_allowed) in [
        // Signatures next to files.
        ("keys = [\"key.pub\"]", "other.safetensors", true),
        ("keys = [\"key.pub\"]", "m.safetensors", false),
        ("keys = [\"other.pub\"]", "other.safetensors", false),
        ("keys = [\"other.pub\", \"key.pub\"]", "other.safetensors", true),
        ("keys = [\"other.pub\", \"key.pub\"]\nthreshold = 2", "other.safetensors", false),
        ("keys = [\"key.pub\"]", "signed", true),
        ("keys = [\"key.pub\"]", "signed/m.safetensors", true),
        ("keys = [\"key.pub\"]", "sub", false),
        ("keys = [\"inside.pub\"]", "other.safetensors", false),
        // Signatures inside files.
        ("keys = [\"inside.pub\"]", "s.apr", true),
        ("keys = [\"key.pub\"]", "s.apr", false),
        ("keys = [\"inside.pub\"]", "sealed.apr", false),
        ("keys = [\"inside.pub\", \"second.pub\"]\nthreshold = 2", "s.apr", true),
        ("keys = [\"inside.pub\", \"key.pub\"]\nthreshold = 2", "s.apr", false),
        ("keys = [\"inside.pub\", \"copy.pub\"]\nthreshold = 2", "s.apr", false),
        ("keys = [\"inside.pub\", \"inside.pub\"]\nthreshold = 2", "s.apr", false),
        ("keys = [\"inside.pub\", \"copy.pub\"]", "s.apr", true),
        // Revisions.
        ("min_revision = 5", "s.apr", true),
        ("min_revision = 6", "s.apr", false),
        ("keys = [\"inside.pub\"]\nmin_revision = 5", "s.apr", true),
        ("keys = [\"inside.pub\"]\nmin_revision = 6", "s.apr", false),
        ("min_revision = 0", "m.safetensors", false),
        // Formats.
        ("formats = [\"safetensors\"]", "m.safetensors", true),
        ("formats = [\"safetensors\"]", "index.safetensors.index.json", true),
        ("formats = [\"gguf\", \"apr2\"]", "m.safetensors", false),
        ("formats = [\"gguf\", \"apr2\"]", "index.safetensors.index.json", false),
        ("formats = [\"gguf\", \"apr2\"]", "s.apr", true),
        ("formats = [\"aero\"]", "set.aeroset.json", true),
        ("formats = [\"gguf\"]", "set.aeroset.json", false),
        // Pins.
        (&pin(&right), "m.safetensors", true),
        (&pin(&wrong), "m.safetensors", false),
        (&pin(&wrong), "other.safetensors", true),
        (
            &pin(&format!("{right}\", \"part.safetensors\" = \"b3:{wrong}")),
            "index.safetensors.index.json",
            false,
        ),
        (
            "pins = { \"m.safetensors\" = \"aero:0000000000000000000000000000000000000000000000000000000000000000\" }",
            "m.safetensors",
            false,
        ),
    ] {
        place.policy(&format!("match = [\"ROOT/good/**\"]\n{rule}"));
        for command in ["inspect", "verify"] {
            let path = format!("good/{file}");
            let args = [command, &path];
            let args = if command == "inspect" { &[&args[..], &["--hash"]].concat()[..] } else { &args[..] };
            let is_folder = command == "verify" && place.root().join(&path).is_dir();
            if is_folder {
                continue;
            }
            let run = place.judged(args);
            let said = format!("{rule} {args:?}\n{}{}", run.stdout, run.stderr);
            assert_eq!(run.status == 0, is_allowed, "{said}");
            assert!(is_allowed || said.contains("policy"), "{said}");
        }
    }
}

#[test]
fn a_file_that_was_changed_after_it_was_signed_is_refused() {
    let place = Place::new();
    place.policy("match = [\"ROOT/**\"]\nkeys = [\"key.pub\", \"inside.pub\"]");
    for name in ["good/other.safetensors", "good/signed/m.safetensors", "good/s.apr"] {
        place.allows(&["inspect", "--hash", name]);
        let path = place.root().join(name);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 40;
        bytes[last] ^= 1;
        fs::write(&path, bytes).unwrap();
        let run = place.judged(&["inspect", "--hash", name]);
        assert_eq!(run.status, 1, "{name}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn what_the_caller_demands_holds_as_well() {
    let place = Place::new();
    let wrong = format!("b3:{}", "0".repeat(64));
    let right =
        format!("b3:{}", blake3::hash(&fs::read(place.root().join("good/m.safetensors")).unwrap()).to_hex());
    place.policy(&format!("match = [\"ROOT/good/**\"]\npins = {{ \"m.safetensors\" = \"{right}\" }}"));
    place.allows(&["inspect", "good/m.safetensors", "--pin", &right]);
    assert_eq!(place.judged(&["inspect", "good/m.safetensors", "--pin", &wrong]).status, 1);
    place.policy("match = [\"ROOT/good/**\"]\nkeys = [\"inside.pub\", \"key.pub\"]");
    for (file, right, wrong) in
        [("s.apr", "inside.pub", "second.pub"), ("other.safetensors", "key.pub", "other.pub")]
    {
        let file = format!("good/{file}");
        place.allows(&["inspect", &file, "--key", right]);
        assert_eq!(place.judged(&["inspect", &file, "--key", wrong]).status, 1);
    }
    // The caller's key does not replace that of the rule.
    place.policy("match = [\"ROOT/good/**\"]\nkeys = [\"second.pub\", \"other.pub\"]");
    for (file, key) in [("s.apr", "inside.pub"), ("other.safetensors", "key.pub")] {
        place.refuses(&["inspect", &format!("good/{file}"), "--key", key]);
    }
    place.policy(
        "match = [\"ROOT/good/**\"]\npins = { \"m.safetensors\" = \"WRONG\" }"
            .replace("WRONG", &wrong)
            .as_str(),
    );
    place.refuses(&["inspect", "--hash", "good/m.safetensors", "--pin", &right]);
}

#[test]
fn what_is_beside_a_model_is_judged_by_itself() {
    let place = Place::new();
    let names = |place: &Place| place.judged(&["convert", "good/hub", "out.gguf", "--force"]);
    assert_eq!(names(&place).status, 0);
    // config.json has no model format, and can be pinned.
    let config = blake3::hash(&fs::read(place.root().join("good/hub/config.json")).unwrap()).to_hex();
    for (hash, status) in [(config.to_string(), 0), ("0".repeat(64), 1)] {
        place.policy(&format!("match = [\"ROOT/good/**\"]\nformats = [\"safetensors\"]\npins = {{ \"config.json\" = \"b3:{hash}\" }}"));
        assert_eq!(names(&place).status, status);
    }
    place.policy("match = [\"ROOT/good/**/*.safetensors\"]");
    let said = names(&place).error();
    assert!(said.contains("no rule matches") && said.contains("hub/config.json"), "{said}");
    // A rule with keys allows reading what the signature of the folder covers.
    place.policy("match = [\"ROOT/good/**\"]\nkeys = [\"key.pub\"]");
    place.run(&["sign", "good/hub/model.safetensors", "--key", "key"]).ok();
    assert_eq!(names(&place).status, 1, "the config is not signed");
    fs::remove_file(place.root().join("good/hub/model.safetensors.sig")).unwrap();
    place.run(&["sign", "good/hub", "--key", "key"]).ok();
    let run = names(&place);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

/// A signature by another key next to a file does not invalidate that of its folder.
#[test]
fn a_signature_by_another_key_changes_nothing() {
    let place = Place::new();
    place.policy("match = [\"ROOT/good/**\"]\nkeys = [\"key.pub\"]");
    place.allows(&["inspect", "good/signed/m.safetensors"]);
    place.run(&["sign", "good/sub/m.safetensors", "--key", "other"]).ok();
    place.run(&["sign", "good/sub", "--key", "key"]).ok();
    place.allows(&["inspect", "good/sub/m.safetensors"]);
    // Without the signature of the folder, only a signature by an untrusted key remains.
    fs::remove_file(place.root().join("good/sub/model.sig")).unwrap();
    let said = place.refuses(&["inspect", "good/sub/m.safetensors"]);
    assert!(said.contains("m.safetensors.sig"), "{said}");
}

#[test]
fn the_option_and_the_variable() {
    let place = Place::new();
    let with = |variable: Option<&str>, args: &[&str]| {
        let mut command = command(program());
        command.current_dir(place.root()).args(args);
        if let Some(path) = variable {
            command.env("MODELFMT_POLICY", path);
        }
        crate::common::run(&mut command)
    };
    place.write("all.toml", b"default = \"allow\"");
    place.write("odd.toml", b"defualt = \"allow\"");
    let evil = ["inspect", "evil/m.safetensors"];
    assert_eq!(with(None, &evil).status, 0);
    assert_eq!(with(Some("policy.toml"), &evil).status, 1);
    assert_eq!(with(Some("all.toml"), &evil).status, 0);
    assert_eq!(
        with(Some("policy.toml"), &["inspect", "evil/m.safetensors", "--policy", "all.toml"]).status,
        0
    );
    assert_eq!(
        with(Some("all.toml"), &["inspect", "evil/m.safetensors", "--policy", "policy.toml"]).status,
        1
    );
    let twice = ["--policy", "policy.toml", "inspect", "evil/m.safetensors", "--policy=all.toml"];
    assert_eq!(with(None, &twice).status, 2);
    for bad in ["", "none.toml", "odd.toml", "good"] {
        assert_eq!(with(Some(bad), &evil).status, 1, "{bad:?}");
        let status = if bad.is_empty() { 2 } else { 1 }; // an option without its value is wrong usage
        assert_eq!(with(None, &["inspect", "evil/m.safetensors", "--policy", bad]).status, status, "{bad:?}");
    }
    // Also before the command.
    assert_eq!(with(None, &["--policy", "policy.toml", "inspect", "evil/m.safetensors"]).status, 1);
    assert_eq!(with(Some(""), &["keygen", "--type", "p256", "-o", "new"]).status, 0);
}

#[cfg(feature = "remote")]
#[test]
fn urls_are_judged_as_they_are_decoded() {
    use crate::server::{Reply, Server};

    let place = Place::new();
    let bytes = fs::read(place.root().join("good/m.safetensors")).unwrap();
    let server = Server::start(move |request| {
        let path = request.target.split('?').next().unwrap();
        if path.ends_with("safetensors") { Reply::file(request, &bytes, "\"1\"") } else { Reply::status(404) }
    });
    let origin = format!("127.0.0.1:{}", server.port);
    place.policy(&format!("match = [\"http://{origin}/good/**\", \"ROOT/**\"]"));
    for (path, is_allowed) in [
        ("good/m.safetensors", true),
        ("good/a/b.safetensors", true),
        ("evil/m.safetensors", false),
        ("%67ood/m.safetensors", true),
        ("good%2Fm.safetensors", true),
        ("good/../evil/m.safetensors", false),
        ("good/%2e%2e/evil/m.safetensors", false),
        ("good/..%2fevil/m.safetensors", false),
        ("evil/..%2fgood/m.safetensors", false),
        ("good%252f/m.safetensors", false),
        ("evil/m.safetensors?/good/m.safetensors", false),
        ("evil/m.safetensors#/good/m.safetensors", false),
        ("good/m.safetensors?q=/evil/m.safetensors", true),
    ] {
        for user in ["", "good:PW@"] {
            let url = format!("http://{user}{origin}/{path}");
            let outputs = ["o1", "o2"].map(|name| place.root().join(name));
            outputs.iter().for_each(|path| drop(fs::remove_file(path)));
            for args in [
                vec!["inspect", "--no-cache", &url],
                vec!["verify", "--no-cache", &url],
                vec!["fetch", &url, "o1"],
            ] {
                let run = place.judged(&args);
                assert_eq!(run.status == 0, is_allowed, "{args:?}\n{}{}", run.stdout, run.stderr);
                assert!(!format!("{}{}", run.stdout, run.stderr).contains("PW"), "{}", run.stderr);
            }
            assert_eq!(outputs[0].exists(), is_allowed);
        }
    }
    fetched(&place, &origin);
}

/// Checks the requirements of rules for a file at a URL.
#[cfg(feature = "remote")]
fn fetched(place: &Place, origin: &str) {
    let url = format!("http://{origin}/good/m.safetensors");
    let right =
        blake3::hash(&fs::read(place.root().join("good/m.safetensors")).unwrap()).to_hex().to_string();
    let pin = |hash: &str| format!("pins = {{ \"m.safetensors\" = \"b3:{hash}\" }}");
    for (rule, is_allowed) in [
        (pin(&right), true),
        (pin(&"0".repeat(64)), false),
        ("keys = [\"key.pub\"]".to_owned(), false),
        ("formats = [\"safetensors\"]".to_owned(), false),
    ] {
        drop(fs::remove_file(place.root().join("o1")));
        place.policy(&format!("match = [\"http://{origin}/good/**\"]\n{rule}"));
        assert_eq!(place.judged(&["fetch", &url, "o1"]).status == 0, is_allowed, "{rule}");
        assert_eq!(place.root().join("o1").exists(), is_allowed, "{rule}");
    }
    for (formats, status) in [("safetensors", 0), ("gguf", 1)] {
        place.policy(&format!("match = [\"http://{origin}/good/**\"]\nformats = [\"{formats}\"]"));
        assert_eq!(place.judged(&["inspect", "--no-cache", &url]).status, status);
    }
}

/// Places in the code that open models without the options of the caller, and why a policy need not judge
/// what they read.
const OPENED_ANEW: &[(&str, &str)] = &[
    ("modelfmt-cli/src/policy.rs", "it adds the policy"),
    ("modelfmt-py/src/policy.rs", "it adds the policy"),
    ("modelfmt-edit/src/edit/set.rs", "a preview of what is open, and the open files of a set"),
    ("modelfmt-edit/src/edit/check.rs", "a preview of what is open"),
    ("modelfmt-remote/src/fetch/own_hashes.rs", "OUT, which a fetch repairs: it is judged by its URL"),
];

#[test]
fn nobody_opens_a_model_without_a_policy_by_mistake() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for name in ["convert", "edit", "inspect", "cli", "py", "remote"] {
        let folder = crates.join(format!("modelfmt-{name}/src"));
        for entry in walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap) {
            if entry.file_name() == "tests.rs"
                || entry.path().extension().is_none_or(|extension| extension != "rs")
            {
                continue;
            }
            let text = fs::read_to_string(entry.path()).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let opens = |line: &str| {
                let line = line.split("//").next().unwrap();
                [
                    "Model::open(",
                    "Model::open)",
                    "OpenOptions::new()",
                    "OpenOptions::default()",
                    "Sidecars::Folder(",
                ]
                .iter()
                .any(|call| line.contains(call))
                    && !line.contains("AsyncModel::open_")
            };
            let is_of_files = code.contains("use std::fs::{File, OpenOptions}")
                || code.contains("use std::fs::{self, File, OpenOptions");
            if code.lines().any(opens) && !is_of_files {
                found.insert(entry.path().strip_prefix(crates).unwrap().display().to_string());
            }
        }
    }
    assert_eq!(found, OPENED_ANEW.iter().map(|(path, _)| (*path).to_owned()).collect());
}
