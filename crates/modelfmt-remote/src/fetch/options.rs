//! How files are fetched.

use std::fmt;
use std::ops::ControlFlow;

use modelfmt::Execution;

use super::report::FetchProgress;

/// A callback for progress, which can stop the work.
pub type OnProgress<'a> = dyn Fn(FetchProgress) -> ControlFlow<()> + Sync + 'a;

/// How files are fetched.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FetchOptions<'a> {
    pub(crate) pin: Option<[u8; 32]>,
    pub(crate) force: bool,
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
    pub(crate) progress: Option<&'a OnProgress<'a>>,
    pub(crate) note: Option<&'a (dyn Fn(&str) + Sync)>,
    pub(crate) threads: usize,
    #[cfg(feature = "policy")]
    pub(crate) policy: Option<std::sync::Arc<modelfmt::policy::Policy>>,
}

impl fmt::Debug for FetchOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pin, force, include, exclude, .. } = self;
        write!(
            f,
            "FetchOptions {{ pin: {pin:?}, force: {force}, include: {include:?}, exclude: {exclude:?} }}"
        )
    }
}

impl<'a> FetchOptions<'a> {
    /// The defaults: no pin, what exists is not replaced.
    #[must_use]
    pub fn new() -> Self {
        Self { threads: Execution::default().threads, ..Self::default() }
    }

    /// The BLAKE3 hash of the file. For a set, that of its index.
    #[must_use]
    pub const fn pin(mut self, hash: [u8; 32]) -> Self {
        self.pin = Some(hash);
        self
    }

    /// Judges every URL by a policy before anything is asked of its server.
    #[cfg(feature = "policy")]
    #[must_use]
    pub fn policy(mut self, policy: std::sync::Arc<modelfmt::policy::Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Begins anew: what is at the target does not count, and is replaced.
    #[must_use]
    pub const fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Of a repository, only files whose paths match one of these patterns.
    #[must_use]
    pub fn include(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.include = patterns.into_iter().collect();
        self
    }

    /// Of a repository, no file whose path matches one of these patterns.
    #[must_use]
    pub fn exclude(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.exclude = patterns.into_iter().collect();
        self
    }

    /// Calls a function as bytes come, which can stop the work. What came by then is kept.
    #[must_use]
    pub const fn progress(mut self, progress: &'a OnProgress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Calls a function with each note at once, also if the work fails later.
    #[must_use]
    pub const fn note(mut self, note: &'a (dyn Fn(&str) + Sync)) -> Self {
        self.note = Some(note);
        self
    }

    /// How many threads check a file of this machine. By default, one for each core, at most 8.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = if threads == 0 { 1 } else { threads };
        self
    }
}
