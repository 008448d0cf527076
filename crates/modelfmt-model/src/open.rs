//! The options with which a model is opened.

use std::io;

use modelfmt_core::Limits;
use modelfmt_core::source::{BoxSource, Files};

use modelfmt_rules::pin::Pin;

/// The options with which a model is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) limits: Option<Limits>,
    pub(crate) ignore_checksum: bool,
    pub(crate) pin: Option<Pin>,
    pub(crate) root: Option<String>,
    #[cfg(feature = "seal")]
    pub(crate) access: Option<std::sync::Arc<crate::apr2::seal::Access>>,
    #[cfg(feature = "sign")]
    pub(crate) signed: Option<std::sync::Arc<modelfmt_oms::SignedFiles>>,
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    pub(crate) policy: Option<PolicyHandle>,
    /// The URL of what `open_source` opens.
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    pub(crate) url: Option<String>,
}

impl OpenOptions {
    /// Makes the default options: the limits of the specifications, and no checksum is ignored.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets limits on the memory and work that the file may cause, instead of the defaults of its format.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the pin of the file, against which every byte that is read is checked, in any format. With [`Pin::B3`], the file
    /// `FILE.obao4` beside the file is used as its outboard; [`outboard`](fn@crate::outboard::outboard) writes it. Without one, the
    /// whole file is hashed once. The pin of a set is that of its index. The index of an AEROSET has a SHA-256 of each other file,
    /// and each file is checked when it is first read; sets whose index has no such hashes are refused. The pin does not cover a
    /// config.json beside the file, so that is not read.
    #[must_use]
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = Some(pin);
        self
    }

    /// Selects the part of a PyTorch checkpoint that is the model, such as `state_dict`; a dot leads to a
    /// nested part. Names of tensors and metadata lose this prefix, and all other parts are left out. A model
    /// of another format has no such parts, and is refused.
    #[must_use]
    pub fn root(mut self, root: impl Into<String>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Returns the pin that was set.
    #[must_use]
    pub const fn expected_pin(&self) -> Option<Pin> {
        self.pin
    }

    /// Sets what a sealed APR2 file must satisfy, and the keys that open it. With this option, a file of a format that cannot be
    /// sealed is refused.
    #[cfg(feature = "seal")]
    #[cfg_attr(docsrs, doc(cfg(feature = "seal")))]
    #[must_use]
    pub fn access(mut self, access: crate::apr2::seal::Access) -> Self {
        self.access = Some(std::sync::Arc::new(access));
        self
    }

    /// Reads only the files that a signature beside the model covers, from [`signed_files`](fn@crate::signed::signed_files), and
    /// checks every byte of them against the signed hashes. Any other file is refused, such as a part of a set, or ignored, such as
    /// a config.json.
    ///
    /// ```
    /// use modelfmt::keys::{KeyType, PrivateKey};
    /// use modelfmt::oms::{SignOptions, VerifyOptions, sign};
    /// use modelfmt::{Execution, Format, OpenOptions, View};
    /// use modelfmt::signed::signed_files;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("m.safetensors");
    /// let weights = [("w", View::new(&[1.0f32, 2.0], [2])?)];
    /// modelfmt::convert::save_as(Format::Safetensors, &path, weights, &modelfmt::Object::new())?;
    /// let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32])?; // PrivateKey::read("KEY")?
    /// sign(&path, &key, &SignOptions::new(), &Execution::default())?;
    ///
    /// let trusted = [key.public().clone()]; // PublicKey::read("KEY.pub")?
    /// let files = signed_files(&path, &trusted, &VerifyOptions::new(), &Execution::default())?;
    /// let model = OpenOptions::new().signed_files(files).open(&path)?;
    /// assert_eq!(model.tensor("w")?.to_f32()?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "sign")]
    #[cfg_attr(docsrs, doc(cfg(feature = "sign")))]
    #[must_use]
    pub fn signed_files(mut self, files: std::sync::Arc<modelfmt_oms::SignedFiles>) -> Self {
        self.signed = Some(files);
        self
    }

    /// Sets the URL of the source for [`open_source`](Self::open_source) or
    /// [`verify_source`](Self::verify_source). The policy judges the source and the files beside it by this
    /// URL. Without a URL, the default of the policy applies to the source.
    #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
    #[cfg_attr(docsrs, doc(cfg(feature = "policy")))]
    #[must_use]
    pub fn at_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Checks whether every byte that is read is checked against a pin, a trusted signer or signed files.
    /// This does not hold for bytes that you read from the file in another way, such as from your own memory
    /// map.
    #[must_use]
    pub fn binds_content(&self) -> bool {
        #[cfg(feature = "sign")]
        if self.signed.is_some() {
            return true;
        }
        #[cfg(feature = "seal")]
        if self.access.as_ref().is_some_and(|access| access.binds_content()) {
            return true;
        }
        self.pin.is_some()
    }

    /// Returns the requirements for a sealed file, including a pin.
    #[cfg(feature = "seal")]
    pub(crate) fn demanded(&self) -> Option<std::sync::Arc<crate::apr2::seal::Access>> {
        let Some(Pin::Seal(statement)) = self.pin else { return self.access.clone() };
        let access = self.access.as_deref().cloned().unwrap_or_default();
        Some(std::sync::Arc::new(access.statement(statement)))
    }

    /// Opens a MAG file even if its checksum does not match, to inspect what is left of it.
    #[must_use]
    pub fn ignore_checksum(mut self, ignore: bool) -> Self {
        self.ignore_checksum = ignore;
        self
    }
}

/// The files beside a source, if none are known. Only a file that turns out to be part of a set needs them.
pub(crate) struct NoFiles;

impl Files for NoFiles {
    type Source = BoxSource;

    fn open(&self, _: &str) -> io::Result<BoxSource> {
        let why = "the model has other files, and was opened as one source; open it by its path (or give the files to open_source)";
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }
}

/// The error for an index without the files that it names.
pub(crate) const ALONE: &str = "it is the index of a set, whose other files are beside it; open it by its path (or give the files to open_source)";

/// The policy of the options. Its type is defined in a module above this one, and only that module uses it.
#[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
#[derive(Clone)]
pub(crate) struct PolicyHandle(pub(crate) std::sync::Arc<dyn std::any::Any + Send + Sync>);

#[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
impl std::fmt::Debug for PolicyHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Policy")
    }
}
