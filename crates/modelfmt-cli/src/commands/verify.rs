//! `modelfmt verify`

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use modelfmt::VerifyLevel;
use modelfmt::oms::signature_path;
use modelfmt::signed::DetachedSignature;
use modelfmt::verify::{FileReport, Status};
use modelfmt::wording::Printable;

use super::done::DoneList;
use super::{derivation, files, verdict};
use crate::args::{OpenArgs, Verify};
use crate::failure::{Failure, Result, is_reader_gone, say};
use crate::json::EscapedJson;
use crate::policy;
use crate::progress::Progress;
use crate::stop;
use crate::walk::{Skipped, say_foreign, walk};
use crate::{detached_signature, streams};

pub(crate) fn run(args: &Verify, quiet: bool) -> Result {
    if args.open.pin.is_some() && (args.files.len() > 1 || args.recursive) {
        return Err(Failure::Usage(
            "--pin: a pin is for one file; name only that file, without -r".to_owned(),
        ));
    }
    if args.derivation.is_some() && args.files.len() > 1 {
        return Err(Failure::Usage("--derivation: it is of one model; name no other".to_owned()));
    }
    let (mut tally, mut skipped) = (Tally::default(), Skipped::default());
    let done = args.resume.clone().map(DoneList::read);
    for path in &args.files {
        if !args.recursive || !path.is_dir() {
            verify(path, args, &args.open, quiet, &mut tally)?;
            continue;
        }
        let mut signed = SignedFolders::new(path, &args.open)?;
        // The signature of the whole folder covers more than its models.
        if signed.has_key && signature_path(path).is_file() {
            signed.is_good(path, |folder| verify(folder, args, &args.open, quiet, &mut tally))?;
        }
        let found = walk(path);
        if !quiet {
            say_foreign(&found.foreign);
        }
        for (path, why) in &found.unreadable {
            say(format_args!("error: {}: {}", Printable(&path.display().to_string()), Printable(why)));
            tally.unread += 1;
        }
        for path in &found.models {
            let is_covered =
                signed.covers(path, |folder| verify(folder, args, &args.open, quiet, &mut tally))?;
            let open = if is_covered { args.open.without_signers() } else { args.open.clone() };
            resume(path, args, done.as_ref(), quiet, &mut tally, &open)?;
        }
        skipped.add(&found);
    }
    if args.recursive {
        summary(&tally, &format!("; {skipped}"), args.json, quiet)?;
    } else if args.files.len() > 1 && !args.json {
        summary(&tally, "", args.json, quiet)?;
    }
    if !tally.unchecked.is_empty() {
        say(unchecked(&tally.unchecked));
    }
    if !quiet {
        tally.heal.iter().take(3).for_each(|text| say(format_args!("note: {text}")));
    }
    match tally {
        Tally { verified: 0, unread: 0, skipped: 0, .. } => {
            Err(Failure::Input("there is no model to verify".to_owned()))
        }
        Tally { failed: 0, unread: 0, .. } => Ok(()),
        _ => Err(Failure::Checked),
    }
}

/// The folder and the folders below it whose signatures have been verified.
struct SignedFolders<'a> {
    root: &'a Path,
    /// Whether there is a key that can sign a folder.
    has_key: bool,
    /// Each folder, with whether its signature covers the files in it.
    known: HashMap<PathBuf, bool>,
}

impl<'a> SignedFolders<'a> {
    fn new(root: &'a Path, open: &OpenArgs) -> Result<Self> {
        Ok(Self { root, has_key: open.has_key_beside()?, known: HashMap::new() })
    }

    /// Checks whether a file is covered by the signature of its folder, or of a folder above. A signature
    /// next to the file itself takes precedence.
    fn covers(&mut self, file: &Path, verify: impl FnOnce(&Path) -> Result<bool>) -> Result<bool> {
        if !self.has_key || signature_path(file).is_file() {
            return Ok(false);
        }
        let mut folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(self.root));
        let Some(folder) = folders.find(|folder| signature_path(folder).is_file()) else { return Ok(false) };
        self.is_good(folder, verify)
    }

    /// Checks whether the signature of a folder is good. Calls `verify` only for the first query of each
    /// folder.
    fn is_good(&mut self, folder: &Path, verify: impl FnOnce(&Path) -> Result<bool>) -> Result<bool> {
        if let Some(known) = self.known.get(folder) {
            return Ok(*known);
        }
        let is_good = verify(folder)?;
        self.known.insert(folder.to_owned(), is_good);
        Ok(is_good)
    }
}

/// Counts files by result.
#[derive(Default)]
struct Tally {
    verified: usize,
    failed: usize,
    /// Files and folders that could not be read.
    unread: usize,
    /// Models that were ok before and have not changed since.
    skipped: usize,
    /// Messages about commands that would repair damaged files.
    heal: Vec<String>,
    /// Signatures for which no key was given.
    unchecked: Vec<String>,
}

/// Verifies a model of a folder, unless the list says that it was ok.
fn resume(
    path: &Path,
    args: &Verify,
    done: Option<&DoneList>,
    quiet: bool,
    tally: &mut Tally,
    open: &OpenArgs,
) -> Result {
    let Some(done) = done else { return verify(path, args, open, quiet, tally).map(drop) };
    // Paths in the list are absolute, so that the list is valid in every working folder.
    let key = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned();
    // The list says which models were ok, not which may be read now.
    let Ok(model) = open.without_signers().options()?.open(path) else {
        return verify(path, args, open, quiet, tally).map(drop);
    };
    let files: Vec<_> = model.input_paths().collect();
    let files = files.into_iter().map(|file| std::path::absolute(&file).unwrap_or(file));
    let job = super::done::job(&format!("verify {:?} {:?}", args.level, open), files);
    if done.find(&key, &job).is_some() {
        tally.skipped += 1;
        return Ok(());
    }
    if verify(path, args, open, quiet, tally)? { done.add(&key, job) } else { Ok(()) }
}

/// Verifies a model, prints the result, and returns whether the model is good.
fn verify(path: &Path, args: &Verify, open: &OpenArgs, quiet: bool, tally: &mut Tally) -> Result<bool> {
    let is_beside = args.derivation.is_none()
        && !open.signers.key.is_empty()
        && detached_signature::is_signed_beside(path);
    let keys = if is_beside { open.keys_beside()? } else { Vec::new() };
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let bar = Progress::of("verifying", size, args.json, quiet);
    let level = args.level.into();
    let report = bar.run(|work| match is_beside {
        false if args.derivation.is_some() => streams::verify(path, level, &open.without_signers(), work),
        false => streams::verify(path, level, open, work),
        true => {
            let signers = (&*keys, &args.beside.options());
            streams::verify_signed(path, level, &open.without_signers(), signers, work)
        }
    });
    if stop::is_asked() {
        return Err(Failure::Checked);
    }
    let mut report = report?;
    if let Some(statement) = &args.derivation {
        let keys = open.keys_beside()?;
        bar.run(|work| derivation::check(path, statement, &keys, &mut report, work))?;
    }
    if !args.recursive && !quiet && path.is_dir() && report.format.is_none() && open.signers.key.is_empty() {
        say("note: `verify -r` takes every model below a folder");
    }
    streams::warn(&report.path, &report.warnings);
    let is_unasked = args.open.signers.key.is_empty() && policy::get().is_none();
    if let Some(signature) = DetachedSignature::find(path).filter(|_| is_unasked && !quiet) {
        let path = Printable(&signature.path.display().to_string()).to_string();
        match args.recursive {
            true => tally.unchecked.push(path),
            false => say(unchecked(&[path])),
        }
    }
    tally.verified += 1;
    tally.failed += usize::from(!report.is_ok());
    tally.heal.extend(heal(&report, args));
    print(|out| if args.json { json(&report, out) } else { text(&report, out) })?;
    Ok(report.is_ok())
}

/// Returns the note about signatures for which no key was given.
fn unchecked(signatures: &[String]) -> String {
    const NAMED: usize = 3;
    let named = signatures.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = signatures.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let were = if signatures.len() == 1 { "was" } else { "were" };
    format!("note: {named}{more} {were} not checked; --key KEY does that")
}

/// Checks whose failure means damaged bytes that `fetch` can find and replace.
const HASHES: [&str; 6] = ["chunk-hashes", "tensor-hashes", "page-hashes", "shard-crcs", "crc", "outboard"];

/// Returns a message about the command that would repair a damaged file, if its parts can be checked.
fn heal(report: &FileReport, args: &Verify) -> Option<String> {
    if !cfg!(feature = "remote") || report.is_ok() || !report.path.is_file() {
        return None;
    }
    let format = report.format?;
    let path = report.path.display().to_string();
    let path = Printable(&path);
    let is_damaged = |report: &FileReport| {
        let mut failed = report.report.checks.iter().filter(|check| check.status == Status::Failed);
        failed.any(|check| HASHES.contains(&check.name))
    };
    if let Some(pin @ modelfmt::Pin::B3(_)) = args.open.pin {
        // A wrong pin ends the verification of the file. The file may be damaged, or be a different, intact
        // file.
        let open = OpenArgs { pin: None, ..args.open.clone() };
        let own =
            streams::verify(&report.path, args.level.into(), &open, &modelfmt::Execution::default()).ok()?;
        let command = format!("`modelfmt fetch URL {path} --pin {pin}`");
        if is_damaged(&own) {
            return Some(format!("{command} replaces the damaged parts with those of a good copy at URL"));
        }
        let has_hashes =
            own.report.checks.iter().any(|check| check.status == Status::Ok && HASHES.contains(&check.name));
        return (!has_hashes).then(|| {
            format!("if it is a damaged copy of the pinned file, {command} replaces the damaged parts")
        });
    }
    // A set is fetched into a folder, by the URL of its index.
    let folder = modelfmt::modelfmt_core::source::folder_of(&report.path).display().to_string();
    let command = match format.is_set() {
        true => format!("modelfmt fetch URL {}/", Printable(&folder)),
        false => format!("modelfmt fetch URL {path}"),
    };
    is_damaged(report)
        .then(|| format!("`{command}` replaces the damaged parts with those of a good copy at URL"))
}

/// Prints the last line, to standard output if the results are text.
fn summary(tally: &Tally, more: &str, is_json: bool, quiet: bool) -> Result {
    let Tally { verified, failed, unread, skipped, .. } = *tally;
    let done = if skipped == 0 { String::new() } else { format!(", {skipped} ok before") };
    let unread = if unread == 0 { String::new() } else { format!(", {unread} not readable") };
    let line =
        format!("{}: {} ok, {failed} failed{done}{unread}{more}", files(verified, ""), verified - failed);
    match (is_json, quiet) {
        (false, _) => print(|out| Ok(writeln!(out, "{line}")?)),
        (true, false) => {
            say(line);
            Ok(())
        }
        (true, true) => Ok(()),
    }
}

/// Prints, and ignores a closed standard output: the exit status covers all files even then.
fn print(write: impl FnOnce(&mut dyn Write) -> Result) -> Result {
    let printed = super::print(write);
    if is_reader_gone(&printed) { Ok(()) } else { printed }
}

fn json(report: &FileReport, out: &mut dyn Write) -> Result {
    serde_json::to_writer(EscapedJson(&mut *out), report).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// Writes a line for the file, and one for each finding and for each check that could not cover everything.
fn text(report: &FileReport, out: &mut dyn Write) -> Result {
    let path = report.path.display().to_string();
    write!(out, "{} {}", verdict(report.is_ok()), Printable(&path))?;
    match report.format {
        Some(format) => write!(out, " ({}", format.name())?,
        None if report.path.is_dir() => write!(out, " (folder")?,
        // For a missing file, the error is enough.
        None if !report.is_ok() && !report.path.exists() => return errors(report, out),
        None => write!(out, " (unknown format")?,
    }
    let done: Vec<_> = report.report.checks.iter().filter(|check| check.status != Status::Absent).collect();
    for (i, check) in done.iter().enumerate() {
        let mark = if check.status == Status::Failed { "!" } else { "" };
        write!(out, "{} {}{mark}", if i == 0 { ":" } else { "," }, check.name)?;
    }
    // Without checksums, a changed value in such a file cannot be noticed.
    let is_all = report.report.level == VerifyLevel::Full;
    if is_all && report.is_ok() && matches!(done[..], [check] if check.name == "structure") {
        write!(out, ", no checksums")?;
    }
    write!(out, ")")?;
    errors(report, out)?;
    for check in &report.report.checks {
        // Encrypted content that was not checked must not look intact.
        let is_unopened = check.name == "encryption"
            && check.status == Status::Absent
            && check.detail != "the file is not encrypted";
        if !check.is_partial && !is_unopened {
            continue;
        }
        writeln!(out, "  note: {}: {}", check.name, Printable(&check.detail))?;
    }
    Ok(())
}

/// Writes the end of the line, and a line for each finding, findings about tensors first. JSON has hashes in
/// full.
fn errors(report: &FileReport, out: &mut dyn Write) -> Result {
    writeln!(out)?;
    let (tensors, others): (Vec<_>, Vec<_>) =
        report.report.errors.iter().partition(|error| error.starts_with("tensor "));
    for error in tensors.into_iter().chain(others) {
        writeln!(out, "  {}", Printable(&short_hashes(error)))?;
    }
    Ok(())
}

/// Shortens hashes of 64 hex digits in a text to 12, unless two of them would then be the same.
fn short_hashes(text: &str) -> String {
    const SHORT: usize = 12;
    let is_hash = |part: &str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).collect();
    let word = |part: &str| part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    let hashes: BTreeSet<String> = parts.iter().map(|part| word(part)).filter(|part| is_hash(part)).collect();
    let starts: BTreeSet<&str> = hashes.iter().filter_map(|hash| hash.get(..SHORT)).collect();
    if starts.len() < hashes.len() {
        return text.to_owned();
    }
    let shorten = |part: &&str| match word(part) {
        hash if is_hash(&hash) => {
            let end = part.get(hash.len()..).unwrap_or_default();
            format!("{}…{end}", hash.get(..SHORT).unwrap_or_default())
        }
        _ => (*part).to_owned(),
    };
    parts.iter().map(shorten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_short_where_they_differ_soon() {
        let (a, b) = ("ab".repeat(32), "cd".repeat(32));
        let text = format!("tensor \"w\": has BLAKE3 {a}, but the TOC says b3:{b}: {a}");
        assert_eq!(
            short_hashes(&text),
            "tensor \"w\": has BLAKE3 abababababab…, but the TOC says b3:cdcdcdcdcdcd…: abababababab…"
        );
        let near = format!("{}ff", "ab".repeat(31));
        let text = format!("{a} and {near}");
        assert_eq!(short_hashes(&text), text);
        for text in ["", "名前 abc", &"a".repeat(63), &"a".repeat(65)] {
            assert_eq!(short_hashes(text), text);
        }
    }
}
