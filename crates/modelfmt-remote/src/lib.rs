//! Reads model files in buckets and on web servers, by ranges.
//!
//! A [`Location`] is a URL: `s3://`, `gs://`, `az://`, `http://`, `https://`, `hf://` or `file://`. A
//! [`Store`] holds what all files share: [`Options`], connections, and a limit on simultaneous requests.
//!
//! A URL that ends with `/` names a folder, and so does a URL that names only a bucket or a repository.
//! [`Store::list`] returns the files in it, if the server can list them. With the feature `models`, a folder
//! with exactly one model can be opened as that model.
//!
//! [`Store::open`] returns an [`Object`], which implements `Fetch` for the asynchronous readers of
//! `modelfmt-core` and of the format crates. [`SiblingFiles`] opens the files of a set. [`blocking`] has the
//! same for blocking code, with `Source`s for `modelfmt::OpenOptions::open_source`. With the feature
//! `models`, `models` opens and writes whole models.
//!
//! With the feature `models`, [`fetch`](mod@fetch) downloads files, sets and repositories. It continues a
//! download that was stopped, and repairs damaged copies.
//!
//! A file is pinned to the version that was opened, by the server's version id or ETag; if it changes later, reading it returns
//! [`Fault::Changed`]. An interrupted response is resumed at the byte where it stopped.
//!
//! Credentials and endpoints come from the environment, under the names that the providers' own tools read. The metadata
//! address of a cloud, where a machine can ask for credentials, is used only if [`Options::instance_credentials`] allows it.
//!
//! Nothing that is printed contains credentials or a query string, because the query string of a presigned URL is a credential.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod ahead;
mod answer;
pub mod blocking;
mod bucket;
mod buckets;
mod cache;
mod cached;
mod client;
mod crypto;
mod error;
#[cfg(feature = "models")]
#[cfg_attr(docsrs, doc(cfg(feature = "models")))]
pub mod fetch;
mod folder;
mod guard;
mod list;
mod min_speed;
#[cfg(feature = "models")]
#[cfg_attr(docsrs, doc(cfg(feature = "models")))]
pub mod models;
mod object;
mod options;
mod profile;
mod resolve;
mod sending;
mod stall;
mod store;
mod tls;
mod transport;
mod url;
mod web;
mod write;

pub use answer::Version;
pub use cache::{DEFAULT_CACHE_SIZE, DiskCache};
pub use error::{Error, Fault, Result};
pub use folder::SiblingFiles;
pub use object::Object;
pub use object_store;
pub use options::{Environment, Options};
pub use store::{Store, Traffic};
pub use url::{Bucket, HfFile, Location, Service};
pub use write::{NewObjects, PART_SIZE, Upload, abort_uploads};
