//! Asynchronous files whose bytes are checked against a hash.

use std::io;
use std::ops::Range;

use modelfmt_core::author::{Scan, ScanError};
use modelfmt_core::proof::{AsyncVerifiedSource, HashProof, OutboardProof};
use modelfmt_core::source::FileId;
use modelfmt_core::{Bytes, Execution, Fetch, FetchFiles};

/// Files of a model. If there is a hash, each read of the file called `name` is checked against it. If the index of a set has been
/// proved, each read of its other files is checked against the hashes in the index.
pub(super) struct Proved<F> {
    files: F,
    name: String,
    hash: Option<[u8; 32]>,
    #[cfg(feature = "aero")]
    listed: Option<aero::FileProofs>,
}

/// A file and the proof of its bytes.
pub(super) enum ProvedFile<S> {
    Plain(S),
    ByOutboard(AsyncVerifiedSource<S, OutboardProof<S>>),
    ByHash(AsyncVerifiedSource<S, HashProof>),
    #[cfg(feature = "aero")]
    ByHead(AsyncVerifiedSource<S, aero::HeadProof>),
}

/// The outboard exists, but cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{outboard} cannot be read")]
struct Unread {
    outboard: String,
    source: io::Error,
}

impl<F: FetchFiles> Proved<F> {
    pub(super) fn new(files: F, name: &str, hash: Option<[u8; 32]>) -> Self {
        Self {
            files,
            name: name.to_owned(),
            hash,
            #[cfg(feature = "aero")]
            listed: None,
        }
    }

    /// Returns the same files, with those of a set checked against the hashes in its proved index.
    #[cfg(feature = "aero")]
    pub(super) fn by_index(self, listed: aero::FileProofs) -> Self {
        Self { listed: Some(listed), ..self }
    }
}

impl<F: FetchFiles> FetchFiles for Proved<F> {
    type File = ProvedFile<F::File>;

    async fn fetch_file(&self, path: &str) -> io::Result<Self::File> {
        let file = self.files.fetch_file(path).await?;
        #[cfg(feature = "aero")]
        if let Some(listed) = self.listed.as_ref().filter(|_| path != self.name) {
            // The paths in the index are relative to the folder of the index.
            let folder = self.name.rfind('/').and_then(|at| self.name.get(..=at)).unwrap_or_default();
            let proof = listed.of(path.strip_prefix(folder).unwrap_or(path), file.size())?;
            return Ok(ProvedFile::ByHash(AsyncVerifiedSource::new(file, proof)));
        }
        let Some(hash) = self.hash.filter(|_| path == self.name) else { return Ok(ProvedFile::Plain(file)) };
        let outboard = format!("{path}{}", crate::model::pinned::ENDING);
        match self.files.fetch_file(&outboard).await {
            Ok(bytes) => {
                let proof = OutboardProof::new(hash, file.size(), bytes, &outboard)?;
                Ok(ProvedFile::ByOutboard(AsyncVerifiedSource::new(file, proof)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let proof = HashProof::new(hash, file.size());
                Ok(ProvedFile::ByHash(AsyncVerifiedSource::new(file, proof)))
            }
            Err(source) => Err(io::Error::new(source.kind(), Unread { outboard, source })),
        }
    }
}

impl<S: Fetch> Fetch for ProvedFile<S> {
    fn size(&self) -> u64 {
        match self {
            Self::Plain(file) => file.size(),
            Self::ByOutboard(file) => file.size(),
            Self::ByHash(file) => file.size(),
            #[cfg(feature = "aero")]
            Self::ByHead(file) => file.size(),
        }
    }

    async fn fetch(&self, range: Range<u64>) -> io::Result<Bytes<'_>> {
        match self {
            Self::Plain(file) => file.fetch(range).await,
            Self::ByOutboard(file) => file.fetch(range).await,
            Self::ByHash(file) => file.fetch(range).await,
            #[cfg(feature = "aero")]
            Self::ByHead(file) => file.fetch(range).await,
        }
    }

    async fn fetch_into(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.fetch_into(offset, out).await,
            Self::ByOutboard(file) => file.fetch_into(offset, out).await,
            Self::ByHash(file) => file.fetch_into(offset, out).await,
            #[cfg(feature = "aero")]
            Self::ByHead(file) => file.fetch_into(offset, out).await,
        }
    }

    fn memory(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(file) => file.memory(),
            _ => None,
        }
    }

    fn file_id(&self) -> Option<FileId> {
        match self {
            Self::Plain(file) => file.file_id(),
            _ => None,
        }
    }

    async fn scan<C: Scan>(
        &self,
        scan: &C,
        work: &Execution<'_>,
        take: impl FnMut(C::Seen) + Send,
    ) -> Result<(), ScanError> {
        match self {
            Self::Plain(file) => file.scan(scan, work, take).await,
            Self::ByOutboard(file) => file.scan(scan, work, take).await,
            Self::ByHash(file) => file.scan(scan, work, take).await,
            #[cfg(feature = "aero")]
            Self::ByHead(file) => file.scan(scan, work, take).await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

    use std::error::Error as _;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Files of which only one exists; opening any other fails with a cause of its own.
    struct One;

    impl FetchFiles for One {
        type File = Vec<u8>;

        async fn fetch_file(&self, path: &str) -> io::Result<Vec<u8>> {
            let cause = io::Error::new(io::ErrorKind::PermissionDenied, "the bucket says no");
            if path == "m" { Ok(vec![1]) } else { Err(cause) }
        }
    }

    #[test]
    fn an_outboard_that_cannot_be_read_says_why() {
        let files = Proved::new(One, "m", Some([0; 32]));
        let read = pin!(files.fetch_file("m")).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = read else { panic!("it was read") };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "m.obao4 cannot be read");
        assert_eq!(error.source().unwrap().to_string(), "the bucket says no");
    }
}
