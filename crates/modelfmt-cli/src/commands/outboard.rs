//! `modelfmt outboard`

use std::time::Instant;

use modelfmt::convert::Overwrite;
use modelfmt::outboard::outboard_with;
use modelfmt::wording::Printable;

use crate::args::Outboard;
use crate::failure::{Failure, Result, say};
use crate::progress::Progress;
use crate::units::{seconds, size};
use crate::{policy, streams};

pub(crate) fn run(args: &Outboard, quiet: bool) -> Result {
    let begun = Instant::now();
    if streams::is_dash(&args.file) {
        let why =
            "-: an outboard is written next to its file, so standard input cannot have one; name a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    let why = "an outboard is written beside its file, which has to be on this machine; download it first";
    streams::require_local(&args.file, why)?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let total = std::fs::metadata(&args.file).map_or(0, |file| file.len());
    let bar = Progress::new("hashing", total, quiet);
    let written = bar.run(|work| outboard_with(&args.file, &policy::open_options(), overwrite, work))?;
    let hash: String = written.blake3.iter().map(|byte| format!("{byte:02x}")).collect();
    super::print(|out| Ok(writeln!(out, "{hash}")?))?;
    if !quiet {
        let path = written.path.display().to_string();
        let (nbytes, time) = (size(written.nbytes), seconds(begun.elapsed()));
        say(format_args!("wrote {}: {nbytes} in {time}", Printable(&path)));
    }
    Ok(())
}
