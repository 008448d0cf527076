//! Checks the CRC-32s of an archive. The older stream has no checksum.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::{Execution, Fetch, Report, VerifyLevel};

use crate::error::Fault;
use crate::index::{Form, Index};

pub(crate) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let mut report = Report::new(level);
    let storages = index.arrays.records().len();
    report.add("structure", Vec::new(), format!("{} tensors, {storages} records", index.tensors().len()));
    match index.form() {
        Form::Archive if level >= VerifyLevel::Control => {
            // The pickle is structure. The other records are values.
            let pickle = index.pickle();
            let is_looked_at = |number| level >= VerifyLevel::Full || pickle == Some(number);
            let (findings, nbytes) = index.arrays.check_crcs::<Fault>(source, work, is_looked_at).await;
            report.add("crc", findings, format!("the CRC-32s of {nbytes} bytes"));
        }
        Form::Archive => {}
        Form::Stream => report.add_absent("crc", "the older files of PyTorch have no checksum"),
    }
    report
}
