//! The writing functions that every format crate has: `save` for tensors in memory, and `Plan::write_file`
//! for a path.

/// Defines a format crate's `save` function and `Plan::write_file`.
///
/// Pass the name of the format, the crate's `Plan`, `WriteOptions` and `WriteError`, the type of metadata
/// that `Plan::new` takes, and an example for `save`.
#[macro_export]
macro_rules! save {
    (
        $format:literal, $Plan:ident, $WriteOptions:ident, $WriteError:ident, $Metadata:ty;
        $(#[$example:meta])*
        pub fn save;
    ) => {
        #[doc = concat!("Writes tensors that are in memory to a new ", $format, " file at `path`.")]
        ///
        /// The file appears when it is complete. An existing file is not replaced. Use [`Plan`](crate::Plan) for options, for
        /// values that are not in memory, or to replace a file.
        ///
        $(#[$example])*
        ///
        /// # Errors
        /// If the format cannot hold the tensors, or the file exists or cannot be written.
        pub fn save<'a>(
            path: impl AsRef<::std::path::Path>,
            tensors: impl IntoIterator<Item = (impl Into<::std::borrow::Cow<'a, str>>, $crate::modelfmt_core::View<'a>)>,
            metadata: $Metadata,
        ) -> Result<(), $WriteError> {
            let views: $crate::Views<'a> = tensors.into_iter().collect();
            let plan = $Plan::new(views.specs(), metadata, &$WriteOptions::new())?;
            plan.write_file(path, $crate::Overwrite::Refuse, &views, &$crate::modelfmt_core::Execution::default())
        }

        impl $Plan {
            #[doc = concat!("Writes the ", $format, " file at `path`. It appears when it is complete; after an error nothing is left behind.")]
            ///
            /// # Errors
            /// If a value cannot be read, or the file cannot be written; if the file exists and `overwrite`
            /// is `Refuse`.
            pub fn write_file(
                &self,
                path: impl AsRef<::std::path::Path>,
                overwrite: $crate::Overwrite,
                data: &dyn $crate::TensorData,
                work: &$crate::modelfmt_core::Execution<'_>,
            ) -> Result<(), $WriteError> {
                $crate::write_file(path, overwrite, |file| self.write(data, file, work))
            }
        }
    };
}
