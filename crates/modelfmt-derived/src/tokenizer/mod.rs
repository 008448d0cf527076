//! The tokenizer of a folder of the hub, as GGUF and APR have it (`modelfmt_hub::tokenizer`).

#[cfg(feature = "apr")]
pub(crate) mod apr;
mod files;
#[cfg(feature = "gguf")]
pub(crate) mod gguf;
