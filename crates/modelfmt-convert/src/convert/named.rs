//! The files that options name.

use std::path::PathBuf;

use modelfmt_rules::options::ConvertOptions;

/// The files that the options of a conversion name, and that it reads besides its source: adapters, an importance matrix, a map, and
/// the config of a base. No output replaces one of them, and another file there is another conversion. Some may not exist.
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
    files.extend(options.tensors.base.as_ref().map(|folder| folder.join("config.json")));
    files
}
