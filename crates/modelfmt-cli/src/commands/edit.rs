//! `modelfmt edit`

use std::path::Path;
use std::time::Instant;

use modelfmt::convert::Overwrite;
use modelfmt::edit::Edited;
use modelfmt::edit::{EditMethod, EditOptions, NewValue, Recovered};
use modelfmt::keys::PrivateKey;
use modelfmt::oms::signature_path;
use modelfmt::signed::expect_signable;
use modelfmt::wording::{Note, Printable};

use super::sign;
use crate::args::Edit;
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::progress::Progress;
use crate::units::{count, seconds, size};
use crate::{policy, secrets, streams};

pub(crate) fn run(args: &Edit, quiet: bool) -> Result {
    let begun = Instant::now();
    for path in [Some(&args.file), args.output.as_ref()].into_iter().flatten() {
        if streams::is_dash(path) {
            let why = "-: a stream cannot be edited; name a file";
            return Err(Failure::Usage(why.to_owned()));
        }
        let why = "only files of this machine are edited; download the file first, or write a new one with `modelfmt convert`";
        streams::require_local(path, why)?;
    }
    let mut options = options(args)?;
    if options.is_empty() && !args.sign.is_empty() {
        let why = "--sign: it signs the changed file, but you asked for no change; to sign the file as it is, use `modelfmt sign`";
        return Err(Failure::Usage(why.to_owned()));
    }
    if options.is_empty() && args.output.is_none() {
        return undo(args, quiet);
    }
    if let Some(output) = &args.output {
        let named = args.metadata.iter().chain(&args.sign).cloned();
        super::output::expect_no_input(output, named)?;
    }
    if !quiet {
        say_file_names(&args.set);
    }
    let beside = signers(args, &mut options)?;
    let plan = if args.dry_run { modelfmt::edit::Edit::new } else { modelfmt::edit::Edit::after_recovery };
    let edit = plan(&args.file, &options)?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(key) = &beside {
        edit.check(args.output.as_deref(), overwrite)?;
        let bar = Progress::new("verifying", edit.nbytes(), quiet);
        bar.run(|work| expect_signable(&args.file, key.public(), &options.open, work))?;
    }
    if args.dry_run {
        return rehearse(edit, args.output.as_deref(), overwrite, quiet);
    }
    let bar = Progress::new("copying", edit.nbytes(), quiet || edit.method() == EditMethod::InPlace);
    let edited = bar.run(|work| match &args.output {
        None => edit.write(work),
        Some(out) => edit.write_to(out, overwrite, work),
    })?;
    if let Some(key) = &beside {
        sign::changed(&edited.path, key, quiet)?;
    }
    if !quiet {
        report(&edited, beside.is_some(), begun);
    }
    Ok(())
}

/// Prints a note about values such as `@template.jinja`: other tools use the content of that file.
fn say_file_names(set: &[(String, String)]) {
    for (key, value) in set {
        if let Some(name) = value.strip_prefix('@').filter(|name| Path::new(name).is_file()) {
            let (key, name) = (Printable(key), Printable(name));
            say(format_args!(
                "note: the value of {key} is \"@{name}\", not the content of that file; for the content, use --set {key}=\"$(cat {name})\""
            ));
        }
    }
}

/// Prints what an edit would do, or fails as the edit would.
fn rehearse(edit: modelfmt::edit::Edit, output: Option<&Path>, overwrite: Overwrite, quiet: bool) -> Result {
    let path = edit.path().display().to_string();
    let bar = Progress::new("checking", edit.nbytes(), quiet || edit.method() == EditMethod::InPlace);
    let edited = bar.run(|work| edit.dry_run(output, overwrite, work))?;
    if !quiet {
        say_notes(&edited.notes);
    }
    let tensors = changes(edited.renamed, "renamed") + &changes(edited.dropped, "dropped");
    say(format_args!("would edit {}{tensors}, {}", Printable(&path), words(edited.method)));
    Ok(())
}

/// Reads the signing keys. For an APR2 file, they are added to the options. For another file, returns the key
/// for the signature next to it.
fn signers(args: &Edit, options: &mut EditOptions) -> Result<Option<PrivateKey>> {
    if args.sign.is_empty() {
        return Ok(None);
    }
    if args.file.is_file() {
        policy::open_options().judge_place(&args.file)?;
    }
    let is_inside = match policy::open_options().probe(&args.file) {
        Ok(look) => look.format.is_some_and(|format| format.properties().embedded_signatures),
        Err(_) => false, // opening the file says why
    };
    if is_inside {
        options.sign = args.sign.iter().map(|path| secrets::signing_key(path)).collect::<Result<_>>()?;
        options.revision = args.revision;
        return Ok(None);
    }
    if args.revision.is_some() {
        return Err(Failure::Usage("--revision: only signatures inside APR2 files have one".to_owned()));
    }
    sign::key_of_changed(&args.file, &args.sign).map(Some)
}

/// Undoes an interrupted edit.
fn undo(args: &Edit, quiet: bool) -> Result {
    let path = args.file.display().to_string();
    policy::open_options().judge_place(&args.file)?;
    let recovered = if args.dry_run { Recovered::Nothing } else { modelfmt::edit::recover(&args.file)? };
    if recovered == Recovered::Nothing {
        let why = format!(
            "{path}: there is no interrupted edit to undo, and no change was asked for; give --set, --unset, --metadata, --rename or --drop"
        );
        return Err(Failure::Usage(why));
    }
    if !quiet {
        let path = Printable(&path);
        match recovered {
            Recovered::Completed => say(format_args!("completed the edit of {path} that was interrupted")),
            Recovered::NotBegun => say(format_args!(
                "removed the remains of an interrupted edit of {path}; it had changed nothing"
            )),
            _ => say(format_args!("undid the edit of {path} that was interrupted")),
        }
    }
    Ok(())
}

fn report(edited: &Edited, is_signed_beside: bool, begun: Instant) {
    let anew = is_signed_beside.then(|| signature_path(&edited.path));
    say_notes(edited.notes.iter().filter(|note| anew.is_none() || note.file != anew));
    let path = edited.path.display().to_string();
    let path = Printable(&path);
    let time = seconds(begun.elapsed());
    if edited.method == EditMethod::Unchanged {
        return say(format_args!("{path} is already as you asked; nothing was written"));
    }
    let keys = changes(edited.set, "set") + &changes(edited.unset, "unset");
    let tensors = changes(edited.renamed, "renamed") + &changes(edited.dropped, "dropped");
    let nbytes = match edited.method {
        EditMethod::InPlace => size(edited.changed_nbytes),
        _ => size(edited.nbytes),
    };
    say(format_args!("edited {path}{keys}{tensors}, {}: {nbytes} in {time}", words(edited.method)));
}

fn say_notes<'a>(notes: impl IntoIterator<Item = &'a Note>) {
    for note in notes {
        say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
    }
}

/// Returns text such as `, 3 renamed`; empty for 0.
fn changes(number: usize, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", {} {what}", count(number as u64)) }
}

const fn words(how: EditMethod) -> &'static str {
    match how {
        EditMethod::Unchanged => "which is already as you asked",
        EditMethod::InPlace => "in place",
        EditMethod::NewFile => "in a new file with copied values",
        _ => "in a new file",
    }
}

fn options(args: &Edit) -> Result<EditOptions> {
    let mut options = EditOptions::default();
    options.open = policy::open_options();
    options.metadata = args.metadata.as_deref().map(super::convert::metadata).transpose()?;
    let set = args.set.iter().map(|(key, value)| (key.clone(), NewValue::Text(value.clone())));
    options.set = set.collect();
    options.unset.clone_from(&args.unset);
    options.rename.clone_from(&args.rename);
    options.drop.clone_from(&args.drop);
    Ok(options)
}
