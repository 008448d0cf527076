//! The arguments of `modelfmt fetch`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::Pin;

use super::RemoteArgs;

/// Get a file or a set from a URL, resume it, or repair a damaged copy
#[derive(Debug, Args)]
#[command(override_usage = "modelfmt fetch [OPTIONS] <URL>... <OUT>")]
#[command(after_help = "Examples:
  modelfmt fetch https://example.org/m.gguf m.gguf
  modelfmt fetch https://example.org/m.gguf s3://mirror/m.gguf m.gguf --pin b3:5f2e…
  modelfmt fetch https://example.org/m.safetensors.index.json models/
  modelfmt fetch hf://OWNER/REPO models/ --exclude '*.md'

Bytes of OUT that are right already are kept. With --pin and an outboard next to the
file (URL.obao4 or OUT.obao4, which `outboard` writes), pieces of 16 KiB are checked;
otherwise chunks and tensors by the hashes in the file, or the whole file by the
SHA-256 that a hub states. Without any of these, an interrupted fetch is resumed if the
server says that the file is the same, and an existing OUT is refused without --force.
A new file appears when it is complete and right. To resume after a stop, run the same
command again. An existing file is repaired in place, with bytes that were checked.
Several URLs are mirrors of one file. The output names a mirror that sends wrong bytes.
For an index, any file of a GGUF split, hf://OWNER/REPO and a folder of a
bucket (s3://BUCKET/FOLDER/), OUT is a folder.")]
pub(crate) struct Fetch {
    /// One URL of the file, or several (mirrors); then OUT, the file to write, or a folder. End the name of a new folder with /
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
