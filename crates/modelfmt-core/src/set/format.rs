//! The set readers of format crates: types of their own over the shared one, with methods that say what they do.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// Makes the public `SetReader` and `AsyncSetReader` of a format crate: types of its own, with documented methods, over the
/// shared [`SetReader`](crate::SetReader) and [`AsyncSetReader`](crate::AsyncSetReader).
///
/// It takes the format's name, the index of its sets (a [`ShardMap`](crate::author::ShardMap)), the crate's `Reader`, `OpenOptions` and
/// `Result`, the type that `metadata` returns, and the types with their documentation. What is peculiar to the format goes into
/// an `impl` beside it.
#[macro_export]
macro_rules! set_reader {
    (
        $format:literal, $Index:ident, $Reader:ident, $OpenOptions:ident, $Result:ident, $Metadata:ty;
        $(#[$reader:meta])*
        pub struct SetReader<F>;
        $(#[$async_reader:meta])*
        pub struct AsyncSetReader<F>;
    ) => {
        $(#[$reader])*
        ///
        /// Opening reads the index of the set. A file is opened when one of its tensors is asked for; where the index says
        /// neither dtypes nor shapes, also to say what a tensor is.
        #[derive(Debug)]
        pub struct SetReader<F: $crate::source::Files> {
            shared: $crate::SetReader<$Index, F>,
        }

        $crate::set_container!(SetReader<F>, shared);

        impl<F: $crate::source::Files> From<$crate::SetReader<$Index, F>> for SetReader<F> {
            fn from(shared: $crate::SetReader<$Index, F>) -> Self {
                Self { shared }
            }
        }

        #[cfg(not(target_arch = "wasm32"))]
        impl SetReader<$crate::source::Folder> {
            #[doc = concat!("Opens the ", $format, " set whose index stands at `path`; its files stand in the same folder.")]
            ///
            /// # Errors
            #[doc = concat!("If the index cannot be read, or breaks a rule of ", $format, ".")]
            pub fn open(path: impl AsRef<::std::path::Path>) -> $Result<Self> {
                Self::open_with(path, &$OpenOptions::new())
            }

            /// As [`open`](Self::open), with options of your own.
            ///
            /// # Errors
            /// As [`open`](Self::open).
            pub fn open_with(path: impl AsRef<::std::path::Path>, options: &$OpenOptions) -> $Result<Self> {
                Ok(Self { shared: $crate::SetReader::open_with(path, options.as_ref())? })
            }
        }

        impl<F: $crate::source::Files> SetReader<F> {
            #[doc = concat!("Opens the ", $format, " set whose index is the file `index` of `files`.")]
            ///
            /// # Errors
            #[doc = concat!("If the index cannot be read, or breaks a rule of ", $format, ".")]
            pub fn from_files(files: F, index: &str) -> $Result<Self> {
                Ok(Self { shared: $crate::SetReader::from_files(files, index)? })
            }

            /// As [`from_files`](Self::from_files), with options of your own.
            ///
            /// # Errors
            /// As [`from_files`](Self::from_files).
            pub fn from_files_with(files: F, index: &str, options: &$OpenOptions) -> $Result<Self> {
                Ok(Self { shared: $crate::SetReader::from_files_with(files, index, options.as_ref())? })
            }

            #[doc = concat!("Opens the ", $format, " set whose index is what `source` holds, and whose files `files` opens.")]
            ///
            /// # Errors
            /// As [`from_files`](Self::from_files).
            pub fn from_source(
                source: &(impl $crate::Source + ?Sized),
                files: F,
                options: &$OpenOptions,
            ) -> $Result<Self> {
                Ok(Self { shared: $crate::SetReader::from_source(source, files, options.as_ref())? })
            }

            /// Opens a set by the [`index`](Self::index) of a reader that was opened before. Nothing is read.
            #[must_use]
            pub fn with_index(index: ::std::sync::Arc<$Index>, files: F, options: &$OpenOptions) -> Self {
                Self { shared: $crate::SetReader::with_index(index, files, options.as_ref().clone()) }
            }

            /// What the index of the set says.
            #[must_use]
            pub const fn index(&self) -> &::std::sync::Arc<$Index> {
                self.shared.index()
            }

            /// Where the files come from.
            #[must_use]
            pub const fn files(&self) -> &F {
                self.shared.files()
            }

            /// A file of the set, counted from 0; opened if it is not yet. One that cannot be opened is tried once.
            ///
            /// # Errors
            /// If there is none of that number, it cannot be opened, has another size than the index says, or breaks a rule.
            pub fn shard(&self, number: usize) -> $Result<&$Reader<F::Source>> {
                self.shared.shard(number)
            }

            /// Opens every file and looks for every tensor.
            ///
            /// # Errors
            /// For the first file that cannot be opened, and the first tensor that its file does not have.
            pub fn open_all(&self) -> $Result<()> {
                self.shared.open_all()
            }

            /// The tensors, in the order of the index: names, dtypes and shapes.
            pub fn tensors(&self) -> impl ExactSizeIterator<Item = $Result<$crate::TensorInfo<'_>>> {
                self.shared.tensors()
            }

            /// The tensor at a position in [`tensors`](Self::tensors), without its values.
            ///
            /// # Errors
            /// If there is none at that position, or its file cannot be opened or does not have it.
            pub fn info(&self, position: usize) -> $Result<$crate::TensorInfo<'_>> {
                self.shared.info(position)
            }

            /// The position of the tensor of that name.
            #[must_use]
            pub fn find(&self, name: &str) -> Option<usize> {
                self.shared.find(name)
            }

            /// The tensor of that name with its values.
            ///
            /// # Errors
            /// As [`info`](Self::info), and as [`Reader::tensor`](crate::Reader::tensor).
            pub fn tensor(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor(name)
            }

            /// The tensor at a position with its values.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor).
            pub fn tensor_at(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at(position)
            }

            /// The tensor of that name with its values, checked by what its file and the index of the set say about them.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor), and as [`Reader::tensor_checked`](crate::Reader::tensor_checked).
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

            /// A range of the bytes of a tensor's values, without the rest of them.
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

            /// A range of the bytes of a tensor's values, checked.
            ///
            /// # Errors
            /// As [`tensor_checked`](Self::tensor_checked), and as [`read_range`](Self::read_range).
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

            /// As [`slice`](Self::slice), checked.
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

            /// The model's metadata.
            ///
            /// # Errors
            /// If it is in a file that cannot be opened, or does not decode.
            pub fn metadata(&self) -> $Result<$Metadata> {
                self.shared.metadata()
            }

            /// The model's metadata as one flat list of keys and plain values, which every format gives.
            ///
            /// # Errors
            /// As [`metadata`](Self::metadata).
            pub fn flat_metadata(&self) -> $Result<$crate::value::Object> {
                self.shared.flat_metadata()
            }

            #[doc = concat!("Checks the index and every file by the rules of ", $format, ", on all cores, and reports every finding.")]
            pub fn verify(&self, level: $crate::VerifyLevel) -> $crate::Report {
                self.shared.verify(level)
            }

            /// As [`verify`](Self::verify), with threads and progress of your choice.
            pub fn verify_with(&self, level: $crate::VerifyLevel, work: &$crate::Execution<'_>) -> $crate::Report {
                self.shared.verify_with(level, work)
            }
        }

        $(#[$async_reader])*
        ///
        /// It has the methods of [`SetReader`] as `async` functions and runs the same code; your executor drives it.
        #[derive(Debug)]
        pub struct AsyncSetReader<F: $crate::FetchFiles> {
            shared: $crate::AsyncSetReader<$Index, F>,
        }

        impl<F: $crate::FetchFiles> From<$crate::AsyncSetReader<$Index, F>> for AsyncSetReader<F> {
            fn from(shared: $crate::AsyncSetReader<$Index, F>) -> Self {
                Self { shared }
            }
        }

        impl<F: $crate::FetchFiles> AsyncSetReader<F> {
            #[doc = concat!("Opens the ", $format, " set whose index is the file `index` of `files`.")]
            ///
            /// # Errors
            #[doc = concat!("If the index cannot be read, or breaks a rule of ", $format, ".")]
            pub async fn from_files(files: F, index: &str) -> $Result<Self> {
                Ok(Self { shared: $crate::AsyncSetReader::from_files(files, index).await? })
            }

            /// As [`from_files`](Self::from_files), with options of your own.
            ///
            /// # Errors
            /// As [`from_files`](Self::from_files).
            pub async fn from_files_with(files: F, index: &str, options: &$OpenOptions) -> $Result<Self> {
                let shared = $crate::AsyncSetReader::from_files_with(files, index, options.as_ref());
                Ok(Self { shared: shared.await? })
            }

            /// Opens a set by the [`index`](Self::index) of a reader that was opened before. Nothing is read.
            #[must_use]
            pub fn with_index(index: ::std::sync::Arc<$Index>, files: F, options: &$OpenOptions) -> Self {
                Self { shared: $crate::AsyncSetReader::with_index(index, files, options.as_ref().clone()) }
            }

            /// What the index of the set says.
            #[must_use]
            pub const fn index(&self) -> &::std::sync::Arc<$Index> {
                self.shared.index()
            }

            /// Where the files come from.
            #[must_use]
            pub const fn files(&self) -> &F {
                self.shared.files()
            }

            /// A file of the set, counted from 0; opened if it is not yet. One that cannot be opened is tried once.
            ///
            /// # Errors
            /// As [`SetReader::shard`].
            pub async fn shard(&self, number: usize) -> $Result<&$Reader<F::File>> {
                self.shared.shard(number).await
            }

            /// Opens every file and looks for every tensor.
            ///
            /// # Errors
            /// As [`SetReader::open_all`].
            pub async fn open_all(&self) -> $Result<()> {
                self.shared.open_all().await
            }

            /// The tensors, in the order of the index: names, dtypes and shapes.
            ///
            /// # Errors
            /// As [`info`](Self::info), for the first tensor that has an error.
            pub async fn tensors(&self) -> $Result<Vec<$crate::TensorInfo<'_>>> {
                self.shared.tensors().await
            }

            /// The tensor at a position in [`tensors`](Self::tensors), without its values.
            ///
            /// # Errors
            /// As [`SetReader::info`].
            pub async fn info(&self, position: usize) -> $Result<$crate::TensorInfo<'_>> {
                self.shared.info(position).await
            }

            /// The position of the tensor of that name.
            #[must_use]
            pub fn find(&self, name: &str) -> Option<usize> {
                self.shared.find(name)
            }

            /// The tensor of that name with its values.
            ///
            /// # Errors
            /// As [`SetReader::tensor`].
            pub async fn tensor(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor(name).await
            }

            /// The tensor at a position with its values.
            ///
            /// # Errors
            /// As [`SetReader::tensor`].
            pub async fn tensor_at(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at(position).await
            }

            /// As [`SetReader::tensor_checked`].
            ///
            /// # Errors
            /// As [`SetReader::tensor_checked`].
            pub async fn tensor_checked(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_checked(name).await
            }

            /// As [`SetReader::tensor_at_checked`].
            ///
            /// # Errors
            /// As [`SetReader::tensor_checked`].
            pub async fn tensor_at_checked(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at_checked(position).await
            }

            /// A range of the bytes of a tensor's values, without the rest of them.
            ///
            /// # Errors
            /// As [`SetReader::read_range`].
            pub async fn read_range(
                &self,
                name: &str,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range(name, range).await
            }

            /// As [`read_range`](Self::read_range), for the tensor at a position.
            ///
            /// # Errors
            /// As [`SetReader::read_range`].
            pub async fn read_range_at(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at(position, range).await
            }

            /// As [`SetReader::read_range_checked`].
            ///
            /// # Errors
            /// As [`SetReader::read_range_checked`].
            pub async fn read_range_checked(
                &self,
                name: &str,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_checked(name, range).await
            }

            /// As [`SetReader::read_range_at_checked`].
            ///
            /// # Errors
            /// As [`SetReader::read_range_checked`].
            pub async fn read_range_at_checked(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at_checked(position, range).await
            }

            /// A part of the tensor of that name, by a slice of each dimension.
            ///
            /// # Errors
            /// As [`SetReader::slice`].
            pub async fn slice(
                &self,
                name: &str,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice(name, slice).await
            }

            /// As [`slice`](Self::slice), for the tensor at a position.
            ///
            /// # Errors
            /// As [`SetReader::slice`].
            pub async fn slice_at(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_at(position, slice).await
            }

            /// As [`SetReader::slice_checked`].
            ///
            /// # Errors
            /// As [`SetReader::slice_checked`].
            pub async fn slice_checked(
                &self,
                name: &str,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_checked(name, slice).await
            }

            /// As [`SetReader::slice_at_checked`].
            ///
            /// # Errors
            /// As [`SetReader::slice_checked`].
            pub async fn slice_at_checked(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_at_checked(position, slice).await
            }

            /// Fills buffers of your own with tensors or parts of them, with many requests under way at once: as many as
            /// [`LoadOptions::in_flight`]($crate::load::LoadOptions::in_flight) allows. Each buffer is as long as the values.
            ///
            /// # Errors
            /// As [`tensor`](Self::tensor); for a buffer of another length; if values that are verified are not what their files state.
            pub async fn load_into(
                &self,
                picks: &[$crate::plan::Pick],
                buffers: &mut [&mut [u8]],
                options: &$crate::load::LoadOptions,
                work: &$crate::Execution<'_>,
            ) -> $Result<$crate::load::Loaded> {
                self.shared.load_into(picks, buffers, options, work).await
            }

            /// Fills your own buffer with the values of the tensor at a position, starting at byte `offset` of the values.
            ///
            /// # Errors
            /// As [`SetReader::read_into`].
            pub async fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> $Result<()> {
                self.shared.read_into(position, offset, out).await
            }

            /// The model's metadata.
            ///
            /// # Errors
            /// As [`SetReader::metadata`].
            pub async fn metadata(&self) -> $Result<$Metadata> {
                self.shared.metadata().await
            }

            /// As [`SetReader::flat_metadata`].
            ///
            /// # Errors
            /// As [`SetReader::metadata`].
            pub async fn flat_metadata(&self) -> $Result<$crate::value::Object> {
                self.shared.flat_metadata().await
            }

            #[doc = concat!("Checks the index and every file by the rules of ", $format, ", and reports every finding.")]
            pub async fn verify(&self, level: $crate::VerifyLevel) -> $crate::Report {
                self.shared.verify(level).await
            }

            /// As [`verify`](Self::verify), with the progress callback of `work`.
            pub async fn verify_with(
                &self,
                level: $crate::VerifyLevel,
                work: &$crate::Execution<'_>,
            ) -> $crate::Report {
                self.shared.verify_with(level, work).await
            }
        }
    };
}
