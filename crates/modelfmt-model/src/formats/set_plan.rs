//! The plan of a set of any format.

use std::ops::Range;

use modelfmt_core::Execution;
use modelfmt_write::{AnyNewFiles, AnyWriteError, SetPart, TensorData, WrittenPart};

/// A set to write, as a whole or part by part.
pub trait SetPlan: Send + Sync {
    /// Returns the name of the file that appears last.
    fn index_name(&self) -> String;

    /// Returns the files that can be written by themselves.
    fn parts(&self) -> Vec<SetPart>;

    /// Returns the tensors of the file that appears last.
    fn last(&self) -> Range<usize> {
        0..0
    }

    /// Writes the whole set.
    ///
    /// # Errors
    /// If the values cannot be read, or a file cannot be written.
    fn write(
        &self,
        data: &dyn TensorData,
        files: &dyn AnyNewFiles,
        work: &Execution<'_>,
    ) -> Result<(), AnyWriteError>;

    /// Writes one of the files that can be written by themselves.
    ///
    /// # Errors
    /// If there is no such part, the values cannot be read, or the file cannot be written.
    fn write_part(
        &self,
        number: usize,
        data: &dyn TensorData,
        files: &dyn AnyNewFiles,
        work: &Execution<'_>,
    ) -> Result<WrittenPart, AnyWriteError>;

    /// Writes the rest of the set after all parts are written.
    fn finish(
        &self,
        parts: &[WrittenPart],
        data: &dyn TensorData,
        files: &dyn AnyNewFiles,
        work: &Execution<'_>,
    ) -> Result<(), AnyWriteError>;
}

/// Implements [`SetPlan`] for the plan of a format crate, with its own way to finish.
#[allow(unused_macros, reason = "with few formats switched on there is no set")]
macro_rules! set_plan {
    ($plan:ty, $index_name:expr, $finish:expr $(, last: $last:expr)?) => {
        impl crate::formats::set_plan::SetPlan for $plan {
            fn index_name(&self) -> String {
                let index_name: fn(&$plan) -> String = $index_name;
                index_name(self)
            }

            fn parts(&self) -> Vec<modelfmt_write::SetPart> {
                self.parts().collect()
            }

            $(fn last(&self) -> std::ops::Range<usize> {
                let last: fn(&$plan) -> std::ops::Range<usize> = $last;
                last(self)
            })?

            fn write(
                &self,
                data: &dyn TensorData,
                files: &dyn AnyNewFiles,
                work: &Execution<'_>,
            ) -> Result<(), modelfmt_write::AnyWriteError> {
                Ok(self.write(data, &files, work)?)
            }

            fn write_part(
                &self,
                number: usize,
                data: &dyn TensorData,
                files: &dyn AnyNewFiles,
                work: &Execution<'_>,
            ) -> Result<modelfmt_write::WrittenPart, modelfmt_write::AnyWriteError> {
                Ok(self.write_part(number, data, &files, work)?)
            }

            fn finish(
                &self,
                parts: &[modelfmt_write::WrittenPart],
                data: &dyn TensorData,
                files: &dyn AnyNewFiles,
                work: &Execution<'_>,
            ) -> Result<(), modelfmt_write::AnyWriteError> {
                let finish = $finish;
                Ok(finish(self, parts, data, files, work)?)
            }
        }
    };
}
#[allow(unused_imports, reason = "with few formats switched on there is no set")]
pub(super) use set_plan;
