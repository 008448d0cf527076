//! Checks the names of files in listings and indexes. They are untrusted: each must stay within the target
//! folder, on every system.

use std::collections::{HashMap, HashSet};

use super::error::{FetchError, Result};

/// The end of the names of our own files next to a target.
pub(super) const ENDING: &str = ".modelfmt-fetch";
/// The maximum length in bytes of a path component on common file systems.
const MAX_COMPONENT: usize = 255;
/// The number of bytes that our own names add to the name of a file.
const OWN: usize = 24;

/// Returns the rule that a name breaks, if it breaks one.
pub(super) fn fault_of(name: &str) -> Option<&'static str> {
    if name.len() > 4096 {
        return Some("it is longer than 4096 bytes");
    }
    if name.starts_with('/') || name.get(1..2) == Some(":") {
        return Some("it is an absolute path");
    }
    if name.chars().any(|c| c == '\\' || c == ':' || c.is_control()) {
        return Some("it has a backslash, a colon or a control character");
    }
    name.split('/').find_map(component_fault)
}

fn component_fault(component: &str) -> Option<&'static str> {
    // Windows has devices with these names in every folder, with any extension.
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let stem = component.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_port = |stem: &str| {
        let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
        number.is_some_and(|number| number.chars().count() == 1 && number.chars().all(char::is_numeric))
    };
    match component {
        "" => Some("it has an empty component"),
        "." | ".." => Some("it has a component . or .., which may lead out of the folder"),
        _ if component.len() > MAX_COMPONENT - OWN => Some("a component of it is too long"),
        _ if component.ends_with(['.', ' ']) => Some("a component of it ends with a dot or a space"),
        _ if component.contains(ENDING) => Some("it is a name of unfinished files"),
        _ if DEVICES.contains(&stem.as_str()) || is_port(&stem) => Some("it is the name of a device"),
        _ => None,
    }
}

/// Checks all names in a list: each by itself, and that no two of them are the same file and no file is the
/// folder of another, even on systems that ignore case.
///
/// # Errors
/// [`FetchError::Name`] for the first name that breaks a rule.
pub(super) fn check<'a>(list: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
    let refused = |name: &str, why| FetchError::Name { list: list.into(), name: name.into(), why };
    let mut files: HashMap<String, ()> = HashMap::new();
    for name in names.clone() {
        if let Some(why) = fault_of(name) {
            return Err(refused(name, why));
        }
        if files.insert(folded(name), ()).is_some() {
            return Err(refused(name, "another file has the same name, or one that differs only in case"));
        }
    }
    let mut folders: HashSet<String> = HashSet::new();
    for name in names {
        let folded = folded(name);
        let ends = folded.match_indices('/').map(|(at, _)| at);
        for end in ends {
            let folder = folded.get(..end).unwrap_or_default();
            if files.contains_key(folder) {
                return Err(refused(name, "its folder is the name of another file"));
            }
            folders.insert(folder.to_owned());
        }
        if folders.contains(&folded) {
            return Err(refused(name, "it is the name of a folder of another file"));
        }
    }
    Ok(())
}

fn folded(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let long = "a".repeat(232);
        let very_long = "a/".repeat(2500) + "a";
        for bad in [
            "",
            "/etc/passwd",
            "//x",
            "..",
            "../x",
            "a/../x",
            "a/..",
            "./x",
            "a/./b",
            "a//b",
            "a/",
            "/",
            "C:/x",
            "c:x",
            "a\\b",
            "..\\x",
            "a:b",
            "a\0b",
            "a\nb",
            "a\u{1b}[0m",
            "a\u{7f}",
            "a\u{85}b",
            "a.",
            "a ",
            "a. /b",
            ".x.modelfmt-fetch",
            "x.modelfmt-fetch-log",
            "nul",
            "NUL.txt",
            "a/con",
            "COM1",
            "lpt9.bin",
            "com¹",
            "aux .x",
            &long,
            &very_long,
        ] {
            assert!(fault_of(bad).is_some(), "{bad:?}");
            assert!(check("list", [bad].into_iter()).is_err(), "{bad:?}");
        }
        for good in [
            "a",
            "a/b",
            "a b",
            "...a",
            ".gitattributes",
            "model-00001-of-00002.safetensors",
            "ü/模型.gguf",
            "com10",
            "console",
        ] {
            assert_eq!(fault_of(good), None, "{good:?}");
        }
    }

    #[test]
    fn names_that_are_one_file_are_refused() {
        for bad in [
            &["a", "a"][..],
            &["Model.bin", "model.BIN"],
            &["STRASSE", "straße"],
            &["a", "a/b"],
            &["a/b", "a"],
            &["A/b", "a"],
            &["x/y/z", "q", "X/Y"],
        ] {
            assert!(check("list", bad.iter().copied()).is_err(), "{bad:?}");
        }
        check("list", ["a", "b/a", "b/c", "b/d/e", "ab"].into_iter()).unwrap();
        let error = check("hf://o/r", ["../x"].into_iter()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "hf://o/r: it names the file \"../x\": it has a component . or .., which may lead out of the folder; nothing was fetched"
        );
    }
}
