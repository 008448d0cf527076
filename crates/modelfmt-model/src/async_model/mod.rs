//! A model of any format, read asynchronously.

mod proved;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
#[cfg(feature = "aero")]
use std::sync::Arc;

#[cfg(feature = "aero")]
use modelfmt_core::OpenFile;
use modelfmt_core::claims::{Claims, WantedRange};
use modelfmt_core::load::{LoadOptions, Loaded};
use modelfmt_core::plan::{Pick, Slice, TensorSlice};
use modelfmt_core::read::Opened as _;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    AnyError, AsyncReader, Bytes, Execution, Fetch as _, FetchFiles, Location, Report, TensorInfo, TensorKey,
    TensorView, VerifyLevel,
};

use self::proved::{Proved, ProvedFile};
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::open_any::OpenAny;
#[cfg(feature = "aero")]
use crate::formats::own_options;
use crate::model::list_index;
use crate::open::OpenOptions;
use crate::unrecognized::{self, Unrecognized};
use modelfmt_rules::pin::Pin;

/// A model of any format, read asynchronously: from a bucket, a web server, or a store of your own.
///
/// The format is detected by the content. The methods are those of [`Model`](crate::Model) as `async`
/// functions, run by the same code on any executor. The files come from `modelfmt_remote::SiblingFiles`, or
/// from your own [`FetchFiles`]. For features that only one format has, use the `AsyncReader` or
/// `AsyncSetReader` of its crate.
///
/// ```
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut future = std::pin::pin!(future);
/// #     let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop { if let std::task::Poll::Ready(done) = future.as_mut().poll(context) { return done } }
/// # }
/// use modelfmt::AsyncModel;
/// use modelfmt::modelfmt_core::source::MemoryFiles;
///
/// # let bytes = std::fs::read("../../testdata/reference/one-shard.aero")?;
/// # #[cfg(feature = "aero")]
/// # block_on(async {
/// let files = MemoryFiles([("model.aero".to_owned(), bytes.into())].into()); // or a bucket, a web server
/// let model = AsyncModel::open(files, "model.aero").await?;                  // reads the index
/// for tensor in model.tensors().await? {
///     println!("{} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
/// }
/// let row = model.read_range("embed.weight", 32..64).await?;                 // reads one range
/// assert_eq!(*row, model.tensor("embed.weight").await?.bytes()[32..64]);
/// # Ok::<(), modelfmt::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncModel<F: FetchFiles> {
    name: String,
    /// The pin, if the model was opened with one.
    pin: Option<Pin>,
    /// The length of the index file, for a set that has one.
    index_len: Option<u64>,
    reader: AsyncReader<OpenAny<Proved<F>>>,
}

impl<F: FetchFiles> fmt::Debug for AsyncModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncModel({:?}, {})", self.name, self.format())
    }
}

impl OpenOptions {
    /// Opens the model whose file or index is called `name` among `files`. For a split GGUF, `name` may be any of its files. The
    /// format is detected by the content. A file that may be the index of a set is read twice: to detect the format, and to open
    /// the set.
    ///
    /// # Errors
    /// If the file cannot be read, has no known format, breaks a rule of its format, or does not match the [pin](Self::pin);
    /// [`Error::Unpinnable`] for the pin of a seal.
    pub async fn open_async<F: FetchFiles>(&self, files: F, name: &str) -> Result<AsyncModel<F>> {
        let path = || PathBuf::from(name);
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        self.refuse_async(name, None)?;
        #[cfg(feature = "sign")]
        if self.signed.is_some() {
            let why = format!(
                "{name}: files that are waited for are not checked by a signature beside them; open it with Model"
            );
            return Err(Error::Signature { path: path(), why });
        }
        let failed = |source| crate::model::pinned::unproved(&path(), source);
        let hash = match self.pin {
            Some(Pin::B3(hash)) => Some(hash),
            _ => None,
        };
        let files = Proved::new(files, name, hash);
        let file = files.fetch_file(name).await.map_err(failed)?;
        let max_index = self.limits.as_ref().map_or(u64::MAX, |limits| limits.index_len);
        let Some(format) = Format::detect_async(&file, max_index).await.map_err(failed)? else {
            let first = file.fetch(0..file.size().min(unrecognized::LOOKED_AT)).await.map_err(failed)?;
            let Unrecognized { hint, is_model } = unrecognized::from_first_bytes(&first);
            return Err(Error::UnknownFormat { path: path(), hint, is_model });
        };
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        self.refuse_async(name, Some(format))?;
        if format.fns().is_none() {
            return Err(Error::NotEnabled { path: path(), format, feature: format.feature() });
        }
        if let Some(pin) = self.pin {
            crate::model::pinned::check(&path(), format, pin)?;
            if matches!(pin, Pin::Seal(_)) {
                let why = "of files that are waited for, only pins `aero:` and `b3:` are checked; open it with Model"
                    .to_owned();
                return Err(Error::Unpinnable { path: path(), pin, why });
            }
        }
        #[cfg(feature = "seal")]
        self.check_sealable(&path(), format)?;
        let index_len = format.is_set().then(|| file.size());
        let opened = self.opened(files, name, file, format).await;
        let opened = opened.map_err(|error| Error::file(path(), error))?;
        let format = opened.format();
        #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
        self.refuse_async(name, Some(format))?;
        if let Some(pin) = self.pin {
            crate::model::pinned::check(&path(), format, pin)?; // only the index shows that it is a split
        }
        Ok(AsyncModel { name: name.to_owned(), pin: self.pin, index_len, reader: AsyncReader::new(opened) })
    }

    async fn opened<F: FetchFiles>(
        &self,
        files: Proved<F>,
        name: &str,
        file: ProvedFile<F::File>,
        format: Format,
    ) -> std::result::Result<OpenAny<Proved<F>>, AnyError> {
        #[cfg(feature = "aero")]
        let file = match (self.pin, file) {
            (Some(Pin::Aero(hash)), ProvedFile::Plain(file)) => {
                let reader = aero::open_pinned_async(file, hash, &own_options::<aero::Index>(self)).await?;
                let index = Arc::clone(reader.index());
                let file = ProvedFile::ByHead(reader.into_source());
                return Ok(OpenAny::Aero(OpenFile::with_index(index, file)?));
            }
            (_, file) => file,
        };
        #[cfg(feature = "aero")]
        let files = if format.fns().is_some_and(|fns| fns.proves_files) && self.pin.is_some() {
            // The index is read through its proof, and proves the other files.
            let options = own_options::<aero::Index>(self);
            files.by_index(aero::FileProofs::read(&file, options.settings().limits_ref()).await?)
        } else {
            files
        };
        OpenAny::open(format, file, files, name, self).await
    }
}

impl<F: FetchFiles> AsyncModel<F> {
    /// Opens a model with the default options: see [`OpenOptions::open_async`].
    ///
    /// # Errors
    /// If the file cannot be read, has no known format, or breaks a rule of its format.
    pub async fn open(files: F, name: &str) -> Result<Self> {
        OpenOptions::new().open_async(files, name).await
    }

    /// Returns the name by which the model was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format of the model.
    #[must_use]
    pub fn format(&self) -> Format {
        self.reader.format()
    }

    /// Returns the version that the file states, such as `0.1`; `None` if the format has no versions.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        self.reader.version_text()
    }

    /// Returns the pin, if the model was [opened with one](OpenOptions::pin). Everything that is read is
    /// checked against it.
    #[must_use]
    pub const fn pin(&self) -> Option<Pin> {
        self.pin
    }

    /// Returns the size in bytes; for a set, the size of all its files together. A file of a set that cannot
    /// be opened counts as empty, unless the index states its size.
    pub async fn file_size(&self) -> u64 {
        self.reader.file_size().await
    }

    /// Returns the paths of the files of a set without its index, as the index names them; empty for a single
    /// file.
    #[must_use]
    pub fn file_paths(&self) -> Vec<String> {
        self.reader.file_paths()
    }

    /// Returns the number of tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.reader.tensor_count()
    }

    /// Returns the tensors, in file order. If the index of a set has only their names, this opens every file.
    ///
    /// # Errors
    /// [`Error::File`] if a file of a set is missing or broken.
    pub async fn tensors(&self) -> Result<Vec<TensorInfo<'_>>> {
        let mut all = Vec::with_capacity(self.tensor_count());
        for position in 0..self.tensor_count() {
            all.push(self.info(position).await?);
        }
        Ok(all)
    }

    /// Returns a tensor without its values. If the index of a set has only its name, this opens its file.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if there is no tensor at that position, or its file is missing or broken.
    pub async fn info(&self, key: impl TensorKey) -> Result<TensorInfo<'_>> {
        let position = self.position(key)?;
        self.named(self.reader.info(position).await)
    }

    /// Returns the location of a tensor's values in its file. For a set, this may have to open one of its
    /// files.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if there is no tensor at that position, or its file is missing or broken.
    pub async fn location(&self, key: impl TensorKey) -> Result<Location> {
        let position = self.position(key)?;
        self.named(self.reader.location(position).await)
    }

    /// Makes sure that every tensor can be listed: opens the files of a set whose tensors its index does not describe.
    ///
    /// # Errors
    /// [`Error::File`] for the first tensor whose file is missing or broken.
    pub async fn open_all(&self) -> Result<()> {
        for position in 0..self.tensor_count() {
            self.info(position).await?;
        }
        Ok(())
    }

    /// Returns the position of the tensor with that name.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`].
    pub fn find(&self, name: &str) -> Result<usize> {
        self.position(name)
    }

    /// Returns a tensor with its values. The key is the tensor's name, or its position in file order.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if there is no tensor at that position, it has no data, or cannot be read or
    /// decompressed.
    pub async fn tensor(&self, key: impl TensorKey) -> Result<TensorView<'_>> {
        let position = self.position(key)?;
        self.named(self.reader.tensor(position).await)
    }

    /// Reads a range of the bytes of a tensor's values, without reading the rest.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if it has fewer bytes, or cannot be read or decompressed.
    pub async fn read_range(&self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'_>> {
        let position = self.position(key)?;
        self.named(self.reader.read_range(position, range).await)
    }

    /// Reads a part of a tensor, and little else from its file.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the slice does not fit the tensor, or it cannot be read or decompressed.
    pub async fn slice(&self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'_>> {
        let position = self.position(key)?;
        self.named(self.reader.slice(position, slice).await)
    }

    /// Fills `out`, a buffer of your own, with a tensor's values from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if it has fewer bytes, or cannot be read or decompressed.
    pub async fn read_into(&self, key: impl TensorKey, offset: u64, out: &mut [u8]) -> Result<()> {
        let position = self.position(key)?;
        self.named(self.reader.read_into(position, offset, out).await)
    }

    /// Returns the same reads, with each checked against the digests in the file.
    #[must_use]
    pub const fn checked(&self) -> AsyncCheckedModel<'_, F> {
        AsyncCheckedModel(self)
    }

    /// Fills buffers of your own with tensors or parts of them, in the order of `picks`, with up to
    /// [`LoadOptions::in_flight`] requests under way at once. Each buffer has to be as long as its values.
    /// Only the progress callback of `work` is used.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if a buffer has another length, a tensor cannot be read or decompressed, or its
    /// values do not match the digests that are checked.
    pub async fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded> {
        let loaded = self.named(self.reader.load_into(picks, buffers, options, work).await);
        loaded.map(|mut loaded| {
            if self.pin.is_some() {
                loaded.unverified = 0;
            }
            loaded
        })
    }

    /// Returns the metadata as one flat object, without the keys that describe the layout of the file.
    ///
    /// # Errors
    /// [`Error::File`] if the metadata cannot be read or does not decode.
    pub async fn flat_metadata(&self) -> Result<Object> {
        self.named(self.reader.flat_metadata().await)
    }

    /// Returns the metadata of the format, as the tree that `inspect --json` prints.
    ///
    /// # Errors
    /// [`Error::File`] if the metadata cannot be read or does not decode.
    pub async fn metadata(&self) -> Result<Value> {
        self.named(self.reader.metadata().await)
    }

    /// Returns the features that only this format has (chunks, size variables, checksum, flags, files), as
    /// `inspect --json` prints them.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read.
    pub async fn details(&self) -> Result<Value> {
        let mut details = self.named(self.reader.details().await)?;
        if let Some(len) = self.index_len {
            list_index(&mut details, self.name.rsplit('/').next().unwrap_or(&self.name), len);
        }
        Ok(details.into())
    }

    /// Returns the digests that the files of the model contain for the values of all tensors. A digest may
    /// cover other bytes too. Files are numbered as in [`file_paths`](Self::file_paths); a single file is 0.
    ///
    /// # Errors
    /// [`Error::File`] if a part of the index that has digests cannot be read.
    pub async fn claims(&self) -> Result<Claims> {
        let wanted: Vec<WantedRange> = (0..self.tensor_count()).map(WantedRange::whole).collect();
        self.named(self.reader.claims(&wanted).await)
    }

    /// Checks the model; for a set, all of its files.
    pub async fn verify(&self, level: VerifyLevel) -> Report {
        self.reader.verify(level).await
    }

    /// Checks the model and reports progress to `work`, which can stop it.
    pub async fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.reader.verify_with(level, work).await
    }

    /// Returns the position of a tensor from its name or position.
    fn position(&self, key: impl TensorKey) -> Result<usize> {
        let found = key.position(|name| self.reader.find(name));
        found.map_err(|name| {
            let path = PathBuf::from(&self.name);
            Error::NoSuchTensor { path, name: name.to_owned(), nearest: None }
        })
    }

    /// Adds the name of the model to an error.
    fn named<T>(&self, result: std::result::Result<T, AnyError>) -> Result<T> {
        result.map_err(|error| Error::file(PathBuf::from(&self.name), self.reader.named(error)))
    }
}

/// The reads of an [`AsyncModel`], each checked against the smallest digest in the file that covers the values, like those of
/// [`CheckedModel`](crate::model::CheckedModel).
pub struct AsyncCheckedModel<'a, F: FetchFiles>(&'a AsyncModel<F>);

impl<F: FetchFiles> Clone for AsyncCheckedModel<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: FetchFiles> Copy for AsyncCheckedModel<'_, F> {}

impl<F: FetchFiles> fmt::Debug for AsyncCheckedModel<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncCheckedModel").field(self.0).finish()
    }
}

impl<'a, F: FetchFiles> AsyncCheckedModel<'a, F> {
    /// Returns a tensor with its values.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the bytes do not match the digest, or the file has none for them.
    pub async fn tensor(self, key: impl TensorKey) -> Result<TensorView<'a>> {
        let position = self.0.position(key)?;
        self.0.named(self.0.reader.checked().tensor(position).await)
    }

    /// Returns a range of the bytes of a tensor's values.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the tensor has fewer bytes, the bytes do not match the digest, or the file has
    /// none for them.
    pub async fn read_range(self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'a>> {
        let position = self.0.position(key)?;
        self.0.named(self.0.reader.checked().read_range(position, range).await)
    }

    /// Returns a part of a tensor. If the file has digests of pages, the pages that the slice touches are
    /// checked.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::File`] if the slice does not fit the tensor, the bytes do not match the digest, or the
    /// file has none for them.
    pub async fn slice(self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'a>> {
        let position = self.0.position(key)?;
        self.0.named(self.0.reader.checked().slice(position, slice).await)
    }
}
