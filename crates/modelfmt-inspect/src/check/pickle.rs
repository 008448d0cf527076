//! Finds what pickles name: in checkpoints, in arrays of Python objects, and in files that are plain pickles.

use std::path::Path;

use modelfmt_core::Source;
use modelfmt_model::model::Model;

use super::report::{CheckReport, PickleFindings};

/// Returns what the pickles of a model name; for a set, the pickles of all files that can be opened.
pub(super) fn of_model(model: &Model) -> Option<PickleFindings> {
    of_checkpoint(model).or_else(|| of_arrays(model))
}

#[cfg(feature = "pytorch")]
fn of_checkpoint(model: &Model) -> Option<PickleFindings> {
    use modelfmt_pytorch::Index;

    let mut found = PickleFindings::of("torch.load(weights_only=False)");
    let mut add = |index: &Index, file: Option<&str>| found.add(index.globals(), file);
    if let Some(reader) = model.as_pytorch() {
        add(reader.index(), None);
    } else {
        let set = model.as_pytorch_sharded()?;
        for number in 0..set.index().files().len() {
            if let Ok(shard) = set.shard(number) {
                add(shard.index(), set.index().files().name(number));
            }
        }
    }
    found.globals.sort_unstable();
    found.globals.dedup();
    Some(found)
}

/// Returns `None`: this build reads no checkpoints.
#[cfg(not(feature = "pytorch"))]
const fn of_checkpoint(_: &Model) -> Option<PickleFindings> {
    None
}

#[cfg(feature = "pytorch")]
impl PickleFindings {
    fn add(&mut self, globals: &[modelfmt_pytorch::Named], file: Option<&str>) {
        for global in globals {
            let name = format!("{}.{}", global.module, global.name);
            if !global.is_known {
                let does = if global.is_called { "calls" } else { "names" };
                let file = file.map_or_else(String::new, |file| format!("{file}: "));
                self.unknown.push(format!("{file}the pickle {does} {name} at byte {}", global.at));
            }
            self.globals.push(name);
        }
    }
}

#[cfg(feature = "npy")]
fn of_arrays(model: &Model) -> Option<PickleFindings> {
    let objects = model.as_npy()?.index().objects();
    let mut found = PickleFindings::of("numpy.load(allow_pickle=True)");
    found.unknown = objects.iter().map(|part| format!("{part} holds Python objects, as a pickle")).collect();
    (!objects.is_empty()).then_some(found)
}

/// Returns `None`: this build reads no arrays.
#[cfg(not(feature = "npy"))]
const fn of_arrays(_: &Model) -> Option<PickleFindings> {
    None
}

/// Returns the report for a file that is a pickle but not a checkpoint: `why` it is not a model, and what it
/// names. `None` if it is not a pickle, or is larger than 64 MiB. No code in it is run.
#[cfg(feature = "pytorch")]
pub fn check_pickle(path: &Path, source: &impl Source, why: &str) -> Option<CheckReport> {
    const MAX_LEN: u64 = 64 << 20;
    if source.len() > MAX_LEN {
        return None;
    }
    let bytes = source.read(0..source.len()).ok()?;
    let mut found = PickleFindings::of("pickle.load()");
    found.add(&modelfmt_pytorch::named_in(&bytes)?, None);
    found.globals.sort_unstable();
    found.globals.dedup();
    let mut report = CheckReport::unreadable(path, why.to_owned());
    report.pickle = Some(found);
    Some(report)
}

/// Returns `None`: this build reads no pickles.
#[cfg(not(feature = "pytorch"))]
pub fn check_pickle(_: &Path, _: &impl Source, _: &str) -> Option<CheckReport> {
    None
}
