//! `modelfmt extract`

use modelfmt::{ExtractAs, Model, Overwrite};

use crate::args::Extract;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

pub(crate) fn run(args: &Extract, quiet: bool) -> Result {
    let Some(kind) = ExtractAs::of_output(&args.output.to_string_lossy()) else {
        let output = args.output.display();
        return Err(Failure::Usage(format!("{output}: extract writes files that end in .npy or .bin")));
    };
    let model = Model::open(&args.file)?;
    let position = model.find(&args.tensor)?;
    let nbytes = model.container().info(position).map_or(0, |info| info.nbytes);
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let bar = Progress::new("extracting", nbytes, quiet);
    bar.run(|work| modelfmt::extract(&model, &args.tensor, &args.output, kind, overwrite, work))?;
    Ok(())
}
