//! `modelfmt extract`

use std::time::Instant;

use modelfmt::Model;
use modelfmt::convert::Overwrite;
use modelfmt::extract::{
    ExtractAllAs, ExtractAs, ExtractOptions, Extracted, decoded, extract, extract_all, extract_to_sink,
};
use modelfmt::modelfmt_core::plan::Pick;
use modelfmt::wording::Printable;

use crate::args::Extract;
use crate::failure::{Failure, Result, say};
use crate::flags::Flags;
use crate::progress::Progress;
use crate::{secrets, streams};

pub(crate) fn run(args: &Extract, quiet: bool) -> Result {
    let begun = Instant::now();
    streams::require_local(&args.output, "tensors are extracted only to files of this machine")?;
    let target = Target::of(args)?;
    super::output::expect_no_input(&args.output, secrets::files_of(&args.open))?;
    let model = streams::open_for_copy(&args.file, args.no_verify, &args.open)?;
    let mut options = ExtractOptions::default();
    options.overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    options.no_verify = args.no_verify;
    (options.cast, options.dequantize) = (args.cast, args.dequantize);
    options.scales.clone_from(&args.scale);
    let model = decoded(&model, &args.tensors, &options)?;
    let picks = model.picks(&args.tensors)?;
    let infos = picks.iter().filter_map(|pick| model.container().info(pick.position));
    let nbytes = infos.filter(|info| info.has_data).fold(0u64, |sum, info| sum.saturating_add(info.nbytes));
    let bar = Progress::new("extracting", nbytes, quiet);
    let path = &args.output;
    let extracted = match target {
        Target::Pipe => {
            let tensor = one(&model, &picks, "a pipe")?;
            streams::to_stdout(|sink| {
                Ok(bar.run(|work| extract_to_sink(&model, tensor, sink, ExtractAs::Bin, &options, work))?)
            })?
        }
        Target::One(kind) => {
            let tensor = one(&model, &picks, "an .npy or .bin file")?;
            bar.run(|work| extract(&model, tensor, path, kind, &options, work))?
        }
        Target::Several(kind) => {
            bar.run(|work| extract_all(&model, &args.tensors, path, kind, &options, work))?
        }
    };
    let output = path.display().to_string();
    let written = if matches!(target, Target::Pipe) { "to standard output" } else { &output };
    report(&extracted, written, quiet, begun);
    Ok(())
}

/// The kind of output.
enum Target {
    Pipe,
    One(ExtractAs),
    Several(ExtractAllAs),
}

impl Target {
    fn of(args: &Extract) -> Result<Self> {
        if streams::is_dash(&args.output) {
            return Ok(Self::Pipe);
        }
        let output = args.output.display().to_string();
        if args.output.is_dir() {
            return Ok(Self::Several(ExtractAllAs::Folder(ExtractAs::Npy)));
        }
        let one = ExtractAs::for_output(&output).map(Self::One);
        let several = || ExtractAllAs::for_output(&output).map(Self::Several);
        one.or_else(several).ok_or_else(|| {
            let why = "extract writes files that end in .npy, .bin, .npz or .safetensors, folders (with a slash at the \
                       end), or the bytes of one tensor to standard output with -";
            Failure::Usage(format!("{output}: {why}"))
        })
    }
}

/// Returns the name of the tensor, for an output that can hold only one.
fn one<'a>(model: &'a Model, picks: &[Pick], output: &str) -> Result<&'a str> {
    match picks {
        [pick] => Ok(model.container().info(pick.position).map_or("", |info| info.name)),
        _ => {
            let (path, count) = (model.path().display(), picks.len());
            let help = "name an .npz or .safetensors file, or a folder (OUT/)";
            Err(Failure::Input(format!(
                "{path}: {count} tensors match, and {output} can hold only one; {help}"
            )))
        }
    }
}

fn report(extracted: &Extracted, written: &str, quiet: bool, begun: Instant) {
    if !quiet {
        for note in &extracted.notes {
            say(format_args!("note: {}", Printable(&note.in_words(&Flags))));
        }
    }
    if let Some(clipped) = &extracted.clipped {
        say(format_args!("warning: {}", Printable(clipped)));
    }
    if !quiet {
        super::say_written(written, &super::tensors(extracted.tensors), extracted.nbytes, begun);
    }
}
