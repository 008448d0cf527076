//! Converts the tokenizer of a hub folder for GGUF and APR (`modelfmt_hub::tokenizer`).

#[cfg(feature = "apr")]
pub(crate) mod apr;
mod files;
#[cfg(feature = "gguf")]
pub(crate) mod gguf;
