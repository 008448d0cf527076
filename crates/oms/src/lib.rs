//! [OpenSSF Model Signing](https://github.com/ossf/model-signing-spec) 1.0 with plain keys: a small file next
//! to a model proves who signed every byte of the model. The Python tool `model_signing` verifies what this
//! crate signs, and this crate verifies what the tool signs.
//!
//! ```text
//! FOLDER/                    model.sig: a Sigstore bundle, JSON
//!   config.json              ┌ verificationMaterial: which key, by its id
//!   weights.safetensors      └ dsseEnvelope
//!   tokenizer/vocab.txt         ┌ signature: ECDSA over the payload's bytes
//!   model.sig                   └ payload: a statement, JSON in Base64
//!                                   ┌ how files were hashed, which were left out
//!                                   └ resources: the name and the SHA-256 of every file
//! ```
//!
//! The signature of a single file is `FILE.sig` next to it.
//!
//! ```
//! use modelfmt_core::Execution;
//! use modelfmt_keys::{KeyType, PrivateKey};
//! use modelfmt_oms::{SignOptions, VerifyOptions, sign, verify};
//!
//! # let folder = std::env::temp_dir().join(format!("modelfmt-oms-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # std::fs::write(folder.join("weights.bin"), "weights")?;
//! let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32])?; // PrivateKey::read("KEY")?
//! sign(&folder, &key, &SignOptions::new(), &Execution::default())?;
//!
//! let trusted = key.public().clone(); // PublicKey::read("KEY.pub")?
//! let verified = verify(&folder, &[trusted], &VerifyOptions::new(), &Execution::default())?;
//! assert!(verified.is_ok() && verified.files == 1);
//!
//! std::fs::write(folder.join("weights.bin"), "WEIGHTS")?;
//! let verified = verify(&folder, &[key.public().clone()], &VerifyOptions::new(), &Execution::default())?;
//! assert_eq!(verified.changed, ["weights.bin"]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is trusted
//!
//! Only the keys that you pass are trusted, never a key in a bundle. The statement is parsed only after its
//! signature was verified. A name in the statement is never opened: the existing files are hashed, and then
//! names are compared. A signature must be a regular file of at most 256 MiB ([`MAX_BUNDLE`]).
//!
//! By the time you read a verified model, its files may have been changed. [`verify_to_read`] returns
//! [`SignedFiles`], through which only the bytes that were hashed can be read.
//!
//! Bundles that were signed with a certificate or through Sigstore are recognised and refused with an error
//! that says so.
//!
//! wasm32 has no files, so there is only [`verify_source`].
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "what only files need"))]

mod bundle;
mod compare;
#[cfg(not(target_arch = "wasm32"))]
mod derivation;
mod error;
mod hash;
mod names;
mod place;
#[cfg(not(target_arch = "wasm32"))]
mod sign;
mod signed;
mod statement;
mod verified;
#[cfg(not(target_arch = "wasm32"))]
mod verify;
mod verify_source;
mod walk;

pub use bundle::{Bundle, MAX_BUNDLE};
#[cfg(not(target_arch = "wasm32"))]
pub use derivation::{DERIVATION, Derivation, HashedFile, derivation_path, differences};
pub use error::{Error, Result};
pub use place::{file_signature_path, folder_signature_path, signature_path};
#[cfg(not(target_arch = "wasm32"))]
pub use sign::{SignOptions, Signed, sign};
pub use signed::SignedFiles;
pub use verified::Verified;
#[cfg(not(target_arch = "wasm32"))]
pub use verify::{VerifyOptions, verify, verify_to_read};
pub use verify_source::verify_source;
