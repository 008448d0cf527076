//! What all files share: connections, stores of buckets, and a limit on simultaneous requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderValue;
use object_store::ObjectStore;
use tokio::sync::{Semaphore, SemaphorePermit};
use url::Url;

use crate::bucket::BucketObject;
use crate::buckets;
use crate::client::Client;
use crate::error::{Error, Fault, NOT_A_FILE, Result};
use crate::guard::Guard;
use crate::options::Options;
use crate::stall::Stall;
use crate::transport::{PIECE, Transport};
use crate::url::{Bucket, HfFile, Location, Service, origin};
use crate::web::Web;

/// A client for buckets and web servers, with everything that requests to them share. Clones share it too.
///
/// Functions that make requests have to be called within a tokio runtime; [`blocking`](crate::blocking) has
/// its own runtime.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Inner>,
    cache: CacheUse,
}

/// How the cache is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// It is not used.
    No,
    /// For bytes that have not changed on the server. The server is asked.
    IfSame,
    /// For everything that it has.
    Trusting,
}

/// Stores by provider, name of the bucket, and number of retries.
type Buckets = BTreeMap<(Service, String, u32), Arc<dyn buckets::Listable>>;

struct Inner {
    options: Options,
    buckets: Mutex<Buckets>,
    /// The connections to web servers, by the origin in the URL, because the origin decides which redirects
    /// are allowed.
    servers: Mutex<BTreeMap<String, Client>>,
    requests: Semaphore,
    /// The limit on bytes that were requested and have not arrived, in KiB.
    bytes: Semaphore,
    traffic: (AtomicU64, AtomicU64),
    /// The commit of each revision of a repository, as it was at the first request.
    commits: Mutex<BTreeMap<(String, String), String>>,
}

/// Counts of requests and of received bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of requests for bytes; those that redirects lead to are not counted.
    pub requests: u64,
    /// The bytes of files that have arrived.
    pub bytes: u64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.shared.options).finish()
    }
}

impl Store {
    /// Makes a store with these options. No request is made yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let requests = Semaphore::new(usize::from(options.requests_in_flight));
        let bytes = Semaphore::new(kib(u64::from(options.bytes_in_flight)));
        let (buckets, servers, commits) = (Mutex::default(), Mutex::default(), Mutex::default());
        let cache = if options.revalidates { CacheUse::IfSame } else { CacheUse::Trusting };
        let shared = Arc::new(Inner {
            options,
            buckets,
            servers,
            requests,
            bytes,
            traffic: Default::default(),
            commits,
        });
        Self { shared, cache }
    }

    /// Returns the same store, with or without asking servers whether cached files are still the same. See
    /// [`Options::revalidate`].
    #[must_use]
    pub fn revalidating(&self, ask: bool) -> Self {
        Self { cache: if ask { CacheUse::IfSame } else { CacheUse::Trusting }, ..self.clone() }
    }

    /// Returns the same store without the cache: files are read from their server and not cached.
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { cache: CacheUse::No, ..self.clone() }
    }

    pub(crate) const fn cache(&self) -> CacheUse {
        self.cache
    }

    /// Checks whether bytes that are read are cached.
    pub(crate) fn caches(&self) -> bool {
        self.options().cache.is_some() && self.cache != CacheUse::No
    }

    /// Returns the options of the store.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Returns the number of requests so far, and the number of bytes received.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let (requests, bytes) = &self.shared.traffic;
        Traffic { requests: requests.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
    }

    /// Returns the transport to request the file at a location.
    pub(crate) fn transport(&self, place: &Location) -> Result<Transport, Fault> {
        if place.is_folder() {
            return Err(NOT_A_FILE);
        }
        match place {
            Location::Bucket(at) => {
                // Retries are counted here, so the bucket's store must not retry.
                let store = self.bucket(at, 0)?;
                Ok(Transport::Bucket(BucketObject::new(store, &at.key)?))
            }
            Location::Web(url) => Ok(Transport::Web(Box::new(Web::new(self.server(url), url.clone(), None)))),
            Location::Hf(at) => Ok(Transport::Web(Box::new(self.hub(at, HfFile::at)?))),
            Location::File(_) => Err(Fault::Local),
        }
    }

    /// Returns a request for a Hugging Face file. `address` makes its URL from the endpoint.
    pub(crate) fn hub(&self, at: &HfFile, address: impl Fn(&HfFile, &Url) -> Url) -> Result<Web, Fault> {
        let environment = &self.options().environment;
        let endpoint = environment.var("HF_ENDPOINT").unwrap_or("https://huggingface.co");
        let refused = |why: &str| Fault::Settings { service: "Hugging Face", why: why.into() };
        let endpoint = endpoint.parse().ok().filter(|url: &Url| url.has_host() && !url.cannot_be_a_base());
        let at = HfFile { revision: self.commit_of(at), ..at.clone() };
        let url = address(&at, &endpoint.ok_or_else(|| refused("HF_ENDPOINT is no URL"))?);
        let token = match environment.var("HF_TOKEN") {
            Some(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
                let mut value = value.map_err(|_| refused("HF_TOKEN has characters that no token has"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Web::new(self.server(&url), url, token))
    }

    /// Returns the commit of a revision, if it was requested before. A branch may move while the files of a
    /// set are opened.
    fn commit_of(&self, at: &HfFile) -> String {
        let commits = self.shared.commits.lock().unwrap_or_else(PoisonError::into_inner);
        let commit = commits.get(&(at.repository.clone(), at.revision.clone()));
        commit.unwrap_or(&at.revision).clone()
    }

    /// Records the commit of a revision, if none is known.
    #[cfg(feature = "models")]
    pub(crate) fn note_commit_of(&self, at: &HfFile, commit: &str) {
        let mut commits = self.shared.commits.lock().unwrap_or_else(PoisonError::into_inner);
        commits.entry((at.repository.clone(), at.revision.clone())).or_insert_with(|| commit.to_owned());
    }

    /// Records the commit of a revision, from the server's response.
    pub(crate) fn note_commit(&self, place: &Location, transport: &Transport) {
        if let (Location::Hf(at), Transport::Web(web)) = (place, transport)
            && let Some(commit) = web.commit()
        {
            let mut commits = self.shared.commits.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (at.repository.clone(), at.revision.clone());
            commits.entry(key).or_insert_with(|| commit.to_owned());
        }
    }

    fn server(&self, url: &Url) -> Client {
        let mut servers = self.shared.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let made =
            || Client::new(Guard::new(url.host_str(), self.options().private_redirects), self.options());
        servers.entry(origin(url)).or_insert_with(made).clone()
    }

    /// Waits until another request may begin, and counts it.
    pub(crate) async fn request_permit(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.shared.requests.acquire().await.ok();
        self.shared.traffic.0.fetch_add(1, Ordering::Relaxed);
        permit
    }

    /// Waits until this many more bytes may be requested.
    pub(crate) async fn byte_permit(&self, len: u64) -> Option<SemaphorePermit<'_>> {
        let most = kib(u64::from(self.options().bytes_in_flight));
        let wanted = u32::try_from(kib(len).min(most)).unwrap_or(u32::MAX);
        self.shared.bytes.acquire_many(wanted).await.ok()
    }

    /// Returns the limit on waiting for the server, for one request with all its tries.
    pub(crate) fn stall_limit(&self) -> Stall {
        Stall::new(self.options().stall_timeout)
    }

    pub(crate) fn count_bytes(&self, len: u64) {
        self.shared.traffic.1.fetch_add(len, Ordering::Relaxed);
    }

    /// Returns the maximum number of bytes of one request.
    pub(crate) fn piece(&self) -> usize {
        usize::try_from(PIECE.min(u64::from(self.options().bytes_in_flight))).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the bucket of an object as an `object_store` over this crate's connections, to list, write and
    /// delete objects. It retries requests that failed for a reason that may pass.
    ///
    /// # Errors
    /// [`Fault::NoCredentials`] if the environment has no credentials, unless it asks for anonymous access or the options allow
    /// the credentials of the instance; [`Fault::Settings`] if the settings cannot be used.
    pub fn object_store(&self, at: &Bucket) -> Result<Arc<dyn ObjectStore>> {
        let store = self.bucket(at, self.shared.options.retries);
        store.map_err(|fault| Error::new(&Location::Bucket(at.clone()), fault))
    }

    pub(crate) fn bucket(&self, at: &Bucket, retries: u32) -> Result<Arc<dyn ObjectStore>, Fault> {
        Ok(self.tried(at, retries)?)
    }

    /// Returns the store of a bucket, to upload objects in parts.
    pub(crate) fn writable(&self, at: &Bucket) -> Result<Arc<dyn buckets::Writable>, Fault> {
        Ok(self.tried(at, self.shared.options.retries)?)
    }

    /// Returns the store of a bucket, to list its objects in pages.
    pub(crate) fn listable(&self, at: &Bucket) -> Result<Arc<dyn buckets::Listable>, Fault> {
        self.tried(at, self.shared.options.retries)
    }

    fn tried(&self, at: &Bucket, retries: u32) -> Result<Arc<dyn buckets::Listable>, Fault> {
        let mut buckets = self.shared.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (at.service, at.bucket.clone(), retries);
        if let Some(store) = buckets.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = buckets::store(at.service, &at.bucket, &self.shared.options, retries)?;
        buckets.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

fn kib(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(1024)).unwrap_or(Semaphore::MAX_PERMITS).clamp(1, Semaphore::MAX_PERMITS)
}
