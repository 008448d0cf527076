//! Checks a file and reports every finding. `modelfmt-apr2` makes the checks for every file, this crate
//! checks the seal.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod digests;
mod sealed;
mod shards;

use apr2::Flags;
use apr2::author::{self, Findings, Verified};
use modelfmt_core::{Execution, Fetch, Report, VerifyLevel};

use self::digests::Hashed;
use self::sealed::SealFindings;
use self::shards::Seals;
use crate::index::Index;
use crate::seal::Section;

/// The note for an encrypted file that was not decrypted.
const LOCKED: &str = "no key was given, so only the encrypted bytes were checked";

/// Verifies one file.
pub(crate) async fn report(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> Report {
    let (findings, sealed) = findings(index, source, level, work).await;
    let mut report = findings.report(&index.plain, level, |report, findings| {
        add_signature(index, findings, report);
    });
    if let Some((section, found)) = index.seal.as_deref().zip(sealed) {
        add_sealed(section, found, &mut report);
    }
    report
}

/// Checks one file. The digests of a sealed file are checked only at [`VerifyLevel::Full`].
async fn findings(
    index: &Index,
    source: &impl Fetch,
    level: VerifyLevel,
    work: &Execution<'_>,
) -> (Findings, Option<SealFindings>) {
    let plain = &index.plain;
    let Some(section) = index.seal.as_deref() else {
        let why = index.fault.as_ref().map_or_else(String::new, ToString::to_string);
        return (author::findings::<Hashed>(plain, Err(&why), source, level, work).await, None);
    };
    let hashed = Hashed::new(section);
    let findings = author::findings(plain, Ok(&hashed), source, level, work).await;
    let Some(pass) = &findings.pass else { return (findings, None) };
    let sealed = sealed::run(index, &hashed, source, work, pass.fault.as_deref()).await;
    (findings, Some(sealed))
}

impl Verified for Index {
    type Seals = Seals;

    fn plain(&self) -> &apr2::Index {
        &self.plain
    }

    async fn findings<S: Fetch>(
        &self,
        source: &S,
        level: VerifyLevel,
        work: &Execution<'_>,
        name: &str,
        seals: &mut Seals,
    ) -> Findings {
        let (findings, sealed) = findings(self, source, level, work).await;
        if let Some((section, found)) = self.seal.as_deref().zip(sealed) {
            seals.take(section, found, name);
        }
        findings
    }
}

/// Adds the check of the signatures. Only those by keys that the caller has named prove anything. Opening has
/// checked them.
fn add_signature(index: &Index, findings: Vec<String>, report: &mut Report) {
    let section = index.seal.as_deref().filter(|_| index.flags().contains(Flags::SIGNED));
    let Some(section) = section else { return author::add_signature(&index.plain, report, findings) };
    let signers = sealed::signers(section);
    match section.trusted.is_empty() {
        true => report.add_partial("signature", findings, format!("{signers}; not checked by any key")),
        false => report.add("signature", findings, signers),
    }
}

/// Adds the checks of a sealed file's digests and encryption.
fn add_sealed(section: &Section, found: SealFindings, report: &mut Report) {
    let tensors = format!("{} tensors", section.body.extents.len());
    report.add("digests", found.digests, tensors.clone());
    if !section.is_encrypted() {
        report.add_absent("encryption", "the file is not encrypted");
    } else if section.is_locked() {
        report.add_absent("encryption", LOCKED);
    } else {
        report.add("encryption", found.encryption, tensors);
    }
}
