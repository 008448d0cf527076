//! The names of files within a model.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// Names that are left out of every folder, unless the statement lists them.
pub(crate) const DEFAULT_IGNORED: [&str; 4] = [".git", ".gitattributes", ".github", ".gitignore"];

/// Returns why a name is not valid. A name must lead from the folder downwards, and have only one spelling.
pub(crate) fn fault(name: &str) -> Option<&'static str> {
    if name.contains('\0') {
        return Some("has a zero byte");
    }
    let part = |part: &str| match part {
        "" => Some("is absolute, empty or has an empty part"),
        "." | ".." => Some("leads elsewhere"),
        _ => None,
    };
    name.split('/').find_map(part)
}

/// Checks whether `path` is `name` itself or a folder above it.
pub(crate) fn covers(path: &str, name: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Names that are left out, each with everything below it.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    /// The names, sorted.
    names: Vec<String>,
}

impl Ignored {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self { names }
    }

    /// Checks whether exactly this name is listed. That is enough, because a walk checks each folder before
    /// its content.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_downwards() {
        for good in ["a", "a/b.bin", ".git", "a/.../b", "ü/日本", " ", "a:1:2", "C:", "a\\b"] {
            assert_eq!(fault(good), None, "{good:?}");
        }
        for bad in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "a\0b", "/"] {
            assert!(fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn a_folder_covers_what_is_in_it() {
        assert!(covers("a", "a") && covers("a", "a/b") && covers("a/b", "a/b/c"));
        assert!(!covers("a", "ab") && !covers("a/b", "a") && !covers("a", "b/a"));
        let ignored = Ignored::new(["b".to_owned(), "a".to_owned(), "b".to_owned()]);
        assert!(ignored.has("a") && !ignored.has("c") && ignored.names() == ["a", "b"]);
    }
}
