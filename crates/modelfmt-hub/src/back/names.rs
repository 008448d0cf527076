//! Finds the tensors of a folder that the tensors of a GGUF come from.

use std::collections::HashMap;

use tensor_core::DType;

use super::table::Table;
use crate::maps::Map;
use crate::maps::file::Tensor;
use crate::maps::pattern::{Numbers, Pattern, key_of};
use crate::maps::steps::Step;
use crate::{Config, HubTensor, MapError};

/// A tensor of a folder that a tensor of a GGUF comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    /// The number of the tensor of the GGUF.
    pub(crate) made: usize,
    /// Its name without the prefix.
    pub(crate) key: String,
    /// Its name.
    pub(crate) name: String,
    /// Its dtype; for blocks `u8`, and the last dimension counts bytes.
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<u64>,
    /// Whether it is `f32` in the GGUF because llama.cpp accepts no other type, so that its dtype is the one
    /// of the table.
    pub(crate) is_widened: bool,
    /// Whether a number was added to it.
    pub(crate) is_added: bool,
    /// For blocks, the dtype and the shape of the tensor.
    pub(crate) blocks: Option<(DType, Vec<u64>)>,
}

/// The origins of all tensors.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    pub(crate) found: Vec<Origin>,
    /// The numbers of tensors that the map does not make.
    pub(crate) unknown: Vec<usize>,
}

/// The maximum number of tensors in a folder, and of experts in a layer.
const MAX_TENSORS: usize = 1 << 18;
const MAX_EXPERTS: u64 = 1 << 12;

/// The entries of a map by the names that tensors have in a GGUF.
struct Targets<'a> {
    map: &'a Map,
    by_key: HashMap<String, Vec<(Pattern, usize)>>,
}

impl<'a> Targets<'a> {
    fn of(map: &'a Map) -> Self {
        let mut by_key = HashMap::<String, Vec<(Pattern, usize)>>::new();
        for (entry, (_, tensor)) in map.tensors.iter().enumerate() {
            if let Ok(pattern) = Pattern::parse(&tensor.to, &tensor.to) {
                by_key.entry(pattern.key()).or_default().push((pattern, entry));
            }
        }
        Self { map, by_key }
    }

    /// Finds the entry that makes a tensor with this name, and the number of its layer.
    fn find(&self, name: &str) -> Option<(Option<u64>, &'a (Pattern, Tensor))> {
        let (key, numbers) = key_of(name);
        let mut patterns = self.by_key.get(&key)?.iter();
        let (layer, entry) = patterns.find_map(|(to, entry)| Some((to.numbers(&numbers)?.layer, *entry)))?;
        Some((layer, self.map.tensors.get(entry)?))
    }
}

/// Counts the tensors of a GGUF that the map does not make.
pub(crate) fn count_unknown(map: &Map, gguf: &[HubTensor<'_>]) -> usize {
    let targets = Targets::of(map);
    gguf.iter().filter(|tensor| targets.find(tensor.name).is_none()).count()
}

impl Origins {
    /// Finds the origins of the tensors of a GGUF. The config states the number of experts.
    ///
    /// # Errors
    /// If a tensor has a shape that the map does not make, or there are too many.
    pub(crate) fn of(
        map: &Map,
        table: &Table,
        config: &Config,
        gguf: &[HubTensor<'_>],
    ) -> Result<Self, MapError> {
        let config = config.completed(&map.file.defaults, &map.file.aliases);
        let targets = Targets::of(map);
        let mut origins = Self::default();
        for (number, tensor) in gguf.iter().enumerate() {
            let Some((layer, (pattern, entry))) = targets.find(tensor.name) else {
                origins.unknown.push(number);
                continue;
            };
            let shape = shape_before(tensor, entry, pattern)?;
            let count = if pattern.has_experts() { experts(map, &config, entry, tensor)? } else { 1 };
            let room = MAX_TENSORS.saturating_sub(origins.found.len()) as u64;
            if count > room {
                return Err(unfit(tensor, format!("a folder has at most {MAX_TENSORS} tensors")));
            }
            for expert in 0..count {
                let numbers = Numbers { layer, expert: Some(expert) };
                origins.found.push(origin(number, pattern.name(numbers), &shape, tensor, entry, table)?);
            }
        }
        Ok(origins)
    }

    /// Returns the tensors in the form that a map takes.
    pub(crate) fn hub(&self) -> Vec<HubTensor<'_>> {
        let found = self.found.iter();
        found.map(|own| HubTensor { name: &own.name, dtype: own.dtype, shape: &own.shape }).collect()
    }
}

/// Returns how many experts a tensor holds. It must be the number in the config, and each expert must have
/// values.
fn experts(map: &Map, config: &Config, entry: &Tensor, tensor: &HubTensor<'_>) -> Result<u64, MapError> {
    if tensor.shape.contains(&0) {
        return Err(unfit(tensor, format!("its shape {:?} has room for no value", tensor.shape)));
    }
    let count = tensor.shape.first().copied().unwrap_or(0);
    if count > MAX_EXPERTS {
        return Err(unfit(tensor, format!("it has {count} experts, the limit is {MAX_EXPERTS}")));
    }
    let Some(key) = map.counts(entry) else { return Ok(count) };
    let known = config.count(key)?;
    if known != count {
        return Err(unfit(tensor, format!("it has {count} experts, and `{key}` is {known}")));
    }
    Ok(count)
}

fn origin(
    made: usize,
    key: String,
    shape: &[u64],
    tensor: &HubTensor<'_>,
    entry: &Tensor,
    table: &Table,
) -> Result<Origin, MapError> {
    let other = table.except.get(&key);
    let shape = other.and_then(|other| other.shape.clone()).unwrap_or_else(|| shape.to_vec());
    let prefix = other.and_then(|other| other.prefix.as_ref()).unwrap_or(&table.prefix);
    let is_added = entry.steps.iter().any(|step| matches!(step, Step::Add(_)));
    let is_made_f32 = is_added || entry.steps.contains(&Step::F32) || tensor.shape.len() <= 1;
    let is_widened = is_made_f32 && tensor.dtype == DType::F32;
    let known = other.and_then(|other| other.dtype).or(table.dtype).filter(|_| is_widened);
    let dtype = known.unwrap_or(tensor.dtype);
    let name = format!("{prefix}{key}");
    let plain = Origin { made, key, name, dtype, shape, is_widened, is_added, blocks: None };
    if tensor.dtype.size().is_some_and(|size| size > 0) {
        return Ok(plain);
    }
    // Blocks are parts of rows, so a step that moves rows moves bytes.
    if entry.steps.iter().any(|step| matches!(step, Step::Transpose | Step::Add(_) | Step::F32)) {
        let why =
            format!("its values have to be {} numbers to be undone, and it is {}", DType::F32, tensor.dtype);
        return Err(unfit(tensor, format!("{why}; convert the GGUF to another with floats first")));
    }
    let mut rows = plain.shape.clone();
    let bytes = rows.last().and_then(|len| tensor.dtype.nbytes(&[*len]));
    let (Some(bytes), Some(last)) = (bytes, rows.last_mut()) else {
        return Err(unfit(tensor, format!("its rows are no whole blocks of {}", tensor.dtype)));
    };
    *last = bytes;
    Ok(Origin { blocks: Some((tensor.dtype, plain.shape)), dtype: DType::U8, shape: rows, ..plain })
}

/// Returns the shape before the steps. If experts are stacked, this is the shape of one expert.
fn shape_before(tensor: &HubTensor<'_>, entry: &Tensor, pattern: &Pattern) -> Result<Vec<u64>, MapError> {
    let mut shape = tensor.shape.to_vec();
    if pattern.has_experts() {
        if shape.is_empty() {
            return Err(unfit(tensor, "it has no dimension of experts".to_owned()));
        }
        shape.remove(0);
    }
    for step in entry.steps.iter().rev() {
        match step {
            Step::Transpose => shape.reverse(),
            // This is one row, unless the table says otherwise.
            Step::Flatten => shape.insert(0, 1),
            Step::Add(_) | Step::F32 | Step::Pair(_) | Step::Gather(..) => {}
        }
    }
    Ok(shape)
}

pub(crate) fn unfit(tensor: &HubTensor<'_>, why: String) -> MapError {
    MapError::Unfit { name: tensor.name.to_owned(), why }
}
