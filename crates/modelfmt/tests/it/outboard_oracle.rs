//! Compares with bao-tree 0.17: it makes the same outboards, and accepts the same bytes of damaged files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use modelfmt::Execution;
use modelfmt::convert::Overwrite;
use modelfmt_core::Source as _;
use modelfmt_core::proof::VerifiedSource;
use testkit::bao;

const GROUP: usize = 16 << 10;

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n.max(1)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

/// Returns lengths around the borders of blocks, chunks, groups and subtrees, and random lengths.
fn lengths(random: &mut Random) -> Vec<usize> {
    let mut lengths = vec![0];
    let borders = [64, 1024, 2048, GROUP, 2 * GROUP, 3 * GROUP, 4 * GROUP, 7 * GROUP, 8 * GROUP, 13 * GROUP];
    for border in borders {
        let near = 2 + random.below(1024);
        lengths.extend([border - near.min(border), border - 1, border, border + 1, border + near]);
    }
    lengths.extend((0..10).map(|_| random.below(20 * GROUP)));
    lengths
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first bytes of the groups that our check accepts.
fn passing(file: &[u8], hash: [u8; 32], outboard: &[u8]) -> Vec<usize> {
    let verified = VerifiedSource::by_outboard(file, hash, outboard).unwrap();
    let passes = |start: &usize| verified.read(*start as u64..file.len().min(start + GROUP) as u64).is_ok();
    (0..file.len()).step_by(GROUP).filter(passes).collect()
}

/// Parses the same from a line of the oracle: `0..16384 32768..65536`.
fn starts(line: &str) -> Vec<usize> {
    let ranges = line.split_whitespace().map(|range| range.split_once("..").unwrap());
    let number = |text: &str| text.parse::<usize>().unwrap();
    ranges.flat_map(|(start, end)| (number(start)..number(end)).step_by(GROUP)).collect()
}

#[test]
fn outboards_are_those_of_bao_tree() {
    let mut random = Random(16);
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    let mut hashes = Vec::new();
    for (number, len) in lengths(&mut random).into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        fs::write(&path, random.bytes(len)).unwrap();
        hashes.push(
            modelfmt::outboard::outboard(&path, Overwrite::Refuse, &Execution::sequential()).unwrap().blake3,
        );
        paths.push(path.to_str().unwrap().to_owned());
    }
    let arguments: Vec<&str> = ["make"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let theirs = bao(&arguments);
    assert_eq!(theirs.lines().count(), paths.len());
    for ((path, hash), theirs) in paths.iter().zip(&hashes).zip(theirs.lines()) {
        let len = fs::metadata(path).unwrap().len();
        assert_eq!(hex(hash), theirs, "{len} bytes");
        let [ours, theirs] =
            ["obao4", "bao-tree"].map(|ending| fs::read(format!("{path}.{ending}")).unwrap());
        assert_eq!(ours, theirs, "{len} bytes");
    }
}

/// Flips up to three bits of a file, its outboard and its hash.
fn damage(random: &mut Random, file: &mut [u8], outboard: &mut [u8], hash: &mut [u8]) {
    for _ in 0..random.below(4) {
        let target = match random.below(12) {
            0 => &mut *hash,
            1..5 => &mut *outboard,
            _ => &mut *file,
        };
        let at = random.below(target.len());
        if let Some(byte) = target.get_mut(at) {
            *byte ^= 1 << random.below(8);
        }
    }
}

#[test]
fn of_damaged_files_the_same_bytes_pass() {
    let mut random = Random(17);
    let folder = tempfile::tempdir().unwrap();
    let path = |number: usize, ending: &str| folder.path().join(format!("{number}{ending}"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut list = String::new();
    let mut expected = Vec::new();
    let lengths: Vec<usize> = (0..3).flat_map(|_| lengths(&mut random)).filter(|len| *len > 0).collect();
    for (number, len) in lengths.into_iter().enumerate() {
        let mut file = random.bytes(len);
        let (mut hash, mut outboard) = blake3_tree::outboard(&file);
        let intact = outboard.clone();
        damage(&mut random, &mut file, &mut outboard, &mut hash);
        fs::write(path(number, ""), &file).unwrap();
        fs::write(path(number, ".obao4"), &outboard).unwrap();
        let [file_at, outboard_at] = ["", ".obao4"].map(|ending| text(&path(number, ending)));
        writeln!(list, "{} {file_at} {outboard_at}", hex(&hash)).unwrap();
        expected.push((passing(&file, hash, &outboard), outboard == intact, len));
    }
    fs::write(path(0, ".list"), list).unwrap();
    let theirs = bao(&["check", &text(&path(0, ".list"))]);
    assert_eq!(theirs.lines().count(), expected.len());
    let mut with_holes = 0;
    for ((ours, is_intact, len), theirs) in expected.iter().zip(theirs.lines().map(starts)) {
        if *is_intact {
            assert_eq!(*ours, theirs, "{len} bytes");
            with_holes += usize::from(ours.len() > 1 && ours.len() < len.div_ceil(GROUP));
        }
        // We check parents page by page: if one is wrong, bytes that other parents of its page would prove
        // are refused too.
        assert!(ours.iter().all(|start| theirs.contains(start)), "{len} bytes: {ours:?}, {theirs:?}");
    }
    assert!(with_holes > 20, "{with_holes} files of which some bytes pass");
}
