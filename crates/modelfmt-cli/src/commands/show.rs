//! `modelfmt show`

use crate::args::Show;
use crate::failure::Result;
use crate::progress::Progress;
use crate::streams;

pub(crate) fn run(args: &Show) -> Result {
    let model = streams::open(&args.file, &args.open)?;
    // Without a bar, which would stand among what is printed; a signal is heard all the same.
    let quiet = true;
    Progress::new("reading", 0, quiet).run(|work| {
        super::print(|out| {
            if args.tensors.is_empty() {
                modelfmt::show(&model, out, work)?;
            } else {
                modelfmt::show_tensors(&model, &args.tensors, out, work)?;
            }
            Ok(())
        })
    })
}
