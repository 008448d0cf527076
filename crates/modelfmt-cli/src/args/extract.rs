//! The arguments of `modelfmt extract`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use modelfmt::DType;
use modelfmt::convert::ScaleRule;

use super::OpenArgs;

/// Write tensors to .npy files or one .npz or .safetensors file, or the bytes of one to a .bin file
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  modelfmt extract model.safetensors embed.weight -o embed.npy
  modelfmt extract model.safetensors embed.weight -o embed.npy --cast f32
  modelfmt extract model.gguf blk.0.attn_q.weight -o q.npy --dequantize f32
  modelfmt extract model.safetensors 'layers.0.*' -o layer0.npz --cast f32
  modelfmt extract model.gguf 'blk.*' -o blocks/ --dequantize f16
  modelfmt extract model.safetensors embed.weight -o - | sha256sum")]
pub(crate) struct Extract {
    /// A model file, the index of a set, or a folder with one of them
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Tensors by name or pattern, such as 'layers.*.weight'
    #[arg(required = true, value_name = "TENSOR|GLOB")]
    pub(crate) tensors: Vec<String>,
    /// One tensor: a .npy or .bin file; its bytes go to standard output with -. Several: an .npz or .safetensors file,
    /// or a folder, named with a slash at the end if it is new, for one .npy file for each tensor
    #[arg(long, short, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Change the values to this type, such as f32 for bf16, which numpy lacks; rounds where it must. With several tensors,
    /// only floats and blocks change
    #[arg(long, value_name = "DTYPE")]
    pub(crate) cast: Option<DType>,
    /// Decode quantized blocks to f32, f16 or bf16, or apply the scales beside a weight
    #[arg(long, value_name = "f32|f16|bf16")]
    pub(crate) dequantize: Option<DType>,
    /// For --dequantize: the tensor with the scales of the weight, if its name does not say so
    #[arg(long, value_name = "WEIGHT=SCALE")]
    pub(crate) scale: Vec<ScaleRule>,
    /// Replace OUT if it exists; in a folder, the files of these tensors
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not check the values against the file's hashes and checksums; also opens a MAG file whose checksum is wrong
    #[arg(long)]
    pub(crate) no_verify: bool,
    #[command(flatten)]
    pub(crate) open: OpenArgs,
}
