//! Checks that the modules of a crate do not depend on each other in cycles: what two modules need belongs in
//! a third. (Between crates, cargo ensures this.)
//!
//! A module is a file, or a folder with everything in it. The siblings within each folder are compared: if
//! anything in `edit/` names anything in `write/`, then `edit` needs `write`. A folder's own `mod.rs` and the
//! files in the folder may name each other.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::run::{self, Result, step};
use crate::workspace;
use names::{Names, Path};

/// The names in each file, by module.
type Files = BTreeMap<Path, Names>;
/// For each module, the siblings that it needs and the names that it uses from them. Only modules of the same
/// folder are connected.
type Graph = BTreeMap<Path, BTreeMap<Path, BTreeSet<String>>>;

pub(super) fn check() -> Result {
    step("circles: no module needs one that needs it");
    let mut faults = Vec::new();
    let crates = crates()?;
    for (name, texts) in &crates {
        let graph = graph(&files(texts)?);
        faults.extend(judge(name, &graph));
    }
    for fault in &faults {
        println!("{fault}");
    }
    println!("{} crates, {} faults", crates.len(), faults.len());
    if faults.is_empty() {
        Ok(())
    } else {
        Err(format!("{} faults about circles of modules", faults.len()).into())
    }
}

/// Reads the sources of each crate, by the module that each file defines.
fn crates() -> Result<BTreeMap<String, BTreeMap<Path, String>>> {
    let patterns = ["ls-files", "-z", "crates/*/src/*.rs", "xtask/src/*.rs"];
    let listed = run::output(workspace::command("git").args(patterns))?;
    let mut crates: BTreeMap<String, BTreeMap<Path, String>> = BTreeMap::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let Some((name, file)) = path.split_once("/src/") else { continue };
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue }; // deleted, but still listed
        crates.entry(name.to_owned()).or_default().insert(module_of(file), text);
    }
    Ok(crates)
}

/// Returns the module of a file: `set::reader` for `set/reader.rs`, `set` for `set/mod.rs`, the root for
/// `lib.rs`.
fn module_of(file: &str) -> Path {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { Path::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Reads the names in all files, except in files that are compiled only for tests.
fn files(texts: &BTreeMap<Path, String>) -> Result<Files> {
    let mut files = Files::new();
    for (module, text) in texts {
        files.insert(module.clone(), names::read(module, text)?);
    }
    let tests: Vec<Path> = files.values().flat_map(|names| names.tests.iter().cloned()).collect();
    files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    Ok(files)
}

/// Finds which module needs which. The root may name every module.
fn graph(files: &Files) -> Graph {
    let mut graph = Graph::new();
    for (module, names) in files.iter().filter(|(module, _)| !module.is_empty()) {
        for path in &names.paths {
            let places = places(path, files);
            for (from, to) in places.iter().filter_map(|other| apart(module, other)) {
                let uses = graph.entry(from.to_vec()).or_default().entry(to.to_vec()).or_default();
                uses.insert(format!("{} names {}", module.join("::"), path.join("::")));
            }
        }
    }
    graph
}

/// Returns the modules that a path leads to: the one that it names and, if that one only imports the name,
/// the modules that the name comes from.
fn places(path: &[String], files: &Files) -> Vec<Path> {
    const MAX_STEPS: usize = 16;
    let mut found = Vec::new();
    let mut path = path.to_vec();
    for _ in 0..MAX_STEPS {
        let Some(len) =
            (0..=path.len()).rev().find(|len| path.get(..*len).is_some_and(|p| files.contains_key(p)))
        else {
            break;
        };
        let (module, below) = path.split_at(len);
        found.push(module.to_vec());
        let Some(origin) = below.first().and_then(|name| files.get(module)?.imports.get(name)) else { break };
        let next = [origin, below.get(1..).unwrap_or_default()].concat();
        if next == path {
            break;
        }
        path = next;
    }
    found
}

/// Returns the siblings at which the paths of two modules diverge, which are the modules or their ancestors.
/// `None` if one module contains the other.
fn apart<'a>(from: &'a [String], to: &'a [String]) -> Option<(&'a [String], &'a [String])> {
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    Some((from.get(..=same)?, to.get(..=same)?))
}

/// Describes the cycles of a crate.
fn judge(name: &str, graph: &Graph) -> Vec<String> {
    circles(graph).iter().map(|way| format!("{name}: {}", shown(graph, way))).collect()
}

/// Formats a cycle: its modules, then the names that each of them uses from the next.
fn shown(graph: &Graph, way: &[Path]) -> String {
    const MAX_NAMES: usize = 5;
    let modules: Vec<_> = way.iter().map(|module| module.join("::")).collect();
    let mut text = modules.join(" → ");
    for (from, to) in way.iter().zip(way.iter().skip(1)) {
        let uses = graph.get(from).and_then(|needs| needs.get(to)).into_iter().flatten();
        let uses: Vec<_> = uses.take(MAX_NAMES).map(String::as_str).collect();
        text.push_str(&format!("\n    {} → {}: {}", from.join("::"), to.join("::"), uses.join(", ")));
    }
    text
}

/// Finds cycles: all pairs of modules that need each other, and for each module the shortest cycle through
/// it. Each set of modules is listed once.
fn circles(graph: &Graph) -> Vec<Vec<Path>> {
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for (start, needs) in graph {
        let shortest = needs.keys().filter_map(|next| way(graph, next, start)).min_by_key(Vec::len);
        let pairs =
            needs.keys().filter(|next| graph.get(*next).is_some_and(|needs| needs.contains_key(start)));
        let pairs = pairs.map(|next| vec![next.clone(), start.clone()]);
        for mut circle in pairs.chain(shortest) {
            if seen.insert(circle.iter().cloned().collect::<BTreeSet<_>>()) {
                circle.insert(0, start.clone());
                circles.push(circle);
            }
        }
    }
    circles
}

/// Returns the shortest path from one module to another, including both.
fn way(graph: &Graph, from: &Path, to: &Path) -> Option<Vec<Path>> {
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut front = vec![from];
    while !front.is_empty() && !came_from.contains_key(to) {
        let mut next = Vec::new();
        for module in front {
            for other in graph.get(module).into_iter().flat_map(BTreeMap::keys) {
                if other != from && !came_from.contains_key(other) {
                    came_from.insert(other, module);
                    next.push(other);
                }
            }
        }
        front = next;
    }
    let mut way = vec![to.clone()];
    while let Some(before) = way.last().filter(|last| *last != from) {
        way.push((*came_from.get(before)?).clone());
    }
    way.reverse();
    Some(way)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph_of(modules: &[(&str, &str)]) -> Graph {
        let texts = modules.iter().map(|&(file, text)| (module_of(file), text.to_owned())).collect();
        graph(&files(&texts).unwrap())
    }

    fn found(modules: &[(&str, &str)]) -> Vec<String> {
        judge("c", &graph_of(modules))
    }

    fn ways(modules: &[(&str, &str)]) -> Vec<String> {
        let ways = circles(&graph_of(modules)).into_iter();
        ways.map(|way| way.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" → ")).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_spelt() {
        let modules = [
            ("lib.rs", "pub use d::D;"),
            ("a.rs", "use crate::b::{self, X};"),
            ("b.rs", "#[cfg(test)] mod tests {} fn f() { super::c::g() }"),
            ("c.rs", "use crate::{a, D};"),
            ("d.rs", ""),
        ];
        assert_eq!(
            found(&modules),
            [
                "c: a → b → c → a\n    a → b: a names b, a names b::X\n    b → c: b names c::g\n    c → a: c names a"
            ]
        );
    }

    #[test]
    fn folders_are_modules_too() {
        let modules = [
            ("a/mod.rs", "mod one; mod two;"),
            ("a/one.rs", "use crate::b::three::X;"),
            ("a/two.rs", ""),
            ("b/mod.rs", "mod three; mod four;"),
            ("b/three.rs", ""),
            ("b/four.rs", "pub use crate::a::two::Y;"),
        ];
        assert_eq!(ways(&modules), ["a → b → a"]);
    }

    #[test]
    fn a_name_leads_to_where_it_comes_from() {
        let modules = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B as C;"),
            ("a.rs", "use crate::C;"),
            ("b.rs", "impl crate::A {}"),
        ];
        assert_eq!(ways(&modules), ["a → b → a"]);
    }

    #[test]
    fn what_is_no_circle_is_left_alone() {
        let modules = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B; // crate::c\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
            ("b/mod.rs", "mod inner; use self::inner::I; #[cfg(test)] mod checks;"),
            ("b/inner.rs", "use super::Thing; use crate::d;"),
            ("b/checks.rs", "use crate::a;"),
            ("c.rs", "use crate::a::A; let crate_name = my_crate::x;"),
            ("d.rs", "use crate::Unknown;"),
        ];
        assert_eq!(found(&modules), Vec::<String>::new());
    }

    #[test]
    fn files_are_modules() {
        let joined = ["lib.rs", "a.rs", "a/mod.rs", "a/b.rs"].map(|file| module_of(file).join("::"));
        assert_eq!(joined, ["", "a", "a", "a::b"]);
    }
}
