//! Model files in buckets and on web servers, read by ranges.
//!
//! A [`Location`] is a URL: `s3://`, `gs://`, `az://`, `http://`, `https://`, `hf://` or `file://`. A [`Store`] holds what
//! all files share: [`Options`], connections, and how much may be under way at once.
//!
//! [`Store::open`] gives an [`Object`], which the asynchronous readers of `modelfmt-core` and of the format crates take as their
//! `Fetch`, and [`Beside`] the files of a set. [`blocking`] has the same for code that waits, with `Source`s for
//! `modelfmt::OpenOptions::open_source`.
//!
//! A file is pinned to the state in which it was opened, by the version or the ETag that the server gives; if it changes
//! later, reading it is [`Fault::Changed`]. What breaks off goes on at the byte where it did.
//!
//! Credentials and endpoints come from the environment, under the names that the providers' own tools read. The metadata address
//! of a cloud, where a machine can ask for credentials, is asked only if [`Options::instance_credentials`] says so.
//!
//! Nothing that is printed holds credentials or a query string: a presigned URL's is one.

mod answer;
pub mod blocking;
mod bucket;
mod buckets;
mod cache;
mod cached;
mod client;
mod crypto;
mod error;
mod folder;
mod guard;
mod object;
mod options;
mod pace;
mod resolve;
mod store;
mod tls;
mod url;
mod way;
mod web;
mod write;

pub use answer::Version;
pub use cache::{DEFAULT_CACHE_SIZE, DiskCache};
pub use error::{Error, Fault, RedirectFault, Result};
pub use folder::Beside;
pub use object::Object;
pub use object_store;
pub use options::{Environment, Options};
pub use store::{Store, Traffic};
pub use url::{Bucket, Hf, Location, Service, UrlFault};
pub use write::{NewObjects, PART_SIZE, Upload, abort_uploads};
