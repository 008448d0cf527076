//! `modelfmt edit`

use std::time::Instant;

use modelfmt::edit::{EditMethod, EditOptions, NewValue, Recovered};
use modelfmt::{Edited, Overwrite, Printable};

use crate::args::Edit;
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::progress::Progress;
use crate::streams;
use crate::units::{count, seconds, size};

pub(crate) fn run(args: &Edit, quiet: bool) -> Result {
    let begun = Instant::now();
    for path in [Some(&args.file), args.output.as_ref()].into_iter().flatten() {
        if streams::is_dash(path) {
            let why = "-: a file is edited where it is, and a stream has no place; name a file";
            return Err(Failure::Usage(why.to_owned()));
        }
    }
    let options = options(args)?;
    if options.is_empty() && args.output.is_none() {
        return undo(args, quiet);
    }
    let edit = modelfmt::Edit::new(&args.file, &options)?;
    if args.dry_run {
        let how = if args.output.is_some() { EditMethod::NewFile } else { edit.method() };
        let (tensors, dropped) = (changes(edit.renamed(), "renamed"), changes(edit.dropped(), "dropped"));
        let path = edit.path().display().to_string();
        say(format_args!("would edit {}{tensors}{dropped}, {}", Printable(&path), words(how)));
        return Ok(());
    }
    let bar = Progress::new("copying", edit.nbytes(), quiet || edit.method() == EditMethod::InPlace);
    let edited = bar.run(|work| match &args.output {
        None => edit.write(work),
        Some(out) => {
            let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
            edit.write_to(out, overwrite, work)
        }
    })?;
    if !quiet {
        report(&edited, begun);
    }
    Ok(())
}

/// Puts back what an edit has left that was interrupted.
fn undo(args: &Edit, quiet: bool) -> Result {
    let path = args.file.display().to_string();
    let recovered = if args.dry_run { Recovered::Nothing } else { modelfmt::edit::recover(&args.file)? };
    if recovered == Recovered::Nothing {
        let why = format!(
            "{path}: no edit of it was interrupted, and nothing is to be changed; give --set, --unset, --metadata, --rename or --drop"
        );
        return Err(Failure::Usage(why));
    }
    if !quiet {
        let done = if recovered == Recovered::Completed { "completed" } else { "undid" };
        say(format_args!("{done} the edit of {} that was interrupted", Printable(&path)));
    }
    Ok(())
}

fn report(edited: &Edited, begun: Instant) {
    for note in &edited.notes {
        say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
    }
    let path = edited.path.display().to_string();
    let path = Printable(&path);
    let time = seconds(begun.elapsed());
    if edited.method == EditMethod::Unchanged {
        return say(format_args!("{path} has all that already; nothing was written"));
    }
    let keys = changes(edited.set, "set") + &changes(edited.unset, "unset");
    let tensors = changes(edited.renamed, "renamed") + &changes(edited.dropped, "dropped");
    let nbytes = match edited.method {
        EditMethod::InPlace => size(edited.changed_nbytes),
        _ => size(edited.nbytes),
    };
    say(format_args!("edited {path}{keys}{tensors}, {}: {nbytes} in {time}", words(edited.method)));
}

/// `: 3 renamed`
fn changes(number: usize, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", {} {what}", count(number as u64)) }
}

const fn words(how: EditMethod) -> &'static str {
    match how {
        EditMethod::Unchanged => "which has all that already",
        EditMethod::InPlace => "in place",
        EditMethod::NewFile => "by a new file with the values copied",
        _ => "by a new file",
    }
}

fn options(args: &Edit) -> Result<EditOptions> {
    let mut options = EditOptions::default();
    options.metadata = args.metadata.as_deref().map(super::convert::metadata).transpose()?;
    let set = args.set.iter().map(|(key, value)| (key.clone(), NewValue::Text(value.clone())));
    options.set = set.collect();
    options.unset.clone_from(&args.unset);
    options.rename.clone_from(&args.rename);
    options.drop.clone_from(&args.drop);
    Ok(options)
}
