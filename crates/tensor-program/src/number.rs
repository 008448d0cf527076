//! Floats as values and as bytes.

/// A float, as `f32` or as bytes.
pub(crate) trait Number: Copy {
    fn of(float: f32) -> Self;
    fn float(self) -> f32;
}

impl Number for f32 {
    fn of(float: f32) -> Self {
        float
    }

    fn float(self) -> f32 {
        self
    }
}

/// Little-endian, as everywhere in this crate.
impl Number for [u8; 4] {
    #[inline]
    fn of(float: f32) -> Self {
        float.to_le_bytes()
    }

    #[inline]
    fn float(self) -> f32 {
        f32::from_le_bytes(self)
    }
}

/// Replaces each `f32` in place.
pub(crate) fn update(values: &mut [u8], of: impl Fn(f32) -> f32) {
    let floats = values.as_chunks_mut::<4>().0.iter_mut();
    floats.for_each(|bytes| *bytes = of(f32::from_le_bytes(*bytes)).to_le_bytes());
}

/// Adds the floats of `other` in place.
pub(crate) fn add(values: &mut [u8], other: &[f32]) {
    let pairs = values.as_chunks_mut::<4>().0.iter_mut().zip(other);
    pairs.for_each(|(a, b)| *a = (f32::from_le_bytes(*a) + b).to_le_bytes());
}

/// Copies floats to bytes, as many as fit both sides.
pub(crate) fn to_bytes(floats: &[f32], out: &mut [u8]) {
    out.as_chunks_mut::<4>().0.iter_mut().zip(floats).for_each(|(out, float)| *out = float.to_le_bytes());
}

/// Copies bytes to floats, as many as fit both sides.
pub(crate) fn from_bytes(bytes: &[u8], out: &mut [f32]) {
    out.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(out, bytes)| *out = f32::from_le_bytes(*bytes));
}
