//! A model of any format whose bytes have to be waited for.

mod proved;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use modelfmt_core::load::{LoadOptions, Loaded};
use modelfmt_core::plan::{Pick, Slice, TensorSlice};
use modelfmt_core::value::Object;
use modelfmt_core::{
    AnyError, AsyncReader, Bytes, Execution, Fetch, FetchFiles, OpenFile, OpenSet, Report, TensorInfo,
    TensorKey, TensorView, VerifyLevel,
    author::{FileIndex, Opened as _, ShardMap},
};

use self::proved::Proved;
#[cfg(feature = "apr2")]
use crate::apr2;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::own_options;
use crate::open::OpenOptions;
use crate::pin::Pin;
use crate::unrecognized::{self, Stranger};

/// A model of any format whose bytes have to be waited for: in a bucket, on a web server, behind a store of your own.
///
/// It detects the format by the content and has the methods of [`Model`](crate::Model) as `async` functions, run by the same code. Any executor
/// drives it. Its files come from `modelfmt_remote::SiblingFiles`, or from your own [`FetchFiles`]. For what only one format has, use the `AsyncReader` or
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
    format: Format,
    opened: Opened<Proved<F>>,
    /// Whether a pin proves everything that is read.
    is_proved: bool,
}

/// The reader of a format.
#[allow(
    clippy::large_enum_variant,
    reason = "clippy takes a file, whose type is the caller's, for nothing; a model has one of these"
)]
enum Opened<F: FetchFiles> {
    #[cfg(feature = "aero")]
    Aero(aero::AsyncReader<F::File>),
    #[cfg(feature = "aero")]
    PinnedAero(aero::AsyncReader<modelfmt_core::proof::AsyncVerifiedSource<F::File, aero::HeadProof>>),
    #[cfg(feature = "aero")]
    AeroSet(aero::AsyncSetReader<F>),
    #[cfg(feature = "mag")]
    Mag(mag::AsyncReader<F::File>),
    #[cfg(feature = "oinf")]
    Oinf(oinf::AsyncReader<F::File>),
    #[cfg(feature = "apr2")]
    Apr2(apr2::AsyncReader<F::File>),
    #[cfg(feature = "apr2")]
    Apr2Set(apr2::AsyncSetReader<F>),
    #[cfg(feature = "apr")]
    Apr(apr::AsyncReader<F::File>),
    #[cfg(feature = "apr")]
    Aprn(apr::v1::AsyncReader<F::File>),
    #[cfg(feature = "safetensors")]
    Safetensors(modelfmt_safetensors::AsyncReader<F::File>),
    #[cfg(feature = "safetensors")]
    SafetensorsSet(modelfmt_safetensors::AsyncSetReader<F>),
    #[cfg(feature = "gguf")]
    Gguf(modelfmt_gguf::AsyncReader<F::File>),
    #[cfg(feature = "gguf")]
    GgufSet(modelfmt_gguf::AsyncSetReader<F>),
}

/// The same for each reader, of files and of sets, if they differ.
macro_rules! each {
    ($model:expr, $reader:ident => $do:expr) => {
        each!($model, $reader => $do, $do)
    };
    ($model:expr, $reader:ident => $of_file:expr, $of_set:expr) => {
        match &$model.opened {
            #[cfg(feature = "aero")]
            Opened::Aero($reader) => $of_file,
            #[cfg(feature = "aero")]
            Opened::PinnedAero($reader) => $of_file,
            #[cfg(feature = "aero")]
            Opened::AeroSet($reader) => $of_set,
            #[cfg(feature = "mag")]
            Opened::Mag($reader) => $of_file,
            #[cfg(feature = "oinf")]
            Opened::Oinf($reader) => $of_file,
            #[cfg(feature = "apr2")]
            Opened::Apr2($reader) => $of_file,
            #[cfg(feature = "apr2")]
            Opened::Apr2Set($reader) => $of_set,
            #[cfg(feature = "apr")]
            Opened::Apr($reader) => $of_file,
            #[cfg(feature = "apr")]
            Opened::Aprn($reader) => $of_file,
            #[cfg(feature = "safetensors")]
            Opened::Safetensors($reader) => $of_file,
            #[cfg(feature = "safetensors")]
            Opened::SafetensorsSet($reader) => $of_set,
            #[cfg(feature = "gguf")]
            Opened::Gguf($reader) => $of_file,
            #[cfg(feature = "gguf")]
            Opened::GgufSet($reader) => $of_set,
        }
    };
}

impl<F: FetchFiles> fmt::Debug for AsyncModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncModel({:?}, {})", self.name, self.format)
    }
}

impl OpenOptions {
    /// Opens the model whose file, or whose index, is called `name` among `files`. For a split GGUF, any of its files will do. The format is detected
    /// by the content. A file that may be the index of a set is read twice: to detect it, and to open it.
    ///
    /// # Errors
    /// As [`Model::open`](crate::Model::open). [`Error::Unpinnable`] for a [pin](Self::pin) of a seal, and for one of a set.
    pub async fn open_async<F: FetchFiles>(&self, files: F, name: &str) -> Result<AsyncModel<F>> {
        let path = || PathBuf::from(name);
        #[cfg(feature = "sign")]
        if self.signed.is_some() {
            let why = format!(
                "{name}: files that are waited for are not checked by a signature beside them; open it with Model"
            );
            return Err(Error::Signature { path: path(), why });
        }
        let failed = |source| crate::pin::open::unproved(&path(), source);
        let hash = match self.pin {
            Some(Pin::B3(hash)) => Some(hash),
            _ => None,
        };
        let files = Proved::new(files, name, hash);
        let file = files.fetch_file(name).await.map_err(failed)?;
        let max_index = self.limits.as_ref().map_or(u64::MAX, |limits| limits.index_len);
        let Some(format) = Format::detect_async(&file, max_index).await.map_err(failed)? else {
            let first = file.fetch(0..file.size().min(unrecognized::LOOKED_AT)).await.map_err(failed)?;
            let Stranger { hint, is_model } = unrecognized::from_first_bytes(&first);
            return Err(Error::UnknownFormat { path: path(), hint, is_model });
        };
        if format.driver().is_none() {
            return Err(Error::NotEnabled { path: path(), format, feature: format.feature() });
        }
        if let Some(pin) = self.pin {
            crate::pin::open::check(&path(), format, pin)?;
            if format.is_set() || matches!(pin, Pin::Seal(_)) {
                let why =
                    "of files that are waited for, only pins `aero:` and `b3:` of one file are checked; \
                           open it with Model"
                        .to_owned();
                return Err(Error::Unpinnable { path: path(), pin, why });
            }
        }
        #[cfg(feature = "seal")]
        self.check_sealable(&path(), format)?;
        let opened = self.opened(files, name, file, format).await;
        let opened = opened.map_err(|error| Error::file(path(), error))?;
        let format = match &opened {
            #[cfg(feature = "gguf")]
            Opened::GgufSet(_) => Format::GgufSharded,
            _ => format,
        };
        if let Some(pin) = self.pin {
            crate::pin::open::check(&path(), format, pin)?; // that it is one of a split shows its index
        }
        Ok(AsyncModel { name: name.to_owned(), format, opened, is_proved: self.pin.is_some() })
    }

    #[allow(unused_variables, reason = "with no set switched on there are no other files")]
    async fn opened<F: FetchFiles>(
        &self,
        files: F,
        name: &str,
        file: F::File,
        format: Format,
    ) -> std::result::Result<Opened<F>, AnyError> {
        let opened = match format {
            #[cfg(feature = "aero")]
            Format::Aero => match self.pin {
                Some(Pin::Aero(hash)) => {
                    let options = own_options::<aero::Index>(self);
                    Opened::PinnedAero(aero::open_pinned_async(file, hash, &options).await?)
                }
                _ => Opened::Aero(reader(self, file).await?),
            },
            #[cfg(feature = "aero")]
            Format::AeroSet => Opened::AeroSet(set::<aero::SetIndex, _>(self, files, name).await?),
            #[cfg(feature = "mag")]
            Format::Mag => Opened::Mag(reader(self, file).await?),
            #[cfg(feature = "oinf")]
            Format::Oinf => Opened::Oinf(reader(self, file).await?),
            #[cfg(feature = "apr2")]
            Format::Apr2 | Format::Apr1 => Opened::Apr2(reader(self, file).await?),
            #[cfg(feature = "apr2")]
            Format::Apr2Sharded => Opened::Apr2Set(set::<apr2::SetIndex, _>(self, files, name).await?),
            #[cfg(feature = "apr")]
            Format::Apr => Opened::Apr(reader(self, file).await?),
            #[cfg(feature = "apr")]
            Format::Aprn => Opened::Aprn(reader(self, file).await?),
            #[cfg(feature = "safetensors")]
            Format::Safetensors => Opened::Safetensors(reader(self, file).await?),
            #[cfg(feature = "safetensors")]
            Format::SafetensorsSharded => {
                let set = set::<modelfmt_safetensors::SetIndex, _>(self, files, name);
                Opened::SafetensorsSet(set.await?)
            }
            #[cfg(feature = "gguf")]
            Format::Gguf => self.opened_gguf(files, name, file).await?,
            #[allow(unreachable_patterns, reason = "with all formats switched on there is no other")]
            _ => {
                let why = format!("{format} is not read from files that are waited for; open it with Model");
                let source = io::Error::new(io::ErrorKind::Unsupported, why);
                return Err(AnyError::Io { at: 0, len: 0, source });
            }
        };
        Ok(opened)
    }

    /// Opens one file; if it is one of a split, the split.
    #[cfg(feature = "gguf")]
    async fn opened_gguf<F: FetchFiles>(
        &self,
        files: F,
        name: &str,
        file: F::File,
    ) -> std::result::Result<Opened<F>, AnyError> {
        let reader = reader::<modelfmt_gguf::Index, _>(self, file).await?;
        if !reader.index().is_split() {
            return Ok(Opened::Gguf(reader));
        }
        let options = own_options::<modelfmt_gguf::Index>(self);
        let first = modelfmt_gguf::Index::clone(reader.index());
        let split = modelfmt_gguf::SetIndex::read_others(first, name, &files, options.settings()).await?;
        let set = modelfmt_gguf::AsyncSetReader::with_index(std::sync::Arc::new(split), files, &options);
        Ok(Opened::GgufSet(set))
    }
}

async fn reader<I: FileIndex, S: Fetch>(
    options: &OpenOptions,
    source: S,
) -> std::result::Result<AsyncReader<OpenFile<I, S>>, modelfmt_core::Error<I::Fault>> {
    own_options::<I>(options).open_async(source).await
}

#[allow(dead_code, reason = "with no set switched on none is opened")]
async fn set<M: ShardMap, F: FetchFiles>(
    options: &OpenOptions,
    files: F,
    name: &str,
) -> std::result::Result<AsyncReader<OpenSet<M, F>>, AnyError> {
    Ok(AsyncReader::<OpenSet<M, F>>::from_files_with(files, name, &own_options::<M::Index>(options)).await?)
}

impl<F: FetchFiles> AsyncModel<F> {
    /// Opens a model with the default options: see [`OpenOptions::open_async`].
    ///
    /// # Errors
    /// As there.
    pub async fn open(files: F, name: &str) -> Result<Self> {
        OpenOptions::new().open_async(files, name).await
    }

    /// The name by which it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The number of tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        each!(self, reader => reader.tensors().len(), reader.index().tensor_count())
    }

    /// The tensors, in file order. If the index of a set has only their names, this opens every file.
    ///
    /// # Errors
    /// [`Error::File`] if a file of a set is missing or broken.
    pub async fn tensors(&self) -> Result<Vec<TensorInfo<'_>>> {
        each!(self, reader => Ok(reader.tensors().iter().collect()), self.named(reader.tensors().await))
    }

    /// The position of the tensor of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`].
    pub fn find(&self, name: &str) -> Result<usize> {
        self.position(name)
    }

    /// A tensor with its values. A tensor is named by its name, or by its position in the order of the file.
    ///
    /// # Errors
    /// As [`Model::tensor`](crate::Model::tensor).
    pub async fn tensor(&self, key: impl TensorKey) -> Result<TensorView<'_>> {
        let position = self.position(key)?;
        each!(self, reader => self.named(reader.tensor(position).await))
    }

    /// A range of the bytes of a tensor's values, without the rest of them.
    ///
    /// # Errors
    /// As [`Model::read_range`](crate::Model::read_range).
    pub async fn read_range(&self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'_>> {
        let position = self.position(key)?;
        each!(self, reader => self.named(reader.read_range(position, range).await))
    }

    /// A part of a tensor, with little of the rest of it.
    ///
    /// # Errors
    /// As [`Model::slice`](crate::Model::slice).
    pub async fn slice(&self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'_>> {
        let position = self.position(key)?;
        each!(self, reader => self.named(reader.slice(position, slice).await))
    }

    /// The same reads, checked by what the file says about its bytes.
    #[must_use]
    pub const fn checked(&self) -> AsyncCheckedModel<'_, F> {
        AsyncCheckedModel(self)
    }

    /// Fills buffers of your own with tensors or parts of them, in the order of `picks`, with several requests under way at once: as many as
    /// [`LoadOptions::in_flight`] allows. Each buffer is as long as the values. Of `work`, it uses the progress.
    ///
    /// # Errors
    /// As [`Model::load_into`](crate::Model::load_into).
    pub async fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded> {
        let loaded = each!(self, reader => self.named(reader.load_into(picks, buffers, options, work).await));
        loaded.map(|mut loaded| {
            if self.is_proved {
                loaded.unverified = 0;
            }
            loaded
        })
    }

    /// The metadata as one object of keys, without what says how the file is built.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read or does not decode.
    pub async fn flat_metadata(&self) -> Result<Object> {
        each!(self, reader => self.named(reader.flat_metadata().await))
    }

    /// Checks the model; of a set, all of its files.
    pub async fn verify(&self, level: VerifyLevel) -> Report {
        each!(self, reader => reader.verify(level).await)
    }

    /// As [`verify`](Self::verify), with progress.
    pub async fn verify_with(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        each!(self, reader => reader.verify_with(level, work).await)
    }

    /// The position of a tensor, which is named or has that position.
    fn position(&self, key: impl TensorKey) -> Result<usize> {
        let found = key.position(|name| each!(self, reader => reader.find(name)));
        found.map_err(|name| {
            let path = PathBuf::from(&self.name);
            Error::NoSuchTensor { path, name: name.to_owned(), nearest: None }
        })
    }

    /// Names the model in an error.
    fn named<T, E: Into<AnyError>>(&self, result: std::result::Result<T, E>) -> Result<T> {
        result.map_err(|error| Error::file(PathBuf::from(&self.name), error.into()))
    }
}

/// The reads of an [`AsyncModel`], each checked by the smallest digest that the file has of the values: as [`CheckedModel`](crate::CheckedModel).
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
    /// A tensor with its values.
    ///
    /// # Errors
    /// As [`CheckedModel::tensor`](crate::CheckedModel::tensor).
    pub async fn tensor(self, key: impl TensorKey) -> Result<TensorView<'a>> {
        let position = self.0.position(key)?;
        each!(self.0, reader => self.0.named(reader.checked().tensor(position).await))
    }

    /// A range of the bytes of a tensor's values.
    ///
    /// # Errors
    /// As [`CheckedModel::read_range`](crate::CheckedModel::read_range).
    pub async fn read_range(self, key: impl TensorKey, range: Range<u64>) -> Result<Bytes<'a>> {
        let position = self.0.position(key)?;
        each!(self.0, reader => self.0.named(reader.checked().read_range(position, range).await))
    }

    /// A part of a tensor; where its file has digests of pages, checked by those of the pages that the slice touches.
    ///
    /// # Errors
    /// As [`CheckedModel::slice`](crate::CheckedModel::slice).
    pub async fn slice(self, key: impl TensorKey, slice: &Slice) -> Result<TensorSlice<'a>> {
        let position = self.0.position(key)?;
        each!(self.0, reader => self.0.named(reader.checked().slice(position, slice).await))
    }
}
