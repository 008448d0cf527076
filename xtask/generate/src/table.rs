//! Makes the table in `docs/FORMATS.md` of what each format can hold.

use modelfmt::convert::{Access, Blocks, Capabilities, Metadata, Names};
use modelfmt::{DType, Format};

pub(crate) fn table() -> String {
    let has_tensors = |entry: &&Capabilities| !matches!(entry.access, Access::NoTensors(_));
    let mut rows: Vec<(Vec<String>, String)> = Vec::new();
    for entry in Format::ALL.iter().map(|format| format.capabilities()).filter(has_tensors) {
        let (format, cells) = (format!("`{}`", entry.format), cells(entry));
        match rows.last_mut() {
            // A format and its sets mostly hold the same. Then they share a row.
            Some((formats, last)) if *last == cells => formats.push(format),
            _ => rows.push((vec![format], cells)),
        }
    }
    let mut table = String::from(
        "| format | written | numbers | ggml blocks | rank | tensor names | without data | metadata |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (formats, cells) in rows {
        table.push_str(&format!("| {} | {cells} |\n", formats.join(" ")));
    }
    table
}

/// Returns the cells of a row, without the names of the formats.
fn cells(entry: &Capabilities) -> String {
    let yes_or_no = |yes| if yes { "yes" } else { "no" }.to_owned();
    let cells = [
        yes_or_no(entry.format.is_writable()),
        numbers(entry),
        blocks(entry),
        format!("{} to {}", entry.min_rank, entry.max_rank),
        names(entry),
        yes_or_no(entry.declared),
        metadata(entry).to_owned(),
    ];
    cells.join(" | ")
}

/// Lists the types that an entry has, or those that it lacks, whichever list is shorter.
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
        Metadata::Json => "any JSON",
        Metadata::Numbers => "i64 and f64 by key",
        Metadata::Object => "values of any kind by key",
        Metadata::Typed => "typed values by key, size variables",
        Metadata::Strings => "strings by key",
        Metadata::Index => "JSON in the index",
        Metadata::TypedLists => "typed values and lists by key",
        Metadata::ReadOnly => "as it is",
    }
}
