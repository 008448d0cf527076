use std::path::Path;

use modelfmt_hub::Map;

/// The page about hub folders names every family.
#[test]
fn the_page_names_all_families() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/hub.md");
    let page = std::fs::read_to_string(page).unwrap();
    for family in Map::families() {
        let map = Map::of_family(&family).unwrap();
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", map.name())));
        assert!(row.is_some_and(|row| row.contains(&family)), "{family}");
    }
}
