//! The files of each format.

mod aero;
mod apr;
mod apr2;
mod gguf;
mod mag;
mod oinf;
mod pytorch;
mod safetensors;

use crate::suite::Format;

/// All formats of the suite.
pub(crate) fn all() -> Vec<Format> {
    vec![
        safetensors::files(),
        gguf::files(),
        pytorch::files(),
        mag::files(),
        oinf::files(),
        aero::files(),
        apr::files(),
        apr2::files(),
    ]
}
