//! Makes journals of edits that never happened, only from the description in modelfmt-core's
//! `edit/journal/mod.rs`.

/// Makes the journal of an interrupted in-place edit of one file, which changes `before` at an offset to
/// `after`, of the same length.
///
/// # Panics
/// If the lengths differ.
#[must_use]
pub fn of_one(file_len: u64, at: u64, before: &[u8], after: &[u8]) -> Vec<u8> {
    assert_eq!(before.len(), after.len());
    let mut file = Vec::new();
    file.extend([0u32, 0].map(u32::to_le_bytes).concat()); // in place; it is the file beside which the journal stands
    file.extend([file_len, file_len].map(u64::to_le_bytes).concat());
    file.extend(1u32.to_le_bytes());
    file.extend([at, before.len() as u64, after.len() as u64].map(u64::to_le_bytes).concat());
    file.extend(before);
    file.extend(after);
    let mut journal = b"MFMTEDIT".to_vec();
    journal.extend([1u32, 1].map(u32::to_le_bytes).concat());
    journal.extend([7; 16]);
    journal.extend((40 + 4 + file.len() as u64 + 8).to_le_bytes());
    journal.extend(1u32.to_le_bytes());
    journal.extend(file);
    let check = check(&journal);
    journal.extend(check.to_le_bytes());
    journal
}

/// Returns FNV-1a over words of eight bytes, the last of which is padded with zeros, and over the length.
fn check(bytes: &[u8]) -> u64 {
    let mut words: Vec<u64> = Vec::new();
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len() / 8 * 8 + 8, 0);
    words.extend(padded.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))));
    words.push(bytes.len() as u64);
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}
