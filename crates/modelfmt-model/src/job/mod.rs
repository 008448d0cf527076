//! The input of a writer: the selected tensors, and metadata in the form of the target.

pub mod metadata;
pub mod tensors;
