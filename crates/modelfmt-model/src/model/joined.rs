//! Merges several models into one.

use std::path::PathBuf;
use std::sync::Arc;

use modelfmt_core::Container as _;

use super::Model;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::formats::merged::Merged;
#[cfg(not(target_arch = "wasm32"))]
use crate::sidecars::Sidecars;
use modelfmt_rules::wording::Choice;

impl Model {
    /// Merges several models into one, with the tensors of one model after the other. The result has the path and the format of the
    /// first model, and the metadata of all; if several models have a key, the first value counts. A `Conversion` writes the result
    /// as one file, and never resolves such a conflict silently. Files that belong to a set among the models are left out, so that
    /// you can pass all files of a split.
    ///
    /// ```no_run
    /// # use modelfmt::{Conversion, Model};
    /// let models = ["a.safetensors", "b.safetensors"].map(Model::open);
    /// let both = Model::merged(models.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    /// Conversion::new(&both, "both.safetensors").write()?;
    /// # Ok::<(), modelfmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NameTwice`] if two models have a tensor with the same name; [`Error::Usage`] without any model; [`Error::File`] if
    /// a file of a set is missing or broken.
    pub fn merged(models: impl IntoIterator<Item = Self>) -> Result<Self> {
        Self::joined(models, &mut |_| true)
    }

    /// Merges several models into one. Two models may have a tensor with the same name if `takes` returns false for that name.
    pub fn joined(
        models: impl IntoIterator<Item = Self>,
        takes: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Self> {
        let mut models: Vec<Self> = models.into_iter().collect();
        #[cfg(not(target_arch = "wasm32"))]
        {
            let files =
                |model: &Self| if model.format.is_set() { model.opened.file_paths() } else { Vec::new() };
            let places: Vec<_> =
                models.iter().map(|model| (model.on_disk.as_deref(), files(model))).collect();
            let mut are_standalone = crate::set_members::are_standalone(&places).into_iter();
            models.retain(|_| are_standalone.next() != Some(false));
        }
        if models.len() < 2 {
            return models.pop().ok_or_else(|| Error::usage(Choice::Models, "give one model or more"));
        }
        let (mut merged, mut members) = (Merged::default(), Vec::<(usize, Self)>::new());
        let mut twice = None;
        for model in models {
            model.expect_tensors()?;
            model.open_all()?;
            let first = merged.tensor_count();
            let (opened, name) = (Arc::clone(&model.opened), model.path.display().to_string());
            let found = merged.push(opened, model.format, name, takes);
            let found = found.map_err(|error| model.failed(error))?;
            if let Some(found) = found {
                twice = Some((found, model.path));
                break;
            }
            members.push((first, model));
        }
        if let Some((found, again)) = twice {
            let path = members.get(found.member).map_or_else(PathBuf::new, |(_, model)| model.path.clone());
            return Err(Error::NameTwice { name: found.name, path, again, others: found.others });
        }
        let (path, format) = members.first().map_or_else(
            || (PathBuf::new(), Format::Safetensors),
            |(_, first)| (first.path.clone(), first.format),
        );
        Ok(Self {
            path,
            format,
            pinned: None,
            index_file: None,
            #[cfg(not(target_arch = "wasm32"))]
            on_disk: members.first().and_then(|(_, first)| first.on_disk.clone()),
            #[cfg(not(target_arch = "wasm32"))]
            sidecars: Sidecars::Nothing, // each member has its own
            #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
            signed: None,
            #[cfg(all(feature = "policy", not(target_arch = "wasm32")))]
            policy: members.iter().find_map(|(_, member)| member.policy.clone()),
            opened: Arc::new(merged),
            members,
            folder_note: None,
        })
    }
}
