//! Prints what every golden file and every file of 100 GB holds, as this machine reads it: JSON for `xtask/wasm/run.mjs`.
#![allow(clippy::panic, reason = "this is test code")]

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::Path;

use tensor_core::source::{Files, Folder, any_files};
use tensor_core::value::{Object, json};
use testkit_wasm::far::{self, Far};

fn main() -> Result<(), Box<dyn Error>> {
    let root = testkit::testdata("");
    let mut names = BTreeSet::new();
    models_below(&root, "", &mut names)?;
    let files = any_files(Folder::new(root));
    let golden: Object =
        names.into_iter().map(|name| (name.clone(), testkit_wasm::describe(&name, &files))).collect();
    let far: Object = far::files().into_iter().map(|file| (file.name, described(&file))).collect();
    let all: Object = [("golden", golden), ("far", far)].into_iter().collect();
    println!("{}", json::to_string_pretty(&all)?);
    Ok(())
}

/// The names of all models below `folder` of `root`.
fn models_below(root: &Path, folder: &str, names: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            models_below(root, &path, names)?;
        } else if testkit_wasm::is_model(&path) {
            names.insert(path);
        }
    }
    Ok(())
}

fn described(file: &Far) -> Object {
    let container = testkit_wasm::open(file.name, &any_files(One(file.clone())));
    let head: String = file.head.iter().map(|byte| format!("{byte:02x}")).collect();
    // As text: JavaScript's numbers are floats.
    [("head", head), ("len", file.len.to_string()), ("holds", far::describe(&*container))]
        .into_iter()
        .collect()
}

/// The folder with one file of 100 GB in it.
struct One(Far);

impl Files for One {
    type Source = Far;

    fn open(&self, _: &str) -> io::Result<Far> {
        Ok(self.0.clone())
    }
}
