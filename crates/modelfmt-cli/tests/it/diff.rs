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
