//! `modelfmt report`

use std::time::Instant;

use modelfmt::report::ReportOptions;
use modelfmt::{Model, report};

use super::output::Written;
use crate::args::{Report, UnlockArgs};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::streams;

pub(crate) fn run(args: &Report, quiet: bool) -> Result {
    let begun = Instant::now();
    let most = if args.other.is_some() { 2 } else { 1 };
    for (option, given) in [("--pin", args.pin.len()), ("--root", args.root.len())] {
        if given > most {
            let why = if most == 1 { "one for MODEL" } else { "one for MODEL and one for OTHER at most" };
            return Err(Failure::Usage(format!("{option}: {why}")));
        }
    }
    if !streams::is_dash(&args.output) {
        streams::require_local(&args.output, "a report is written only to files of this machine")?;
    }
    let open =
        |number: usize, path| streams::open_signed(path, &args.open(number), &args.beside.options(), quiet);
    let model = open(0, &args.model)?;
    let other = args.other.as_deref().map(|path| open(1, path)).transpose()?;
    let models: Vec<&Model> = [Some(&model), other.as_ref()].into_iter().flatten().collect();
    if args.other.is_some()
        && args.unlock != UnlockArgs::default()
        && !models.iter().any(|model| model.is_encrypted())
    {
        let why = "--identity, --passphrase-file, --key-file: neither of the two is encrypted";
        return Err(Failure::Input(why.to_owned()));
    }
    let written = Written::begin(&args.output, args.force, &models, &args.open(0))?;
    // Values are read for the charts, for their hashes, and for the comparison.
    let sizes = models.iter().map(|model| super::nbytes(model).saturating_add(model.container().file_size()));
    let compared = if other.is_some() { super::nbytes(&model) } else { 0 };
    let total = sizes.fold(compared, u64::saturating_add);
    let options = ReportOptions::new().verify(args.level.into());
    let bar = Progress::new("reading", total, quiet);
    let page = bar.run(|work| report::report(&model, other.as_ref(), &options, work))?;
    let tensors = super::tensors(models.iter().map(|model| model.tensor_count()).sum());
    written.finish(page.html(), &tensors, begun, quiet)
}
