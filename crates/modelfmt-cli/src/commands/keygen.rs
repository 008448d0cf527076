//! `modelfmt keygen`

use modelfmt::keys::{PrivateKey, write_pair};
use modelfmt::wording::Printable;

use crate::args::Keygen;
use crate::failure::{Result, say};
use crate::keys::failed;
use crate::streams;

pub(crate) fn run(args: &Keygen, quiet: bool) -> Result {
    streams::require_local(&args.output, "keys are written only to files of this machine")?;
    let key = PrivateKey::generate(args.key_type).map_err(|error| failed(&error))?;
    let public = write_pair(&args.output, &key).map_err(|error| failed(&error))?;
    super::print(|out| Ok(writeln!(out, "{}", key.public().id())?))?;
    if !quiet {
        let (private, public) = (args.output.display().to_string(), public.display().to_string());
        say(format_args!("wrote {} (keep it secret) and {}", Printable(&private), Printable(&public)));
    }
    Ok(())
}
