//! The macro that makes the readers of format crates.

/// Makes the public readers of a format crate: `OpenOptions`, `Reader` and `AsyncReader`, types of their own with
/// documented methods, over those that all formats share.
///
/// It takes the format's name, its index (a [`FileIndex`](crate::author::FileIndex)), the crate's `Result`, the type of its metadata, and the three
/// types with their documentation. What only this format has goes into an `impl` beside it: the shared value is the
/// field `shared` of each.
///
/// ```ignore
/// modelfmt_core::reader! {
///     "MAG", Index, Result, &Metadata;
///
///     /// How a MAG file is opened.
///     pub struct OpenOptions;
///
///     /// An open MAG file: its [`Index`] and the source of its bytes.
///     pub struct Reader<S>;
///
///     /// An open MAG file over bytes that may have to be waited for.
///     pub struct AsyncReader<S>;
/// }
/// ```
#[macro_export]
macro_rules! reader {
    (
        $format:literal, $Index:ident, $Result:ident, $Metadata:ty;
        $(#[$options:meta])*
        pub struct OpenOptions;
        $(#[$reader:meta])*
        pub struct Reader<S>;
        $(#[$async_reader:meta])*
        pub struct AsyncReader<S>;
    ) => {
        $(#[$options])*
        #[derive(Clone, Debug)]
        pub struct OpenOptions {
            pub(crate) shared: $crate::OpenOptions,
        }

        impl Default for OpenOptions {
            fn default() -> Self {
                Self::new()
            }
        }

        impl AsRef<$crate::OpenOptions> for OpenOptions {
            fn as_ref(&self) -> &$crate::OpenOptions {
                &self.shared
            }
        }

        impl OpenOptions {
            #[doc = concat!("The defaults for ", $format, " files.")]
            #[must_use]
            pub fn new() -> Self {
                Self { shared: $crate::OpenOptions::new(<$Index as $crate::author::FileIndex>::default_limits()) }
            }

            /// Limits on the memory and work that a file may cause.
            #[must_use]
            pub fn limits(self, limits: $crate::Limits) -> Self {
                Self { shared: self.shared.limits(limits) }
            }

            #[doc = concat!("Opens the ", $format, " file at `path`. Only its index is read now; tensors are read when you ask for them.")]
            ///
            /// # Errors
            /// If the file cannot be opened; as [`open_source`](Self::open_source).
            #[cfg(not(target_arch = "wasm32"))]
            pub fn open(&self, path: impl AsRef<::std::path::Path>) -> $Result<Reader<$crate::source::FileSource>> {
                let shared = $crate::Reader::open(path.as_ref(), &self.shared)?;
                Ok(Reader { shared })
            }

            #[doc = concat!("Opens the ", $format, " file that `source` holds. Only its index is read.")]
            ///
            /// # Errors
            #[doc = concat!("If the source cannot be read, breaks a rule of ", $format, ", or exceeds a limit.")]
            pub fn open_source<S: $crate::Source>(&self, source: S) -> $Result<Reader<S>> {
                let shared = $crate::Reader::open_source(source, &self.shared)?;
                Ok(Reader { shared })
            }

            /// As [`open_source`](Self::open_source), for an asynchronous source.
            ///
            /// # Errors
            /// As [`open_source`](Self::open_source).
            pub async fn open_async<S: $crate::Fetch>(&self, source: S) -> $Result<AsyncReader<S>> {
                let shared = $crate::AsyncReader::open_source(source, &self.shared).await?;
                Ok(AsyncReader { shared })
            }
        }

        impl $Index {
            #[doc = concat!("Parses the index of ", $format, " from the bytes of a file, with the default options.")]
            ///
            /// # Errors
            /// As [`OpenOptions::open_source`].
            pub fn parse(bytes: &[u8]) -> $Result<Self> {
                let options = OpenOptions::new();
                $crate::author::parse_source(
                    <Self as $crate::author::FileIndex>::parser(bytes.len() as u64, &options.shared),
                    &bytes,
                )
            }
        }

        $(#[$reader])*
        ///
        /// If the source is in memory (a slice, a buffer, a map), tensors are views of it, without a copy. With any other
        /// source, one tensor is one read. A reader is [`Send`] and [`Sync`] if its source is.
        #[derive(Clone, Debug)]
        pub struct Reader<S> {
            pub(crate) shared: $crate::Reader<$Index, S>,
        }

        impl<S: $crate::Source> $crate::author::FormatReader for Reader<S> {
            type Index = $Index;
            type Source = S;

            fn from_shared(shared: $crate::Reader<$Index, S>) -> Self {
                Self { shared }
            }

            fn shared(&self) -> &$crate::Reader<$Index, S> {
                &self.shared
            }
        }

        impl<S> From<$crate::Reader<$Index, S>> for Reader<S> {
            fn from(shared: $crate::Reader<$Index, S>) -> Self {
                Self { shared }
            }
        }

        impl<S> AsRef<$crate::Reader<$Index, S>> for Reader<S> {
            fn as_ref(&self) -> &$crate::Reader<$Index, S> {
                &self.shared
            }
        }

        #[cfg(not(target_arch = "wasm32"))]
        impl Reader<$crate::source::FileSource> {
            #[doc = concat!("Opens the ", $format, " file at `path` with the default options.")]
            ///
            /// Only its index is read; a tensor is read when you ask for it.
            ///
            /// # Errors
            /// As [`OpenOptions::open`].
            pub fn open(path: impl AsRef<::std::path::Path>) -> $Result<Self> {
                OpenOptions::new().open(path)
            }
        }

        impl<S> Reader<S> {
            /// What the file holds. Keep it to open the same file again without reading.
            #[must_use]
            pub const fn index(&self) -> &::std::sync::Arc<$Index> {
                self.shared.index()
            }

            /// Where the bytes come from.
            #[must_use]
            pub const fn source(&self) -> &S {
                self.shared.source()
            }

            /// The source, without the reader.
            #[must_use]
            pub fn into_source(self) -> S {
                self.shared.into_source()
            }
        }

        impl<S: $crate::Source> Reader<S> {
            #[doc = concat!("Opens the ", $format, " file that `source` holds: a slice, a buffer, a map, or a source of your own.")]
            ///
            /// # Errors
            /// As [`OpenOptions::open_source`].
            pub fn from_source(source: S) -> $Result<Self> {
                OpenOptions::new().open_source(source)
            }

            /// Opens a source with the index that an earlier reader made of the same bytes. Nothing is read.
            ///
            /// # Errors
            /// If the source is not as long as the file that the index was made of.
            pub fn with_index(index: ::std::sync::Arc<$Index>, source: S) -> $Result<Self> {
                Ok(Self { shared: $crate::Reader::with_index(index, source)? })
            }

            #[doc = concat!("The tensors, in the order of the ", $format, " file: names, dtypes and shapes.")]
            #[must_use]
            pub fn tensors(&self) -> &$crate::TensorTable {
                self.shared.tensors()
            }

            /// The tensor of that name with its values: borrowed from a source in memory, else read into an aligned buffer.
            ///
            /// # Errors
            /// [`Error::NotFound`](crate::Error::NotFound); [`Error::NoData`](crate::Error::NoData) if the file only
            /// declares it; [`Error::Io`](crate::Error::Io); if it does not decompress.
            pub fn tensor(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor(name)
            }

            /// The tensor at a position in [`tensors`](Self::tensors), with its values.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor).
            pub fn tensor_at(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at(position)
            }

            /// The tensor at a position with its values, decompressed on as many threads as `work` allows.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor).
            pub fn tensor_with(
                &self,
                position: usize,
                work: &$crate::Execution<'_>,
            ) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_with(position, work)
            }

            /// The bytes of a tensor, borrowed from a source in memory. Never a copy.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor); [`CommonFault::NotBorrowed`]($crate::CommonFault::NotBorrowed) if
            /// [`tensor`](Self::tensor) would make a copy.
            pub fn tensor_slice(&self, name: &str) -> $Result<&[u8]> {
                self.shared.tensor_slice(name)
            }

            /// A range of the bytes of a tensor's values, without the rest of them: borrowed from a source in memory, else read. If the tensor is
            /// compressed, the blocks that hold the range are read and decompressed.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor); [`Error::OutOfRange`](crate::Error::OutOfRange) if the tensor has fewer bytes.
            pub fn read_range(&self, name: &str, range: ::std::ops::Range<u64>) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range(name, range)
            }

            /// As [`read_range`](Self::read_range), for the tensor at a position.
            ///
            /// # Errors
            /// As [`read_range`](Self::read_range).
            pub fn read_range_at(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at(position, range)
            }

            /// A part of the tensor of that name, by a slice of each dimension: borrowed from a source in memory if its
            /// values are contiguous, else read, with little of the rest of the tensor.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor); [`Error::Slice`]($crate::Error::Slice) if the slice does not fit the tensor.
            pub fn slice(&self, name: &str, slice: &$crate::plan::Slice) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice(name, slice)
            }

            /// As [`slice`](Self::slice), for the tensor at a position.
            ///
            /// # Errors
            /// As [`slice`](Self::slice).
            pub fn slice_at(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_at(position, slice)
            }

            /// As [`slice`](Self::slice), checked: where the file has digests of pages, by those of the pages that the slice touches.
            ///
            /// # Errors
            /// As [`slice`](Self::slice) and [`tensor_checked`](Self::tensor_checked).
            pub fn slice_checked(
                &self,
                name: &str,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_checked(name, slice)
            }

            /// As [`slice_checked`](Self::slice_checked), for the tensor at a position.
            ///
            /// # Errors
            /// As [`slice_checked`](Self::slice_checked).
            pub fn slice_at_checked(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_at_checked(position, slice)
            }

            /// Fills your own buffer with the values of the tensor at a position, starting at byte `offset` of the values.
            ///
            /// # Errors
            /// As [`read_range`](Self::read_range).
            pub fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> $Result<()> {
                self.shared.read_into(position, offset, out)
            }

            /// The tensor of that name with its values, checked by the smallest digest of them in the file: of the tensor,
            /// its pages, a section or the whole file. Everything that the digest covers is read.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor); if the bytes are not what the file says;
            /// [`Error::NoHash`](crate::Error::NoHash) if it has no digest of them, or only one that covers so much more
            /// that [`verify`](Self::verify) is the better way.
            pub fn tensor_checked(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_checked(name)
            }

            /// As [`tensor_checked`](Self::tensor_checked), for the tensor at a position.
            ///
            /// # Errors
            /// As [`tensor_checked`](Self::tensor_checked).
            pub fn tensor_at_checked(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at_checked(position)
            }

            /// A range of the bytes of a tensor's values, checked. If the file has digests of pages, only the pages that the range touches are read.
            ///
            /// # Errors
            /// As [`tensor_checked`](Self::tensor_checked); [`Error::OutOfRange`](crate::Error::OutOfRange) if the tensor has
            /// fewer bytes.
            pub fn read_range_checked(
                &self,
                name: &str,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_checked(name, range)
            }

            /// As [`read_range_checked`](Self::read_range_checked), for the tensor at a position.
            ///
            /// # Errors
            /// As [`read_range_checked`](Self::read_range_checked).
            pub fn read_range_at_checked(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at_checked(position, range)
            }

            #[doc = concat!("The metadata of the ", $format, " file.")]
            ///
            /// # Errors
            /// If it cannot be read or does not decode.
            pub fn metadata(&self) -> $Result<$Metadata> {
                self.shared.metadata()
            }

            /// The metadata as one flat list of keys and plain values, which every format gives.
            ///
            /// # Errors
            /// As [`metadata`](Self::metadata).
            pub fn flat_metadata(&self) -> $Result<$crate::value::Object> {
                self.shared.flat_metadata()
            }

            #[doc = concat!("Checks the ", $format, " file by its rules, on all cores, and reports every finding.")]
            pub fn verify(&self, level: $crate::VerifyLevel) -> $crate::Report {
                self.shared.verify(level)
            }

            /// As [`verify`](Self::verify), with threads and progress of your choice.
            pub fn verify_with(&self, level: $crate::VerifyLevel, work: &$crate::Execution<'_>) -> $crate::Report {
                self.shared.verify_with(level, work)
            }
        }

        $crate::async_reader! {
            $format, $Index, $Result, $Metadata;
            $(#[$async_reader])*
            pub struct AsyncReader<S>;
        }
    };
}
