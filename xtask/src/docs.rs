//! Writes and checks what is generated from code: parts of documents, and golden files.

use std::fs;

use crate::run::{self, Result, exec, step};
use crate::workspace;

/// Where the table of capabilities is.
const CAPABILITIES_TABLE: Part = Part {
    file: "docs/FORMATS.md",
    begin: "<!-- made by `cargo xtask docs` from `Format::capabilities` -->",
    end: "<!-- end -->",
};

/// The part of a document between two marker lines.
pub(crate) struct Part {
    /// The document's path in the workspace.
    pub(crate) file: &'static str,
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

impl Part {
    /// Replaces the part by `lines`.
    pub(crate) fn write(&self, lines: &str) -> Result {
        let (old, new) = self.rewritten(lines)?;
        if old != new {
            fs::write(workspace::root().join(self.file), new)?;
            println!("wrote the table in {}", self.file);
        }
        Ok(())
    }

    /// Returns the document as it is, and with the part replaced by `lines`.
    fn rewritten(&self, lines: &str) -> Result<(String, String)> {
        let Self { file, begin, end } = self;
        let old = fs::read_to_string(workspace::root().join(file))?;
        let missing = || format!("{file} has lost the lines {begin} and {end}");
        let (head, rest) = old.split_once(begin).ok_or_else(missing)?;
        let (_, tail) = rest.split_once(end).ok_or_else(missing)?;
        let new = format!("{head}{begin}\n{lines}{end}{tail}");
        Ok((old, new))
    }
}

/// Writes the table of capabilities into its document.
pub(crate) fn write() -> Result {
    step("docs");
    CAPABILITIES_TABLE.write(&table()?)
}

/// Fails if the table in the document differs from what the code makes.
pub(crate) fn check() -> Result {
    step("docs");
    let (old, new) = CAPABILITIES_TABLE.rewritten(&table()?)?;
    if old == new {
        Ok(())
    } else {
        let file = CAPABILITIES_TABLE.file;
        Err(format!("the table in {file} is out of date; run cargo xtask docs").into())
    }
}

/// Runs one task for the golden files: `check` compares them, `write` adds missing ones, `replace` also
/// overwrites those that differ.
pub(crate) fn fixtures(what: &str) -> Result {
    step("fixtures: golden files made from code");
    exec(workspace::program("generate").arg(what))
}

fn table() -> Result<String> {
    run::output(workspace::program("generate").arg("table"))
}
