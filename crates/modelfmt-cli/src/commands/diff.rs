//! `modelfmt diff`

use std::io::Write;

use modelfmt::convert::as_gguf;
use modelfmt::diff::{Changed, Diff as Differences, DiffOptions};
use modelfmt::wording::Printable;
use modelfmt::{DType, Model};

use super::converted::GGUF;
use crate::args::{Diff, OpenArgs, UnlockArgs};
use crate::chart::charset;
use crate::failure::{Failure, Result, is_reader_gone, say};
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::streams;
use crate::table;
use crate::units::count;
use crate::width::width;

pub(crate) fn run(args: &Diff, quiet: bool) -> Result {
    let open = |number: usize| OpenArgs {
        pin: args.pin.get(number).copied(),
        root: args.root.get(number).cloned(),
        remote: args.remote,
        signers: args.signers.clone(),
        unlock: args.unlock.clone(),
        allow_unencrypted: true,
    };
    if args.pin.len() > 2 {
        return Err(Failure::Usage("--pin: one for A and one for B at most".to_owned()));
    }
    if args.root.len() > 2 {
        return Err(Failure::Usage("--root: one for A and one for B at most".to_owned()));
    }
    let (a, b) = (streams::open(&args.a, &open(0))?, streams::open(&args.b, &open(1))?);
    if args.unlock != UnlockArgs::default() && !a.is_encrypted() && !b.is_encrypted() {
        let why = "--identity, --passphrase-file, --key-file: neither of the two is encrypted";
        return Err(Failure::Input(why.to_owned()));
    }
    let (a, b) = by_names(a, b, quiet);
    let bar = Progress::of("comparing", a.container().file_size(), args.json, quiet);
    let mut options = DiffOptions::default();
    (options.norms, options.tolerance) = (args.norms, args.tolerance);
    (options.ignore_metadata, options.ignore_dtype) = (args.ignore_metadata, args.ignore_dtype);
    let diff = bar.run(|work| modelfmt::diff::diff_with(&a, &b, &options, work))?;
    let printed = super::print(|out| {
        if args.json {
            serde_json::to_writer(EscapedJson(&mut *out), &diff).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        text(&diff, &options, out)
    });
    // The exit status is also an answer, which `| head` must not change.
    if !is_reader_gone(&printed) {
        printed?;
    }
    if diff.is_same() { Ok(()) } else { Err(Failure::Checked) }
}

/// Returns the models unchanged, or, if one is a GGUF and they share no tensor, the other one as the GGUF
/// that its map makes.
fn by_names(a: Model, b: Model, quiet: bool) -> (Model, Model) {
    if is_gguf(&a) == is_gguf(&b) || a.tensors().any(|tensor| b.find(tensor.name).is_ok()) {
        return (a, b);
    }
    let hub = if is_gguf(&a) { &b } else { &a };
    let path = hub.path().display().to_string();
    let note = match as_gguf(hub) {
        Ok(Some((mapped, _))) => {
            if !quiet {
                say(format_args!(
                    "note: {} is compared as the GGUF that its map makes of it",
                    Printable(&path)
                ));
            }
            return if is_gguf(&a) { (a, mapped) } else { (mapped, b) };
        }
        Ok(None) => "it is not a folder of the hub, so no map can translate its names".to_owned(),
        Err(error) => error.to_string(),
    };
    if !quiet {
        say(format_args!(
            "note: A and B have no tensor name in common. {}: {}",
            Printable(&path),
            Printable(&note)
        ));
    }
    (a, b)
}

fn is_gguf(model: &Model) -> bool {
    model.format().family() == GGUF
}

fn text(diff: &Differences, options: &DiffOptions, out: &mut dyn Write) -> Result {
    if diff.is_same() {
        let values = match options.tolerance {
            Some(tolerance) => format!("values within {}", digits(tolerance)),
            None => "same values".to_owned(),
        };
        let metadata = if options.ignore_metadata { "metadata not compared" } else { "same metadata" };
        return Ok(writeln!(out, "same tensors, {values}, {metadata}")?);
    }
    write_table(diff, options, out)?;
    for entry in &diff.metadata {
        let (sign, text) = match (&entry.a, &entry.b) {
            (Some(a), Some(b)) => ('~', metadata::both(entry, a, b)),
            (Some(a), None) => ('-', metadata::one(a)),
            (None, b) => ('+', b.as_ref().map(metadata::one).unwrap_or_default()),
        };
        writeln!(out, "{sign} metadata {}: {text}", Printable(&entry.key))?;
    }
    Ok(writeln!(out, "{}", summary(diff))?)
}

/// The number of characters of the longest bar if the line width is unknown, and the maximum if it is known.
const BARS: (usize, usize) = (16, 40);
/// A bar is not drawn if there is less room.
const LEAST_BAR: usize = 8;

/// Writes the table of tensors that differ. For narrow lines, it is reduced to the cells that distinguish
/// tensors.
fn write_table(diff: &Differences, options: &DiffOptions, out: &mut dyn Write) -> Result {
    let mut all = rows(diff, options, true);
    if width().is_some_and(|width| table::width_of(&all, None) + LEAST_BAR + 2 > width) {
        all = rows(diff, options, false);
    }
    if options.norms {
        add_bars(diff, &mut all);
    }
    table::write(&all, None, out)
}

/// Returns the rows of tensors that differ, after a title row.
fn rows(diff: &Differences, options: &DiffOptions, is_wide: bool) -> Vec<Vec<String>> {
    let columns: &[&str] = match (options.norms, is_wide) {
        (true, true) => &["tensor", "what", "max_abs", "rmse", "cosine", "rel_norm"],
        (true, false) => &["tensor", "what", "max_abs", "rel_norm"],
        (false, _) => &["tensor", "what", "max_abs", "max_rel"],
    };
    let mut rows = Vec::new();
    let mut row = |sign: char, name: &str, cells: Vec<String>| {
        let name = if name.is_empty() { "\"\"".to_owned() } else { Printable(name).to_string() };
        let mut row = vec![format!("{sign} {name}")];
        row.extend(cells);
        row.resize(columns.len(), String::new());
        rows.push(row);
    };
    for name in &diff.only_in_a {
        row('-', name, vec!["only in A".to_owned()]);
    }
    for name in &diff.only_in_b {
        row('+', name, vec!["only in B".to_owned()]);
    }
    for pair in &diff.renamed {
        row('>', &pair.a, vec![format!("is now {}", Printable(&pair.b))]);
    }
    for changed in &diff.changed {
        row('~', &changed.name, cells(changed, options, is_wide));
    }
    if rows.is_empty() {
        return rows;
    }
    let title: Vec<String> = columns.iter().map(|title| (*title).to_owned()).collect();
    rows.insert(0, title);
    if let Some(title) = rows.first_mut().and_then(|title| title.first_mut()) {
        title.insert_str(0, "  ");
    }
    rows
}

/// Adds a bar for the norm of the difference of each tensor, relative to the largest.
fn add_bars(diff: &Differences, rows: &mut [Vec<String>]) {
    let norm =
        |changed: &Changed| changed.norms.and_then(|norms| norms.rel_norm).filter(|norm| norm.is_finite());
    let most = diff.changed.iter().filter_map(norm).fold(0.0, f64::max);
    let room =
        width().map_or(BARS.0, |width| width.saturating_sub(table::width_of(rows, None) + 2).min(BARS.1));
    let first = rows.len().saturating_sub(diff.changed.len());
    for (row, changed) in rows.iter_mut().skip(first).zip(&diff.changed) {
        let share = norm(changed).filter(|_| room >= LEAST_BAR).map_or(0.0, |norm| norm / most);
        row.push(charset().bar(share, room));
    }
}

/// Returns what differs in a tensor, and by how much.
fn cells(changed: &Changed, options: &DiffOptions, is_wide: bool) -> Vec<String> {
    let mut what = Vec::new();
    if let Some([a, b]) = &changed.schemes {
        let (of_a, of_b) = changed.dtype.unwrap_or((DType::F32, DType::F32));
        let name =
            |scheme: &Option<String>, dtype: DType| scheme.clone().unwrap_or_else(|| dtype.to_string());
        what.push(format!("{} is now {}", name(a, of_a), name(b, of_b)));
    } else if let Some((a, b)) = changed.dtype {
        what.push(format!("{a} is now {b}"));
    }
    if let Some((a, b)) = &changed.shape {
        what.push(format!("{a:?} is now {b:?}"));
    }
    let values = changed.values.unwrap_or_default();
    if changed.values.is_some() {
        let has_nan = values.max_abs.is_some_and(f64::is_nan);
        what.push(if has_nan { "values, a NaN" } else { "values" }.to_owned());
    }
    let number = |number: Option<f64>| number.map_or_else(String::new, digits);
    let mut cells = vec![what.join(", "), number(values.max_abs)];
    if options.norms {
        let norms = changed.norms.unwrap_or_default();
        // Eight decimals, because its distance from 1 is what matters.
        let cosine = norms.cosine.map_or_else(String::new, |cosine| format!("{cosine:.8}"));
        cells.extend(is_wide.then(|| [number(norms.rmse), cosine]).into_iter().flatten());
        cells.push(number(norms.rel_norm));
    } else {
        cells.push(number(values.max_rel));
    }
    cells
}

/// Returns the last line: how many tensors differ (by kind of difference, if there are several) and how many
/// keys.
fn summary(diff: &Differences) -> String {
    let kinds = [
        (diff.only_in_a.len(), "only in A"),
        (diff.only_in_b.len(), "only in B"),
        (diff.renamed.len(), "renamed"),
        (diff.changed.len(), "changed"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(*number as u64)))
        .collect();
    let kinds = if kinds.len() > 1 { format!(" ({})", kinds.join(", ")) } else { String::new() };
    let number = diff.different_tensors();
    let (s, differ) =
        (if diff.tensors == 1 { "" } else { "s" }, if number == 1 { "differs" } else { "differ" });
    let (number, all) = (count(number as u64), count(diff.tensors as u64));
    let keys = match diff.metadata.len() {
        0 => String::new(),
        1 => ", and 1 metadata key".to_owned(),
        keys => format!(", and {} metadata keys", count(keys as u64)),
    };
    format!("{number} of {all} tensor{s} {differ}{kinds}{keys}")
}

/// Formats four significant digits, with an exponent only if it is not 0.
fn digits(number: f64) -> String {
    let text = format!("{number:.3e}");
    text.strip_suffix("e0").map_or(text.clone(), str::to_owned)
}

/// Values of metadata; long ones are cut.
mod metadata {
    use modelfmt::Value;
    use modelfmt::diff::MetadataDiff;
    use modelfmt::value::json;
    use modelfmt::wording::Printable;

    use crate::units::count;

    /// The maximum number of characters of a value.
    const MAX: usize = 160;

    /// Formats a value that only one model has.
    pub(super) fn one(value: &Value) -> String {
        let text = cut(value);
        match value.as_array() {
            Some(list) if is_long(value) => format!("{} entries: {text}", count(list.len() as u64)),
            _ => text,
        }
    }

    /// Formats two values that differ.
    pub(super) fn both(entry: &MetadataDiff, a: &Value, b: &Value) -> String {
        if !is_long(a) && !is_long(b) {
            return format!("{} is now {}", cut(a), cut(b));
        }
        if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
            return texts(a, b);
        }
        let (Some(lists), Some(of_a), Some(of_b)) = (entry.lists(), a.as_array(), b.as_array()) else {
            return format!("{} is now {}", one(a), one(b));
        };
        let number = |number: usize| count(number as u64);
        let counts = match lists.a == lists.b {
            true => format!("{} of {} entries differ", number(lists.differ), number(lists.a)),
            false => format!(
                "{} entries are now {}, {} differ",
                number(lists.a),
                number(lists.b),
                number(lists.differ)
            ),
        };
        let at =
            |list: &modelfmt::value::List| list.get(lists.first).map_or("none".to_owned(), |one| cut(&one));
        format!("{counts}, the first is [{}]: {} is now {}", lists.first, at(of_a), at(of_b))
    }

    /// Formats two texts, from a little before the position where they begin to differ.
    fn texts(a: &str, b: &str) -> String {
        let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let from = same.saturating_sub(20);
        let part = |text: &str| {
            let rest: String = text.chars().skip(from).take(MAX + 1).collect();
            let start = if from > 0 { "…" } else { "" };
            Printable(&format!("\"{start}{rest}\"")).cut(MAX)
        };
        let [of_a, of_b] = [a, b].map(|text| count(text.chars().count() as u64));
        format!(
            "{of_a} characters are now {of_b}, they differ from character {same} on: {} is now {}",
            part(a),
            part(b)
        )
    }

    fn is_long(value: &Value) -> bool {
        json::start(value, MAX + 1).chars().count() > MAX
    }

    fn cut(value: &Value) -> String {
        Printable(&json::start(value, MAX + 1)).cut(MAX)
    }
}
