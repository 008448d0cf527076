//! The options of a store: limits, guards, and the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::DiskCache;

/// The options of a store. The defaults suit a program that a person has started.
#[derive(Clone, Debug)]
pub struct Options {
    first_byte: Option<Duration>,
    progress: Option<Duration>,
    pub(crate) stall_timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) first_wait: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) requests_in_flight: u16,
    pub(crate) bytes_in_flight: u32,
    pub(crate) front: u32,
    pub(crate) private_redirects: bool,
    pub(crate) instance_credentials: bool,
    pub(crate) environment: Environment,
    pub(crate) cache: Option<DiskCache>,
    pub(crate) revalidates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            first_byte: None,
            progress: None,
            stall_timeout: Duration::from_secs(60),
            retries: 5,
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(30),
            requests_in_flight: 16,
            bytes_in_flight: 64 << 20,
            front: 512 << 10,
            private_redirects: false,
            instance_credentials: false,
            environment: Environment::process(),
            cache: None,
            revalidates: true,
        }
    }
}

impl Options {
    /// Returns the defaults, with the environment of this process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a server may send less than 4 KiB, including all tries and the waits between them: 60 s
    /// by default. After that, reading fails with [`Fault::Silent`](crate::Fault::Silent).
    #[must_use]
    pub const fn stall_timeout(mut self, limit: Duration) -> Self {
        self.stall_timeout = limit;
        self
    }

    /// Sets how long a server may take to begin its response to one try: half of
    /// [`stall_timeout`](Self::stall_timeout) by default.
    #[must_use]
    pub const fn first_byte(mut self, limit: Duration) -> Self {
        self.first_byte = Some(limit);
        self
    }

    /// Sets the time within which 4 KiB of the response to one try must arrive: a third of
    /// [`stall_timeout`](Self::stall_timeout) by default.
    #[must_use]
    pub const fn progress(mut self, limit: Duration) -> Self {
        self.progress = Some(limit);
        self
    }

    /// Returns how long one try waits for the beginning of a response, and for 4 KiB of it.
    pub(crate) fn limits_of_try(&self) -> (Duration, Duration) {
        (self.first_byte.unwrap_or(self.stall_timeout / 2), self.progress.unwrap_or(self.stall_timeout / 3))
    }

    /// Sets how often a request is retried if it failed for a reason that may pass: 5 times by default, and
    /// at most twice if no server accepts the connection. If a response broke off, the next request starts at
    /// the byte where it did.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the wait before the second try, which doubles with each try, and the longest wait: 200 ms and 30
    /// s by default. If a server asks for a longer wait than that, its response is returned as the error.
    #[must_use]
    pub const fn waits(mut self, first: Duration, longest: Duration) -> Self {
        self.first_wait = first;
        self.longest_wait = longest;
        self
    }

    /// Sets the limits on simultaneous requests (16 by default) and on bytes that were requested and have not
    /// arrived (64 MiB by default).
    #[must_use]
    pub const fn in_flight(mut self, requests: u16, bytes: u32) -> Self {
        self.requests_in_flight = if requests == 0 { 1 } else { requests };
        self.bytes_in_flight = bytes;
        self
    }

    /// Sets how much of a file the first request asks for: 512 KiB by default.
    #[must_use]
    pub const fn front(mut self, bytes: u32) -> Self {
        self.front = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// Sets whether to follow redirects from servers on public networks to private addresses. Metadata
    /// addresses are always refused.
    #[must_use]
    pub const fn private_redirects(mut self, allow: bool) -> Self {
        self.private_redirects = allow;
        self
    }

    /// Sets whether to ask the metadata address of the cloud that this machine runs in for credentials, if
    /// the environment has none.
    #[must_use]
    pub const fn instance_credentials(mut self, allow: bool) -> Self {
        self.instance_credentials = allow;
        self
    }

    /// Keeps what is read in a disk cache, and reads from there what has not changed: a file that was read
    /// before is opened with one small request. Files without a strong entity tag are not cached.
    #[must_use]
    pub fn cache(mut self, cache: DiskCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets whether the server is asked if a cached file is still the same, as it is by default. If not, such
    /// a file is opened without any request, and the server may no longer have it. Use `false` only for files
    /// that you check against a known hash. If the file has changed, the next request for more of it fails,
    /// and the cache forgets the file.
    #[must_use]
    pub const fn revalidate(mut self, ask: bool) -> Self {
        self.revalidates = ask;
        self
    }

    /// Sets where credentials and endpoints are looked up: by default, in the environment of this process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }
}

/// Environment variables: those of the process, or your own. Values are never printed.
#[derive(Clone)]
pub struct Environment(Arc<BTreeMap<String, String>>);

impl Environment {
    /// Returns the variables that the process has now; variables that are not Unicode are left out.
    #[must_use]
    pub fn process() -> Self {
        let text = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self(Arc::new(text.collect()))
    }

    /// Makes an environment of these variables and no others.
    pub fn from_vars<N: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let all = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Arc::new(all.collect()))
    }

    /// Returns the same variables, with one added or changed.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut all = BTreeMap::clone(&self.0);
        all.insert(name.to_owned(), value.to_owned());
        Self(Arc::new(all))
    }

    /// Returns the value of a variable, unless it is empty.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Checks whether a variable means yes, as the providers' tools interpret it.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.var(name)
            .is_some_and(|value| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// Returns all variables whose names begin with `prefix`.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let from = self.0.range(prefix.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}
