//! A writer that is killed: the name leads to the old file or to the complete new file, never to a part.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use modelfmt::{DType, Execution, Model, VerifyLevel};
use modelfmt_core::value::Object;
use modelfmt_write::{Overwrite, TensorSpec};

/// The variable with the file that the child writes again and again.
const VARIABLE: &str = "MODELFMT_TEST_INTERRUPTED";
const NBYTES: u64 = 3 << 20;

/// Writes a model whose values are all the same number.
fn write(path: &Path, value: u8) {
    let specs = || [("a", NBYTES), ("b", 77)].map(|(name, n)| TensorSpec::new(name, DType::I8, vec![n]));
    let values = [vec![value; NBYTES as usize], vec![value; 77]];
    let work = Execution::default();
    match path.extension().unwrap().to_str().unwrap() {
        "mag" => mag::Plan::new(specs(), &Object::new(), &mag::WriteOptions::new())
            .unwrap()
            .write_file(path, Overwrite::Replace, &values, &work)
            .unwrap(),
        "apr" => apr2::Plan::new(
            specs(),
            &apr2::Metadata::new("demo", Object::new()),
            &apr2::WriteOptions::new().compression(apr2::Compression::Lz4),
        )
        .unwrap()
        .write_file(path, Overwrite::Replace, &values, &work)
        .unwrap(),
        _ => aero::Plan::new(
            specs(),
            &Object::from_iter([("model_name", "m"), ("architecture", "demo")]),
            &aero::WriteOptions::new().uuid([7; 16]).tensor_hashes(true),
        )
        .unwrap()
        .write_file(path, Overwrite::Replace, &values, &work)
        .unwrap(),
    }
}

/// Not a test by itself: the process that [`a_writer_that_is_killed_leaves_a_whole_file`] kills.
#[test]
#[ignore = "it is started by another test, and never ends"]
fn child() {
    let path = std::env::var_os(VARIABLE).expect("started by the other test");
    for value in (1..=100).cycle() {
        write(Path::new(&path), value);
    }
}

/// Opens the file, and fails unless it is whole: all values are the same, and every checksum is right.
fn value_of(path: &Path) -> u8 {
    let model = Model::open(path).unwrap();
    let report = model.container().verify(VerifyLevel::Full, &Execution::default());
    assert!(report.is_ok(), "{:?}", report.errors);
    let values = model.tensor("a").unwrap().bytes().to_vec();
    assert!(values.len() as u64 == NBYTES && values.iter().all(|value| *value == values[0]));
    assert_eq!(model.tensor("b").unwrap().bytes(), [values[0]; 77]);
    values[0]
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_file() {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut leftovers = 0;
    for name in ["m.mag", "m.apr", "m.aero"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let files = || -> Vec<String> {
            let listed = std::fs::read_dir(folder.path()).unwrap();
            listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        write(&path, 101);
        for _ in 0..8 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "robustness::interrupted::child", "--ignored"])
                .env(VARIABLE, &path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            std::thread::sleep(Duration::from_millis(10 + (random >> 33) % 150));
            child.kill().unwrap(); // SIGKILL: no destructor runs
            assert!(!child.wait().unwrap().success());
            assert!((1..=101).contains(&value_of(&path)));
            let mut others = files();
            others.retain(|file| *file != name);
            // Each writer leaves at most one temporary file, and removes those of others, but only once its
            // own exists.
            assert!(others.len() <= 2, "one temporary file of each at most: {others:?}");
            leftovers += others.len();
        }
        write(&path, 102); // the next run removes what was left
        assert_eq!(value_of(&path), 102);
        assert_eq!(files(), [name]);
    }
    println!("{leftovers} of 24 writers were killed in the middle of a file");
}
