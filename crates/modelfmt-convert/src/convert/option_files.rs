//! The files that conversion options name.

use std::path::PathBuf;

use modelfmt_model::hub_names::ABOUT_WEIGHTS;
use modelfmt_rules::options::ConvertOptions;

/// Returns the files that a conversion reads because its options name them, in addition to its source:
/// adapters, an importance matrix, a map, and the files beside a base model. Some may not exist. No output
/// replaces one of them, and if one of them changes, so does the conversion.
#[must_use]
pub fn named_files(options: &ConvertOptions) -> Vec<PathBuf> {
    let mut files = options.output.inputs.clone();
    for rule in &options.tensors.lora {
        let folder = std::fs::read_dir(&rule.path).ok();
        files.extend(folder.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())));
        files.push(rule.path.clone());
    }
    files.extend(options.types.imatrix.clone());
    files.extend(options.tensors.map.as_ref().map(PathBuf::from));
    let of_base = |folder: &PathBuf| ABOUT_WEIGHTS.map(|name| folder.join(name));
    files.extend(options.tensors.base.as_ref().into_iter().flat_map(of_base));
    files
}
