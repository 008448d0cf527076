//! Sealed files: every part that is signed is gathered, checked, and only then looked into.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent},
};

use super::{IndexParser, NEAR, State};
use crate::error::{Error, Result, SealFault, malformed};
use crate::index::{Head, Sealing, Sections, Tensors};
use crate::metadata::Metadata;
use crate::seal::{Access, END_LEN, FrontBytes, Opened, Section, SectionBytes, TRAILER_LEN, Trailer};
use crate::wire::{Flags, Footer, HEADER_LEN};

/// What has been gathered of a sealed file.
#[derive(Debug, Default)]
pub(super) struct Gather {
    pub(super) access: Arc<Access>,
    stage: Stage,
    header: Vec<u8>,
    trailer: Option<Trailer>,
    metadata: Vec<u8>,
    index: Vec<u8>,
    body: Vec<u8>,
    /// What came of it.
    pub(super) section: Option<Section>,
    /// Why a file that only says that it is signed is read without its section.
    pub(super) fault: Option<SealFault>,
}

/// What is gathered next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Trailer and footer.
    #[default]
    End,
    Metadata,
    Index,
    Body,
    /// Signatures and keys.
    Rest,
}

impl Gather {
    pub(super) fn check_flags(&self, flags: Flags) -> Result<()> {
        let refused = |fault| malformed(Part::new("header").with_field("flags"), 8, fault);
        self.access.check_flags(flags).map_err(refused)
    }

    /// The least that the next step has to see, and what is better read together with it.
    pub(super) fn wants(&self, head: &Head, file_len: u64) -> (Range<u64>, u64) {
        let Sections { metadata, index, .. } = head.sections;
        let end = file_len.saturating_sub(END_LEN);
        let (body, rest) = self.trailer.map_or((0..0, 0..0), |trailer| {
            (trailer.seal_offset..trailer.pages_at(), trailer.signatures_at()..trailer.end())
        });
        let with = |first: Range<u64>, next: Range<u64>| {
            let better = if next.start.saturating_sub(first.end) <= NEAR { next.end } else { first.end };
            (first, better)
        };
        match self.stage {
            Stage::End => (end..file_len, file_len),
            Stage::Metadata => with(metadata.range(), index.range()),
            Stage::Index => (index.range(), index.end()),
            Stage::Body => with(body, rest),
            Stage::Rest => (rest.clone(), rest.end),
        }
    }
}

impl IndexParser {
    /// Whether the parts of the file have to be gathered first. What is not sealed, or only says so, is read as it is.
    pub(super) fn begin_sealed(&mut self, head: &Head, bytes: &[u8]) -> Result<bool> {
        self.sealed.check_flags(head.flags)?;
        if !head.flags.contains(Flags::SIGNED) && !head.flags.contains(Flags::ENCRYPTED) {
            return Ok(false);
        }
        let front = head.sections.data.offset();
        if self.file_len < END_LEN || self.file_len.saturating_sub(END_LEN) < front {
            let fault = SealFault::Structure("there is no room for a seal section".to_owned());
            self.without_section(head, fault, self.file_len)?;
            return Ok(false);
        }
        self.sealed.header = bytes.get(..super::cut(HEADER_LEN)).unwrap_or_default().to_vec();
        Ok(true)
    }

    /// Notes why the section cannot be used, where the file may be read without it.
    fn without_section(&mut self, head: &Head, fault: SealFault, at: u64) -> Result<()> {
        if head.flags.contains(Flags::ENCRYPTED) || self.sealed.access.demands() {
            return Err(malformed(Part::new("seal section"), at, fault));
        }
        self.sealed.fault = Some(fault);
        Ok(())
    }

    /// Takes the bytes of the stage; opens the file with the last of them.
    pub(super) fn gather(&mut self, head: Head, bytes: &[u8], at: u64) -> Result<State> {
        self.sealed.stage = match self.sealed.stage {
            Stage::End => match self.end(&head, bytes, at)? {
                Some(trailer) => {
                    self.sealed.trailer = Some(trailer);
                    Stage::Metadata
                }
                None => return Ok(State::Footer(head)),
            },
            Stage::Metadata => {
                self.sealed.metadata = bytes.to_vec();
                Stage::Index
            }
            Stage::Index => {
                self.sealed.index = bytes.to_vec();
                let body = self.sealed.trailer.map_or(0, |trailer| trailer.body_size);
                Limits::check("the length of the seal section", body, self.limits.index_len)?;
                Stage::Body
            }
            Stage::Body => {
                self.sealed.body = bytes.to_vec();
                if self.rest().is_empty() {
                    return self.open_sealed(head, &[]);
                }
                Stage::Rest
            }
            Stage::Rest => return self.open_sealed(head, bytes),
        };
        Ok(State::Sealed(head))
    }

    /// Where signatures and keys are.
    fn rest(&self) -> Range<u64> {
        self.sealed.trailer.map_or(0..0, |trailer| trailer.signatures_at()..trailer.end())
    }

    /// The trailer; none if the file may be read without.
    fn end(&mut self, head: &Head, bytes: &[u8], at: u64) -> Result<Option<Trailer>> {
        let (trailer, footer) = bytes.split_at_checked(super::cut(TRAILER_LEN)).unwrap_or_default();
        let is_encrypted = head.flags.contains(Flags::ENCRYPTED);
        let front = head.sections.data.offset();
        let trailer = Trailer::decode(trailer, self.file_len, front, is_encrypted);
        let trailer = match trailer {
            Ok(trailer) => Some(trailer),
            Err(fault) => {
                self.without_section(head, fault, at)?;
                None
            }
        };
        Footer::decode(&mut Cursor::new(footer, at.saturating_add(TRAILER_LEN)), self.file_len)?;
        Ok(trailer)
    }

    fn open_sealed(&mut self, head: Head, rest: &[u8]) -> Result<State> {
        let Some(trailer) = self.sealed.trailer else { return Err(super::too_short(self.file_len)) };
        let signatures_len = super::cut(trailer.signatures_size.into());
        let (signatures, keys) = rest.split_at_checked(signatures_len).unwrap_or_default();
        let Gather { header, metadata, index, body, .. } = &self.sealed;
        let front = FrontBytes { header, metadata, index };
        let bytes = SectionBytes { body, signatures, keys };
        let data_offset = head.sections.data.offset();
        let opened = Section::open(trailer, head.flags, data_offset, &front, &bytes, &self.sealed.access);
        let at = trailer.seal_offset;
        let parsed = match opened {
            Ok(opened) => self.listed(&head, opened),
            Err(fault) => Err(malformed(Part::new("seal section"), at, fault)),
        };
        match parsed {
            Ok(head) => Ok(State::Index(head)),
            Err(Error::Malformed { fault: crate::error::Fault::Seal(fault), .. })
                if self.may_go_without(&head) =>
            {
                self.sealed.fault = Some(fault);
                let sections = head.sections;
                self.metadata = Some(Metadata::parse(&self.sealed.metadata, HEADER_LEN, &self.limits)?);
                self.tensors =
                    Some(Tensors::parse(&self.sealed.index, &sections, Sealing::None, &self.limits)?);
                Ok(State::Index(head))
            }
            Err(error) => Err(error),
        }
    }

    fn may_go_without(&self, head: &Head) -> bool {
        !head.flags.contains(Flags::ENCRYPTED) && !self.sealed.access.demands()
    }

    /// Metadata and index, clear or sealed, now that the section has been checked.
    fn listed(&mut self, head: &Head, opened: Opened) -> Result<Head> {
        let Opened { section, hidden } = opened;
        let mut head = *head;
        let at = section.trailer.seal_offset;
        let data = head.sections.data.offset();
        let refused = |fault: SealFault| malformed(Part::new("seal section"), at, fault);
        head.sections.data = Extent::new(data, at.saturating_sub(data), self.file_len)
            .map_err(|fault| malformed(Part::new("seal section"), at, fault))?;
        let sealing = section.segment().map_or(Sealing::Signed, Sealing::Encrypted);
        let (metadata, index) = match &hidden {
            Some(hidden) => {
                head.flags = Flags::from_file(hidden.flags)
                    .map_err(|fault| malformed(Part::new("sealed index"), at, fault))?;
                Limits::check(
                    "the length of the metadata",
                    hidden.metadata.len() as u64,
                    self.limits.metadata_len,
                )?;
                (&hidden.metadata, &hidden.index)
            }
            None => (&self.sealed.metadata, &self.sealed.index),
        };
        let metadata = Metadata::parse(metadata, HEADER_LEN, &self.limits)?;
        let tensors = Tensors::parse(index, &head.sections, sealing, &self.limits)?;
        if !section.hides_index() {
            let lies = tensors.all_stored().map(|stored| (stored.offset.saturating_sub(data), stored.len));
            section.check_extents(lies.collect::<Vec<_>>().into_iter()).map_err(refused)?;
        }
        self.metadata = Some(metadata);
        self.tensors = Some(tensors);
        self.sealed.section = Some(section);
        Ok(head)
    }
}
