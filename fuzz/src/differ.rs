//! Compares two models: the result is symmetric, and a model does not differ from itself.

use arbitrary::{Arbitrary, Result, Unstructured};
use modelfmt::convert::MetadataDiff;
use modelfmt::diff::{Changed, Diff, Renamed, diff};
use modelfmt::{Execution, Model};

use super::drill::{Depth, limits};
use super::model::Model as Made;
use super::mutate::{self, mutate};
use super::writers::Write;
use super::{ggufs, roundtrips, writers};

/// Compares a file of ours with a changed copy, the model in another format, or another model.
pub fn any(bytes: &[u8], _: Depth) {
    let Ok(Some((a, b))) = pair(&mut Unstructured::new(bytes)) else { return };
    let (Some(a), Some(b)) = (open(a), open(b)) else { return };
    both_ways(&a, &b);
    alone(&a);
    alone(&b);
}

fn open(file: Vec<u8>) -> Option<Model> {
    let options = modelfmt::OpenOptions::new().limits(limits());
    options.open_source("model", Box::new(file), None).ok()
}

/// A model does not differ from itself.
pub(crate) fn alone(model: &Model) {
    if let Ok(found) = diff(model, model, &Execution::sequential()) {
        assert!(found.is_same(), "{} differs from itself: {found:?}", model.format());
    }
}

fn both_ways(a: &Model, b: &Model) {
    let (there, back) = (diff(a, b, &Execution::sequential()), diff(b, a, &Execution::sequential()));
    match (there, back) {
        // Compared as text, in which NaN equals itself.
        (Ok(there), Ok(back)) => {
            assert_eq!(format!("{:?}", sorted(there)), format!("{:?}", sorted(mirrored(back))));
        }
        (Err(_), Err(_)) => {}
        (there, back) => panic!("{:?} one way, {:?} the other", there.err(), back.err()),
    }
}

/// Returns the comparison in the opposite direction.
fn mirrored(mut diff: Diff) -> Diff {
    std::mem::swap(&mut diff.only_in_a, &mut diff.only_in_b);
    for Renamed { a, b } in &mut diff.renamed {
        std::mem::swap(a, b);
    }
    for Changed { dtype, shape, .. } in &mut diff.changed {
        *dtype = dtype.map(|(a, b)| (b, a));
        *shape = shape.take().map(|(a, b)| (b, a));
    }
    for MetadataDiff { a, b, .. } in &mut diff.metadata {
        std::mem::swap(a, b);
    }
    diff
}

fn sorted(mut diff: Diff) -> Diff {
    diff.only_in_a.sort();
    diff.only_in_b.sort();
    diff.renamed.sort_by(|x, y| x.a.cmp(&y.a));
    diff.changed.sort_by(|x, y| x.name.cmp(&y.name));
    diff.metadata.sort_by(|x, y| x.key.cmp(&y.key));
    diff
}

/// A writer, and a function that corrects checksums.
pub(crate) type Writer = (Write, fn(&mut [u8]));

pub(crate) const FORMATS: [Writer; 9] = [
    (writers::aero, mutate::fix_aero),
    (writers::apr2, mutate::fix_apr2),
    (writers::mag_any, mutate::fix_mag),
    (writers::oinf_any, |_| ()),
    (writers::safetensors, |_| ()),
    (ggufs::by_hand, |_| ()),
    (writers::apr, mutate::fix_apr),
    (ggufs::write, |_| ()),
    (writers::mag, mutate::fix_mag),
];

fn pair(u: &mut Unstructured<'_>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (one, other) = (*u.choose(&FORMATS)?, *u.choose(&FORMATS)?);
    let (flags, other_flags) = (u8::arbitrary(u)?, u8::arbitrary(u)?);
    let constraints = *u.choose(&[
        roundtrips::OINF,
        roundtrips::SAFETENSORS,
        roundtrips::APR2,
        roundtrips::AERO,
        roundtrips::APR,
    ])?;
    let work = Execution::sequential();
    let model = Made::arbitrary(u, constraints)?;
    let Some(a) = one.0(&model, flags, &work) else { return Ok(None) };
    let b = match u.int_in_range(0..=3)? {
        0 => other.0(&model, other_flags, &work),
        1 => other.0(&Made::arbitrary(u, constraints)?, other_flags, &work),
        _ => {
            let mut b = a.clone();
            mutate(u, &mut b)?;
            one.1(&mut b);
            Some(b)
        }
    };
    Ok(b.map(|b| (a, b)))
}
