//! `check` finds the same as a slow check of each value, in every golden file and in pieces of large tensors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use modelfmt::check::{CheckReport, TensorFindings, check};
use modelfmt::ggml_quant::to_f64;
use modelfmt::{DType, Execution, Model, TensorView, View};

fn goldens() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = folders
        .filter(|path| path.is_dir())
        .flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()))
        .collect();
    files.sort();
    files
}

/// Returns the values of a tensor, if they can be read one by one.
fn values(view: &TensorView<'_>) -> Option<Vec<f64>> {
    if view.dtype() == DType::C64 {
        // A pair is NaN or infinite as a whole, and zero if both parts are zero. Otherwise its bits
        // distinguish it.
        let pairs = view.bytes().as_chunks::<4>().0.as_chunks::<2>().0;
        let number = |pair: &[[u8; 4]; 2]| {
            let [re, im] = pair.map(|part| f64::from(f32::from_le_bytes(part)));
            if (re + im).is_nan() { re * 0.0 + im * 0.0 } else { re + im * 1e-20 }
        };
        return Some(pairs.iter().map(number).collect());
    }
    to_f64(view).ok()
}

/// The name; the counts of NaN and infinities, whether all values are zero, whether they are constant; the
/// first non-finite value; the tensor that is equal.
type Findings = (String, (u64, u64, bool, bool), Option<u64>, Option<String>);

/// Returns what a slow check finds.
fn slow(model: &Model) -> Vec<Findings> {
    let mut first = BTreeMap::new();
    let mut found = Vec::new();
    for (position, info) in model.tensors().enumerate().filter(|(_, info)| info.has_data) {
        let view = model.tensor(position).unwrap();
        let several = info.elements() > 1;
        let key = (info.dtype.name(), info.shape.to_vec(), view.bytes().to_vec());
        let same = first.entry(key).or_insert(info.name.to_owned()).clone();
        let same_as = (several && same != info.name).then_some(same);
        let values = values(&view).unwrap_or_default();
        let all = |is: &dyn Fn(f64) -> bool| several && !values.is_empty() && values.iter().all(|&x| is(x));
        let findings = (
            values.iter().filter(|x| x.is_nan()).count() as u64,
            values.iter().filter(|x| x.is_infinite()).count() as u64,
            all(&|x| x == 0.0),
            all(&|x| x == values[0]),
        );
        if findings != (0, 0, false, false) || same_as.is_some() {
            let first_bad = values.iter().position(|x| !x.is_finite()).map(|index| index as u64);
            found.push((info.name.to_owned(), findings, first_bad, same_as));
        }
    }
    found
}

/// Returns what `check` finds, in the same form.
fn found(report: &CheckReport) -> Vec<Findings> {
    let of = |found: &TensorFindings| {
        let counts = (found.nan, found.inf, found.is_zero, found.is_constant);
        (found.name.clone(), counts, found.first_bad, found.same_as.clone())
    };
    // Golden files have no trained weights. Outliers are tested separately.
    let only_outlier = |found: &&TensorFindings| {
        let same = found.is_zero || found.is_constant || found.same_as.is_some();
        found.first_bad.is_none() && !same
    };
    report.tensors.iter().filter(|found| !only_outlier(found)).map(of).collect()
}

fn saved(folder: &Path, tensors: &[(&str, &[f32], &[u64])]) -> Model {
    let path = folder.join("model.safetensors");
    let tensors = tensors.iter().map(|&(name, values, shape)| (name, View::new(values, shape).unwrap()));
    modelfmt::save(&path, tensors, &modelfmt::Object::default()).unwrap();
    Model::open(path).unwrap()
}

fn checked(model: &Model) -> CheckReport {
    check(model, &Execution::default()).unwrap()
}

#[test]
fn golden_files_are_what_a_slow_look_finds() {
    let mut tensors_checked = 0;
    for path in goldens() {
        let Ok(model) = Model::open(&path) else { continue };
        let Ok(report) = check(&model, &Execution::default()) else { continue };
        assert_eq!(found(&report), slow(&model), "{}", path.display());
        let in_memory = fs::read(&path).ok().and_then(|bytes| Model::from_source("m", bytes).ok());
        if let Some(model) = in_memory {
            assert_eq!(checked(&model).tensors, report.tensors, "{}", path.display());
        }
        tensors_checked += report.tensors_checked.unwrap();
    }
    assert!(tensors_checked > 500, "{tensors_checked}");
}

/// A tensor in several pieces is one tensor, whatever the number of threads: a finding in any piece counts.
#[test]
fn large_tensors_are_looked_at_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let len = 300_000usize; // three pieces
    let ones = vec![1.0; len];
    let (mut odd, mut last) = (vec![0.5; len], ones.clone());
    for at in [0, len / 2, len - 1] {
        odd[at] = f32::NAN;
    }
    odd[len / 3] = f32::INFINITY;
    last[len - 1] = 1.5;
    let mut wide = odd.clone();
    wide.rotate_left(1); // as many of each, elsewhere
    // Rows of 64 bytes in another order have the same fingerprint, but another hash.
    let rows: Vec<f32> = (0..len).map(|n| n as f32).collect();
    let mut swapped = rows.clone();
    swapped[..32].rotate_left(16);
    let shape: &[u64] = &[len as u64];
    let model = saved(
        folder.path(),
        &[
            ("odd", &odd, shape),
            ("ones", &ones, shape),
            ("last", &last, shape),
            ("again", &ones, shape),
            ("flat", &ones, &[3, len as u64 / 3]),
            ("wide", &wide, shape),
            ("rows", &rows, shape),
            ("swapped", &swapped, shape),
        ],
    );
    for threads in [1, 2, 5] {
        let report = check(&model, &Execution { threads, progress: None }).unwrap();
        let found: Vec<_> = report
            .tensors
            .iter()
            .map(|found| (&*found.name, found.nan, found.inf, found.is_constant, found.same_as.as_deref()))
            .collect();
        let expected = [
            ("odd", 3, 1, false, None),
            ("ones", 0, 0, true, None),
            ("again", 0, 0, true, Some("ones")),
            ("flat", 0, 0, true, None),
            ("wide", 3, 1, false, None),
        ];
        assert_eq!(found, expected);
        assert!(!report.is_ok());
    }
}

#[test]
fn the_progress_counts_every_byte_once_and_can_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let values = vec![1.0; 300_000];
    let model = saved(folder.path(), &[("a", &values, &[300_000]), ("b", &values, &[300_000])]);
    let reported = AtomicU64::new(0);
    let tell = |nbytes| {
        reported.fetch_add(nbytes, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    check(&model, &Execution { threads: 2, progress: Some(&tell) }).unwrap();
    assert_eq!(reported.into_inner(), 2 * 4 * 300_000);
    let stop = |_| ControlFlow::Break(());
    let stopped = check(&model, &Execution { threads: 2, progress: Some(&stop) }).unwrap_err();
    assert_eq!(stopped.code(), "cancelled");
}

/// A block whose scale is NaN has NaN values.
#[test]
fn blocks_are_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let block = |scale: u16, code: u8| [&scale.to_le_bytes()[..], &[code; 32]].concat();
    let good = [block(0x3c00, 1), block(0x3c00, 1)].concat();
    let odd = [block(0x3c00, 1), block(0x7e00, 1)].concat();
    let zero = [block(0x3c00, 0), block(0, 7)].concat();
    fn view(bytes: &[u8]) -> View<'_> {
        View::from_bytes(DType::Q8_0, bytes, [64]).unwrap()
    }
    let tensors = [("good", view(&good)), ("odd", view(&odd)), ("zero", view(&zero))];
    modelfmt::save(&path, tensors, &modelfmt::Object::default()).unwrap();
    let report = checked(&Model::open(&path).unwrap());
    let found: Vec<_> = report
        .tensors
        .iter()
        .map(|found| (&*found.name, found.nan, found.is_zero, found.is_constant))
        .collect();
    assert_eq!(found, [("good", 0, false, true), ("odd", 32, false, false), ("zero", 0, true, true)]);
}

/// An index that names a tensor that its file lacks, and does not name one that the file has; and a missing
/// file.
#[test]
fn an_index_that_disagrees_with_its_files_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, tensor) in [("a.safetensors", "a"), ("b.safetensors", "b")] {
        let view = View::new(&[1.0f32, 2.0], [2]).unwrap();
        modelfmt::save(path(name), [(tensor, view)], &modelfmt::Object::default()).unwrap();
    }
    let index = |map: &str| {
        let text = format!(r#"{{"metadata": {{"total_size": 16}}, "weight_map": {{{map}}}}}"#);
        fs::write(path("model.safetensors.index.json"), text).unwrap();
        Model::open(path("model.safetensors.index.json")).unwrap()
    };
    let good = index(r#""a": "a.safetensors", "b": "b.safetensors""#);
    assert!(checked(&good).is_ok() && checked(&good).tensors_checked == Some(2));
    let wrong = checked(&index(r#""a": "a.safetensors", "c": "b.safetensors""#));
    assert!(!wrong.is_ok() && wrong.tensors_checked == Some(1), "{wrong:?}");
    let text = wrong.disagreements.join("\n");
    assert!(text.contains("\"c\"") && text.contains("\"b\""), "{text}");
    fs::remove_file(path("b.safetensors")).unwrap();
    let missing = checked(&index(r#""a": "a.safetensors", "b": "b.safetensors""#));
    assert!(!missing.is_ok() && missing.tensors_checked == Some(1), "{missing:?}");
    assert!(missing.disagreements.concat().contains("b.safetensors"), "{missing:?}");
}

/// A value far beyond the others is found wherever it is, in each float type and in blocks. Common values
/// have no outliers.
#[test]
fn a_value_far_beyond_the_others_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let len = 300_000usize; // three pieces
    let common: Vec<f32> = (0..len).map(|n| (n * 7919 % 1000) as f32 / 1000.0 - 0.4995).collect();
    let mut odd = common.clone();
    odd[len - 2] = -1e6;
    let mut zeros = vec![0.0; len];
    zeros[5] = 1e6;
    let shape: &[u64] = &[len as u64];
    let model =
        saved(folder.path(), &[("common", &common, shape), ("odd", &odd, shape), ("zeros", &zeros, shape)]);
    let report = checked(&model);
    let found: Vec<_> = report
        .tensors
        .iter()
        .map(|found| (&*found.name, found.outlier.map(|o| (o.max_abs, o.median_abs))))
        .collect();
    assert_eq!(found, [("odd", Some((1e6, 0.125)))]);
    assert!(report.is_ok());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["tensors"][0]["outlier"], serde_json::json!({"max_abs": 1e6, "median_abs": 0.125}));
}

/// Templates and hidden characters in metadata are found, also in JSON within metadata and in files next to a
/// model. Vocabularies are not searched.
#[test]
fn texts_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let save = |metadata: &[(&str, &str)]| {
        let metadata: modelfmt::Object =
            metadata.iter().map(|&(key, text)| (key.to_owned(), modelfmt::Value::from(text))).collect();
        let _ = fs::remove_file(&path);
        modelfmt::save(&path, [("w", View::new(&[1.0f32, 2.0], [2]).unwrap())], &metadata).unwrap();
        checked(&Model::open(&path).unwrap())
    };
    let words: Vec<String> = (0..300).map(|n| format!("{{{{ x.__class__ }}}} {n}")).collect();
    let report = save(&[
        ("chat_template", "{{ a }}{{ ''.__class__ }}"),
        ("good", "{{ bos_token }}"),
        ("config", r#"{"chat_template": "{{ open('x') }}", "note": "a\u200bb"}"#),
        ("vocabulary", &serde_json::to_string(&words).unwrap()),
        ("prose", "__class__ and os.system are words here"),
    ]);
    let mut found: Vec<_> = report.texts.iter().map(|text| (&*text.name, text.at, text.runs_code)).collect();
    found.sort_unstable();
    let expected =
        [("chat_template", 13, true), ("config.chat_template", 3, true), ("config.note", 1, false)];
    assert_eq!(found, expected, "{:?}", report.texts);
    assert_eq!(report.unsearched, ["vocabulary"]);
    assert!(!report.is_ok());
    // Text that could run code is found after any number of other findings.
    let hidden: Vec<String> = (0..150).map(|n| format!("k{n:03}")).collect();
    let mut many: Vec<(&str, &str)> = hidden.iter().map(|key| (&**key, "a\u{200b}b")).collect();
    many.push(("z", "{{ x.__class__ }}"));
    let report = save(&many);
    assert!(!report.is_ok() && report.texts.len() == 101, "{}", report.texts.len());
    assert!(save(&[("note", "a\u{202e}b")]).is_ok());
    // Text that Python accepts as JSON and our parser does not.
    for broken in [
        r#"{"limit": NaN, "chat_template": "{{ x.\u005f_class__ }}"}"#,
        r#"{"chat_template": "{{ \"\\x5f_class__\" }}", "chat_template": "{{ ok }}"}"#,
        r#"{"chat_template": "{{ ok }}", "chat_template": "{{ ''[\"_\\u005fclass\"] }}",}"#,
        "{\"chat_template\": \"line\n{{ x.\\u005f_class__ }}\"}",
    ] {
        assert!(!save(&[("config", broken)]).is_ok(), "{broken}");
    }
    assert!(
        save(&[("config", r#"{"limit": NaN, "chat_template": "{{ \"a\" }}", "chat_template": "b"}"#)])
            .is_ok()
    );

    // Python files of the model, and of another repository.
    let config = r#"{"auto_map": {"AutoModel": "modeling_x.XModel", "AutoTokenizer": ["owner/repo--sub.tok.XTokenizer", null]}}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let report = save(&[]);
    let finding = report.texts[0].to_string();
    assert!(
        finding.starts_with("\"config.json.auto_map\", byte 0: with trust_remote_code=True"),
        "{finding}"
    );
    assert!(finding.ends_with("not searched: \"modeling_x.py\", \"sub/tok.py of owner/repo\""), "{finding}");
    assert!(report.is_ok());
    fs::remove_file(folder.path().join("config.json")).unwrap();

    fs::write(folder.path().join("chat_template.jinja"), "{% include 'x' %}").unwrap();
    let report = save(&[]);
    assert_eq!(report.texts[0].name, "chat_template.jinja");
    assert!(!report.is_ok());
}
