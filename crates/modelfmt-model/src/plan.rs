//! Plans the reads of tensors or parts of them, and loads them into memory.

use std::collections::HashSet;

use modelfmt_core::Execution;
use modelfmt_core::claims::ClaimError;
use modelfmt_core::load::{self, LoadOptions, Loaded, LoadedTensor};
use modelfmt_core::plan::{Pick, PlanOptions, PlannedRange, ProofRange, ReadPlan};

use crate::error::{Error, Result};
use crate::model::Model;
use modelfmt_rules::globs::{Globs, is_glob};
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::ParseError;

impl Model {
    /// Selects the tensors with these names, or whose names match these patterns, each once. Without names,
    /// selects all tensors that have data. The name of a tensor is never used as a pattern.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`]; [`Error::NothingSelected`] if no name matches a pattern; [`Error::Usage`] for
    /// a pattern that is not valid; [`Error::File`] if a file of a set is missing.
    pub fn picks<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<Pick>> {
        self.expect_tensors()?;
        let mut positions = Vec::new();
        if names.is_empty() {
            self.open_all()?;
            let has_data =
                |position: &usize| self.container().info(*position).is_some_and(|info| info.has_data);
            positions.extend((0..self.tensor_count()).filter(has_data));
        }
        for name in names {
            self.named(name.as_ref(), &mut positions)?;
        }
        let mut picked = HashSet::with_capacity(positions.len());
        positions.retain(|&position| picked.insert(position));
        Ok(positions.into_iter().map(Pick::whole).collect())
    }

    /// Adds the position of the tensor with that name, or the positions of the tensors whose names match it as a pattern.
    pub fn named(&self, name: &str, positions: &mut Vec<usize>) -> Result<()> {
        if !is_glob(name) || self.container().find(name).is_some() {
            positions.push(self.find(name)?);
            return Ok(());
        }
        let wrong = |error: ParseError| Error::usage(Choice::Names, error.to_string());
        let globs = Globs::new([name]).map_err(wrong)?;
        self.open_all()?;
        let before = positions.len();
        let matching = self.tensors().enumerate().filter(|(_, info)| globs.is_match(info.name));
        positions.extend(matching.map(|(position, _)| position));
        if positions.len() > before {
            Ok(())
        } else {
            Err(self.nothing_selected(&[], Some(globs.to_string())))
        }
    }

    /// Lists the reads for these tensors, or parts of them: which ranges of which files, in how many requests. Reads no values.
    ///
    /// # Errors
    /// [`Error::File`] if there is no such tensor, a slice does not fit it, or a file of a set is missing.
    pub fn plan(&self, picks: &[Pick], options: PlanOptions) -> Result<ReadPlan> {
        ReadPlan::new(self.container(), picks, options).map_err(|error| self.failed(error))
    }

    /// Lists the reads like [`plan`](Self::plan), and also what verifies each range: the digests of these
    /// bytes in their files, and the outboard of a file that was opened with a
    /// [pin](crate::OpenOptions::pin).
    ///
    /// # Errors
    /// [`Error::File`] if there is no such tensor, a slice does not fit it, or the digests in a file cannot be read.
    pub fn plan_verified(&self, picks: &[Pick], options: PlanOptions) -> Result<ReadPlan> {
        let plan =
            ReadPlan::verified(self.container(), picks, options).map_err(|error| self.failed(error))?;
        let has_outboard = self.pinned().is_some_and(|pinned| pinned.outboard.is_some());
        if !has_outboard || self.format().is_set() {
            return Ok(plan);
        }
        let shape = blake3_tree::Shape::new(self.container().file_size());
        let groups = |range: &PlannedRange| {
            let range_of_groups = shape.around(&range.runs.hull());
            ProofRange { file: range.file, range: range_of_groups, by: "outboard" }
        };
        let covers = plan.ranges().iter().map(groups).chain(plan.proofs().iter().cloned()).collect();
        Ok(plan.with_proofs(covers))
    }

    /// Sets the number of unverified bytes to 0 for a model with a pin, because all its bytes are verified.
    const fn counted(&self, mut loaded: Loaded) -> Loaded {
        if self.pinned().is_some() {
            loaded.unverified = 0;
        }
        loaded
    }

    /// Fills buffers of your own with tensors or parts of them, in the order of `picks`, on as many threads as `work` says. Each
    /// buffer has to be as long as [`load::nbytes`] says. See [`load`](mod@load).
    ///
    /// # Errors
    /// [`Error::File`] if a tensor cannot be read or decompressed, or does not match the digests that are checked; if a buffer has
    /// another length; with [`AnyError::Changed`](modelfmt_core::AnyError::Changed) if a file was changed since it was opened.
    pub fn load_into(
        &self,
        picks: &[Pick],
        buffers: &mut [&mut [u8]],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<Loaded> {
        let loaded = load::load_into(self.container(), picks, buffers, options, work);
        loaded.map(|loaded| self.counted(loaded)).map_err(|error| self.not_loaded(error))
    }

    /// Loads tensors or parts of them, each into a new buffer, in huge pages if the system provides them.
    ///
    /// ```no_run
    /// use modelfmt::modelfmt_core::load::LoadOptions;
    /// use modelfmt::{Execution, Model};
    ///
    /// let model = Model::open("model.safetensors")?;
    /// let picks = model.picks(&["layers.0.*"])?;
    /// let (tensors, _) = model.load(&picks, &LoadOptions::new(), &Execution::default())?;
    /// println!("{} bytes", tensors[0].bytes.len());
    /// # Ok::<(), modelfmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if the memory cannot be allocated, a tensor cannot be read or decompressed, or its values do not match the
    /// digests that are checked.
    pub fn load(
        &self,
        picks: &[Pick],
        options: &LoadOptions,
        work: &Execution<'_>,
    ) -> Result<(Vec<LoadedTensor>, Loaded)> {
        let loaded = load::load(self.container(), picks, options, work);
        let counted = loaded.map(|(tensors, loaded)| (tensors, self.counted(loaded)));
        counted.map_err(|error| self.not_loaded(error))
    }

    /// Loads every tensor that has data, in file order, on up to 8 threads, without checking values against the digests of the file.
    ///
    /// This takes as much memory as all values take decompressed, whatever their types: a model of 7 billion
    /// f16 parameters takes 14 GB. Tensors that share their bytes in the file do not share them in memory. To
    /// load only some tensors or parts of them, or to set options, use [`load`](Self::load).
    ///
    /// ```
    /// use modelfmt::{Model, View};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # modelfmt::save(&path, [("w", View::new(&[1.0f32, 2.0], [2])?)], &Default::default())?;
    /// let model = Model::open(&path)?;
    /// for tensor in model.load_all()? {
    ///     println!("tensor {}: {:?}, {} bytes", tensor.position, tensor.shape, tensor.bytes.len());
    /// #   assert_eq!(tensor.view("w")?.to_vec::<f32>()?, [1.0, 2.0]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if the memory cannot be allocated, or a tensor cannot be read or decompressed.
    pub fn load_all(&self) -> Result<Vec<LoadedTensor>> {
        let picks = self.picks::<&str>(&[])?;
        Ok(self.load(&picks, &LoadOptions::new(), &Execution::default())?.0)
    }

    fn not_loaded(&self, error: ClaimError) -> Error {
        match error {
            ClaimError::Damaged(error) | ClaimError::Other(error) => self.failed(error),
        }
    }
}
