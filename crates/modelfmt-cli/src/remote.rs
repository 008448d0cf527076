//! Models at URLs of buckets and web servers. They are read by ranges, and written to buckets.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use modelfmt_remote::blocking::Store;
use modelfmt_remote::{DiskCache, Location, Options, models};

use crate::args::{OpenArgs, RemoteArgs};
use crate::failure::{Failure, Result};

/// Returns the URL in an argument, if it is one. An invalid URL is an error here, so that nothing prints it
/// as a path.
pub(crate) fn location(path: &Path) -> Result<Option<Location>> {
    models::location(path).map_err(|error| Failure::Input(error.to_string()))
}

/// Returns the store for the whole run: connections are kept, and limits apply to all files together.
pub(crate) fn store(args: &OpenArgs) -> Result<Store> {
    store_with(&args.remote)
}

/// Returns the same store, for a command that opens no model.
pub(crate) fn store_with(args: &RemoteArgs) -> Result<Store> {
    static STORE: OnceLock<Store> = OnceLock::new();
    if let Some(store) = STORE.get() {
        return Ok(store.clone());
    }
    let options = Options::new()
        .instance_credentials(args.allow_instance_credentials)
        .private_redirects(args.allow_private_redirects);
    let options = match args.stall_timeout {
        Some(limit) => options.stall_timeout(limit),
        None => options,
    };
    let cache = DiskCache::for_user(|name| std::env::var(name).ok()).filter(|_| !args.no_cache);
    let made = Store::new(match cache {
        Some(cache) => options.cache(cache),
        None => options,
    });
    let failed = |source: io::Error| Failure::Job(modelfmt::Error::Open { path: "thread".into(), source });
    let made = made.map_err(failed)?;
    Ok(STORE.get_or_init(|| made).clone())
}
