//! `modelfmt inspect`

use std::collections::BTreeMap;
use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use modelfmt::{DType, Globs, InspectOptions, InspectedTensor, Inspection, List, Printable, Value, json};

use crate::args::Inspect;
use crate::failure::{Failure, Result};
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::streams;
use crate::units::{count, size};

/// Tables of more rows than this are printed without looking at all of them first.
const TABLE_ROWS: usize = 10_000;

/// Characters of a name or a shape that are printed: the longest makes every row of its table as wide.
const LONGEST: usize = 200;

pub(crate) fn run(args: &Inspect, quiet: bool) -> Result {
    let globs = args.tensors.as_deref().map(globs).transpose()?;
    let model = streams::open(&args.file, &args.open)?;
    let mut options = InspectOptions::new().hash(args.hash);
    if let Some(globs) = globs {
        options = options.tensors(globs);
    }
    let total = if args.hash { super::nbytes(&model) } else { 0 };
    let bar = Progress::new("hashing", total, quiet || !args.hash);
    let inspection = bar.run(|work| model.inspect(&options, work))?;
    super::print(|out| {
        if args.json {
            serde_json::to_writer_pretty(EscapedJson(&mut *out), &inspection)
                .map_err(std::io::Error::from)?;
            return Ok(writeln!(out)?);
        }
        text(&inspection, out)
    })
}

fn globs(pattern: &str) -> Result<Globs> {
    Globs::new([pattern]).map_err(|error| Failure::Usage(format!("--tensors: {error}")))
}

fn text(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let container = inspection.model.container();
    let path = inspection.model.path().display().to_string();
    let version = container.version().map_or_else(String::new, |version| format!(" {version}"));
    let (format, bytes) = (inspection.model.format(), size(container.file_size()));
    writeln!(out, "{}: {format}{version}, {bytes}", Printable(&path))?;
    tree("metadata", &inspection.metadata, out)?;
    tree("details", &inspection.details, out)?;
    tensors(&inspection.tensors, out)?;
    totals(inspection, out)
}

/// The top level of a tree, a line a key; what is too long for a line gets several, and what is longer still is cut.
fn tree(title: &str, tree: &Value, out: &mut dyn Write) -> Result {
    let Value::Object(entries) = tree else { return Ok(()) };
    if entries.iter().all(|(_, value)| value.is_null()) {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    let mut table = table();
    let longest = entries.iter().map(|(key, _)| name(key).chars().count()).max().unwrap_or(0);
    for (key, value) in entries.iter().filter(|(_, value)| !value.is_null()) {
        table.add_row([format!("  {}", name(key)), branch(value, value_width(longest))]);
    }
    Ok(writeln!(out, "{}", table.trim_fmt())?)
}

/// A value of the top level: a table if it is a long object or a long list of objects, else one line.
fn branch(value: &Value, width: usize) -> String {
    const MOST_ROWS: usize = 32;
    const MOST_COLUMNS: usize = 12;
    const LINE: usize = 80;
    let is_long = || json::start(value, LINE + 1).chars().count() > LINE;
    let mut table = table();
    let rows = match value {
        Value::Object(entries) if is_long() => {
            let longest = entries.iter().map(|(key, _)| name(key).chars().count()).max().unwrap_or(0);
            let width = width.saturating_sub(longest).max(LINE / 2);
            for (key, value) in entries.iter().take(MOST_ROWS) {
                table.add_row([name(key), leaf(value, width)]);
            }
            entries.len()
        }
        Value::Array(records) if is_long() && records.iter().all(|record| record.as_object().is_some()) => {
            let total = records.len();
            let records: Vec<_> = records.iter().take(MOST_ROWS).collect();
            let records: Vec<_> = records.iter().filter_map(Value::as_object).collect();
            let keys = || {
                records.iter().take(1).flat_map(|record| record.iter()).map(|(key, _)| key).take(MOST_COLUMNS)
            };
            table.add_row(keys().map(|key| Printable(key).cut(CELL)));
            for record in records.iter().take(MOST_ROWS) {
                table.add_row(keys().map(|key| record.get(key).map_or_else(String::new, cell)));
            }
            total
        }
        other => return leaf(other, width),
    };
    let mut text = table
        .trim_fmt()
        .lines()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    if let Some(more) = rows.checked_sub(MOST_ROWS).filter(|&more| more > 0) {
        text.push_str(&format!("\n… and {} more; --json has them", count(more as u64)));
    }
    text
}

/// Characters of a cell in a table of objects.
const CELL: usize = 32;

/// A value in such a cell: a list of words without brackets and quotes.
fn cell(value: &Value) -> String {
    let words = value.as_array().and_then(List::texts);
    let start = |words: Vec<&str>| words.get(..words.len().min(CELL + 2)).unwrap_or_default().join(" ");
    words.map_or_else(|| leaf(value, CELL), |words| Printable(&start(words)).cut(CELL))
}

/// A value in one line.
fn leaf(value: &Value, width: usize) -> String {
    match value {
        Value::String(text) => Printable(text).cut(width),
        other => Printable(&json::start(other, width + 1)).cut(width),
    }
}

/// Characters of a value that are shown beside keys of up to `key`: on a terminal what a line has room for.
fn value_width(key: usize) -> usize {
    const LEAST: usize = 40;
    const MOST: usize = 200;
    const INDENT_AND_GAP: usize = 6;
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(width), _)) => {
            usize::from(width).saturating_sub(key + INDENT_AND_GAP).clamp(LEAST, MOST)
        }
        None => MOST,
    }
}

/// A name that is fit for a line: escaped, cut if it is very long, and visible if it is empty.
fn name(name: &str) -> String {
    if name.is_empty() { "\"\"".to_owned() } else { Printable(name).cut(LONGEST) }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Names are there to be copied, so they are never folded.
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn tensors(tensors: &[InspectedTensor<'_>], out: &mut dyn Write) -> Result {
    if tensors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntensors")?;
    for chunk in tensors.chunks(TABLE_ROWS) {
        let mut table = table();
        for tensor in chunk {
            table.add_row(row(tensor));
        }
        if let Some(column) = table.column_mut(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{}", table.trim_fmt())?;
    }
    Ok(())
}

fn row(tensor: &InspectedTensor<'_>) -> Vec<String> {
    let info = &tensor.info;
    let mut notes = Vec::new();
    if !info.has_data {
        notes.push("no data".to_owned());
    }
    if info.has_data && tensor.location.offset.is_none() && info.nbytes > 0 {
        notes.push("not in this file".to_owned());
    } else if tensor.location.stored_nbytes != info.nbytes && info.has_data {
        notes.push(format!("{} as {}", size(tensor.location.stored_nbytes), tensor.location.encoding.name()));
    }
    notes.extend(tensor.quant.as_ref().map(|quant| match quant {
        Ok(quant) => format!("quant {quant}"),
        Err(why) => format!("quant: {}", Printable(why).cut(LONGEST)),
    }));
    notes.extend(tensor.location.file.as_deref().map(name));
    notes.extend(tensor.blake3.map(|hash| hash.to_hex().to_string()));
    let shape = Printable(&modelfmt::modelfmt_core::DisplayShape(info.shape).to_string()).cut(LONGEST);
    vec![format!("  {}", name(info.name)), info.dtype.to_string(), shape, size(info.nbytes), notes.join(", ")]
}

fn totals(inspection: &Inspection<'_>, out: &mut dyn Write) -> Result {
    let mut by_dtype = BTreeMap::<DType, (u64, u64)>::new();
    let (mut elements, mut nbytes) = (0u64, 0u64);
    for tensor in &inspection.tensors {
        let info = &tensor.info;
        let (tensors, bytes) = by_dtype.entry(info.dtype).or_default();
        *tensors += 1;
        *bytes = bytes.saturating_add(info.nbytes);
        elements = elements.saturating_add(info.elements());
        nbytes = nbytes.saturating_add(info.nbytes);
    }
    let shown = inspection.tensors.len() as u64;
    let all = inspection.model.tensor_count() as u64;
    let of = if shown == all { String::new() } else { format!(" of {}", count(all)) };
    let (s, z) = (if all == 1 { "" } else { "s" }, if elements == 1 { "" } else { "s" });
    let (shown, elements, nbytes) = (count(shown), count(elements), size(nbytes));
    write!(out, "\n{shown}{of} tensor{s}, {elements} parameter{z}, {nbytes}")?;
    for (i, (dtype, (tensors, bytes))) in by_dtype.iter().enumerate() {
        write!(out, "{} {dtype} × {} ({})", if i == 0 { ":" } else { "," }, count(*tensors), size(*bytes))?;
    }
    Ok(writeln!(out)?)
}
