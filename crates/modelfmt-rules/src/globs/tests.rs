use globset::GlobBuilder;
use proptest::prelude::*;

use super::*;

#[test]
fn bombs_are_errors() {
    let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
    for (bomb, why) in [
        (nested(17), "nested"),
        (nested(8_000), "nested"),
        ("{".repeat(16_000), "nested"),
        ("*".repeat(20_000), "16 KiB"),
        ("[".to_owned(), "unclosed"),
        ("{a".to_owned(), "unclosed"),
        ("a}".to_owned(), "unopened"),
        ("\\".to_owned(), "dangling"),
    ] {
        let error = Globs::new([bomb]).unwrap_err().to_string();
        assert!(error.contains(why) && error.len() < 500, "{error}");
    }
    // Each pattern alone would be accepted.
    let many = (0..60).map(|n| format!("{}{n}", "{?,??,???}".repeat(1_500)));
    let error = Globs::new(many).unwrap_err().to_string();
    assert!(error.contains("simpler"), "{error}");
    assert!(Globs::new([nested(16)]).unwrap().is_match("a"));
}

#[test]
fn whole_names_match_across_dots_and_slashes() {
    let matches = |glob: &str, name: &str| Globs::new([glob]).unwrap().is_match(name);
    for (glob, name) in [
        ("*.weight", "a/b.c/d.weight"),
        ("*.weight", ".weight"),
        ("*", ""),
        ("a?b", "a/b"),
        ("*/*", "a/"),
        ("x.*", "x..."),
        ("x\\*", "x*"),
        ("\\{a\\}", "{a}"),
        ("?", "\n"),
        ("?é[ä-ö]", "üéö"),
        ("{a,b/**/}c", "b/x/y/c"),
        ("[]-a]", "^"),
        ("[--/]x[!a-]", ".xb"),
    ] {
        assert!(matches(glob, name), "{glob} {name}");
    }
    for (glob, name) in
        [("*.weight", "weight"), ("a", "ab"), ("x\\*", "xy"), ("", "a"), ("[!ab]", "b"), ("a{,b}", "a")]
    {
        assert!(!matches(glob, name), "{glob} {name}");
    }
    assert!(!Globs::new(Vec::<String>::new()).unwrap().is_match(""));
}

#[test]
fn what_a_pattern_begins_and_ends_with_is_never_shared() {
    let matches = |glob: &str, name: &str| Globs::new([glob]).unwrap().is_match(name);
    for (glob, name) in [
        ("ab*ba", "abba"),
        ("a**/b", "a/b"),
        ("**/b", "b"),
        ("x/**/b", "x/b"),
        ("{}**/b", "x/b"),
        ("{{},**/b}", "b"),
        (r"{\{**/b}", "{x/b"),
        ("a{**/**}", "ab"),
        ("a{b,cb}", "ab"),
        ("{a,b}*c", "ac"),
        ("a*b*c", "abc"),
    ] {
        assert!(matches(glob, name), "{glob} {name}");
    }
    for (glob, name) in [
        ("ab*ba", "aba"),
        ("a*a", "a"),
        ("a{b,c}", "a"),
        ("a?b", "ab"),
        ("x/**/b", "xb"),
        ("**/b", "ab"),
        ("{}**/b", "b"),
        (r"{}**/\*", "*"),
        ("{a,{}**/b}", "b"),
    ] {
        assert!(!matches(glob, name), "{glob} {name}");
    }
}

#[test]
fn each_pattern_that_matches_is_named() {
    let globs = Globs::new(["b", "*", "a", "{b,c}", "b", "??"]).unwrap();
    assert_eq!(globs.matches("b"), [0, 1, 3, 4]);
    assert_eq!(globs.matches("xy"), [1, 5]);
}

#[test]
fn any_name_is_a_pattern_once_it_is_escaped() {
    let name = format!("{}{}", "{".repeat(40), r"*?[a]\,!-");
    let globs = Globs::new([escaped(&name)]).unwrap();
    assert!(globs.is_match(&name) && !globs.is_match("{"));
}

/// A pattern on which a backtracking matcher would not finish in useful time.
#[test]
fn no_pattern_takes_long() {
    let globs = Globs::new(["{a*,*a}".repeat(2_000), format!("{}b", "*a".repeat(2_000))]).unwrap();
    assert!(!globs.is_match(&"a".repeat(200)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Patterns match what `globset` 0.4 matches, except for four differences of `globset`: `[a-c-e]` is `[a-e]`; `**/` alone, also
    /// repeated, is `**`; within braces, `**` swallows an escaped brace or comma before it; and `{**/**}` matches only what ends in
    /// a slash.
    #[test]
    fn patterns_mean_what_they_mean_to_others(
        pattern in r"([ab/]|\*{1,2}/?|\?|\[[!^]?\]?[ab/]?(-[ab/])?\]|[{},\[\]!\-]|\\[*a{]){0,8}",
        names in prop::collection::vec("[ab/*{,-]{0,6}", 8),
    ) {
        let is_odd = [r"\{**", "**/**}", "**/**,"].iter().any(|part| pattern.contains(part));
        prop_assume!(!is_odd && !pattern.replace("**/", "").is_empty() && pattern.matches('-').count() < 2);
        let theirs = GlobBuilder::new(&pattern).backslash_escape(true).build();
        let ours = Globs::new([pattern.as_str()]);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", pattern);
        if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
            let theirs = theirs.compile_matcher();
            for name in &names {
                prop_assert_eq!(ours.is_match(name), theirs.is_match(name), "{} {}", pattern, name);
            }
        }
    }
}
