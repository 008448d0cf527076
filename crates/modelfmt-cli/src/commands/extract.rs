//! `modelfmt extract`

use std::time::Instant;

use modelfmt::{ExtractAs, Overwrite};

use crate::args::Extract;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::streams;

pub(crate) fn run(args: &Extract, quiet: bool) -> Result {
    let begun = Instant::now();
    let to_stdout = streams::is_dash(&args.output);
    let output = args.output.display().to_string();
    let kind = if to_stdout { Some(ExtractAs::Bin) } else { ExtractAs::of_output(&output) };
    let Some(kind) = kind else {
        let why = "extract writes files that end in .npy or .bin, or the bytes to standard output with -";
        return Err(Failure::Usage(format!("{output}: {why}")));
    };
    let model = streams::open(&args.file)?;
    let position = model.find(&args.tensor)?;
    let nbytes = model.container().info(position).map_or(0, |info| info.nbytes);
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let bar = Progress::new("extracting", nbytes, quiet);
    let (tensor, written) = (&args.tensor, if to_stdout { "to standard output" } else { &output });
    let len = if to_stdout {
        streams::to_stdout(|sink| {
            Ok(bar.run(|work| modelfmt::extract_to_sink(&model, tensor, sink, kind, work))?)
        })?
    } else {
        bar.run(|work| modelfmt::extract(&model, tensor, &args.output, kind, overwrite, work))?
    };
    if !quiet {
        super::say_written(written, 1, len, begun);
    }
    Ok(())
}
