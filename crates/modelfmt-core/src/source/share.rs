//! Divides a job among several processes where threads are not available: workers of a web page share no
//! memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::Parcel as _;

/// The maximum number of bytes of notes that one process makes. Pieces without a note are left to the last
/// process.
const MOST: usize = 64 << 20;
/// The length of the head of a note: the number of the scan, the number of the piece, and the length of the
/// note.
const HEAD: usize = 20;

/// One process's share of a job over a file, such as its verification.
///
/// Each process does the job on a source that [has a share](crate::Source::share), but computes only its part
/// of each scan's pieces, and notes the results. Its own result of the job is meaningless. Finally, one
/// process does the job again with all notes. It does not read pieces that have a note, and gets the same
/// result as a process that does the whole job.
///
/// Notes are trusted as much as the processes that made them.
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
    /// The number of scans that have started. A job starts the same scans in the same order in every process.
    scans: u64,
    notes: Vec<u8>,
}

impl Share {
    /// Creates the share of a process that computes part `number` of `of` equal parts, and notes the results.
    #[must_use]
    pub fn part(number: u64, of: u64) -> Self {
        Self { role: Role::Part { number, of: of.max(1) }, state: Mutex::default() }
    }

    /// Creates the share of the last process, with the concatenated notes of all parts.
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

    /// Takes the notes so far, which are then empty.
    #[must_use]
    pub fn take_notes(&self) -> Vec<u8> {
        std::mem::take(&mut self.state().notes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a scan and returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = self.state();
        state.scans += 1;
        state.scans
    }

    pub(crate) fn known(&self, scan: u64, piece: u64) -> Option<&[u8]> {
        let Role::Whole { notes, places } = &self.role else { return None };
        notes.get(places.get(&(scan, piece))?.clone())
    }

    /// Returns whether this process computes a piece that has no note.
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

    /// Returns whether the byte or piece at `place` of `total` is in this part.
    pub(crate) fn takes(&self, place: u128, total: u128) -> bool {
        match self.role {
            Role::Whole { .. } => true,
            // Products that overflow do not occur for real files. Pieces that are in no part are left to the
            // last process.
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

/// Returns the numbers of the scan and the piece of the note at byte `at`, and the range of its content.
fn note_at(notes: &[u8], at: usize) -> Option<((u64, u64), Range<usize>)> {
    let mut head = notes.get(at..)?;
    let (scan, piece, len) = (u64::take(&mut head)?, u64::take(&mut head)?, u32::take(&mut head)?);
    let begin = at.checked_add(HEAD)?;
    let end = begin.checked_add(usize::try_from(len).ok()?).filter(|end| *end <= notes.len())?;
    Some(((scan, piece), begin..end))
}
