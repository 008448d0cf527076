//! What all files share: connections, stores of buckets, and how much may be under way at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::ObjectStore;

use crate::buckets;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::url::{Bucket, Location, Service};

/// Where files are fetched from: buckets and web servers, with what is shared among requests to them. Clones share it too.
///
/// Its functions that fetch have to be called within a tokio runtime; the blocking side has one of its own.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

/// Stores by provider, name of the bucket, and number of tries.
type Buckets = BTreeMap<(Service, String, u32), Arc<dyn ObjectStore>>;

struct Inner {
    options: Options,
    buckets: Mutex<Buckets>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.0.options).finish()
    }
}

impl Store {
    /// A store with these options. Nothing is asked yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Inner { options, buckets: Mutex::default() }))
    }

    /// How files are fetched.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The bucket of an object as `object_store` has it, over this crate's connections: to list, to write, to delete. It tries
    /// again what may pass.
    ///
    /// # Errors
    /// [`Fault::NoCredentials`](crate::Fault::NoCredentials) without credentials in the environment, unless it asks for anonymous
    /// reading or the options allow those of the instance; [`Fault::Settings`](crate::Fault::Settings) if they cannot be used.
    pub fn object_store(&self, at: &Bucket) -> Result<Arc<dyn ObjectStore>> {
        self.bucket(at, self.0.options.retries)
    }

    pub(crate) fn bucket(&self, at: &Bucket, retries: u32) -> Result<Arc<dyn ObjectStore>> {
        let mut buckets = self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (at.service, at.bucket.clone(), retries);
        if let Some(store) = buckets.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = buckets::store(at.service, &at.bucket, &self.0.options, retries)
            .map_err(|fault| Error::new(&Location::Bucket(at.clone()), fault))?;
        buckets.insert(key, Arc::clone(&store));
        Ok(store)
    }
}
