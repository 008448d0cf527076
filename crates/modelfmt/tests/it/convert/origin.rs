//! Proofs cover everything in a file: names, old values, bytes that belong to nothing, and the files next to
//! it.

use std::collections::BTreeSet;
use std::fs;

use modelfmt::model::Globs;
use modelfmt::prove::{ProveOptions, TensorResult};
use modelfmt::{Conversion, DType, Execution, Model};

use super::common::{T, floats, safetensors};
use super::proved::{assert_exact, proof, random, results, with};

/// Only embeddings that are also the output may have two names, and only if BASE says so or has no output.
#[test]
fn ties_are_those_of_base() {
    let embeddings = random("model.embed_tokens.weight", DType::F32, &[3, 32]);
    let other = random("model.norm.weight", DType::F32, &[3, 32]);
    let all = [embeddings.clone(), other];
    let added = |name: &'static str, of: usize| {
        let more = T { name, ..all[of].clone() };
        safetensors(&[&all[..], &[more]].concat(), "{}")
    };
    let result = |base: &Model, derived: &Model| {
        let proof = proof(base, derived);
        let last = proof.tensors.last().unwrap().clone();
        (proof.is_ok, last.result, last.steps)
    };
    let tie = (true, TensorResult::Exact, vec!["tie".to_owned()]);
    let no = (false, TensorResult::Foreign, Vec::new());
    let base = safetensors(&all, "{}");
    assert_eq!(result(&base, &added("lm_head.weight", 0)), tie);
    assert_eq!(result(&base, &added("lm_head.weight", 1)), no);
    assert_eq!(result(&base, &added("model.layers.0.output.weight", 0)), no);
    assert_eq!(result(&base, &added("extra.weight", 0)), no);
    // Its configuration takes precedence.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    Conversion::new(&base, &path).write().unwrap();
    for (says, expected) in [("true", &tie), ("false", &no)] {
        fs::write(folder.path().join("config.json"), format!("{{\"tie_word_embeddings\": {says}}}")).unwrap();
        assert_eq!(result(&Model::open(&path).unwrap(), &added("lm_head.weight", 0)), *expected, "{says}");
    }
    // There are as many equal tensors as in BASE.
    let equal = |names: &[&'static str]| {
        let all: Vec<T> = names.iter().map(|name| T { name, ..embeddings.clone() }).collect();
        safetensors(&all, "{}")
    };
    let two = equal(&["a", "b"]);
    assert_exact(&proof(&two, &equal(&["c", "d"])), "two for two");
    let three = proof(&two, &equal(&["c", "d", "e"]));
    assert_eq!((three.is_ok, three.tensors.last().unwrap().result), (false, TensorResult::Foreign));
}

/// Bytes between and after tensors are reported.
#[test]
fn bytes_that_belong_to_nothing_are_no_part_of_base() {
    let base = safetensors(&[random("a", DType::F32, &[5]), random("b", DType::F32, &[3])], "{}");
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.gguf", "m.mag"] {
        let path = folder.path().join(name);
        Conversion::new(&base, &path).write().unwrap();
        let open = || Model::open(&path).unwrap();
        assert_exact(&proof(&base, &open()), name);
        let bytes = fs::read(&path).unwrap();
        let named = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = bytes.clone();
            change(&mut changed);
            fs::write(&path, changed).unwrap();
            let proof = proof(&base, &open());
            assert_eq!(results(&proof), BTreeSet::from(["exact"]), "{name}");
            let added: Vec<String> = proof
                .metadata
                .into_iter()
                .filter(|key| key.key.contains("byte"))
                .map(|key| key.key)
                .collect();
            (proof.is_ok, added.join("; "))
        };
        let (is_ok, what) = named(&|bytes| bytes.extend(b"a payload, a payload, a payload"));
        assert!(!is_ok && what.contains("byte"), "{name}: {what}");
        // The padding after the first tensor, which has 20 bytes.
        let first = open().location(0).unwrap();
        let gap = usize::try_from(first.offset.unwrap() + first.stored_nbytes).unwrap();
        let next = usize::try_from(open().location(1).unwrap().offset.unwrap()).unwrap();
        if gap < next {
            let (is_ok, what) = named(&|bytes| bytes[gap] = 7);
            assert!(!is_ok && what.contains("byte"), "{name}: {what}");
        } else {
            assert_ne!(name, "m.gguf");
        }
    }
}

/// Values that a conversion back would restore must be those of BASE.
#[test]
fn old_values_of_the_reserved_key_are_compared() {
    let w = || [floats("w", &[2], &[1.0, 2.0])];
    let base = safetensors(&w(), r#"{"model_type": "net"}"#);
    let of = |old: &str| {
        let reserved = format!(
            r#"{{"version": 1, "format": "gguf", "text": ["model_type"], "replaced": {{"model_type": {old}}}}}"#
        );
        let metadata = modelfmt::Object::from_iter([
            ("model_type", modelfmt::Value::from("net")),
            ("modelfmt", modelfmt::Value::from(reserved)),
        ]);
        let metadata = modelfmt::value::json::to_string(&modelfmt::Value::from(metadata)).unwrap();
        let derived = safetensors(&w(), &metadata);
        let diff = modelfmt::diff::diff(&base, &derived, &Execution::default()).unwrap();
        let is_listed = diff.metadata.iter().any(|diff| diff.key == "modelfmt.replaced.model_type");
        let proof = proof(&base, &derived);
        let is_found = proof.metadata.iter().any(|key| key.key == "modelfmt.replaced.model_type");
        (proof.is_ok, is_found, is_listed)
    };
    assert_eq!(of(r#""evil""#), (false, true, true));
}

/// The files of a hub folder are compared in the same way as the weights.
#[test]
fn files_beside_the_weights_are_compared() {
    let weights = safetensors(&[floats("w", &[2], &[1.0, 2.0])], "{}");
    let folder = tempfile::tempdir().unwrap();
    let [base, derived] = ["base", "derived"].map(|name| {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        Conversion::new(&weights, folder.join("model.safetensors")).write().unwrap();
        fs::write(folder.join("config.json"), "{}").unwrap();
        fs::write(folder.join("tokenizer.json"), "{\"a\": 1}").unwrap();
        folder
    });
    let of = |change: &dyn Fn(&mut ProveOptions)| {
        let [base, derived] =
            [&base, &derived].map(|folder| Model::open(folder.join("model.safetensors")).unwrap());
        let proof = with(&base, &derived, change);
        let keys: Vec<String> =
            proof.metadata.iter().map(|key| format!("{} {}", key.key, key.result.name())).collect();
        (proof.is_ok, keys.join(", "))
    };
    let none: &dyn Fn(&mut ProveOptions) = &|_| {};
    let text = |is_ok: bool, text: &str| (is_ok, text.to_owned());
    assert_eq!(of(none), text(true, "config.json same, tokenizer.json same"));
    fs::write(derived.join("tokenizer.json"), "{\"a\": 2}").unwrap();
    assert_eq!(of(none), text(false, "config.json same, tokenizer.json changed"));
    assert!(of(&|options| options.allow_changed = Globs::new(["tokenizer.json"]).unwrap()).0);
    assert!(!of(&|options| options.allow_added = Globs::new(["*"]).unwrap()).0);
    fs::write(derived.join("chat_template.jinja"), "x").unwrap();
    fs::remove_file(derived.join("tokenizer.json")).unwrap();
    assert_eq!(of(none), text(false, "config.json same, tokenizer.json missing, chat_template.jinja added"));
    assert!(of(&|options| options.allow_added = Globs::new(["chat*"]).unwrap()).0);
    // Without a configuration, a file is not part of a hub folder.
    fs::remove_file(derived.join("config.json")).unwrap();
    assert_eq!(of(none), text(true, ""));
}
