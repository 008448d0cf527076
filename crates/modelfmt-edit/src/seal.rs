//! Changes the signatures inside an APR2 file, and changes who can open the file, in place. Also reads the
//! keys for this from PEM files.
//!
//! Tensors are not rewritten. An interrupted change is undone like an [edit](mod@crate::edit). To seal a
//! model of any format for the first time, convert it: see
//! [`Apr2Options::seal`](modelfmt_convert::convert::Apr2Options::seal). WebAssembly has no files to change,
//! so there only the keys are available.
//!
//! ```
//! use modelfmt::apr2::seal::{Access, SigningKey};
//! use modelfmt::{Execution, Format, Object, OpenOptions, View};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.apr");
//! let metadata = Object::from_iter([("model_type", "tiny")]);
//! modelfmt::convert::save_as(Format::Apr2, &path, [("w", View::new(&[1.0f32, 2.0], [2])?)], &metadata)?;
//!
//! let alice = SigningKey::from_bytes(&[1; 32]); // from a file, really
//! modelfmt::seal::sign(&path, &[alice.clone()], None, &OpenOptions::new(), &Execution::default())?;
//!
//! let access = Access::new().trust(alice.verifying_key());
//! assert!(OpenOptions::new().access(access).open(&path)?.tensor("w").is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use modelfmt_model::seal_keys::{identity, recipient, signing_key, verifying_key};

#[cfg(not(target_arch = "wasm32"))]
pub use crate::edit::sealing::{Resealed, rekey, sign};
