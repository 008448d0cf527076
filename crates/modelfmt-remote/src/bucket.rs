//! Objects in buckets, read by ranges through `object_store`.

use std::sync::Arc;

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt as _};

use crate::answer::{Answer, Ask, Version, code};
use crate::error::Fault;

/// An object in a bucket. The store behind it does not retry requests. It has no `Debug`, because the store
/// prints its credentials.
pub(crate) struct BucketObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl BucketObject {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, key: &str) -> Result<Self, Fault> {
        let path = Path::parse(key).map_err(|_| crate::url::BAD_PATH)?;
        Ok(Self { store, path })
    }

    /// Requests bytes of the object. With a `pin`, only bytes of that state are accepted.
    pub(crate) async fn get(&self, ask: &Ask, pin: Option<&Version>) -> Result<Answer, Fault> {
        let range = match ask {
            Ask::Part(range) => GetRange::Bounded(range.clone()),
            Ask::Tail(len) => GetRange::Suffix(*len),
        };
        let version = pin.and_then(|pin| pin.id.clone());
        let if_match = pin.filter(|_| version.is_none()).and_then(Version::strong).map(str::to_owned);
        let options = GetOptions { range: Some(range), version, if_match, ..GetOptions::default() };
        let got = match self.store.get_opts(&self.path, options).await {
            Ok(got) => got,
            Err(error) => match fault_of(&error) {
                Fault::Status { status: 416, .. } => return self.empty(pin).await,
                fault => return Err(fault),
            },
        };
        let meta = got.meta.clone();
        let version = Version {
            size: meta.size,
            etag: meta.e_tag,
            modified: Some(meta.last_modified.to_string()),
            id: meta.version,
        };
        if let Some(pin) = pin {
            pin.expect(&version)?;
        }
        let range = got.range.clone();
        let pieces = got.into_stream().map(|piece| piece.map_err(|error| fault_of(&error)));
        Ok(Answer { range, version, pieces: Box::pin(pieces) })
    }

    /// Handles an empty object: there is no range to ask for, and the error response does not have its
    /// length.
    async fn empty(&self, pin: Option<&Version>) -> Result<Answer, Fault> {
        if pin.is_some() {
            return Err(Fault::Changed);
        }
        let meta = self.store.head(&self.path).await.map_err(|error| fault_of(&error))?;
        if meta.size != 0 {
            return Err(Fault::Answer("the range is refused, and the file has it"));
        }
        let modified = Some(meta.last_modified.to_string());
        let version = Version { size: 0, etag: meta.e_tag, modified, id: meta.version };
        Ok(Answer { range: 0..0, version, pieces: Box::pin(futures_util::stream::empty()) })
    }
}

/// Returns the fault for an error of a store. The text of the error has whole response bodies, so only the
/// provider's error code is kept.
pub(crate) fn fault_of(error: &object_store::Error) -> Fault {
    use object_store::Error as E;
    if let Some(fault) = Fault::within(error) {
        return fault.clone();
    }
    let text = error.to_string();
    if matches!(code(&text).trim(), "NoSuchBucket" | "ContainerNotFound") {
        return Fault::NoBucket;
    }
    match error {
        E::NotFound { .. } => Fault::NotFound(404),
        E::Precondition { .. } => Fault::Changed,
        E::Unauthenticated { .. } => Fault::Denied { status: 401, code: code(&text) },
        E::PermissionDenied { .. } => Fault::Denied { status: 403, code: code(&text) },
        E::NotSupported { .. } | E::NotImplemented { .. } => Fault::Store("the store cannot do that".into()),
        _ => Fault::Store(format!("the store's answer cannot be used{}", code(&text)).into()),
    }
}
