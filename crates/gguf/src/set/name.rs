//! The names of the files of a split.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// A parsed file name of a split, such as `NAME-00002-of-00003.gguf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitName<'a> {
    /// The part before the numbers, including the folder.
    pub stem: &'a str,
    /// The number of the file, counted from 1.
    pub number: u64,
    /// The number of files.
    pub count: u64,
}

impl<'a> SplitName<'a> {
    /// Parses a name. Returns `None` if it is not the name of a file of a split.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let rest = name.strip_suffix(".gguf")?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| {
            let are_digits = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| are_digits)
        };
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then_some(Self { stem, number, count })
    }

    /// Returns the name of another file of the same split. Files are counted from 0.
    #[must_use]
    pub fn sibling(&self, number: u64) -> String {
        file_name(self.stem, number, self.count)
    }
}

/// Returns the name of one of the `count` files of a split. Files are counted from 0.
pub(crate) fn file_name(stem: &str, number: u64, count: u64) -> String {
    format!("{stem}-{:05}-of-{count:05}.gguf", number.saturating_add(1))
}

/// Returns the names of the files after this one in its split, or nothing if it is not the name of a file of
/// a split.
#[must_use]
pub fn later_files(name: &str) -> Vec<String> {
    let later = SplitName::parse(name).map(|name| (name.number..name.count).map(move |n| name.sibling(n)));
    later.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_made() {
        let name = SplitName::parse("a/m-of-x-00002-of-00003.gguf").unwrap();
        assert_eq!(name, SplitName { stem: "a/m-of-x", number: 2, count: 3 });
        assert_eq!(name.sibling(2), "a/m-of-x-00003-of-00003.gguf");
        assert_eq!(later_files("m-00001-of-00003.gguf"), ["m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]);
        assert!(later_files("m-00003-of-00003.gguf").is_empty() && later_files("m.gguf").is_empty());
        for other in [
            "m.gguf",
            "m-00001-of-00003.bin",
            "m-00000-of-00003.gguf",
            "m-00004-of-00003.gguf",
            "m-1-of-3.gguf",
            "m-000001-of-00003.gguf",
            "m-+0001-of-00003.gguf",
            "m00001-of-00003.gguf",
        ] {
            assert_eq!(SplitName::parse(other), None, "{other}");
        }
    }
}
