//! Model files in buckets and on web servers, read by ranges.
//!
//! A [`Location`] is a URL: `s3://`, `gs://`, `az://`, `http://`, `https://`, `hf://` or `file://`. A [`Store`] holds what
//! all files share: [`Options`], connections, and how much may be under way at once.
//!
//! Credentials and endpoints come from the environment, under the names that the providers' own tools read. The metadata address
//! of a cloud, where a machine can ask for credentials, is asked only if [`Options::instance_credentials`] says so.
//!
//! Nothing that is printed holds credentials or a query string: a presigned URL's is one.

mod buckets;
mod client;
mod crypto;
mod error;
mod guard;
mod options;
mod pace;
mod resolve;
mod store;
mod tls;
mod url;

pub use error::{Error, Fault, RedirectFault, Result};
pub use object_store;
pub use options::{Environment, Options};
pub use store::Store;
pub use url::{Bucket, Hf, Location, Service, UrlFault};
