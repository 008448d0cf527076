//! Reads files by a hash and an outboard, either of which may be damaged: only the file's own bytes are
//! returned.

use blake3_tree::Verifier;
use modelfmt_core::Source as _;
use modelfmt_core::proof::VerifiedSource;
use testkit::peak;
use testkit::reference::outboard::{outboard as slow_outboard, proved};

use super::drill::Depth;

/// The longest file: a few pages of groups, the last of which is not full.
const MAX_LEN: u64 = 150_000;

/// The first eight bytes are the length of the file, and the ninth chooses the test. The rest is damage, or
/// the content of the outboard.
pub fn any(input: &[u8], depth: Depth) {
    let mut head = [0; 9];
    let (first, rest) = input.split_at(input.len().min(9));
    head[..first.len()].copy_from_slice(first);
    let len = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
    if head[8] % 4 == 0 {
        any_length(len, rest);
    } else {
        damaged(len % MAX_LEN, rest, depth);
    }
}

/// Tests a file of any length, even beyond all storage in the world: the walk is bounded, and no bytes are
/// accepted.
fn any_length(len: u64, outboard: &[u8]) {
    let mut hash = [0; 32];
    let given = outboard.len().min(32);
    hash[..given].copy_from_slice(&outboard[..given]);
    let (_, held) = peak(|| {
        let verifier = Verifier::new(hash, len);
        assert_eq!(
            verifier.check_len(outboard.len() as u64).is_ok(),
            verifier.shape().outboard_len() == outboard.len() as u64
        );
        for at in [0, len / 3, len.saturating_sub(1), u64::MAX] {
            let mut walk = verifier.walk(at);
            while let Some(need) = walk.need() {
                assert!(need.start < need.end && need.end <= verifier.shape().outboard_len(), "{need:?}");
                assert!(need.end - need.start <= (1 << 20) + 64 * 64, "{need:?}");
                if walk.feed(outboard).is_err() {
                    break;
                }
            }
            if let Some(page) = walk.finish() {
                let around = page.around(&(at..at.saturating_add(1)));
                // No bytes are right at any position.
                let is_right = !outboard.is_empty() && page.check(around.start, outboard).is_ok();
                assert!(around.end <= len && !is_right, "a hash was guessed");
            }
        }
    });
    assert!(held < 8 << 20, "{held} bytes were held");
}

/// Tests a file, its outboard and its hash, with some bits flipped.
fn damaged(len: u64, damage: &[u8], depth: Depth) {
    let good: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(i ^ 0x55) >> 5) as u8).collect();
    let (mut hash, mut outboard) = blake3_tree::outboard(&good);
    if depth.is_whole() {
        assert_eq!((hash, outboard.clone()), slow_outboard(&good));
    }
    let root = hash;
    let mut file = good.clone();
    for op in damage.chunks_exact(4).take(8) {
        let place = usize::from(op[1]) | usize::from(op[2]) << 8;
        let target: &mut [u8] = match op[0] % 8 {
            0 => &mut hash,
            1..=3 => &mut outboard,
            4 => {
                outboard.truncate(place);
                continue;
            }
            _ => &mut file,
        };
        let at = place.wrapping_mul(7) % target.len().max(1);
        if let Some(byte) = target.get_mut(at) {
            *byte ^= op[3];
        }
    }
    let is_good = file == good && hash == root && blake3_tree::outboard(&good).1 == outboard;
    let Ok(source) = VerifiedSource::by_outboard(&file, hash, &outboard) else {
        assert!(!is_good);
        return;
    };
    for (start, end) in [(0, 1), (len / 3, len / 2), (len.saturating_sub(1), len), (0, len)] {
        let (start, end) = (start.min(len), end.min(len));
        let found = source.read(start..end);
        assert!(found.is_ok() || !is_good, "{start}..{end} of a good file");
        let (from, to) = (start as usize, end as usize);
        if let Ok(found) = found {
            assert!(*found == good[from..to], "{start}..{end}");
            if depth.is_whole() && from < to {
                assert_eq!(proved(&file, &outboard, &hash, from, to).as_deref(), Some(&*found));
            }
        }
    }
}
