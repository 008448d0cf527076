//! An open model of any format, a file or a set, with files of any kind.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use modelfmt_core::claims::{Claims, WantedRange};
use modelfmt_core::read::{Opened, Reading, Which};
use modelfmt_core::source::SharedFiles;
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    AnyError, AnyFault, Bytes, Execution, FetchFiles, Location, OpenFile, OpenSet, Report, Stored,
    TensorInfo, VerifyLevel,
    author::{FileIndex, ShardMap, now},
};

use super::any_reader::{AnyReader, ToOpen, not_enabled, own_options};
use super::{Format, all_formats};
use crate::open::OpenOptions;

/// One file of a format.
#[allow(dead_code, reason = "with no format switched on there is none")]
pub(crate) type File<I, F> = OpenFile<I, <F as FetchFiles>::File>;

/// A set of files of a format.
#[allow(dead_code, reason = "with no format switched on there is none")]
pub(crate) type Set<M, F> = OpenSet<M, F>;

/// A file or a set that can be opened.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
trait Open<F: FetchFiles>: Sized {
    /// Opens the file or set whose file or index is called `name` among `files`. `file` is this file, already open.
    async fn open(file: F::File, files: F, name: &str, options: &OpenOptions) -> Result<Self, AnyError>;
}

impl<I: FileIndex, F: FetchFiles> Open<F> for OpenFile<I, F::File> {
    async fn open(file: F::File, _: F, _: &str, options: &OpenOptions) -> Result<Self, AnyError> {
        Ok(Self::open(file, own_options::<I>(options).settings()).await?)
    }
}

impl<M: ShardMap, F: FetchFiles> Open<F> for OpenSet<M, F> {
    async fn open(file: F::File, files: F, name: &str, options: &OpenOptions) -> Result<Self, AnyError> {
        Ok(Self::of_index(&file, name, files, own_options::<M::Index>(options).settings()).await?)
    }
}

/// Defines a variant for each enabled format of the list, and how each is opened.
macro_rules! define_open_any {
    ([] $($(#[$doc:meta])* $format:ident = $entry:path, $feature:literal: $shape:ident<$index:ty>;)*) => {
        /// An open model. The file or set of its format does all reads.
        #[allow(
            clippy::large_enum_variant,
            reason = "clippy takes a file, whose type is the caller's, for nothing; a model has one of these"
        )]
        pub enum OpenAny<F: FetchFiles> {
            $(
                /// A model of this format.
                #[cfg(feature = $feature)]
                $format($shape<$index, F>),
            )*
            /// Uses `F` if no format is enabled.
            #[allow(dead_code, reason = "it cannot be made")]
            Never(Infallible, PhantomData<F>),
        }

        #[allow(unused_variables, reason = "with no format switched on there is nothing to open")]
        impl<F: FetchFiles> OpenAny<F> {
            /// Opens a file, or a set by its index, with the reader that the list names for the format.
            async fn open_listed(
                format: Format,
                file: F::File,
                files: F,
                name: &str,
                options: &OpenOptions,
            ) -> Result<Self, AnyError> {
                match format {
                    $(
                        #[cfg(feature = $feature)]
                        Format::$format => {
                            let opened = <$shape<$index, F> as Open<F>>::open(file, files, name, options);
                            Ok(Self::$format(opened.await?))
                        }
                    )*
                    #[allow(unreachable_patterns, reason = "with all formats switched on there is no other")]
                    _ => Err(not_enabled(format, name)),
                }
            }

            /// Returns the format of the model.
            pub(crate) const fn format(&self) -> Format {
                match self {
                    $(
                        #[cfg(feature = $feature)]
                        Self::$format(_) => Format::$format,
                    )*
                    Self::Never(never, _) => match *never {},
                }
            }
        }

        impl OpenAny<SharedFiles> {
            /// Returns the format's own reader.
            pub fn into_reader(self) -> Box<dyn AnyReader> {
                match self {
                    $(
                        #[cfg(feature = $feature)]
                        Self::$format(opened) => Box::new(modelfmt_core::Reader::new(opened)),
                    )*
                    Self::Never(never, _) => match never {},
                }
            }
        }
    };
}
all_formats!(define_open_any);

impl<F: FetchFiles> OpenAny<F> {
    /// Opens the model whose file or index is called `name` among `files`; `file` is this file, already open. If it is part of a
    /// split GGUF, the whole split is opened.
    pub(crate) async fn open(
        format: Format,
        file: F::File,
        files: F,
        name: &str,
        options: &OpenOptions,
    ) -> Result<Self, AnyError> {
        if options.root.is_some() && format != Format::Pytorch {
            return Err(without_roots(format, name));
        }
        #[cfg(feature = "gguf")]
        if format == Format::Gguf {
            return Self::open_gguf(file, files, name, options).await;
        }
        Self::open_listed(format, file, files, name, options).await
    }

    /// Opens a GGUF file, or the whole split that it is part of.
    #[cfg(feature = "gguf")]
    async fn open_gguf(file: F::File, files: F, name: &str, options: &OpenOptions) -> Result<Self, AnyError> {
        use modelfmt_gguf::{Index, SetIndex};

        let settings = own_options::<Index>(options).settings().clone();
        let opened: OpenFile<Index, _> = OpenFile::open(file, &settings).await?;
        if !opened.index().is_split() {
            return Ok(Self::Gguf(opened));
        }
        let first = Index::clone(opened.index());
        let split = SetIndex::read_others(first, name, &files, &settings).await?;
        Ok(Self::GgufSharded(OpenSet::with_index(std::sync::Arc::new(split), files, settings)))
    }
}

impl OpenAny<SharedFiles> {
    /// Opens a model like [`open`](Self::open), from files that are read synchronously.
    pub(crate) fn open_now(format: Format, to_open: ToOpen<'_>) -> Result<Self, AnyError> {
        let ToOpen { source, name, files, options } = to_open;
        now(Self::open(format, source, files, &name, options))
    }

    /// Opens one file by itself, even if it is part of a set.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
    pub fn open_alone(format: Format, to_open: ToOpen<'_>) -> Result<Self, AnyError> {
        let ToOpen { source, name, files, options } = to_open;
        now(Self::open_listed(format, source, files, &name, options))
    }
}

/// Returns the error for a root in a format whose models have no parts.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
fn without_roots(format: Format, name: &str) -> AnyError {
    let why = format!(
        "it is {format}, which has no part to take as the model (root): only single checkpoints of PyTorch have parts"
    );
    AnyError::Open { path: name.to_owned(), source: io::Error::new(io::ErrorKind::Unsupported, why) }
}

/// Evaluates the same expression for each variant.
macro_rules! each {
    ($any:expr, $opened:ident => $do:expr) => {
        all_formats!(each_of $any, $opened => $do)
    };
}

macro_rules! each_of {
    (
        [$any:expr, $opened:ident => $do:expr]
        $($(#[$doc:meta])* $format:ident = $entry:path, $feature:literal: $shape:ident<$index:ty>;)*
    ) => {
        match $any {
            $(
                #[cfg(feature = $feature)]
                OpenAny::$format($opened) => $do,
            )*
            OpenAny::Never(never, _) => match *never {},
        }
    };
}

#[allow(unused_variables, reason = "with no format switched on there is nothing to read")]
impl<F: FetchFiles> Opened for OpenAny<F> {
    type Fault = AnyFault;
    type Metadata<'a>
        = Value
    where
        Self: 'a;

    fn version_text(&self) -> Option<String> {
        each!(self, opened => opened.version_text())
    }

    fn tensor_count(&self) -> usize {
        each!(self, opened => opened.tensor_count())
    }

    fn find(&self, name: &str) -> Option<usize> {
        each!(self, opened => opened.find(name))
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        each!(self, opened => opened.name())
    }

    fn file_paths(&self) -> Vec<String> {
        each!(self, opened => opened.file_paths())
    }

    async fn file_size(&self) -> u64 {
        each!(self, opened => opened.file_size().await)
    }

    async fn info(&self, position: usize) -> Result<TensorInfo<'_>, AnyError> {
        each!(self, opened => Ok(opened.info(position).await?))
    }

    async fn location(&self, position: usize) -> Result<Location, AnyError> {
        each!(self, opened => Ok(opened.location(position).await?))
    }

    async fn stored(&self, position: usize) -> Result<Stored, AnyError> {
        each!(self, opened => Ok(opened.stored(position).await?))
    }

    async fn stored_range(&self, position: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        each!(self, opened => Ok(opened.stored_range(position, values).await?))
    }

    async fn values<'a>(
        &'a self,
        position: usize,
        which: Which<'_>,
        reading: Reading<'_>,
    ) -> Result<Bytes<'a>, AnyError> {
        each!(self, opened => Ok(opened.values(position, which, reading).await?))
    }

    async fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), AnyError> {
        each!(self, opened => Ok(opened.values_into(position, at, out, claims).await?))
    }

    async fn bytes(&self, file: usize, range: Range<u64>) -> Result<Bytes<'_>, AnyError> {
        each!(self, opened => Ok(opened.bytes(file, range).await?))
    }

    async fn bytes_into(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        each!(self, opened => Ok(opened.bytes_into(file, at, out).await?))
    }

    async fn claims(&self, wanted: &[WantedRange]) -> Result<Claims, AnyError> {
        each!(self, opened => Ok(opened.claims(wanted).await?))
    }

    async fn metadata(&self) -> Result<Value, AnyError> {
        self.metadata_tree().await
    }

    async fn metadata_tree(&self) -> Result<Value, AnyError> {
        each!(self, opened => Ok(opened.metadata_tree().await?))
    }

    async fn flat_metadata(&self) -> Result<Object, AnyError> {
        each!(self, opened => Ok(opened.flat_metadata().await?))
    }

    async fn details(&self) -> Result<Object, AnyError> {
        each!(self, opened => Ok(opened.details().await?))
    }

    fn warnings(&self) -> Vec<String> {
        each!(self, opened => opened.warnings())
    }

    async fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        each!(self, opened => opened.verify(level, work).await)
    }
}
