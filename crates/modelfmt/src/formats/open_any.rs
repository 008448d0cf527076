//! An open model of any format, a file or a set, over files of any kind.

use std::borrow::Cow;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::ops::Range;

use modelfmt_core::claims::{Claims, Wanted};
use modelfmt_core::read::{Opened, Reading, Which};
use modelfmt_core::source::{BoxSource, SharedFiles};
use modelfmt_core::value::{Object, Value};
use modelfmt_core::{
    AnyError, AnyFault, Bytes, Execution, FetchFiles, Location, OpenFile, OpenSet, Reader, Report, Stored,
    TensorInfo, VerifyLevel,
    author::{FileIndex, ShardMap},
};

use super::entry::{Opened as AnyReader, ToOpen, own_options};
use super::{Format, all_formats};
use crate::open::OpenOptions;

/// One file of a format.
#[allow(dead_code, reason = "with no format switched on there is none")]
pub(crate) type File<I, F> = OpenFile<I, <F as FetchFiles>::File>;

/// A set of files of a format.
#[allow(dead_code, reason = "with no format switched on there is none")]
pub(crate) type Set<M, F> = OpenSet<M, F>;

/// What a format can have opened, whatever has to be waited for.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
trait Open<F: FetchFiles>: Sized {
    /// Opens the file or set whose file, or index, is called `name` among `files`, and is open already.
    async fn open(file: F::File, files: F, name: &str, options: &OpenOptions) -> Result<Self, AnyError>;
}

impl<I: FileIndex, F: FetchFiles> Open<F> for OpenFile<I, F::File> {
    async fn open(file: F::File, _: F, _: &str, options: &OpenOptions) -> Result<Self, AnyError> {
        Ok(Self::open(file, own_options::<I>(options).settings()).await?)
    }
}

impl<M: ShardMap, F: FetchFiles> Open<F> for OpenSet<M, F> {
    async fn open(_: F::File, files: F, name: &str, options: &OpenOptions) -> Result<Self, AnyError> {
        Ok(Self::from_files(files, name, own_options::<M::Index>(options).settings()).await?)
    }
}

/// The same for files that are not waited for.
#[allow(dead_code, reason = "with no format switched on nothing is opened")]
pub(crate) trait OpenNow {
    /// Opens a file, or a set by its index.
    fn open_now(to_open: ToOpen<'_>) -> Result<Box<dyn AnyReader>, AnyError>;
}

impl<I: FileIndex + Send + Sync + 'static> OpenNow for OpenFile<I, BoxSource> {
    fn open_now(to_open: ToOpen<'_>) -> Result<Box<dyn AnyReader>, AnyError> {
        Ok(Box::new(own_options::<I>(to_open.options).open_source(to_open.source)?))
    }
}

impl<M: ShardMap<Index: Send + Sync> + Send + Sync + 'static> OpenNow for OpenSet<M, SharedFiles> {
    fn open_now(to_open: ToOpen<'_>) -> Result<Box<dyn AnyReader>, AnyError> {
        let options = own_options::<M::Index>(to_open.options);
        Ok(Box::new(Reader::<Self>::from_source(&to_open.source, to_open.files, &options)?))
    }
}

/// From the list comes a variant for each format that is switched on, and how each is opened.
macro_rules! define_open_any {
    ([] $($(#[$doc:meta])* $format:ident = $entry:path, $feature:literal: $shape:ident<$index:ty>;)*) => {
        /// An open model. All its reads are those of the format's own file or set.
        #[allow(
            clippy::large_enum_variant,
            reason = "clippy takes a file, whose type is the caller's, for nothing; a model has one of these"
        )]
        pub(crate) enum OpenAny<F: FetchFiles> {
            $(
                #[cfg(feature = $feature)]
                $format($shape<$index, F>),
            )*
            /// With no format switched on, there would be no `F`.
            #[allow(dead_code, reason = "it cannot be made")]
            Never(Infallible, PhantomData<F>),
        }

        #[allow(unused_variables, reason = "with no format switched on there is nothing to open")]
        impl<F: FetchFiles> OpenAny<F> {
            /// Opens the model whose file, or whose index, is called `name` among `files`, and is open already.
            pub(crate) async fn open(
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
                    _ => Err(super::entry::not_enabled(format, name)),
                }
            }

            /// Its format.
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
    };
}
all_formats!(define_open_any);

/// The same for each variant.
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

    async fn claims(&self, wanted: &[Wanted]) -> Result<Claims, AnyError> {
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

    async fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        each!(self, opened => opened.verify(level, work).await)
    }
}
