//! Checkpoints of PyTorch: the archive and the older stream.

mod archive;
mod globals;
mod opcodes;
mod stream;
mod tensors;

use testkit::{Pickler, TorchTensor, torch_zip};

use crate::suite::{Format, Reading, bytes};

pub(crate) fn files() -> Format {
    let mut f = Format::new("pytorch", "pt", "docs/formats/pytorch.md");
    tensors::add(&mut f);
    opcodes::add(&mut f);
    globals::add(&mut f);
    archive::add(&mut f);
    stream::add(&mut f);
    f
}

/// Returns a tensor of two floats in the storage `0`.
fn w() -> TorchTensor {
    TorchTensor::f32("w", "0", &[2])
}

/// Returns what [`zip`] holds, except for its metadata.
fn reading() -> Reading {
    Reading::empty().tensor("w", "f32", &[2], &bytes(8))
}

/// Makes a checkpoint from a pickle, with the values of [`w`].
fn zip(pickle: &[u8]) -> Vec<u8> {
    torch_zip(pickle, &[("0", &bytes(8))]).build()
}

/// Makes the pickle of a dictionary with [`w`] and, under `x`, what the opcodes make.
fn with(opcodes: &[u8]) -> Vec<u8> {
    Pickler::new(2).op(b"}(").text("w").tensor(&w()).text("x").op(opcodes).op(b"u").stop()
}

/// Makes the pickle of a dictionary with [`w`], after other opcodes.
fn after(opcodes: &[u8]) -> Vec<u8> {
    Pickler::new(4).op(opcodes).op(b"}(").text("w").tensor(&w()).op(b"u").stop()
}

/// Encodes a text as an opcode.
fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Encodes a global as an opcode.
fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}
