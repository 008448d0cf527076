//! `modelfmt seal`: a conversion into an encrypted APR2 file.

use modelfmt::{Format, Target};

use super::convert;
use crate::args::{Convert, Seal};
use crate::failure::{Failure, Result};

pub(crate) fn run(args: Seal, quiet: bool) -> Result {
    let Seal { files: mut inputs, how } = args;
    let output = inputs.pop().filter(|_| !inputs.is_empty());
    let output =
        output.ok_or_else(|| Failure::Usage("give the model to read, and the file to write".to_owned()))?;
    let to = Some(Target { format: Format::Apr2, version: None });
    convert::run(Convert { inputs, output, to, recursive: false, seal: true, how }, quiet)
}
