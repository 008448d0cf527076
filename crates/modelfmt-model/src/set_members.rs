//! Finds which of several models are parts of another one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A model: its path, and for a set the paths of its files, relative to its folder.
pub(crate) type Place<'a> = (Option<&'a Path>, Vec<String>);

/// Returns for each model whether it is whole: not a file of a set among the models. Users often name the
/// files of a split by a pattern, and any file of a split GGUF stands for the whole split.
pub(crate) fn are_standalone(models: &[Place<'_>]) -> Vec<bool> {
    let mut set_of = HashMap::<PathBuf, usize>::new();
    for (number, (path, files)) in models.iter().enumerate() {
        let Some(folder) = path.and_then(Path::parent) else { continue };
        for file in files {
            set_of.entry(folder.join(file)).or_insert(number);
        }
    }
    let is_standalone = |(number, (path, _)): (usize, &Place<'_>)| {
        let set = path.and_then(|path| set_of.get(path));
        set.is_none_or(|set| *set == number)
    };
    models.iter().enumerate().map(is_standalone).collect()
}
