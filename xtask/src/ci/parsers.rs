//! Checks that modules which calculate with numbers from files have the lint `arithmetic_side_effects`, as
//! SECURITY.md promises.

/// The attribute that such a module needs. Tests are exempt.
const LINT: &str = "#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]";
/// The crates in which every module needs the lint, except modules that only write or only list others.
const FORMATS: &[&str] =
    &["aero", "apr", "apr2", "apr2-seal", "arrays", "gguf", "mag", "npy", "oinf", "pytorch", "safetensors"];
/// Files and folders of these crates that calculate with what is to be written.
const WRITERS: &[&str] = &[
    "chunk_writer",
    "compress",
    "edit",
    "encode",
    "error",
    "layout",
    "lib",
    "options",
    "plan",
    "save",
    "sign",
    "write",
    "writer",
    "written",
];
/// Files with one of these names that read nevertheless.
const READERS: &[&str] = &["crates/apr2/src/verify/plan.rs"];
/// Exempt modules: those that contain both kinds, and one that writes.
const OTHERS: &[&str] = &[
    "crates/apr2-seal/src/seal/mod.rs",
    "crates/apr2-seal/src/sealed/mod.rs",
    "crates/apr2-seal/src/set/mod.rs",
    "crates/apr2-seal/src/set/seal.rs",
    "crates/apr2/src/author.rs",
    "crates/apr2/src/set/mod.rs",
];
/// Files and folders that read, in the crates that `FORMATS` does not list.
const CORE: &[&str] = &[
    "claims",
    "cursor",
    "endian",
    "extent",
    "file_index",
    "limits",
    "parse",
    "parts",
    "proof",
    "read",
    "set",
    "table",
];
const WRITE: &[&str] = &["journal"];
const OMS: &[&str] = &["bundle", "names", "statement"];

/// Returns a fault if a module needs the lint and does not have it.
pub(super) fn fault(path: &str, text: &str) -> Option<String> {
    (needs_lint(path) && !text.lines().any(|line| line == LINT))
        .then(|| format!("{path}: calculates with numbers from files; put {LINT} below its first lines"))
}

fn needs_lint(path: &str) -> bool {
    let file = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    let Some((name, file)) = file else { return false };
    let parts: Vec<_> = file.trim_end_matches(".rs").split('/').collect();
    let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
    if !file.ends_with(".rs") || has(&["tests", "attacks"]) || OTHERS.contains(&path) {
        return false;
    }
    match name {
        _ if READERS.contains(&path) => true,
        "modelfmt-value" | "modelfmt-digest" => true,
        "modelfmt-core" => has(CORE),
        "modelfmt-write" => has(WRITE) && !has(&["write"]),
        "oms" => has(OMS),
        _ => FORMATS.contains(&name) && !has(WRITERS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_read_need_the_lint() {
        for path in ["mag/src/v1/mod.rs", "apr2/src/verify/plan.rs", "modelfmt-value/src/json/mod.rs"] {
            let path = format!("crates/{path}");
            assert!(fault(&path, "//! Reads.\n").is_some(), "{path}");
            assert_eq!(fault(&path, &format!("//! Reads.\n{LINT}\n")), None, "{path}");
        }
        for path in [
            "mag/src/writer.rs",
            "apr2-seal/src/sealed/writer/mod.rs",
            "apr2/src/set/mod.rs",
            "oinf/src/parser/tests.rs",
            "modelfmt-core/src/load/threads.rs",
            "modelfmt-model/src/model/mod.rs",
        ] {
            assert_eq!(fault(&format!("crates/{path}"), ""), None, "{path}");
        }
    }

    #[test]
    fn the_lists_name_files_that_exist() {
        let root = crate::workspace::root();
        assert!(READERS.iter().chain(OTHERS).all(|path| root.join(path).is_file()));
        for (name, modules) in [("modelfmt-core", CORE), ("modelfmt-write", WRITE), ("oms", OMS)] {
            let src = root.join("crates").join(name).join("src");
            let is_there = |at: std::path::PathBuf| at.is_dir() || at.with_extension("rs").is_file();
            let found =
                |module: &&&str| is_there(src.join(module)) || is_there(src.join("edit").join(module));
            assert_eq!(modules.iter().filter(|module| !found(module)).collect::<Vec<_>>(), [&""; 0]);
        }
    }
}
