use std::path::Path;

use modelfmt_hub::Map;

/// Every name in a map is the one that llama.cpp's own Python package gives.
#[test]
fn names_are_those_of_gguf_py() {
    let maps = Path::new(env!("CARGO_MANIFEST_DIR")).join("maps");
    let printed = testkit::python(include_str!("../oracle/names.py"), &[maps.to_str().unwrap()]);
    let count: usize = printed.trim().parse().unwrap_or_else(|_| panic!("names differ:\n{printed}"));
    assert!(count > 200, "{count}");
    assert!(Map::families().count() >= 15);
}
