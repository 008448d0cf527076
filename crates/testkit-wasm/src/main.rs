//! Prints the content of every golden file and every file of 100 GB, as this machine reads it: JSON for
//! `xtask/wasm/run.mjs`.
#![allow(clippy::panic, reason = "this is test code")]

use std::error::Error;
use std::io;

use modelfmt_core::source::{Files, Folder, shared_files};
use modelfmt_core::value::{Object, json};
use testkit_wasm::far::{self, Far};

fn main() -> Result<(), Box<dyn Error>> {
    let root = testkit::testdata("");
    let names = testkit_wasm::models_below(&root)?;
    let files = shared_files(Folder::new(root));
    let golden: Object =
        names.into_iter().map(|name| (name.clone(), testkit_wasm::describe(&name, &files))).collect();
    let far: Object = far::files().into_iter().map(|file| (file.name, described(&file))).collect();
    let all: Object = [("golden", golden), ("far", far)].into_iter().collect();
    println!("{}", json::to_string_pretty(&all)?);
    Ok(())
}

fn described(file: &Far) -> Object {
    let container = testkit_wasm::open(file.name, &shared_files(One(file.clone())));
    let head: String = file.head.iter().map(|byte| format!("{byte:02x}")).collect();
    // As text, because JavaScript's numbers are floats.
    [("head", head), ("len", file.len.to_string()), ("holds", far::describe(&*container))]
        .into_iter()
        .collect()
}

/// A folder that contains one file of 100 GB.
struct One(Far);

impl Files for One {
    type Source = Far;

    fn open(&self, _: &str) -> io::Result<Far> {
        Ok(self.0.clone())
    }
}
