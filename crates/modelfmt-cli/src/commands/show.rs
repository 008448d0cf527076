//! `modelfmt show`

use modelfmt::{Model, Work};

use crate::args::Show;
use crate::failure::Result;

pub(crate) fn run(args: &Show) -> Result {
    let model = Model::open(&args.file)?;
    let work = Work::default();
    super::print(|out| {
        if args.tensors.is_empty() {
            modelfmt::show(&model, out, &work)?;
        } else {
            modelfmt::show_tensors(&model, &args.tensors, out, &work)?;
        }
        Ok(())
    })
}
