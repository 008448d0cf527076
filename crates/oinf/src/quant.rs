//! The quant payloads of version 2: the scales and zero points of a tensor
//! (docs/formats/oinf.md#quant-payload).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::Part;
use modelfmt_core::author::{Cursor, Extent, align_up};

use crate::error::{Fault, Result};
use crate::wire::{self, ALIGNMENT, malformed};

/// How to compute a tensor's values from its stored numbers: value = scale × (number − zero point).
#[derive(Clone, Debug, PartialEq)]
pub struct Quant {
    /// Whether there are zero points.
    pub scheme: Scheme,
    /// The dimension along which there is one scale per element, or `None` if one scale applies to the whole
    /// tensor.
    pub axis: Option<u64>,
    /// One scale, or one for each element of the dimension.
    pub scales: Vec<f32>,
    /// One zero point per scale, if the scheme is asymmetric.
    pub zero_points: Option<Vec<i32>>,
}

/// The scheme of a [`Quant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The stored number 0 has the value 0.
    Symmetric,
    /// Zero points say which stored number has the value 0.
    Asymmetric,
}

impl Scheme {
    /// Returns `symmetric` or `asymmetric`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Asymmetric => "asymmetric",
        }
    }

    /// Returns the scheme with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Symmetric, Self::Asymmetric].into_iter().find(|scheme| scheme.name() == name)
    }

    const fn code(self) -> u32 {
        match self {
            Self::Symmetric => 1,
            Self::Asymmetric => 2,
        }
    }
}

/// The length in bytes of the fields before the scales.
pub(crate) const HEAD_LEN: u64 = 48;

/// The codes for the modes of scales and zero points.
const PER_TENSOR: u32 = 1;
const PER_CHANNEL: u32 = 2;

/// A decoded payload with its padding.
pub(crate) struct Payload<'a> {
    pub(crate) quant: Quant,
    pub(crate) padding_at: u64,
    pub(crate) padding: &'a [u8],
}

impl Quant {
    /// Returns the rule that this payload breaks for a tensor of this shape, if any.
    #[must_use]
    pub fn fault(&self, shape: &[u64]) -> Option<Fault> {
        let expected = match self.axis {
            None => 1,
            Some(axis) => {
                let dim = usize::try_from(axis).ok().and_then(|axis| shape.get(axis));
                let Some(&dim) = dim else { return Some(Fault::QuantAxis { axis, rank: shape.len() }) };
                dim
            }
        };
        let counts = [Some(self.scales.len()), self.zero_points.as_ref().map(Vec::len)];
        let wrong = counts.into_iter().flatten().map(|count| count as u64).find(|&found| found != expected);
        if let Some(found) = wrong {
            return Some(Fault::QuantCount { found, expected });
        }
        (self.zero_points.is_some() != (self.scheme == Scheme::Asymmetric)).then_some(Fault::QuantZeroPoints)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mode = if self.axis.is_some() { PER_CHANNEL } else { PER_TENSOR };
        let zero_mode = if self.zero_points.is_some() { mode } else { 0 };
        for word in [self.scheme.code(), mode, zero_mode, 0] {
            out.extend(word.to_le_bytes());
        }
        let axis = self.axis.unwrap_or_default();
        let zero_axis = if self.zero_points.is_some() { axis } else { 0 };
        let zero_points = self.zero_points.as_deref().unwrap_or_default();
        for word in [axis, self.scales.len() as u64, zero_axis, zero_points.len() as u64] {
            out.extend(word.to_le_bytes());
        }
        out.extend(self.scales.iter().flat_map(|scale| scale.to_le_bytes()));
        out.extend(zero_points.iter().flat_map(|zero| zero.to_le_bytes()));
        let len = out.len() as u64;
        wire::pad(&mut out, len);
        out
    }

    /// Decodes the payload of a tensor with this shape. `bytes` is the whole payload, and `at` its offset in the file.
    pub(crate) fn decode<'a>(bytes: &'a [u8], at: u64, shape: &[u64]) -> Result<Payload<'a>> {
        let mut c = Cursor::new(bytes, at);
        c.record("quant payload", None);
        let wrong = |field, back, fault| {
            malformed(Part::new("quant payload").with_field(field), at.saturating_add(back), fault)
        };
        let words = [c.u32("scheme")?, c.u32("scale_mode")?, c.u32("zero_point_mode")?, c.u32("reserved")?];
        let [scheme, mode, zero_mode, reserved] = words;
        let [axis, count] = [c.u64("scale_axis")?, c.u64("scale_count")?];
        let [zero_axis, zero_count] = [c.u64("zero_point_axis")?, c.u64("zero_point_count")?];
        let scheme = match scheme {
            1 => Scheme::Symmetric,
            2 => Scheme::Asymmetric,
            other => return Err(wrong("scheme", 0, Fault::QuantCode(other))),
        };
        let dim = match mode {
            PER_TENSOR if axis == 0 => 1,
            PER_TENSOR => return Err(wrong("scale_axis", 16, Fault::NotZero(axis))),
            PER_CHANNEL => {
                let dim = usize::try_from(axis).ok().and_then(|axis| shape.get(axis));
                *dim.ok_or_else(|| wrong("scale_axis", 16, Fault::QuantAxis { axis, rank: shape.len() }))?
            }
            other => return Err(wrong("scale_mode", 4, Fault::QuantCode(other))),
        };
        if zero_mode > PER_CHANNEL {
            return Err(wrong("zero_point_mode", 8, Fault::QuantCode(zero_mode)));
        }
        let has_zeros = scheme == Scheme::Asymmetric;
        if zero_mode != if has_zeros { mode } else { 0 } {
            return Err(wrong("zero_point_mode", 8, Fault::QuantZeroPoints));
        }
        if reserved != 0 {
            return Err(wrong("reserved", 12, Fault::NotZero(reserved.into())));
        }
        if count != dim {
            return Err(wrong("scale_count", 24, Fault::QuantCount { found: count, expected: dim }));
        }
        if zero_axis != if has_zeros { axis } else { 0 } {
            return Err(wrong("zero_point_axis", 32, Fault::QuantZeroPoints));
        }
        let expected = if has_zeros { dim } else { 0 };
        if zero_count != expected {
            return Err(wrong("zero_point_count", 40, Fault::QuantCount { found: zero_count, expected }));
        }
        let payload_len = payload_len(dim, has_zeros);
        let found = bytes.len() as u64;
        if payload_len != Some(found) {
            let expected = payload_len.unwrap_or(u64::MAX);
            return Err(wrong("quant_nbytes", 0, Fault::QuantLen { found, expected }));
        }
        let scales = floats(c.bytes(count.saturating_mul(4), "scales")?);
        let zeros = c.bytes(zero_count.saturating_mul(4), "zero_points")?;
        let zeros = zeros.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        let padding_at = c.offset();
        let padding = c.bytes(c.remaining() as u64, "padding")?;
        let axis = (mode == PER_CHANNEL).then_some(axis);
        let quant = Self { scheme, axis, scales, zero_points: has_zeros.then_some(zeros) };
        Ok(Payload { quant, padding_at, padding })
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Returns the length in bytes of a payload with `scales` scales.
pub(crate) fn payload_len(scales: u64, has_zeros: bool) -> Option<u64> {
    let len = scales.checked_mul(if has_zeros { 8 } else { 4 })?.checked_add(HEAD_LEN)?;
    align_up(len, ALIGNMENT)
}

/// The places of the quant payloads of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quants {
    /// The places, sorted by tensor.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    tensor: usize,
    /// The extent that the file states.
    pub(crate) extent: Extent,
    /// The offset at which OpenInfer's writer stores the payload. It differs from the stated offset if any
    /// tensor follows one with a payload (docs/formats/oinf.md#payloads-in-another-place).
    pub(crate) written_at: u64,
}

impl Quants {
    pub(crate) fn push(&mut self, tensor: usize, extent: Extent) {
        self.places.push(Place { tensor, extent, written_at: extent.offset() });
    }

    /// Returns each tensor that has a payload, with the payload's extent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Extent)> + '_ {
        self.places.iter().map(|place| (place.tensor, place.extent))
    }

    pub(crate) fn find(&self, tensor: usize) -> Option<&Place> {
        let at = self.places.binary_search_by_key(&tensor, |place| place.tensor).ok()?;
        self.places.get(at)
    }

    pub(crate) fn extent(&self, tensor: usize) -> Option<Extent> {
        self.find(tensor).map(|place| place.extent)
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.places.capacity().saturating_mul(size_of::<Place>())
    }

    /// Refuses payloads that are together longer than the file. They would share bytes, and a small file
    /// could have the same large payload read a million times.
    pub(crate) fn check(&self, file_len: u64) -> Result<()> {
        let total = self.places.iter().fold(0u64, |sum, place| sum.saturating_add(place.extent.len()));
        if total > file_len {
            return Err(malformed(Part::new("quant payloads"), 0, Fault::SharedQuants(total)));
        }
        Ok(())
    }

    /// Records where OpenInfer's writer stores the payloads: it assigns offsets tensor by tensor, but then
    /// writes the values of all tensors before all payloads. `data` has the extents of the values of all
    /// tensors.
    pub(crate) fn note_written(&mut self, data: impl Iterator<Item = Extent> + Clone) {
        let offsets = data.clone().chain(self.places.iter().map(|place| place.extent));
        let Some(first) = offsets.map(Extent::offset).min() else { return };
        let behind = |at: u64, len: u64| align_up(at.saturating_add(len), ALIGNMENT).unwrap_or(u64::MAX);
        let mut at = data.fold(first, |at, extent| behind(at, extent.len()));
        for place in &mut self.places {
            place.written_at = at;
            at = behind(at, place.extent.len());
        }
    }
}
