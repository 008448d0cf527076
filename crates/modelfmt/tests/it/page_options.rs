//! The options of the web page and of the npm package are those of the library's table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use modelfmt::convert::{OPTIONS, Takes};

#[allow(clippy::unwrap_used, reason = "the file is in the repository")]
fn text_of(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../modelfmt-web").join(path)).unwrap()
}

/// Returns the part of a text between two others; empty if one of them is missing.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let rest = text.split_once(begin).unwrap_or_default().1;
    rest.split_once(end).unwrap_or_default().0
}

/// Returns the keywords in the table that the page has.
fn in_page() -> BTreeSet<&'static str> {
    OPTIONS.iter().filter(|option| option.in_page).map(|option| option.keyword).collect()
}

/// Returns the options in the package's type definitions: their names and types.
fn of_types(text: &str) -> BTreeMap<&str, &str> {
    let lines = between(text, "export interface ConvertOptions", "\n}").lines();
    lines.filter_map(|line| line.trim().trim_end_matches(';').split_once("?: ")).collect()
}

#[test]
fn types_of_the_package_are_those_of_the_table() {
    let text = text_of("npm/index.d.ts");
    let types = of_types(&text);
    // `rules` has all type rules, `name` is the name of the output, and the page always leaves AERO's index
    // as it is.
    let names: BTreeSet<&str> =
        types.keys().copied().filter(|name| !["rules", "name"].contains(name)).collect();
    let mut expected = in_page();
    expected.remove("no_zstd");
    assert_eq!(names, expected);
    for option in OPTIONS.iter().filter(|option| names.contains(option.keyword)) {
        let kind = types[option.keyword];
        match option.takes {
            Takes::Nothing => assert_eq!(kind, "boolean", "{}", option.keyword),
            Takes::Many(_) => assert_eq!(kind, "string[]", "{}", option.keyword),
            Takes::One(_) => assert!(!["boolean", "string[]"].contains(&kind), "{}", option.keyword),
        }
    }
}

#[test]
fn the_page_reads_the_options_of_the_table() {
    let text = text_of("src/options.rs");
    let arms = between(&text, "pub(crate) fn conversion(", "fn type_rules(");
    let names = arms.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>"));
    // Values that a text option can have are match arms too.
    let values = ["lz4", "none", "crc32", "crc32c", "rules"];
    let names: BTreeSet<&str> = names.map(|(name, _)| name).filter(|name| !values.contains(name)).collect();
    assert_eq!(names, in_page());
}

#[test]
fn the_form_sends_options_of_the_table() {
    let text = text_of("page/convert.js");
    let sent = between(between(&text, "function options(form) {", "\n}\n"), "return {", "};");
    let names: Vec<&str> = sent.lines().filter_map(|line| Some(line.trim().split_once(": ")?.0)).collect();
    assert!(names.len() > 5);
    // `rules` has all type rules.
    for name in names.into_iter().filter(|name| *name != "rules") {
        assert!(in_page().contains(name), "{name}");
    }
}
