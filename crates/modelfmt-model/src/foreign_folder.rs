//! Describes folders without a model that modelfmt reads: their kind, and which subfolders have models.

use std::ffi::OsString;
use std::path::Path;

use modelfmt_rules::wording::unrecognized::{CORE_ML, SAVED_MODEL, kind_of};

use crate::formats::Format;

const DCP: &str = "it is a checkpoint of torch.distributed (DCP), which modelfmt does not read; `python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt` makes one file of it, which modelfmt reads";
// The two lines of Python in these hints are from
// docs/howto/checkpoint-without-torch.md#from-onnx-tensorflow-keras-or-orbax.
const ORBAX: &str = r#"it is a checkpoint of Orbax (JAX), which modelfmt does not read; two lines of Python write a file that it reads: `import flax, os, orbax.checkpoint, safetensors.flax; tree = orbax.checkpoint.PyTreeCheckpointer().restore(os.path.abspath("FOLDER"))` and `safetensors.flax.save_file(flax.traverse_util.flatten_dict(tree, sep="."), "model.safetensors")`"#;
const TF_CHECKPOINT: &str = r#"it is a checkpoint of TensorFlow, which modelfmt does not read; two lines of Python write arrays that it reads: `import numpy, tensorflow; r = tensorflow.train.load_checkpoint("FOLDER")` and `numpy.savez("model.npz", **{n: r.get_tensor(n) for n in r.get_variable_to_shape_map()})`"#;

/// The maximum number of names that are read from a folder. Folders with the characteristic names are small.
const MAX_ENTRIES: usize = 100_000;

/// Returns a hint for a folder that as a whole is a model of a kind that modelfmt does not read: its kind,
/// and what to do. Only the names of its files are read.
#[must_use]
pub fn foreign_folder(folder: impl AsRef<Path>) -> Option<&'static str> {
    let folder = folder.as_ref();
    let names = names_in(folder);
    let has = |name: &str| names.iter().any(|there| there == name);
    let ends = |ending: &str| names.iter().any(|there| there.to_string_lossy().ends_with(ending));
    match () {
        () if ends(".distcp") => Some(DCP),
        () if has("_CHECKPOINT_METADATA") || has("manifest.ocdbt") => Some(ORBAX),
        () if has("_METADATA") && (has("_sharding") || has("checkpoint") || has("d")) => Some(ORBAX),
        () if has("saved_model.pb") || has("saved_model.pbtxt") => Some(SAVED_MODEL),
        () if has("checkpoint") && ends(".index") => Some(TF_CHECKPOINT),
        () if has("coremldata.bin") => Some(CORE_ML),
        () if has("Manifest.json") && folder.join("Data/com.apple.CoreML").is_dir() => Some(CORE_ML),
        () => None,
    }
}

/// Returns the kind of model that a hint describes, such as `ONNX`; `other kinds` if it has no name.
#[must_use]
pub fn foreign_kind(hint: &str) -> &'static str {
    match hint {
        DCP => "torch.distributed",
        ORBAX => "Orbax",
        TF_CHECKPOINT => "TensorFlow",
        hint => kind_of(hint),
    }
}

/// Returns a message for a folder without a model that names the subfolders with models. `None` if there are
/// none.
pub(crate) fn subfolders_with_models(folder: &Path) -> Option<String> {
    const SHOWN: usize = 12;
    let names = names_in(folder);
    let is_pipeline = names.iter().any(|name| name == "model_index.json");
    let visible = names.into_iter().filter(|name| !name.to_string_lossy().starts_with('.'));
    let mut with_models = visible.filter(|name| {
        let inside = folder.join(name);
        let is_model = |name: &OsString| Format::from_file_name(&name.to_string_lossy()).is_some();
        inside.is_dir() && names_in(&inside).iter().any(is_model)
    });
    let shown: Vec<String> =
        with_models.by_ref().take(SHOWN).map(|name| name.to_string_lossy().into_owned()).collect();
    let what = if is_pipeline { "a pipeline of diffusers" } else { "a folder without a model file" };
    let more = match with_models.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty())
        .then(|| format!("it is {what}; name one of its subfolders with models: {}{more}", shown.join(", ")))
}

/// Returns the names in a folder, sorted; empty if it cannot be read.
fn names_in(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries.take(MAX_ENTRIES).map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_of_other_kinds_are_named() {
        let root = tempfile::tempdir().unwrap();
        for (files, word) in [
            (&[".metadata", "__0_0.distcp", "__1_0.distcp"][..], "DCP"),
            (&["_CHECKPOINT_METADATA", "default/manifest.ocdbt"], "Orbax"),
            (&["_METADATA", "_sharding", "manifest.ocdbt", "d/0"], "Orbax"),
            (&["saved_model.pb", "variables/variables.index"], "TensorFlow"),
            (&["checkpoint", "model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"], "TensorFlow"),
            (&["Manifest.json", "Data/com.apple.CoreML/model.mlmodel"], "CoreML"),
            (&["coremldata.bin", "model.mil", "weights/weight.bin"], "CoreML"),
            (&["config.json", "notes.txt", "Manifest.json", "a.index"], ""),
            (&[], ""),
        ] {
            let folder = root.path().join(files.concat().replace('/', "-") + "x");
            for file in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            let found = foreign_folder(&folder);
            assert_eq!(found.is_some(), !word.is_empty(), "{files:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(word), "{files:?}: {found:?}");
        }
    }
}
