//! modelfmt as WebAssembly. JavaScript asks by the name of an operation with its arguments as JSON, and gets JSON and bytes; all
//! reading goes through the same readers as in the program.
//!
//! ```text
//!   page, npm package          client.js: promises, one worker a model
//!          │
//!   worker (browser or Node)   engine.js: the memory, and the files: FileReaderSync, ranges of a URL, descriptors
//!          │  call(operation, JSON) → JSON, bytes
//!   this crate                 border.rs → operations.rs → the library
//!          │  file_len, file_read, write_at, progress
//!   worker                     engine.js again: everything is synchronous here
//! ```

mod answers;
mod atlas;
mod border;
mod host;
mod jobs;
mod keys;
mod operations;
mod options;
mod session;
mod tree;
mod trust;
mod values;
