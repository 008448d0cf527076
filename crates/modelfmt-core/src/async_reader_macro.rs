//! The part of [`reader!`](crate::reader!) that is about bytes which may have to be waited for.

/// Makes the `AsyncReader` of a format crate.
#[doc(hidden)]
#[macro_export]
macro_rules! async_reader {
    (
        $format:literal, $Index:ident, $Result:ident, $Metadata:ty;
        $(#[$async_reader:meta])*
        pub struct AsyncReader<S>;
    ) => {
        $(#[$async_reader])*
        ///
        /// It has the methods of [`Reader`] as `async` functions and runs the same code; your executor drives it.
        #[derive(Debug)]
        pub struct AsyncReader<S> {
            pub(crate) shared: $crate::AsyncReader<$Index, S>,
        }

        impl<S> From<$crate::AsyncReader<$Index, S>> for AsyncReader<S> {
            fn from(shared: $crate::AsyncReader<$Index, S>) -> Self {
                Self { shared }
            }
        }

        impl<S: $crate::Fetch> AsyncReader<S> {
            #[doc = concat!("Opens the ", $format, " file that `source` holds.")]
            ///
            /// # Errors
            /// As [`OpenOptions::open_async`].
            pub async fn from_source(source: S) -> $Result<Self> {
                OpenOptions::new().open_async(source).await
            }

            /// Opens a source with the index that an earlier reader made of the same bytes. Nothing is read.
            ///
            /// # Errors
            /// If the source is not as long as the file that the index was made of.
            pub fn with_index(index: ::std::sync::Arc<$Index>, source: S) -> $Result<Self> {
                Ok(Self { shared: $crate::AsyncReader::with_index(index, source)? })
            }

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

            #[doc = concat!("The tensors, in the order of the ", $format, " file: names, dtypes and shapes.")]
            #[must_use]
            pub fn tensors(&self) -> &$crate::TensorTable {
                self.shared.tensors()
            }

            /// The tensor of that name with its values.
            ///
            /// # Errors
            /// As [`Reader::tensor`].
            pub async fn tensor(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor(name).await
            }

            /// The tensor at a position in [`tensors`](Self::tensors), with its values.
            ///
            /// # Errors
            /// As [`Reader::tensor`].
            pub async fn tensor_at(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at(position).await
            }

            /// A range of the bytes of a tensor's values, without the rest of them.
            ///
            /// # Errors
            /// As [`Reader::read_range`].
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
            /// As [`read_range`](Self::read_range).
            pub async fn read_range_at(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at(position, range).await
            }

            /// A part of the tensor of that name, by a slice of each dimension.
            ///
            /// # Errors
            /// As [`Reader::slice`].
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
            /// As [`Reader::slice`].
            pub async fn slice_at(
                &self,
                position: usize,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_at(position, slice).await
            }

            /// As [`Reader::slice_checked`].
            ///
            /// # Errors
            /// As [`Reader::slice_checked`].
            pub async fn slice_checked(
                &self,
                name: &str,
                slice: &$crate::plan::Slice,
            ) -> $Result<$crate::plan::TensorSlice<'_>> {
                self.shared.slice_checked(name, slice).await
            }

            /// As [`Reader::slice_at_checked`].
            ///
            /// # Errors
            /// As [`Reader::slice_checked`].
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
            /// As [`tensor`](Self::tensor); for a buffer of another length; if values that are verified are not what the file states.
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
            /// As [`Reader::read_range`].
            pub async fn read_into(&self, position: usize, offset: u64, out: &mut [u8]) -> $Result<()> {
                self.shared.read_into(position, offset, out).await
            }

            /// As [`Reader::tensor_checked`].
            ///
            /// # Errors
            /// As [`Reader::tensor_checked`].
            pub async fn tensor_checked(&self, name: &str) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_checked(name).await
            }

            /// As [`Reader::tensor_at_checked`].
            ///
            /// # Errors
            /// As [`Reader::tensor_at_checked`].
            pub async fn tensor_at_checked(&self, position: usize) -> $Result<$crate::TensorView<'_>> {
                self.shared.tensor_at_checked(position).await
            }

            /// As [`Reader::read_range_checked`].
            ///
            /// # Errors
            /// As [`Reader::read_range_checked`].
            pub async fn read_range_checked(
                &self,
                name: &str,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_checked(name, range).await
            }

            /// As [`Reader::read_range_at_checked`].
            ///
            /// # Errors
            /// As [`Reader::read_range_at_checked`].
            pub async fn read_range_at_checked(
                &self,
                position: usize,
                range: ::std::ops::Range<u64>,
            ) -> $Result<$crate::Bytes<'_>> {
                self.shared.read_range_at_checked(position, range).await
            }

            #[doc = concat!("The metadata of the ", $format, " file.")]
            ///
            /// # Errors
            /// As [`Reader::metadata`].
            pub async fn metadata(&self) -> $Result<$Metadata> {
                self.shared.metadata().await
            }

            /// As [`Reader::flat_metadata`].
            ///
            /// # Errors
            /// As [`Reader::metadata`].
            pub async fn flat_metadata(&self) -> $Result<$crate::value::Object> {
                self.shared.flat_metadata().await
            }

            #[doc = concat!("Checks the ", $format, " file by its rules and reports every finding.")]
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
