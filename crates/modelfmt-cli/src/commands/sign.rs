//! `modelfmt sign`: what is detected in the file decides which kind of signature it gets.

use std::time::Instant;

use modelfmt::keys::PrivateKey;
use modelfmt::modelfmt_core::author::with_causes;
use modelfmt::oms::{self, SignOptions};
use modelfmt::{Format, Overwrite, Printable};

use crate::args::Sign;
use crate::failure::{Failure, Result, say};
use crate::keys;
use crate::progress::Progress;
use crate::streams;
use crate::units::{count, seconds, size};

pub(crate) fn run(args: &Sign, quiet: bool) -> Result {
    if streams::is_dash(&args.model) {
        let why = "-: a signature is written beside its file, and standard input has no place; name a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    let keys: Result<Vec<_>> =
        args.keys.iter().map(|path| PrivateKey::read(path).map_err(|error| keys::failed(&error))).collect();
    match format(args) {
        Some(format) if format.is_set() => Err(Failure::Input(format!(
            "{}: names other files, which a signature of this one would not cover; sign the folder",
            args.model.display()
        ))),
        _ => beside(args, &keys?, quiet),
    }
}

/// What a file is; nothing for a folder.
fn format(args: &Sign) -> Option<Format> {
    if args.model.is_dir() { None } else { modelfmt::probe(&args.model).ok()?.format }
}

/// A signature in a file of its own: OpenSSF Model Signing.
fn beside(args: &Sign, keys: &[PrivateKey], quiet: bool) -> Result {
    let begun = Instant::now();
    let [key] = keys else {
        let why = "--key: a signature beside a file is by one key; for more, sign copies of their own";
        return Err(Failure::Usage(why.to_owned()));
    };
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let options = SignOptions::new()
        .overwrite(overwrite)
        .allow_symlinks(args.allow_symlinks)
        .trust_mtime(args.trust_mtime)
        .ignore(args.ignore.iter().cloned());
    let total = std::fs::metadata(&args.model).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
    let bar = Progress::new("hashing", total, quiet);
    let signed = bar.run(|work| oms::sign(&args.model, key, &options, work));
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
