//! `modelfmt unseal`: converts an encrypted model into an unencrypted one.

use super::convert;
use crate::args::{Convert, InOut, Unseal};
use crate::failure::Result;

pub(crate) fn run(args: Unseal, quiet: bool) -> Result {
    let Unseal { input, output, how } = args;
    let paths = InOut { inputs: vec![input], output };
    let args = Convert { paths, to: None, recursive: false, seal: false, how };
    convert::run_of_sealed(args, quiet)
}
