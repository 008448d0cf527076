//! `modelfmt seal`: converts a model into an encrypted APR2 file, or changes who can open one.

use std::time::Instant;

use modelfmt::wording::Printable;
use modelfmt::{Format, Target};

use super::{convert, sign};
use crate::args::{Convert, ConvertOptionArgs, InOut, Seal};
use crate::failure::{Failure, Result};
use crate::{secrets, streams};

pub(crate) fn run(args: Seal, quiet: bool) -> Result {
    if args.rekey {
        return rekey(args, quiet);
    }
    let Seal { files: mut inputs, how, .. } = args;
    let output = inputs.pop().filter(|_| !inputs.is_empty());
    let output =
        output.ok_or_else(|| Failure::Usage("give the model to read, and the file to write".to_owned()))?;
    let name = output.to_string_lossy();
    if let Some(other) = Format::from_file_name(&name).filter(|format| !is_apr(*format)) {
        let why = format!(
            "its extension is for {other}, but a sealed file is an APR2 file; use the extension .apr"
        );
        return Err(Failure::Usage(format!("{}: {why}", Printable(&name))));
    }
    let to = Some(Target::from(Format::Apr2));
    let paths = InOut { inputs, output };
    convert::run(Convert { paths, to, recursive: false, seal: true, how }, quiet)
}

/// Checks whether a format is APR2, by its property.
fn is_apr(format: Format) -> bool {
    format.properties().embedded_signatures
}

/// Writes new key slots into a sealed file.
fn rekey(args: Seal, quiet: bool) -> Result {
    let begun = Instant::now();
    let Seal { files, mut how, .. } = args;
    let [file] = &files[..] else {
        return Err(Failure::Usage("--rekey: it changes one sealed file; name that alone".to_owned()));
    };
    if streams::is_dash(file) {
        let why = "-: a stream cannot be changed; name a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    streams::require_local(file, "only files of this machine are changed; download the file first")?;
    if !how.sealing.sign.is_empty() || how.sealing.hide_index {
        let why =
            "--sign, --hide-index: --rekey changes only who can open the file; `modelfmt sign` signs it";
        return Err(Failure::Usage(why.to_owned()));
    }
    let (open, sealing) = (how.open.clone(), how.sealing.clone());
    if how != (ConvertOptionArgs { open, sealing, ..ConvertOptionArgs::default() }) {
        let why =
            "--rekey: it converts nothing, and takes only what says who can open the file, now and before";
        return Err(Failure::Usage(why.to_owned()));
    }
    let Some(to) = secrets::seal(true, &how)? else {
        return Ok(()); // sealing without anybody who can open the file has been refused
    };
    how.open_in();
    let changed = modelfmt::seal::rekey(file, &to, &how.open.options()?)?;
    if !quiet {
        sign::say_changed(&changed, "rekeyed", begun);
    }
    Ok(())
}
