//! The arguments of `modelfmt fetch`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;

use super::RemoteArgs;

/// Get a file or a set from a URL, go on after a stop, or repair a damaged copy
#[derive(Debug, Args)]
#[command(override_usage = "modelfmt fetch [OPTIONS] <URL>... <OUT>")]
#[command(after_help = "Examples:
  modelfmt fetch https://example.org/m.gguf m.gguf
  modelfmt fetch https://example.org/m.gguf s3://mirror/m.gguf m.gguf --pin b3:5f2e…
  modelfmt fetch https://example.org/m.safetensors.index.json models/
  modelfmt fetch hf://OWNER/REPO models/ --exclude '*.md'

What OUT has already and is right stays. Pieces of 16 KiB are checked with --pin and
an outboard beside the file (URL.obao4 or OUT.obao4, which `outboard` writes), else
chunks and tensors by the hashes in the file, else a whole file by the SHA-256 that a
hub states. Without any of these, an interrupted fetch goes on if the server says
that the file is the same, and an existing OUT is refused unless you give --force.
A new file appears when it is complete and right; the same command goes on after a
stop. An existing file is repaired in place, with bytes that were checked.
Several URLs are mirrors of one file. One that sends wrong bytes is named.
For an index, any file of a GGUF split, hf://OWNER/REPO and a folder of a
bucket (s3://BUCKET/FOLDER/), OUT is a folder.")]
pub(crate) struct Fetch {
    /// The URLs of the file, each of which has all of it; then OUT, the file to write, or a folder. A folder that is not there yet ends with /
    #[arg(required = true, value_names = ["URL", "OUT"], num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// The BLAKE3 of the whole file, which it must have; of a set, that of its index
    #[arg(long, value_name = "b3:HEX")]
    pub(crate) pin: Option<Pin>,
    /// Begin anew, whatever OUT is, and replace it
    #[arg(long)]
    pub(crate) force: bool,
    /// Of hf://OWNER/REPO or a folder of a bucket, only files that match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Of hf://OWNER/REPO or a folder of a bucket, no files that match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
