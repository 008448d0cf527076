//! What is made from code: parts of documents, and golden files.

use std::fs;

use crate::run::{self, Result, exec, step};
use crate::workspace;

/// Where the table stands.
const CAPABILITIES_TABLE: Part = Part {
    file: "docs/FORMATS.md",
    begin: "<!-- made by `cargo xtask docs` from `Format::capabilities` -->",
    end: "<!-- end -->",
};

/// The lines of a document between two lines of it.
pub(crate) struct Part {
    /// The document's path in the workspace.
    pub(crate) file: &'static str,
    pub(crate) begin: &'static str,
    pub(crate) end: &'static str,
}

impl Part {
    /// Puts lines there, in place of what stood there.
    pub(crate) fn write(&self, lines: &str) -> Result {
        let (old, new) = self.rewritten(lines)?;
        if old != new {
            fs::write(workspace::root().join(self.file), new)?;
            println!("wrote the table in {}", self.file);
        }
        Ok(())
    }

    /// The document as it is, and as it is to be.
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

/// Writes the table of what formats can hold into its page.
pub(crate) fn write() -> Result {
    step("docs");
    CAPABILITIES_TABLE.write(&table()?)
}

/// Fails if that table is not what the code says.
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

/// Golden files: `check`, `write` those that are missing, or `replace` those that differ.
pub(crate) fn fixtures(what: &str) -> Result {
    step("fixtures: golden files made from code");
    exec(workspace::made().arg(what))
}

fn table() -> Result<String> {
    run::output(workspace::made().arg("table"))
}
