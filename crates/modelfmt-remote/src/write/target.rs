//! The place of an object, and the requests to its bucket.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::background;
use crate::bucket::fault_of;
use crate::buckets::Writable;
use crate::error::Error;
use crate::url::{Bucket, Location};

/// The place of an object in a bucket.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) store: Arc<dyn Writable>,
    pub(super) path: Path,
    /// Its URL, for errors.
    pub(super) name: String,
    at: Bucket,
}

/// Prints only the URL, because the store prints its credentials.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.name)
    }
}

impl Target {
    pub(super) fn new(store: Arc<dyn Writable>, at: Bucket) -> io::Result<Self> {
        let invalid = |_| Error::new(&Location::Bucket(at.clone()), crate::url::BAD_PATH);
        let path = Path::parse(&at.key).map_err(invalid)?;
        Ok(Self { store, path, name: at.to_string(), at })
    }

    /// Runs a request and waits for the response.
    pub(super) fn ask<T: Send + 'static, F>(
        &self,
        request: impl FnOnce(Arc<dyn Writable>, Path) -> F + Send + 'static,
    ) -> io::Result<T>
    where
        F: Future<Output = object_store::Result<T>> + Send + 'static,
    {
        let (store, path) = (Arc::clone(&self.store), self.path.clone());
        let answer = background::wait(async move { request(store, path).await }, None)?;
        answer.map_err(|error| self.failed(&error))
    }

    /// Checks that there is no such object yet.
    pub(super) fn expect_none(&self) -> io::Result<()> {
        let found = self.ask(|store, path| async move {
            match store.head(&path).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        if found { Err(already_exists()) } else { Ok(()) }
    }

    pub(super) fn failed(&self, error: &object_store::Error) -> io::Error {
        match error {
            object_store::Error::AlreadyExists { .. } => already_exists(),
            error => Error::new(&Location::Bucket(self.at.clone()), fault_of(error)).into(),
        }
    }
}

fn already_exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it exists already")
}
