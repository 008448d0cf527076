//! `modelfmt show`

use std::io::IsTerminal;

use modelfmt::Value;
use modelfmt::show::ShowOptions;

use crate::args::Show;
use crate::chart::charset;
use crate::failure::Result;
use crate::json::EscapedJson;
use crate::progress::Progress;
use crate::streams;
use crate::width::width;

/// The width in characters of a line with a bar, if the real width is unknown.
const LINE: usize = 80;

pub(crate) fn run(args: &Show) -> Result {
    let model = streams::open(&args.file, &args.open)?;
    let mut options = ShowOptions::default();
    options.slice.clone_from(&args.slice);
    options.stats_only = args.stats;
    let is_seen = std::io::stdout().is_terminal() && !model.format().properties().prescribed_output;
    options.bars = (args.bars || is_seen).then(|| width().unwrap_or(LINE));
    options.charset = charset();
    // No progress bar, because it would mix with the output. Signals still work.
    let quiet = true;
    Progress::new("reading", 0, quiet).run(|work| {
        super::print(|out| {
            if args.json {
                let shown =
                    Value::Object(modelfmt::show::show_object(&model, &args.tensors, &options, work)?);
                serde_json::to_writer_pretty(EscapedJson(&mut *out), &shown).map_err(std::io::Error::from)?;
                return Ok(writeln!(out)?);
            }
            Ok(modelfmt::show::show_with(&model, &args.tensors, &options, out, work)?)
        })
    })
}
