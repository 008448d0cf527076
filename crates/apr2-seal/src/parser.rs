//! Parses bytes into an [`Index`], without I/O. Each signed part of a sealed file is collected and checked
//! before it is decoded.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::ops::Range;
use std::sync::Arc;

use apr2::author::{self, Footer, Front, HEADER_LEN, Head, Sealing};
use apr2::{Flags, Sections};
use modelfmt_core::{
    Limits, Part,
    author::{Cursor, Extent, Parser, to_usize_saturating},
};

use crate::error::{Error, Fault, Result, SealFault, malformed};
use crate::index::Index;
use crate::seal::{
    Access, END_LEN, FrontBytes, Opened, Section, SectionBytes, TRAILER_LEN, Trailer, plain_len,
};

/// Parts that are less than this apart are requested together.
const MERGE_GAP: u64 = 16 << 10;

/// Parses an [`Index`] from the byte ranges that it asks for; see [`Parser`].
///
/// It asks for the header, the footer, the metadata, the tensor index and the seal section.
#[derive(Debug)]
pub struct IndexParser {
    file_len: u64,
    limits: Limits,
    access: Arc<Access>,
    state: State,
    /// The parser of a file that is not sealed, or is read as if it were not. At first, it also determines
    /// which bytes are needed.
    plain: author::IndexParser,
    /// The reason why the seal section of a file that is only signed cannot be used. The file is then read
    /// without it.
    fault: Option<SealFault>,
}

#[derive(Debug)]
enum State {
    /// Nothing has been read yet.
    Start,
    /// A file that is not sealed.
    Plain,
    /// A sealed file.
    Sealed(Box<Gather>),
    Done(Box<Index>),
}

/// The parts of a sealed file that have been collected.
#[derive(Debug)]
struct Gather {
    head: Head,
    stage: Stage,
    header: Vec<u8>,
    trailer: Option<Trailer>,
    metadata: Vec<u8>,
    index: Vec<u8>,
    body: Vec<u8>,
    /// The first bytes of the file, if they contain both sections and the end has not been read yet.
    stash: Vec<u8>,
}

/// The part to collect next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The trailer and the footer.
    End,
    Metadata,
    Index,
    Body,
    /// The signatures and the keys.
    Rest,
}

impl Gather {
    fn new(head: Head, header: &[u8]) -> Self {
        Self {
            head,
            stage: Stage::End,
            header: header.to_vec(),
            trailer: None,
            metadata: Vec::new(),
            index: Vec::new(),
            body: Vec::new(),
            stash: Vec::new(),
        }
    }

    /// Returns the range that the next stage needs, and the end of a longer range that is worth reading with
    /// it.
    fn wants(&self, file_len: u64) -> (Range<u64>, u64) {
        let Sections { metadata, index, .. } = self.head.sections;
        let end = file_len.saturating_sub(END_LEN);
        let (body, rest) = self.trailer.map_or((0..0, 0..0), |trailer| {
            (trailer.seal_offset..trailer.pages_at(), trailer.signatures_at()..trailer.end())
        });
        let with = |first: Range<u64>, next: Range<u64>| {
            let better = if next.start.saturating_sub(first.end) <= MERGE_GAP { next.end } else { first.end };
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

    /// Returns the range of the signatures and the keys.
    fn rest(&self) -> Range<u64> {
        self.trailer.map_or(0..0, |trailer| trailer.signatures_at()..trailer.end())
    }

    /// Takes the bytes of any stage but the first. Returns whether it was the last stage.
    fn take(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool> {
        self.stage = match self.stage {
            Stage::Metadata => {
                self.metadata = bytes.to_vec();
                Stage::Index
            }
            Stage::Index => {
                self.index = bytes.to_vec();
                let body = self.trailer.map_or(0, |trailer| trailer.body_size);
                Limits::check("the length of the seal section", body, limits.index_len)?;
                Stage::Body
            }
            Stage::Body => {
                self.body = bytes.to_vec();
                Stage::Rest
            }
            Stage::End | Stage::Rest => return Ok(true),
        };
        Ok(self.stage == Stage::Rest && self.rest().is_empty())
    }
}

/// The result of a stage.
enum Next {
    More,
    /// The file is read without its seal section. These bytes are its footer.
    Plain(Vec<u8>),
    Done(Box<Index>),
}

impl IndexParser {
    /// Creates a parser for a file of `file_len` bytes. `access` has the caller's demands on a sealed file,
    /// and the keys to open it.
    #[must_use]
    pub fn new(file_len: u64, limits: Limits, access: Option<Arc<Access>>) -> Self {
        Self {
            file_len,
            plain: author::IndexParser::new(file_len, limits.clone()),
            limits,
            access: access.unwrap_or_default(),
            state: State::Start,
            fault: None,
        }
    }

    /// Decodes the header. A file that is not sealed, or only claims to be, is read as an unsealed file.
    fn start(&mut self, bytes: &[u8]) -> Result<State> {
        let head = author::begin(bytes, self.file_len, &self.limits)?;
        let flags = head.map_or(Flags::empty(), |head| head.flags);
        let refused = |fault| malformed(Part::new("header").with_field("flags"), 8, fault);
        self.access.check_flags(flags).map_err(refused)?;
        let is_sealed = flags.contains(Flags::SIGNED) || flags.contains(Flags::ENCRYPTED);
        let Some(head) = head.filter(|_| is_sealed) else { return Ok(State::Plain) };
        let front = head.sections.data.offset();
        if self.file_len < END_LEN || self.file_len.saturating_sub(END_LEN) < front {
            let fault = SealFault::Structure("there is no room for a seal section".to_owned());
            self.without_section(&head, fault, self.file_len)?;
            return Ok(State::Plain);
        }
        let header = bytes.get(..to_usize_saturating(HEADER_LEN)).unwrap_or_default();
        Ok(State::Sealed(Box::new(Gather::new(head, header))))
    }

    /// Records why the seal section cannot be used. Fails if the file must not be read without it.
    fn without_section(&mut self, head: &Head, fault: SealFault, at: u64) -> Result<()> {
        if !self.may_go_without(head) {
            return Err(malformed(Part::new("seal section"), at, fault));
        }
        self.fault = Some(fault);
        Ok(())
    }

    fn may_go_without(&self, head: &Head) -> bool {
        !head.flags.contains(Flags::ENCRYPTED) && !self.access.demands()
    }

    /// Goes through the stages of a sealed file as long as the bytes contain what the next stage needs. The
    /// bytes begin at byte `start` of the file.
    fn advance(&mut self, gather: &mut Gather, bytes: &[u8], start: u64) -> Result<Next> {
        let end = start.saturating_add(bytes.len() as u64);
        loop {
            let (least, _) = gather.wants(self.file_len);
            if least.start < start || least.end > end {
                return Ok(Next::More);
            }
            let (skip, len) = (least.start.saturating_sub(start), least.end.saturating_sub(least.start));
            let exact = bytes
                .get(to_usize_saturating(skip)..)
                .and_then(|rest| rest.get(..to_usize_saturating(len)))
                .unwrap_or_default();
            if gather.stage == Stage::End {
                let Some(trailer) = self.end(&gather.head, exact, least.start)? else {
                    return Ok(Next::Plain(
                        exact.get(to_usize_saturating(TRAILER_LEN)..).unwrap_or_default().to_vec(),
                    ));
                };
                gather.trailer = Some(trailer);
                gather.stage = Stage::Metadata;
                continue;
            }
            if gather.take(exact, &self.limits)? {
                let rest = if gather.rest().is_empty() { &[] } else { exact };
                return Ok(Next::Done(Box::new(self.open(gather, rest)?)));
            }
        }
    }

    /// Decodes the trailer and the footer, which begin at byte `at`. A file without a trailer is read as if
    /// it were not sealed, if that is allowed.
    fn end(&mut self, head: &Head, bytes: &[u8], at: u64) -> Result<Option<Trailer>> {
        let (trailer, footer) = bytes.split_at_checked(to_usize_saturating(TRAILER_LEN)).unwrap_or_default();
        let is_encrypted = head.flags.contains(Flags::ENCRYPTED);
        let front = head.sections.data.offset();
        let trailer = match Trailer::decode(trailer, self.file_len, front, is_encrypted) {
            Ok(trailer) => Some(trailer),
            Err(fault) => {
                self.without_section(head, fault, at)?;
                None
            }
        };
        Footer::decode(&mut Cursor::new(footer, at.saturating_add(TRAILER_LEN)), self.file_len)?;
        Ok(trailer)
    }

    fn open(&self, gather: &Gather, rest: &[u8]) -> Result<Index> {
        let Some(trailer) = gather.trailer else { return Err(author::too_short(self.file_len)) };
        let signatures_len = to_usize_saturating(trailer.signatures_size.into());
        let (signatures, keys) = rest.split_at_checked(signatures_len).unwrap_or_default();
        let Gather { head, header, metadata, index, body, .. } = gather;
        let front = FrontBytes { header, metadata, index };
        let bytes = SectionBytes { body, signatures, keys };
        let data_offset = head.sections.data.offset();
        let opened = Section::open(trailer, head.flags, data_offset, &front, &bytes, &self.access);
        let parsed = match opened {
            Ok(opened) => self.listed(gather, opened),
            Err(fault) => Err(malformed(Part::new("seal section"), trailer.seal_offset, fault)),
        };
        match parsed {
            Err(Error::Malformed { fault: Fault::Seal(fault), .. }) if self.may_go_without(head) => {
                let plain = self.parse(*head, metadata, index, Sealing::None)?;
                Ok(Index { plain, seal: None, fault: Some(fault) })
            }
            parsed => parsed,
        }
    }

    /// Builds the index, which may be sealed, after the section has been checked.
    fn listed(&self, gather: &Gather, opened: Opened) -> Result<Index> {
        let Opened { section, hidden } = opened;
        let mut head = gather.head;
        let at = section.trailer.seal_offset;
        let data = head.sections.data.offset();
        head.sections.data = Extent::new(data, at.saturating_sub(data), self.file_len)
            .map_err(|fault| malformed(Part::new("seal section"), at, fault))?;
        let sealing =
            section.segment().map_or(Sealing::Signed, |segment| Sealing::Encrypted { segment, plain_len });
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
            None => (&gather.metadata, &gather.index),
        };
        let plain = self.parse(head, metadata, index, sealing)?;
        if !section.hides_index() {
            let lies = author::all_stored(&plain);
            let lies = lies.map(|stored| (stored.offset.saturating_sub(data), stored.len));
            section
                .check_extents(lies.collect::<Vec<_>>().into_iter())
                .map_err(|fault| malformed(Part::new("seal section"), at, fault))?;
        }
        Ok(Index { plain, seal: Some(Arc::new(section)), fault: None })
    }

    fn parse(&self, head: Head, metadata: &[u8], index: &[u8], sealing: Sealing) -> Result<apr2::Index> {
        Front { head, metadata, index, sealing, file_len: self.file_len }.parse(&self.limits)
    }

    /// Continues with the result of a stage. `first` has the first bytes of the file, in case it is read
    /// without its seal section.
    fn go_on(&mut self, gather: Box<Gather>, next: Next, first: &[u8]) -> Result<()> {
        self.state = match next {
            Next::More => State::Sealed(gather),
            Next::Done(index) => State::Done(index),
            Next::Plain(footer) => {
                self.plain.feed(if first.is_empty() { &gather.header } else { first })?;
                let at = self.file_len.saturating_sub(footer.len() as u64);
                if self.plain.need().is_some_and(|need| need.start == at) {
                    self.plain.feed(&footer)?;
                }
                State::Plain
            }
        };
        Ok(())
    }
}

impl Parser for IndexParser {
    type Index = Index;
    type Fault = Fault;

    fn need(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Start | State::Plain => self.plain.need(),
            State::Sealed(gather) => {
                let (least, better) = gather.wants(self.file_len);
                Some(least.start..better)
            }
            State::Done(_) => None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Start) {
            State::Start => {
                if (bytes.len() as u64) < HEADER_LEN.min(self.file_len) {
                    return Ok(());
                }
                match self.start(bytes)? {
                    State::Sealed(mut gather) => {
                        let next = self.advance(&mut gather, bytes, 0)?;
                        let sections = gather.head.sections;
                        if matches!(next, Next::More) {
                            // Empty if the index reaches beyond these bytes.
                            gather.stash = bytes
                                .get(..to_usize_saturating(sections.index.end()))
                                .unwrap_or_default()
                                .to_vec();
                        }
                        self.go_on(gather, next, bytes)
                    }
                    other => {
                        self.state = other;
                        self.plain.feed(bytes)
                    }
                }
            }
            State::Plain => {
                self.state = State::Plain;
                self.plain.feed(bytes)
            }
            State::Sealed(mut gather) => {
                let (least, _) = gather.wants(self.file_len);
                let mut next = self.advance(&mut gather, bytes, least.start)?;
                let stash = std::mem::take(&mut gather.stash);
                if matches!(next, Next::More) && !stash.is_empty() {
                    next = self.advance(&mut gather, &stash, 0)?;
                }
                self.go_on(gather, next, &stash)
            }
            done @ State::Done(_) => {
                self.state = done;
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Index> {
        match self.state {
            State::Start | State::Plain => {
                Ok(Index { plain: self.plain.finish()?, seal: None, fault: self.fault })
            }
            State::Sealed(_) => Err(author::too_short(self.file_len)),
            State::Done(index) => Ok(*index),
        }
    }
}
