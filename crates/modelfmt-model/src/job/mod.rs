//! What is to be written: the tensors that were chosen, and metadata as the target takes it.

pub mod affine;
pub mod metadata;
pub mod renamed;
pub mod scaling;
pub mod tensors;
