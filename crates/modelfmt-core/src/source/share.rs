//! A job that several processes do together, where threads cannot be had: workers of a web page share no memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::Parcel as _;

/// The most bytes of notes that one process makes. What it has not noted then, the last one looks at itself.
const MOST: usize = 64 << 20;
/// What stands before each note: the numbers of its scan and of its piece, and its length.
const HEAD: usize = 20;

/// One process's share of a job over a file, such as its verification.
///
/// Each process does the job on a source that [has a share](crate::Source::share), but looks only at its part of the pieces of a scan, and
/// notes what they show; what the job finds then means nothing. At the end one of them does the job again, with all notes: it reads
/// nothing that was looked at before, and comes to the same result as one process alone.
///
/// Notes are trusted like the process that made them.
#[derive(Debug)]
pub struct Share {
    role: Role,
    state: Mutex<State>,
}

#[derive(Debug)]
enum Role {
    Part { number: u64, of: u64 },
    Whole { notes: Vec<u8>, places: HashMap<(u64, u64), Range<usize>> },
}

#[derive(Debug, Default)]
struct State {
    /// Scans that have begun. A job begins the same ones in the same order in every process.
    scans: u64,
    notes: Vec<u8>,
}

impl Share {
    /// Looks at part `number` of `of` equal parts, and notes what is seen there.
    #[must_use]
    pub fn part(number: u64, of: u64) -> Self {
        Self { role: Role::Part { number, of: of.max(1) }, state: Mutex::default() }
    }

    /// Does the job with the notes of all parts, one after another.
    #[must_use]
    pub fn whole(notes: Vec<u8>) -> Self {
        let mut places = HashMap::new();
        let mut at = 0;
        while let Some((key, range)) = note_at(&notes, at) {
            at = range.end;
            places.insert(key, range);
        }
        Self { role: Role::Whole { notes, places }, state: Mutex::default() }
    }

    /// What was noted; empty afterwards.
    #[must_use]
    pub fn take_notes(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().notes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a scan that begins.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = self.state();
        state.scans += 1;
        state.scans
    }

    pub(crate) fn known(&self, scan: u64, piece: u64) -> Option<&[u8]> {
        let Role::Whole { notes, places } = &self.role else { return None };
        notes.get(places.get(&(scan, piece))?.clone())
    }

    /// Whether a piece is to be looked at here if it is not known.
    pub(crate) fn looks_at(&self, piece: u64, count: u64, is_noted: bool) -> bool {
        match self.role {
            Role::Whole { .. } => true,
            Role::Part { .. } => {
                is_noted
                    && self.takes(u128::from(piece), u128::from(count.max(1)))
                    && self.state().notes.len() < MOST
            }
        }
    }

    /// Whether what lies at `place` of `total` is in this part.
    pub(crate) fn takes(&self, place: u128, total: u128) -> bool {
        match self.role {
            Role::Whole { .. } => true,
            // Numbers too large for this are of no file, and what no part takes is left to the last process.
            Role::Part { number, of } => {
                place.saturating_mul(u128::from(of)) / total.max(1) == u128::from(number)
            }
        }
    }

    pub(crate) fn note(&self, scan: u64, piece: u64, note: &[u8]) {
        let Ok(len) = u32::try_from(note.len()) else { return };
        let notes = &mut self.state().notes;
        notes.extend(scan.to_le_bytes());
        notes.extend(piece.to_le_bytes());
        notes.extend(len.to_le_bytes());
        notes.extend(note);
    }

    pub(crate) const fn is_part(&self) -> bool {
        matches!(self.role, Role::Part { .. })
    }
}

/// The scan and piece of the note at byte `at`, and where it is.
fn note_at(notes: &[u8], at: usize) -> Option<((u64, u64), Range<usize>)> {
    let mut head = notes.get(at..)?;
    let (scan, piece, len) = (u64::take(&mut head)?, u64::take(&mut head)?, u32::take(&mut head)?);
    let begin = at.checked_add(HEAD)?;
    let end = begin.checked_add(usize::try_from(len).ok()?).filter(|end| *end <= notes.len())?;
    Some(((scan, piece), begin..end))
}
