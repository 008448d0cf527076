//! The parts of documents that are made from code: what each format can hold.

use std::fs;

use modelfmt::convert::{Access, Blocks, Capabilities, Metadata, Names};
use modelfmt::{DType, Format};

use crate::run::{Result, step};
use crate::workspace;

/// Where the table stands.
const CAPABILITIES_TABLE: Part = Part {
    file: "README.md",
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

/// Writes the table of what formats can hold into the README.
pub(crate) fn write() -> Result {
    step("docs");
    CAPABILITIES_TABLE.write(&table())
}

/// Fails if the README's table is not what the code says.
pub(crate) fn check() -> Result {
    step("docs");
    let (old, new) = CAPABILITIES_TABLE.rewritten(&table())?;
    if old == new {
        Ok(())
    } else {
        let file = CAPABILITIES_TABLE.file;
        Err(format!("the table in {file} is out of date; run cargo xtask docs").into())
    }
}

fn table() -> String {
    let mut table = String::from(
        "| format | numbers | ggml blocks | rank | tensor names | without data | metadata |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let has_tensors = |entry: &&Capabilities| !matches!(entry.access, Access::NoTensors(_));
    for entry in Format::ALL.iter().map(|format| format.capabilities()).filter(has_tensors) {
        let access = if entry.format.is_writable() { "" } else { " (read only)" };
        let cells = [
            format!("`{}`{access}", entry.format),
            numbers(entry),
            blocks(entry),
            format!("{} to {}", entry.min_rank, entry.max_rank),
            names(entry),
            if entry.declared { "yes" } else { "no" }.to_owned(),
            metadata(entry).to_owned(),
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// The types that an entry has, or those that it lacks, whichever is shorter.
fn numbers(entry: &Capabilities) -> String {
    const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];
    let (has, lacks): (Vec<DType>, Vec<DType>) = ALL.into_iter().partition(|&dtype| entry.has(dtype));
    let list = |dtypes: &[DType]| dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let more = if entry.complex { ", also f8 f6 f4 c64" } else { "" };
    match lacks.len() {
        0 => format!("all{more}"),
        n if n < has.len() => format!("all but {}{more}", list(&lacks)),
        _ => list(&has),
    }
}

fn blocks(entry: &Capabilities) -> String {
    match entry.blocks {
        Blocks::None => "no".to_owned(),
        Blocks::Some(types) => types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Blocks::All => "all".to_owned(),
    }
}

fn names(entry: &Capabilities) -> String {
    match entry.names {
        Names::Any => "any text".to_owned(),
        Names::AnyBut(reserved) => format!("any but `{reserved}`"),
        Names::UpTo65535Bytes => "1 to 65,535 bytes".to_owned(),
        Names::UpTo256Bytes => "1 to 256 bytes".to_owned(),
        Names::UpTo63Bytes => "up to 63 bytes".to_owned(),
        Names::Plain => "`A-Z a-z 0-9 . _ -`".to_owned(),
    }
}

const fn metadata(entry: &Capabilities) -> &'static str {
    match entry.metadata {
        Metadata::Json => "JSON: everything, also what restores other formats on the way back",
        Metadata::Numbers => "i64 and f64 by key",
        Metadata::Object => "values of any kind by key",
        Metadata::Typed => "typed values by key, size variables",
        Metadata::Strings => "strings by key",
        Metadata::Index => "JSON in the index",
        Metadata::TypedLists => "typed values and lists by key",
        Metadata::ReadOnly => "as it is",
    }
}
