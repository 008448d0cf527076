//! modelfmt as WebAssembly. JavaScript calls an operation by its name with arguments as JSON, and gets JSON
//! and bytes. All reading uses the same readers as the program.
//!
//! ```text
//!   page, npm package          client.js: promises, one worker a model
//!          │
//!   worker (browser or Node)   engine.js: the memory, and the files: FileReaderSync, ranges of a URL, descriptors
//!          │  call(operation, JSON) → JSON, bytes
//!   this crate                 exports.rs → operations.rs → the library
//!          │  file_len, file_read, write_at, progress
//!   worker                     engine.js again: everything is synchronous here
//! ```

mod answers;
mod args;
mod atlas;
mod exports;
mod host;
mod jobs;
mod keys;
mod operations;
mod options;
mod session;
mod tree;
mod trust;
mod values;
