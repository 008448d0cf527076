//! `modelfmt sign`: the detected format determines which kind of signature a file gets.

use std::path::{Path, PathBuf};
use std::time::Instant;

use modelfmt::Format;
use modelfmt::convert::Overwrite;
use modelfmt::edit::EditMethod;
use modelfmt::keys::PrivateKey;
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::oms::{self, SignOptions};
use modelfmt::seal::Resealed;
use modelfmt::wording::Printable;

use crate::args::{OpenArgs, Sign, UnlockArgs};
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::progress::Progress;
use crate::units::{count, seconds, size};
use crate::{keys, policy, secrets, streams};

pub(crate) fn run(args: &Sign, quiet: bool) -> Result {
    if streams::is_dash(&args.model) {
        let why =
            "-: a signature is written next to its file, so standard input cannot be signed; name a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    streams::require_local(
        &args.model,
        "only files and folders of this machine are signed; download them first",
    )?;
    match format(args)? {
        Some(format) if format.properties().embedded_signatures => inside(args, quiet),
        Some(format) if format.is_set() => Err(Failure::Input(format!(
            "{}: names other files, which a signature of this one would not cover; sign the folder",
            args.model.display()
        ))),
        _ => beside(args, quiet),
    }
}

/// Returns the format of a file; `None` for a folder.
fn format(args: &Sign) -> Result<Option<Format>> {
    if args.model.is_dir() {
        return Ok(None);
    }
    if args.model.is_file() {
        policy::open_options().judge_place(&args.model)?;
    }
    let unread = |error| Failure::Input(format!("{}: cannot be read: {error}", args.model.display()));
    Ok(policy::open_options().probe(&args.model).map_err(unread)?.format)
}

/// Writes a signature inside the file.
fn inside(args: &Sign, quiet: bool) -> Result {
    let begun = Instant::now();
    if args.trust_mtime || args.allow_symlinks || !args.ignore.is_empty() {
        let why = "--trust-mtime, --allow-symlinks, --ignore: they are for signatures beside files, and this one is inside";
        return Err(Failure::Usage(why.to_owned()));
    }
    let keys = args.keys.iter().map(|path| secrets::signing_key(path)).collect::<Result<Vec<_>>>()?;
    let open = OpenArgs { unlock: args.unlock.clone(), ..OpenArgs::default() };
    let total = std::fs::metadata(&args.model).map_or(0, |file| file.len());
    let bar = Progress::new("verifying", total, quiet);
    let options = open.options()?;
    let signed = bar.run(|work| modelfmt::seal::sign(&args.model, &keys, args.revision, &options, work))?;
    if !quiet {
        say_changed(&signed, "signed", begun);
    }
    Ok(())
}

/// Prints the notes and the line of a command that changed signatures or keys in a file.
pub(super) fn say_changed(changed: &Resealed, what: &str, begun: Instant) {
    for note in &changed.notes {
        say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
    }
    let path = changed.path.display().to_string();
    if changed.method == EditMethod::Unchanged {
        return say(format_args!("{} is already {what} in this way; nothing was written", Printable(&path)));
    }
    let (nbytes, time) = (size(changed.changed_nbytes), seconds(begun.elapsed()));
    say(format_args!("{what} {}: {nbytes} written in {time}", Printable(&path)));
}

/// Writes a signature file next to the model: OpenSSF Model Signing.
fn beside(args: &Sign, quiet: bool) -> Result {
    let UnlockArgs { identity, passphrase_file, key_file } = &args.unlock;
    let is_for_apr2 = identity.iter().chain(passphrase_file).chain(key_file).count() > 0;
    if is_for_apr2 || args.revision.is_some() {
        let why = "--revision, --identity, --passphrase-file, --key-file: these are for APR2 files, and this is not one";
        return Err(Failure::Usage(why.to_owned()));
    }
    let [key] = &args.keys[..] else { return Err(Failure::Usage(format!("--key: {ONE_KEY}"))) };
    let key = key_beside(key)?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let options = SignOptions::new()
        .overwrite(overwrite)
        .allow_symlinks(args.allow_symlinks)
        .trust_mtime(args.trust_mtime)
        .ignore(args.ignore.iter().cloned());
    write_beside(&args.model, &key, &options, quiet)
}

const ONE_KEY: &str =
    "a signature file (.sig) is by one key; to sign with several keys, make a copy of the file for each";

/// Reads the key for the signature next to a file that is about to change.
pub(super) fn key_of_changed(model: &Path, keys: &[PathBuf]) -> Result<PrivateKey> {
    let [key] = keys else { return Err(Failure::Usage(format!("--sign: {ONE_KEY}"))) };
    if model.is_dir() {
        return Err(Failure::Usage("--sign: name the file that is to be changed, not its folder".to_owned()));
    }
    if policy::open_options().probe(model).is_ok_and(|look| look.format.is_some_and(Format::is_set)) {
        let why = "--sign: the model has several files, and a signature of one does not cover the others; run `modelfmt sign FOLDER` afterwards";
        return Err(Failure::Usage(why.to_owned()));
    }
    key_beside(key)
}

/// Reads a key that can make signatures next to a file.
pub(super) fn key_beside(path: &Path) -> Result<PrivateKey> {
    let key = PrivateKey::read(path).map_err(|error| keys::failed(&error))?;
    if key.key_type().is_nist() {
        return Ok(key);
    }
    Err(Failure::Input(format!(
        "{}: the key is {}, and a signature beside a file or folder (OpenSSF Model Signing) needs one of P-256, P-384 or P-521; \
         `modelfmt keygen --type p256` makes one",
        path.display(),
        key.key_type()
    )))
}

/// Signs a file again after a change.
pub(super) fn changed(model: &Path, key: &PrivateKey, quiet: bool) -> Result {
    let signed = write_beside(model, key, &SignOptions::new().overwrite(Overwrite::Replace), quiet);
    signed.map_err(|failure| match failure {
        Failure::Input(why) => {
            let (path, signature) = (model.display(), oms::signature_path(model));
            let old = if signature.exists() { "its signature file is for the file before the change" } else { "it has no signature" };
            Failure::Input(format!(
                "{path}: the file was changed, but could not be signed: {why}; {old}; to sign it, use `modelfmt sign --force`"
            ))
        }
        other => other,
    })
}

fn write_beside(model: &Path, key: &PrivateKey, options: &SignOptions, quiet: bool) -> Result {
    let begun = Instant::now();
    let total = std::fs::metadata(model).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
    let bar = Progress::new("hashing", total, quiet);
    let mut options = options.clone();
    if policy::get().is_some() {
        options = options.read_policy(|path, file| {
            policy::open_options().judged(path, file).map_err(std::io::Error::other)
        });
    }
    let signed = bar.run(|work| oms::sign(model, key, &options, work));
    let signed = signed.map_err(|error| {
        let hint = if matches!(error, oms::Error::Exists { .. }) { "; --force replaces it" } else { "" };
        Failure::Input(format!("{}{hint}", with_causes(&error)))
    })?;
    if !quiet {
        let path = signed.path.display().to_string();
        let (files, nbytes) = (count(signed.files as u64), size(signed.nbytes));
        let s = if signed.files == 1 { "" } else { "s" };
        let reused = match signed.reused {
            0 => String::new(),
            reused => format!(" ({} not read again)", count(reused as u64)),
        };
        let time = seconds(begun.elapsed());
        let path = Printable(&path);
        say(format_args!("wrote {path}: {files} file{s}, {nbytes}{reused} in {time}"));
    }
    Ok(())
}
