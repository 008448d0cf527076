//! Every bit of a small file of each format flipped: what is not found is what the format leaves uncovered.

use std::collections::BTreeMap;

use modelfmt::{Level, Model, Work};

use crate::fuzz::{Sample, samples};

/// The bytes of a sample of which some flip is not found.
fn unfound(sample: &Sample) -> Vec<usize> {
    let is_unfound = |&at: &usize| {
        (0..8).any(|bit| {
            let flipped = testkit::patched(&sample.bytes, at, &[sample.bytes[at] ^ (1 << bit)]);
            let Ok(model) = Model::from_source("flipped", flipped) else { return false };
            model.container().verify(Level::Full, &Work::sequential()).is_ok()
        })
    };
    (0..sample.bytes.len()).filter(is_unfound).collect()
}

fn ranges(positions: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for &at in positions {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

#[test]
fn what_verify_does_not_find_is_what_the_format_leaves_uncovered() {
    let mut found = BTreeMap::new();
    for sample in samples() {
        let positions = unfound(&sample);
        println!("{}: {} of {} bytes: {:?}", sample.name, positions.len(), sample.bytes.len(), ranges(&positions));
        found.insert(sample.name, ranges(&positions));
    }
}
