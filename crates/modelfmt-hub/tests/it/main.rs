//! Compares maps and tokenizers with the tools that wrote such files before us, and with the documents.

mod documents;
mod hostile;
mod names;
mod special;
mod tokenizers;
