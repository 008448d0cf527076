//! `modelfmt bom`

use std::path::Path;
use std::time::Instant;

use modelfmt::Model;
use modelfmt::bom::{BomOptions, Created, Spec};

use super::output::Written;
use crate::args::Bom;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::streams;

/// The variable with the time for the document, in seconds since 1970.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

pub(crate) fn run(args: &Bom, quiet: bool) -> Result {
    let begun = Instant::now();
    if args.open.pin.is_some() && args.models.len() > 1 {
        return Err(Failure::Usage("--pin: a pin is for one file; name only that file".to_owned()));
    }
    let options = BomOptions::new().tensors(args.tensors).created(created(args.spec)?);
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    if !streams::is_dash(path) {
        streams::require_local(path, "a bill of materials is written only to files of this machine")?;
    }
    let open = |path| streams::open_signed(path, &args.open, &args.beside.options(), quiet);
    let models: Vec<Model> = args.models.iter().map(|path| open(path)).collect::<Result<_>>()?;
    let models: Vec<&Model> = models.iter().collect();
    let written = Written::begin(path, args.force, &models, &args.open)?;
    let total = models.iter().fold(0_u64, |sum, model| {
        let values = if args.tensors { super::nbytes(model) } else { 0 };
        sum.saturating_add(model.container().file_size()).saturating_add(values)
    });
    let bar = Progress::new("hashing", total, quiet);
    let bom = bar.run(|work| modelfmt::bom::bom(&models, &options, work))?;
    let text = bom.to_json(args.spec).map_err(|error| Failure::Input(error.to_string()))?;
    written.finish(&text, &super::files(bom.file_count(), ""), begun, quiet)
}

/// Returns the time for the document: that of the variable, if it is set and the specification requires a
/// time.
fn created(spec: Spec) -> Result<Created> {
    let Some(text) = std::env::var_os(SOURCE_DATE_EPOCH).filter(|_| spec == Spec::Spdx) else {
        return Ok(Created::default());
    };
    let text = text.to_string_lossy();
    text.parse().map_err(|error| Failure::Input(format!("{SOURCE_DATE_EPOCH}={text}: {error}")))
}
