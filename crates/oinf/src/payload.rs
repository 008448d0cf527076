//! Reads the quant payloads of an open file.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::Extent;
use modelfmt_core::{Fetch, Limits, Part};

use crate::error::{Error, Fault, Result};
use crate::index::Index;
use crate::quant::{HEAD_LEN, Payload, Quant, payload_len};
use crate::wire::malformed;

impl Index {
    /// Returns the extent of a tensor's quant payload, by the tensor's position, or `None` if it has none.
    #[must_use]
    pub fn quant_extent(&self, position: usize) -> Option<Extent> {
        self.quants.extent(position)
    }

    /// Reads the quant payload of a tensor. Also returns an error if the padding after it is not zero.
    pub(crate) async fn read_quant(
        &self,
        source: &impl Fetch,
        position: usize,
    ) -> Result<Option<(Quant, Option<Error>)>> {
        let Some((place, info)) = self.quants.find(position).zip(self.tensors.info(position)) else {
            return Ok(None);
        };
        let named = |error| match error {
            Error::Malformed { part, at, fault } => {
                Error::Malformed { part: part.with_name(info.name), at, fault }
            }
            other => other,
        };
        let at = place.extent.offset();
        match self.payload(source, at, place.extent.len(), info.shape).await {
            Ok((quant, padding)) => Ok(Some((quant, padding.map(named)))),
            Err(error @ Error::Io { .. }) => Err(error),
            Err(error) => {
                let is_elsewhere = place.written_at != at
                    && self.payload(source, place.written_at, place.extent.len(), info.shape).await.is_ok();
                if is_elsewhere {
                    let fault = Fault::QuantElsewhere(place.written_at);
                    return Err(named(malformed(Part::new("quant payload"), at, fault)));
                }
                Err(named(error))
            }
        }
    }

    async fn payload(
        &self,
        source: &impl Fetch,
        at: u64,
        len: u64,
        shape: &[u64],
    ) -> Result<(Quant, Option<Error>)> {
        let extent = Extent::new(at, len, self.file_len());
        let extent = extent.map_err(|fault| malformed(Part::new("quant payload"), at, fault))?;
        Limits::check("the length of a quant payload", len, self.limits.metadata_len)?;
        // Refuses, before reading, a length that no tensor of this shape can have.
        let most = payload_len(shape.iter().copied().max().unwrap_or(1).max(1), true).unwrap_or(u64::MAX);
        if !(HEAD_LEN..=most).contains(&len) {
            let part = Part::new("quant payload").with_field("quant_nbytes");
            let expected = if len < HEAD_LEN { HEAD_LEN } else { most };
            return Err(malformed(part, at, Fault::QuantLen { found: len, expected }));
        }
        let bytes = source.fetch(extent.range()).await.map_err(|source| Error::Io { at, len, source })?;
        let Payload { quant, padding_at, padding } = Quant::decode(&bytes, at, shape)?;
        let stray = padding.iter().enumerate().find(|&(_, &byte)| byte != 0);
        let stray = stray.map(|(position, &byte)| {
            malformed(
                Part::new("quant payload"),
                padding_at.saturating_add(position as u64),
                Fault::Padding(byte),
            )
        });
        Ok((quant, stray))
    }
}
