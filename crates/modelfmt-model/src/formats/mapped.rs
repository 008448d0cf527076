//! A model whose tensors are computed from those of another.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use modelfmt_core::author::NameTable;
use modelfmt_core::claims::{Claims, WantedRange};
use modelfmt_core::read::{Reading, Which};
use modelfmt_core::value::{NameError, Object, Value};
use modelfmt_core::{
    AlignedBuf, AnyError, Bytes, Container, Encoding, Execution, Location, Report, Source, Stored,
    TensorInfo, VerifyLevel,
};
use tensor_program::{Lost, Program, ProgramError, ReadError};

use super::Format;
use super::entry::{AnyReader, reader_of};

/// A tensor that is computed from others.
#[derive(Clone, Debug)]
pub struct Computed {
    /// Its name.
    pub name: String,
    /// How it is computed. Inputs are positions in the model that is mapped.
    pub program: Program,
    /// Whether the tensor keeps its dtype unless a rule names the tensor.
    pub keeps_dtype: bool,
    /// The names that rules and filters match; if empty, the names of the tensors that it is computed from.
    pub origins: Vec<String>,
    /// The scheme in which the weight is stored, if the program decodes it.
    pub scheme: Option<String>,
}

impl Computed {
    /// Makes a tensor whose values a program computes.
    #[must_use]
    pub const fn new(name: String, program: Program) -> Self {
        Self { name, program, keeps_dtype: false, origins: Vec::new(), scheme: None }
    }

    /// Sets whether the tensor keeps its dtype unless a rule names it.
    #[must_use]
    pub fn keep_dtype(self, keeps_dtype: bool) -> Self {
        Self { keeps_dtype, ..self }
    }
}

/// Tensors that are computed from those of `inputs`, with the metadata of `head`.
pub(crate) struct Mapped {
    head: Arc<dyn AnyReader>,
    inputs: Arc<dyn AnyReader>,
    /// The format of the inputs.
    format: Format,
    /// The tensors. Their names are in `names` instead.
    tensors: Vec<Computed>,
    names: NameTable,
}

impl Mapped {
    /// Makes the model. The inputs of the programs are positions in `inputs`.
    ///
    /// # Errors
    /// If two tensors have one name.
    pub(crate) fn new(
        head: Arc<dyn AnyReader>,
        (inputs, format): (Arc<dyn AnyReader>, Format),
        tensors: Vec<Computed>,
    ) -> Result<Self, NameError> {
        let mut mapped = Self { head, inputs, format, tensors: Vec::new(), names: NameTable::default() };
        for mut tensor in tensors {
            mapped.names.push(&std::mem::take(&mut tensor.name))?;
            mapped.tensors.push(tensor);
        }
        Ok(mapped)
    }

    /// Takes tensors that are computed from this model's tensors, and returns them computed from this model's
    /// inputs.
    ///
    /// # Errors
    /// If a program is too deep.
    pub(crate) fn composed(&self, tensors: Vec<Computed>) -> Result<Vec<Computed>, ProgramError> {
        let composed = tensors.into_iter().map(|tensor| {
            let inputs = tensor.program.inputs();
            let names = inputs.iter().flat_map(|&input| self.origins(input)).map(str::to_owned);
            let origins = if tensor.origins.is_empty() { names.collect() } else { tensor.origins };
            let scheme = inputs.iter().find_map(|&input| self.scheme(input).map(str::to_owned));
            let program = tensor.program.over(&|input| self.program(input).cloned())?;
            let program = if program.multiplies() { program.with_moves_first()? } else { program };
            Ok(Computed { program, origins, scheme: tensor.scheme.or(scheme), ..tensor })
        });
        composed.collect()
    }

    /// Returns the reader of the tensors that these are computed from.
    pub(crate) fn inputs(&self) -> &Arc<dyn AnyReader> {
        &self.inputs
    }

    /// Checks whether any tensor is a weight that is decoded.
    pub(crate) fn decodes(&self) -> bool {
        self.tensors.iter().any(|tensor| tensor.scheme.is_some())
    }

    /// Checks whether an adapter is added to any tensor.
    pub(crate) fn multiplies(&self) -> bool {
        self.tensors.iter().any(|tensor| tensor.program.multiplies())
    }

    /// Checks whether a tensor is computed, and not copied.
    pub(crate) fn is_computed(&self, position: usize) -> bool {
        self.program(position).is_some_and(|program| program.copied().is_none())
    }

    /// Returns the scheme of a weight that is decoded.
    pub(crate) fn scheme(&self, position: usize) -> Option<&str> {
        self.tensors.get(position)?.scheme.as_deref()
    }

    /// Returns the reader whose metadata the model has.
    pub(crate) fn head(&self) -> &Arc<dyn AnyReader> {
        &self.head
    }

    /// Returns the format of the model that the tensors are computed from.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Returns the program that computes the tensor at a position.
    pub(crate) fn program(&self, position: usize) -> Option<&Program> {
        self.tensors.get(position).map(|tensor| &tensor.program)
    }

    /// Checks whether the tensor at a position keeps its dtype unless a rule names it.
    pub(crate) fn keeps_dtype(&self, position: usize) -> bool {
        self.tensors.get(position).is_some_and(|tensor| tensor.keeps_dtype)
    }

    /// Returns the name of the input tensor with this number.
    pub(crate) fn input_name(&self, input: usize) -> Option<&str> {
        self.inputs.info(input).map(|info| info.name)
    }

    /// Returns the names that rules match: those that the tensor was given, or else those of the tensors that
    /// it is computed from.
    pub(crate) fn origins(&self, position: usize) -> impl Iterator<Item = &str> {
        let own = self.tensors.get(position).map(|tensor| &tensor.origins[..]).unwrap_or_default();
        let program = self.program(position).filter(|_| own.is_empty());
        let inputs = program.map(Program::inputs).unwrap_or_default();
        let names = inputs.into_iter().filter_map(|input| Some(self.inputs.info(input)?.name));
        own.iter().map(String::as_str).chain(names)
    }

    fn require(&self, position: usize) -> Result<&Program, AnyError> {
        self.program(position).ok_or_else(|| AnyError::no_such_position(position))
    }

    /// Returns the tensors whose values a tensor is computed from, each once.
    fn inputs_of(&self, position: usize) -> Result<BTreeSet<usize>, AnyError> {
        Ok(self.require(position)?.inputs().into_iter().collect())
    }

    /// Fills `out` with a tensor's values from byte `at` on, like `values_into`. Returns how many of them the
    /// last cast of their computation did not preserve.
    pub(crate) fn computed_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<Lost, AnyError> {
        self.check(position, at, out.len() as u64)?;
        let mut lost = Lost::default();
        let mut read = |input: usize, at: u64, out: &mut [u8]| {
            lost.add(computed_into(&*self.inputs, input, at, out, claims)?);
            Ok(())
        };
        let read = self.require(position)?.read(at, out, &mut read).map_err(|failed| match failed {
            ReadError::Read(error) => error,
            ReadError::Values(error) => {
                let source = io::Error::new(io::ErrorKind::InvalidData, error);
                AnyError::Io { at, len: out.len() as u64, source }
            }
        });
        lost.add(read?);
        Ok(lost)
    }

    /// Fails unless the tensor has `len` bytes from `at` on.
    fn check(&self, position: usize, at: u64, len: u64) -> Result<(), AnyError> {
        let info = self.require_info(position)?;
        if at.checked_add(len).is_some_and(|end| end <= info.nbytes) {
            return Ok(());
        }
        Err(AnyError::out_of_range(&info, at, len))
    }
}

/// Fills `out` with a tensor's values from byte `at` on, like `values_into`. If the model computes the
/// values, returns how many of them a cast did not preserve.
pub(crate) fn computed_into(
    opened: &dyn AnyReader,
    position: usize,
    at: u64,
    out: &mut [u8],
    claims: Option<&Claims>,
) -> Result<Lost, AnyError> {
    match reader_of::<Mapped>(opened) {
        Some(mapped) => mapped.computed_into(position, at, out, claims),
        None => opened.values_into(position, at, out, claims).map(|()| Lost::default()),
    }
}

impl Container for Mapped {
    fn version(&self) -> Option<String> {
        self.head.version()
    }

    fn file_size(&self) -> u64 {
        self.inputs.file_size()
    }

    fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    fn info(&self, tensor: usize) -> Option<TensorInfo<'_>> {
        let program = self.program(tensor)?;
        let has_data =
            program.inputs().iter().all(|&input| self.inputs.info(input).is_some_and(|info| info.has_data));
        let nbytes = program.nbytes().unwrap_or(0);
        Some(TensorInfo::with_nbytes(
            self.names.name(tensor)?,
            program.dtype(),
            program.shape(),
            nbytes,
            has_data,
        ))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Returns the location of the values if the tensor is copied. The values of other tensors are gathered.
    fn location(&self, tensor: usize) -> Result<Location, AnyError> {
        let program = self.require(tensor)?;
        if let Some(input) = program.copied() {
            return self.inputs.location(input);
        }
        let stored_nbytes = program.nbytes().unwrap_or(0);
        Ok(Location { file: None, offset: None, stored_nbytes, encoding: Encoding::Strided })
    }

    fn stored(&self, tensor: usize) -> Result<Stored, AnyError> {
        match self.require(tensor)?.copied() {
            Some(input) => self.inputs.stored(input),
            None => Ok(Stored::of(0, &self.location(tensor)?)),
        }
    }

    fn stored_range(&self, tensor: usize, values: Range<u64>) -> Result<Range<u64>, AnyError> {
        match self.require(tensor)?.copied() {
            Some(input) => self.inputs.stored_range(input, values),
            None => Err(AnyError::NotFound {
                name: format!("one range of the file for {:?}", self.names.name(tensor).unwrap_or_default()),
            }),
        }
    }

    fn file_paths(&self) -> Vec<String> {
        self.inputs.file_paths()
    }

    fn values(&self, position: usize, which: Which<'_>, reading: Reading<'_>) -> Result<Bytes<'_>, AnyError> {
        if let Some(input) = self.require(position)?.copied() {
            return self.inputs.values(input, which, reading);
        }
        if reading.is_checked {
            // Whole inputs are checked against their digests before the range is computed.
            for input in self.inputs_of(position)? {
                self.inputs.values(input, Which::Whole, reading)?;
            }
        }
        let buffer = |len: u64| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            AlignedBuf::zeroed(len).map_err(|source| AnyError::Io { at: 0, len: len as u64, source })
        };
        let range = match which {
            Which::Whole => 0..self.require(position)?.nbytes().unwrap_or(0),
            Which::Range(range) => range,
            Which::Runs(runs) => {
                let mut out = buffer(runs.nbytes())?;
                self.runs_into(position, runs, &mut out)?;
                return Ok(Bytes::Owned(out));
            }
        };
        let len = range.end.saturating_sub(range.start);
        self.check(position, range.start, len)?;
        let mut out = buffer(len)?;
        self.values_into(position, range.start, &mut out, None)?;
        Ok(Bytes::Owned(out))
    }

    fn values_into(
        &self,
        position: usize,
        at: u64,
        out: &mut [u8],
        claims: Option<&Claims>,
    ) -> Result<(), AnyError> {
        self.computed_into(position, at, out, claims).map(drop)
    }

    fn read_file(&self, file: usize, at: u64, out: &mut [u8]) -> Result<(), AnyError> {
        self.inputs.read_file(file, at, out)
    }

    fn source_of(&self, file: usize) -> Result<&dyn Source, AnyError> {
        self.inputs.source_of(file)
    }

    /// Returns the digests of all input tensors, whole: a range of the result may need any part of an input.
    fn claims_of(&self, wanted: &[WantedRange]) -> Result<Claims, AnyError> {
        let mut inputs = BTreeSet::new();
        for wanted in wanted {
            inputs.extend(self.inputs_of(wanted.position)?);
        }
        self.inputs.claims(&inputs.into_iter().collect::<Vec<_>>())
    }

    fn metadata(&self) -> Result<Value, AnyError> {
        self.head.metadata()
    }

    fn flat_metadata(&self) -> Result<Object, AnyError> {
        self.head.flat_metadata()
    }

    fn details(&self) -> Result<Value, AnyError> {
        self.inputs.details()
    }

    fn warnings(&self) -> Vec<String> {
        self.inputs.warnings()
    }

    fn verify(&self, level: VerifyLevel, work: &Execution<'_>) -> Report {
        self.inputs.verify(level, work)
    }
}
