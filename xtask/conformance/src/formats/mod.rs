//! The files of each format.

mod gguf;
mod pytorch;
mod safetensors;

use crate::suite::Format;

/// All formats of the suite.
pub(crate) fn all() -> Vec<Format> {
    vec![safetensors::files(), gguf::files(), pytorch::files()]
}
