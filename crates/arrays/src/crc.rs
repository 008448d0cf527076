//! The CRC-32 of records: checked while their arrays are read, and by `verify`.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use modelfmt_core::author::{Crc32, Extent, ScanError, ScanRange, SharedScan, with_causes};
use modelfmt_core::claims::{Claim, FileClaims, WantedRange};
use modelfmt_core::ledger::{DigestKind, Ledger, Spans};
use modelfmt_core::{AnyError, Execution, Fetch};

use crate::arrays::Arrays;
use crate::error::{ArrayFault, Error, Fault, common, malformed};
use crate::inflate::{Content, InflatedCrc};
use crate::record::{Method, Record};

/// The number of bytes that a thread reads at once.
const PIECE: u64 = 1 << 20;

impl Arrays {
    /// Adds the CRCs of the records that hold these arrays, and of `others`, the format's own records, which
    /// were read when the file was opened.
    ///
    /// # Errors
    /// If a record is not inside the file.
    pub fn claims<I, F: ArrayFault>(
        index: &Arc<I>,
        of: fn(&I) -> &Self,
        wanted: &[WantedRange],
        others: impl IntoIterator<Item = usize>,
        out: &mut FileClaims<'_>,
    ) -> Result<(), Error<F>>
    where
        I: Send + Sync + 'static,
    {
        let arrays = of(index);
        let all = others.into_iter().map(|number| (number, u64::MAX)).chain(arrays.wanted(wanted));
        let (mut stored, mut deflated) = (Vec::new(), Vec::new());
        for (number, read) in all {
            let Some((record, stated)) = arrays.record(number).and_then(|r| Some((r, r.crc?))) else {
                continue;
            };
            let part = arrays.record_part(number);
            if !out.is_worth(format_args!("the CRC-32 of {part}"), record.stored_len, read) {
                continue;
            }
            let refuse = |fault| common(arrays.record_part(number), record.at, fault);
            let extent = Extent::new(record.at, record.stored_len, arrays.file_len()).map_err(refuse)?;
            match record.method {
                Method::Stored => stored.push(Claim { extent, expected: stated, what: number }),
                Method::Deflated => {
                    let expected = Content { crc: stated, len: record.len, is_whole: true };
                    deflated.push(Claim { extent, expected, what: number });
                }
            }
        }
        let failed = {
            let index = Arc::clone(index);
            move |number: usize, found: Content| -> AnyError {
                let arrays = of(&index);
                match arrays.record(number) {
                    Some(record) => differs::<F>(arrays, number, record, found).into(),
                    None => AnyError::NotFound { name: format!("record number {number}") },
                }
            }
        };
        let of_deflated = failed.clone();
        out.add::<Crc32, usize>(stored, 1, move |claim, found| {
            let len = claim.extent.len();
            failed(claim.what, Content { crc: found, len, is_whole: true })
        });
        out.add::<InflatedCrc, usize>(deflated, 1, move |claim, found| of_deflated(claim.what, found));
        Ok(())
    }

    /// Returns the faults in the CRCs of the records that `chosen` accepts, and the number of bytes that were
    /// checked.
    pub async fn check_crcs<F: ArrayFault>(
        &self,
        source: &impl Fetch,
        work: &Execution<'_>,
        chosen: impl Fn(usize) -> bool,
    ) -> (Vec<String>, u64) {
        let with_crc = self.records().map(|(_, record)| record).enumerate();
        let with_crc: Vec<(usize, Record)> = with_crc
            .filter(|(number, record)| record.crc.is_some() && chosen(*number))
            .map(|(number, record)| (number, *record))
            .collect();
        let (mut stored, deflated): (Vec<_>, Vec<_>) =
            with_crc.into_iter().partition(|(_, record)| record.method == Method::Stored);
        stored.sort_unstable_by_key(|(_, record)| (record.at, record.len));
        let (mut findings, mut nbytes) = (Vec::new(), 0_u64);
        match self.stored::<F>(source, work, &stored, &mut findings).await {
            Ok(seen) => nbytes = nbytes.saturating_add(seen),
            Err(error) => findings.push(with_causes(&Error::<F>::from(error))),
        }
        for (number, record) in deflated {
            nbytes = nbytes.saturating_add(record.stored_len);
            match deflated_content(source, &record, work).await {
                Ok(found) if found.is_whole && found.len == record.len && Some(found.crc) == record.crc => {}
                Ok(found) => findings.push(with_causes(&differs::<F>(self, number, &record, found))),
                Err(error) => findings.push(with_causes(&Error::<F>::from(error))),
            }
        }
        (findings, nbytes)
    }

    async fn stored<F: ArrayFault>(
        &self,
        source: &impl Fetch,
        work: &Execution<'_>,
        records: &[(usize, Record)],
        findings: &mut Vec<String>,
    ) -> Result<u64, ScanError> {
        let (Some((_, first)), Some((_, last))) = (records.first(), records.last()) else { return Ok(0) };
        let whole = first.at..last.range().end;
        let spans = records.iter().map(|(_, record)| record.range()).collect();
        let ledger = Ledger::<Crc32, 1>::new([Spans::Listed(spans)]);
        let scan =
            SharedScan(ScanRange::new(whole.clone(), PIECE, |at, bytes: &[u8]| ledger.hash(at, bytes)));
        source.scan(&scan, work, |seen| ledger.take(seen)).await?;
        for (number, record) in records {
            let found = ledger.digest(0, &record.range()).unwrap_or(0); // nothing has the CRC 0
            if Some(found) != record.crc {
                let found = Content { crc: found, len: record.len, is_whole: true };
                let error = differs::<F>(self, *number, record, found);
                findings.push(with_causes(&error));
            }
        }
        Ok(whole.end.saturating_sub(whole.start))
    }
}

/// Returns the CRC and the length of a record's content, decoded from the first byte to the last.
async fn deflated_content(
    source: &impl Fetch,
    record: &Record,
    work: &Execution<'_>,
) -> Result<Content, ScanError> {
    let mut run = InflatedCrc::begin(0);
    let range = record.range();
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at.saturating_add(PIECE));
        let len = end.saturating_sub(at);
        let bytes = source.fetch(at..end).await.map_err(|source| ScanError::Io { at, len, source })?;
        InflatedCrc::extend(record.stored_len, &mut run, &bytes);
        if work.advance(len).is_break() {
            return Err(ScanError::Cancelled);
        }
        at = end;
    }
    Ok(InflatedCrc::finish(record.stored_len, run))
}

/// Returns the error for a record whose content does not match the directory.
fn differs<F: ArrayFault>(arrays: &Arrays, number: usize, record: &Record, found: Content) -> Error<F> {
    let fault = if found.is_whole && found.len == record.len {
        Fault::Crc { found: found.crc, stated: record.crc.unwrap_or(0) }
    } else {
        Fault::DeflateLength { found: found.len, stated: record.len }
    };
    malformed(arrays.record_part(number), record.at, fault)
}
