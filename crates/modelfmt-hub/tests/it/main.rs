//! Maps and tokenizers beside the tools that wrote such files before us, and beside what is said of them.

mod documents;
mod hostile;
mod names;
mod special;
mod tokenizers;
