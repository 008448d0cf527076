//! No circle among the modules of a crate: what two modules need lies below both. (Between crates Cargo sees to it.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::code::without_comments;
use crate::run::{self, Result, step};
use crate::workspace;

/// The modules of a crate by path (`set::reader`; the root is empty), and those that each of them names.
type Graph = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check() -> Result {
    step("circles: no module needs one that needs it");
    let listed = run::output(workspace::command("git").args([
        "ls-files",
        "-z",
        "crates/*/src/*.rs",
        "xtask/src/*.rs",
    ]))?;
    let mut crates: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for path in listed.split('\0').filter(|path| !path.is_empty() && !is_test(path)) {
        let Some((name, file)) = path.split_once("/src/") else { continue };
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue }; // deleted, not yet in the index
        crates.entry(name).or_default().insert(module_of(file), text);
    }
    let mut faults = 0;
    for (name, modules) in &crates {
        let circles = circles(&graph(modules));
        for circle in &circles {
            println!("{name}: {}", circle.join(" → "));
        }
        faults += circles.len();
    }
    println!("{} crates, {faults} circles that must not be", crates.len());
    if faults == 0 { Ok(()) } else { Err(format!("{faults} circles of modules").into()) }
}

fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/")
}

/// `set/reader.rs` is `set::reader`, `set/mod.rs` is `set`, `lib.rs` the root.
fn module_of(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { String::new() } else { path.replace('/', "::") }
}

/// What each module names of the others. A module and those inside it count as one place, so they may name each other; and
/// the root may name all.
fn graph(modules: &BTreeMap<String, String>) -> Graph {
    let mut graph = Graph::new();
    for (module, text) in modules.iter().filter(|(module, _)| !module.is_empty()) {
        let code = without_comments(text);
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let named = paths(code).into_iter().filter_map(|path| resolve(module, &path, modules));
        let others = named.filter(|other| !is_within(other, module) && !is_within(module, other));
        graph.insert(module.clone(), others.collect());
    }
    graph
}

fn is_within(module: &str, outer: &str) -> bool {
    module == outer || module.strip_prefix(outer).is_some_and(|rest| rest.starts_with("::"))
}

/// The paths in a text that begin with `crate`, `super` or `self`; a group `a::{b, c}` is `a::b` and `a::c`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code;
    while let Some(at) = ["crate::", "super::", "self::"].iter().filter_map(|start| rest.find(start)).min() {
        let starts_here = !rest.get(..at).is_some_and(|before| before.ends_with(|c| is_name(c) || c == ':'));
        let text = rest.get(at..).unwrap_or_default();
        let end = text.find(|c| !(is_name(c) || c == ':')).unwrap_or(text.len());
        let (path, after) = text.split_at(end);
        rest = after;
        if !starts_here {
            continue;
        }
        let path: Vec<String> = path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if after.starts_with('{') {
            let group = after.split([';']).next().unwrap_or_default();
            let members = group.split(|c| !is_name(c)).filter(|name| !name.is_empty());
            found.extend(members.map(|member| [&path[..], &[member.to_owned()]].concat()));
        }
        found.push(path);
    }
    found
}

/// The module that a path in `module` leads to: the longest beginning of it that is one.
fn resolve(module: &str, path: &[String], modules: &BTreeMap<String, String>) -> Option<String> {
    let mut full: Vec<&str> = Vec::new();
    let here: Vec<&str> = module.split("::").collect();
    let up = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => {}
        "self" => full.extend(&here),
        _ => full.extend(here.get(..here.len().saturating_sub(up))?),
    }
    full.extend(path.iter().skip(up.max(1)).map(String::as_str));
    (1..=full.len()).rev().find_map(|len| {
        let candidate = full.get(..len)?.join("::");
        modules.contains_key(&candidate).then_some(candidate)
    })
}

/// For each module that can reach itself, the shortest way round, once for each circle.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for start in graph.keys().filter(|module| !module.is_empty()) {
        if let Some(way) = way_back(graph, start) {
            let members: BTreeSet<String> = way.iter().cloned().collect();
            if seen.insert(members) {
                circles.push(way);
            }
        }
    }
    circles
}

fn way_back(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut front = vec![start];
    while !front.is_empty() {
        let mut next = Vec::new();
        for module in front {
            for other in graph.get(module)? {
                if other == start {
                    let mut way = vec![start.to_owned(), module.to_owned()];
                    while let Some(before) = way.last().and_then(|last| came_from.get(last.as_str())) {
                        way.push((*before).to_owned());
                    }
                    way.dedup();
                    way.reverse();
                    return Some(way);
                }
                if !came_from.contains_key(other.as_str()) && graph.contains_key(other) {
                    came_from.insert(other, module);
                    next.push(other.as_str());
                }
            }
        }
        front = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(modules: &[(&str, &str)]) -> Vec<Vec<String>> {
        let modules = modules.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        circles(&graph(&modules))
    }

    #[test]
    fn a_circle_is_found_however_it_is_spelt() {
        let way = found(&[
            ("a", "use crate::b::{self, X};"),
            ("b", "fn f() { super::c::g() }"),
            ("c", "use crate::{a, d};"),
            ("d", ""),
        ]);
        assert_eq!(way, [["a", "b", "c", "a"]]);
    }

    #[test]
    fn what_is_no_circle_is_left_alone() {
        let none = found(&[
            ("", "mod a; mod b; pub use a::A;"),
            ("a", "use crate::b::B; // crate::c\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
            ("b", "mod inner; use self::inner::I;"),
            ("b::inner", "use super::Thing; use crate::d;"),
            ("c", "use crate::a::A; let crate_name = my_crate::x;"),
            ("d", "use crate::A;"),
        ]);
        assert_eq!(none, Vec::<Vec<String>>::new());
    }

    #[test]
    fn files_are_modules() {
        assert_eq!(["lib.rs", "a.rs", "a/mod.rs", "a/b.rs"].map(module_of), ["", "a", "a", "a::b"]);
    }
}
