//! Tensors in memory that are to be written.

use std::borrow::Cow;
use std::ops::Range;

use tensor_core::View;

use super::data::{TensorData, TensorSpec};
use modelfmt_core::BoxError;

/// Named tensors in memory, which a format crate's `save` function writes.
#[derive(Clone, Debug, Default)]
pub struct Views<'a>(Vec<(Cow<'a, str>, View<'a>)>);

impl<'a, N: Into<Cow<'a, str>>> FromIterator<(N, View<'a>)> for Views<'a> {
    fn from_iter<T: IntoIterator<Item = (N, View<'a>)>>(tensors: T) -> Self {
        Self(tensors.into_iter().map(|(name, view)| (name.into(), view)).collect())
    }
}

impl Views<'_> {
    /// Returns the descriptions of the tensors, in order.
    pub fn specs(&self) -> impl Iterator<Item = TensorSpec<'_>> {
        self.0.iter().map(|(name, view)| TensorSpec::new(&**name, view.dtype(), view.shape()))
    }

    fn bytes(&self, tensor: usize) -> &[u8] {
        self.0.get(tensor).map_or(&[], |(_, view)| view.bytes())
    }
}

impl TensorData for Views<'_> {
    fn read(&self, tensor: usize, offset: u64, out: &mut [u8]) -> Result<(), BoxError> {
        [self.bytes(tensor)].read(0, offset, out)
    }

    fn borrow(&self, tensor: usize, range: Range<u64>) -> Option<&[u8]> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        self.bytes(tensor).get(range)
    }
}
