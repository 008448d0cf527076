//! `modelfmt extract`

use std::time::Instant;

use modelfmt::{ExtractAs, ExtractOptions, Overwrite, Printable};

use crate::args::Extract;
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
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
    let model = streams::open_for_copy(&args.file, args.no_verify, &args.open)?;
    let position = model.find(&args.tensor)?;
    let nbytes = model.container().info(position).map_or(0, |info| info.nbytes);
    let mut options = ExtractOptions::default();
    options.overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    options.no_verify = args.no_verify;
    (options.cast, options.dequantize) = (args.cast, args.dequantize);
    options.scales.clone_from(&args.scale);
    let bar = Progress::new("extracting", nbytes, quiet);
    let (tensor, written) = (&args.tensor, if to_stdout { "to standard output" } else { &output });
    let extracted = if to_stdout {
        streams::to_stdout(|sink| {
            Ok(bar.run(|work| modelfmt::extract_to_sink(&model, tensor, sink, kind, &options, work))?)
        })?
    } else {
        bar.run(|work| modelfmt::extract(&model, tensor, &args.output, kind, &options, work))?
    };
    if !quiet {
        for note in &extracted.notes {
            say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
        }
    }
    if let Some(clipped) = &extracted.clipped {
        say(format_args!("warning: {}", Printable(clipped)));
    }
    if !quiet {
        super::say_written(written, 1, extracted.nbytes, begun);
    }
    Ok(())
}
