//! The disk cache, as one file uses it.

use std::time::Duration;

use crate::answer::Version;
use crate::cache::{CacheKey, DiskCache, Known, PageLock, Pages};
use crate::store::{CacheUse, Store};
use crate::url::Location;

/// A file, with what identifies it in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Cached {
    cache: DiskCache,
    /// The endpoint, if the URL does not contain it, and the parts that distinguish files at one URL.
    server: String,
    url: String,
    asks: bool,
}

impl Cached {
    /// Returns `None` without a cache.
    pub(crate) fn new(store: &Store, place: &Location) -> Option<Self> {
        let options = store.options();
        let cache = options.cache.clone().filter(|_| store.caches())?;
        let (prefix, query) = match place {
            Location::Bucket(at) => (at.service.variables(), String::new()),
            Location::Hf(_) => ("HF_ENDPOINT", String::new()),
            Location::Web(url) => ("-", plain_query(url.query().unwrap_or_default())),
            Location::File(_) => return None,
        };
        // Of the environment, use only the server's address, not the credentials.
        let is_address =
            |name: &str| ["ENDPOINT", "URL", "ACCOUNT_NAME"].iter().any(|word| name.contains(word));
        let server = options.environment.with_prefix(prefix).filter(|(name, _)| is_address(name));
        let server = server.fold(query, |text, (name, value)| format!("{text}\n{name}={value}"));
        Some(Self { cache, server, url: place.to_string(), asks: store.cache() != CacheUse::Trusting })
    }

    fn key(&self) -> CacheKey {
        CacheKey::url(&self.server, &self.url)
    }

    /// Returns the state that the file had when the server was last asked.
    pub(crate) fn known(&self) -> Option<Version> {
        let Known { etag, len } = self.cache.known(&self.key())?;
        Some(Version { size: len, etag: Some(etag), ..Version::default() })
    }

    /// Checks whether the server must be asked if the file still has that state.
    pub(crate) const fn asks(&self) -> bool {
        self.asks
    }

    /// Waits until nobody else is opening a file about which nothing is known, but not longer than `limit`.
    /// After that, the cache may have its beginning.
    pub(crate) async fn lock(&self, limit: Duration) -> Option<PageLock> {
        self.cache.lock_known(&self.key(), limit).await
    }

    /// Forgets the state, because the file has changed.
    pub(crate) fn forget(&self) {
        self.cache.forget_known(&self.key());
    }

    /// Returns the pages of the file in a state; `None` if the state has no strong entity tag.
    pub(crate) fn pages(&self, version: &Version) -> Option<Pages> {
        let known = Known { etag: version.strong()?.to_owned(), len: version.size };
        let pages = Pages::new(&self.cache, &self.server, &self.url, &known)?;
        self.cache.note(&self.key(), &known);
        Some(pages)
    }
}

/// Returns the query string without its signature, which is secret and different each time.
fn plain_query(query: &str) -> String {
    const SIGNS: [&str; 22] = [
        "signature",
        "expires",
        "policy",
        "key-pair-id",
        "awsaccesskeyid",
        "googleaccessid",
        "token",
        "sig",
        "se",
        "sp",
        "st",
        "sr",
        "sv",
        "spr",
        "ss",
        "srt",
        "skoid",
        "sktid",
        "skt",
        "ske",
        "sks",
        "skv",
    ];
    let is_plain = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().to_ascii_lowercase();
        !name.starts_with("x-amz-") && !name.starts_with("x-goog-") && !SIGNS.contains(&name.as_str())
    };
    query.split('&').filter(is_plain).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn what_has_no_strong_tag_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().cache(DiskCache::new(folder.path(), 1 << 20));
        let cached = Cached::new(&Store::new(options), &"https://h/m".parse().unwrap()).unwrap();
        let version =
            |etag: Option<&str>| Version { size: 1, etag: etag.map(str::to_owned), ..Version::default() };
        for none in [None, Some("W/\"1\""), Some("")] {
            assert!(cached.pages(&version(none)).is_none() && cached.known().is_none(), "{none:?}");
        }
        assert!(cached.pages(&version(Some("\"1\""))).is_some() && cached.known().is_some());
        cached.forget();
        assert!(cached.known().is_none());
    }

    #[test]
    fn signatures_tell_no_files_apart_and_other_queries_do() {
        assert_eq!(plain_query("file=a&X-Amz-Signature=s&X-Amz-Expires=1&v=2&sig=x"), "file=a&v=2");
        let options = Options::new().cache(DiskCache::new("/nowhere", 0));
        let key = |url: &str| Cached::new(&Store::new(options.clone()), &url.parse().unwrap()).unwrap().key();
        assert_eq!(key("https://h/m?X-Amz-Signature=1"), key("https://h/m?X-Amz-Signature=2"));
        assert_ne!(key("https://h/?file=a"), key("https://h/?file=b"));
        let at = |endpoint: &'static str| {
            let environment = crate::Environment::from_vars([
                ("AWS_ENDPOINT_URL", endpoint),
                ("AWS_SECRET_ACCESS_KEY", "s"),
            ]);
            let store = Store::new(options.clone().environment(environment));
            let cached = Cached::new(&store, &"s3://b/k".parse().unwrap()).unwrap();
            assert!(!cached.server.contains("SECRET"));
            cached.key()
        };
        assert_ne!(at("http://a"), at("http://b"));
    }
}
