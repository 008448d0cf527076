//! What is to be written: the tensors that were chosen, and metadata as the target takes it.

pub(crate) mod affine;
pub(crate) mod metadata;
pub(crate) mod renamed;
pub(crate) mod scaling;
pub(crate) mod tensors;
