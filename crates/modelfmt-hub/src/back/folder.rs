//! The hub folder that a GGUF becomes.

use std::collections::{HashMap, HashSet};

use modelfmt_value::{Object, Value, json};
use tensor_core::DType;
use tensor_program::Program;

use super::names::{Origin, Origins, count_unknown, unfit};
use super::table::Table;
use super::{BASE_KEYS, CONFIG, FACTORS, FILE, Gguf, KNOWN_VERSION, MAP, TENSORS, VALUES, VERSION};
use super::{config, delta, rope};
use crate::maps::Map;
use crate::maps::apply::Mapped;
use crate::{Config, HubTensor, MapError};

/// The maximum length in bytes of a text that says what a file has.
const MAX_TEXT: usize = 1 << 28;

/// The hub folder that a GGUF becomes.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// The name of the map.
    pub map: String,
    /// The tensors of the folder, by the tensor of the GGUF that they come from.
    pub groups: Vec<Group>,
    /// The files beside the weights: name and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// What cannot be restored exactly.
    pub losses: Vec<Loss>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The tensors that come from one tensor of a GGUF; none for a tensor whose values are in `config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The number of the tensor of the GGUF.
    pub input: usize,
    /// The tensors: name, and how it is computed from the tensors of the GGUF.
    pub tensors: Vec<(String, Program)>,
    /// The condition under which they are exact.
    pub check: Option<Check>,
}

/// Two programs over the tensors of a GGUF. They have the same values if the restored tensors are those of
/// the folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What the restored tensors would become again.
    pub again: Program,
    /// What the GGUF has.
    pub found: Program,
    /// The tensors to use if the values differ.
    pub otherwise: Vec<(String, Program)>,
    /// The loss in that case.
    pub why: &'static str,
}

/// Something that cannot be restored exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What it is: `tensor`, `metadata key` or `file`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

const UNKNOWN_TYPE: &str = "its type before it became f32 is unknown";
const ADDED: &str = "a number was added to it, which rounding may keep from being undone exactly";
const CHANGED: &str =
    "its values are not what the metadata says of it, so it has changed since, and stays f32";
const OTHER_FACTORS: &str = "it has other factors than the rope scaling of config.json";
const SOLVED: &str =
    "GGUF has no key for the parameters of Llama 3's rope scaling; they are solved from the factors";
const NO_CONFIG: &str = "what it had beyond the keys of the GGUF has not travelled";
const NO_PLACE: &str = "a folder of the hub has no place for it";
const NO_TENSOR: &str = "the map has no tensor for it";

impl Folder {
    /// Restores the folder of a GGUF, by `map` if it is given, or else by the map that made the GGUF, or else
    /// by a map for its architecture.
    ///
    /// # Errors
    /// If no map fits, or keys or tensors are not what a map makes.
    pub fn of(gguf: &Gguf<'_>, map: Option<Map>) -> Result<Self, MapError> {
        let has_carried_keys = gguf.keys.contains_key(MAP);
        check_version(gguf.keys, has_carried_keys)?;
        let map = match map {
            Some(map) => map,
            None => own_map(gguf)?,
        };
        let architecture = gguf.keys.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        if architecture != map.architecture() {
            let why =
                format!("it is {architecture:?}, and the map {} is for {:?}", map.name(), map.architecture());
            return Err(key("general.architecture", why));
        }
        let table = match text(gguf.keys, TENSORS)? {
            Some(text) if has_carried_keys => Table::parse(text, &map).map_err(|why| key(TENSORS, why))?,
            _ => Table::usual(&map),
        };
        let mut folder = Self { map: map.name().to_owned(), ..Self::default() };
        let mut config = config::from_keys(&map, gguf);
        match text(gguf.keys, &format!("{FILE}{CONFIG}"))? {
            Some(text) if has_carried_keys => {
                config = Self::restored(text, Value::Object(config))?.into_object();
            }
            _ if has_carried_keys => folder.lose("file", CONFIG, NO_CONFIG),
            _ => {
                folder.notes.push(format!("{CONFIG} is made of the keys and tensors of the GGUF"));
                folder.solve_rope(gguf, &map, &mut config);
                config::add_inferred_keys(&map, gguf, &mut config);
            }
        }
        let is_missing = |name: &&String| !gguf.keys.contains_key(&format!("{VALUES}{name}"));
        if let Some(name) = table.values.iter().find(is_missing) {
            return Err(key(&format!("{VALUES}{name}"), format!("it is not there, and {TENSORS} names it")));
        }
        let parsed = Config::of(config.clone());
        let origins = Origins::of(&map, &table, &parsed, gguf.tensors)?;
        if !has_carried_keys || !gguf.keys.contains_key(TENSORS) {
            folder.lose_types(gguf, &origins);
        }
        let mapped = map.apply_back(&parsed, &origins.hub())?;
        folder.undo(gguf, &origins, &mapped, &plain(&map, &parsed, &origins)?)?;
        folder.check_rest(gguf, &origins, &mapped);
        folder.check_keys(gguf, &map, &mapped);
        folder.add_file(CONFIG, &Value::Object(config))?;
        folder.add_files(gguf.keys, has_carried_keys)?;
        folder.check_tokenizer(gguf, &parsed, &mapped.keys, has_carried_keys);
        folder.say_left_out(&table);
        Ok(folder)
    }

    /// Returns the config: what follows from other keys, and what is carried.
    fn restored(text: &str, base: Value) -> Result<Value, MapError> {
        let bad = |why: String| key(&format!("{FILE}{CONFIG}"), why);
        if text.len() > MAX_TEXT {
            return Err(bad(format!("it is longer than {} MiB", MAX_TEXT >> 20)));
        }
        let mut own = json::parse_object(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
        // Newer maps may derive more keys.
        let known = own.remove(BASE_KEYS);
        let mut base = base.into_object();
        if let Some(known) = &known {
            let known = known.as_array().and_then(modelfmt_value::List::texts);
            let known = known.ok_or_else(|| bad(format!("`{BASE_KEYS}` is no list of keys")))?;
            if let Some(key) = known.iter().find(|key| !base.contains_key(key)) {
                return Err(bad(format!("{key:?} does not follow from the GGUF any more")));
            }
            base.retain(|key, _| known.contains(&key));
        }
        delta::applied(Value::Object(base), &own).map_err(bad)
    }

    pub(super) fn add_file(&mut self, name: &str, value: &Value) -> Result<(), MapError> {
        let text = json::to_string_pretty(value)
            .map_err(|error| key(&format!("{FILE}{name}"), error.to_string()))?;
        self.files.push((name.to_owned(), (text + "\n").into_bytes()));
        Ok(())
    }

    pub(super) fn lose(&mut self, kind: &'static str, name: &str, why: impl Into<String>) {
        self.losses.push(Loss { kind, name: name.to_owned(), why: why.into() });
    }

    /// Solves Llama 3's scaling for a GGUF from another tool.
    fn solve_rope(&mut self, gguf: &Gguf<'_>, map: &Map, config: &mut Object) {
        let is_known = map.file.rope_scaling.contains(&crate::maps::file::RopeScaling::Llama3);
        let Some(factors) = gguf.factors.get("rope_freqs.weight").filter(|_| is_known) else { return };
        let base = config.get("rope_theta").or_else(|| map.file.defaults.get("rope_theta"));
        let base = base.and_then(Value::as_f64).unwrap_or_default();
        if let Some(solved) = rope::solve_llama3(factors, base) {
            config.insert("rope_scaling", solved);
            self.lose("tensor", "rope_freqs.weight", SOLVED);
        }
    }

    /// Records what is not known of a GGUF from another tool: the types of tensors that became `f32`, and
    /// what a sum was before.
    fn lose_types(&mut self, gguf: &Gguf<'_>, origins: &Origins) {
        let is_other = |origin: &Origin| !origin.is_widened && origin.dtype != DType::F32;
        let has_others = origins.found.iter().any(is_other);
        for origin in origins.found.iter().filter(|origin| origin.is_widened) {
            let name = gguf.tensors.get(origin.made).map_or("", |tensor| tensor.name);
            if has_others {
                self.lose("tensor", name, UNKNOWN_TYPE);
            } else if origin.is_added {
                self.lose("tensor", name, ADDED);
            }
        }
    }

    /// Adds the tensors of the folder.
    fn undo(
        &mut self,
        gguf: &Gguf<'_>,
        origins: &Origins,
        mapped: &Mapped,
        plain: &Mapped,
    ) -> Result<(), MapError> {
        let by_name: HashMap<&str, usize> =
            gguf.tensors.iter().enumerate().map(|(number, tensor)| (tensor.name, number)).collect();
        let otherwise: HashMap<&str, &Program> =
            plain.tensors.iter().map(|made| (&*made.name, &made.program)).collect();
        for made in &mapped.tensors {
            let found =
                by_name.get(&*made.name).and_then(|number| Some((*number, gguf.tensors.get(*number)?)));
            let Some((input, tensor)) = found else {
                // The config has factors, and the GGUF has none.
                self.lose("tensor", &made.name, OTHER_FACTORS);
                continue;
            };
            if made.program.inputs().is_empty() {
                self.groups.push(constant(input, tensor, &made.program)?);
                continue;
            }
            let again = otherwise.get(&*made.name).copied().unwrap_or(&made.program);
            self.groups.push(group(gguf, origins, input, tensor, &made.program, again)?);
        }
        Ok(())
    }

    /// Records as lost the tensors that are in no file of a folder.
    fn check_rest(&mut self, gguf: &Gguf<'_>, origins: &Origins, mapped: &Mapped) {
        let made: HashSet<&str> = mapped.tensors.iter().map(|made| &*made.name).collect();
        for number in &origins.unknown {
            let Some(tensor) = gguf.tensors.get(*number) else { continue };
            if made.contains(tensor.name) {
                continue;
            }
            let why = if FACTORS.contains(&tensor.name) { OTHER_FACTORS } else { NO_TENSOR };
            self.lose("tensor", tensor.name, why);
        }
    }

    /// Records as lost the keys that the folder does not have, or has with another value.
    fn check_keys(&mut self, gguf: &Gguf<'_>, map: &Map, mapped: &Mapped) {
        const GENERAL_KEYS: [&str; 7] = [
            "general.architecture",
            "general.type",
            "general.name",
            "general.alignment",
            "general.file_type",
            "general.quantization_version",
            "general.size_label",
        ];
        let made: HashMap<&str, &crate::Key> =
            mapped.keys.iter().map(|(key, value)| (&**key, value)).collect();
        for (name, value) in gguf.keys {
            let is_not_config = name.starts_with("modelfmt")
                || (name.starts_with("tokenizer.") && !made.contains_key(name))
                || name.starts_with("split.");
            // Another file of the folder states the pooling.
            let is_pooling = map.file.pools && name.strip_suffix(".pooling_type") == Some(map.architecture());
            // The model card states the licence.
            let is_licence =
                value.as_str().is_some() && super::licence::licence_keys().any(|(_, key)| key == name);
            if is_not_config
                || is_licence
                || (is_pooling || GENERAL_KEYS.contains(&name)) && !made.contains_key(name)
            {
                continue;
            }
            match made.get(name) {
                Some(own) if config::is_same(own, value) => {}
                Some(_) => self.lose("metadata key", name, format!("{CONFIG} says otherwise")),
                None => self.lose("metadata key", name, NO_PLACE),
            }
        }
    }

    fn say_left_out(&mut self, table: &Table) {
        if let [first, others @ ..] = &table.left_out[..] {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            self.notes.push(format!(
                "the folder that the GGUF was made from had {first:?}{more}, which the GGUF does not have"
            ));
        }
    }
}

/// Fails for keys of a version that is not known.
fn check_version(keys: &Object, has_carried_keys: bool) -> Result<(), MapError> {
    let version = keys.get(VERSION).and_then(Value::as_u64);
    if !has_carried_keys || version == Some(u64::from(KNOWN_VERSION)) {
        return Ok(());
    }
    let found = version.map_or_else(|| "no number".to_owned(), |version| version.to_string());
    Err(key(VERSION, format!("it is {found}, and {KNOWN_VERSION} is known; a newer modelfmt may read it")))
}

/// Applies the map to the origins as if those that are `f32` in the GGUF had been `f32` before.
fn plain(map: &Map, config: &Config, origins: &Origins) -> Result<Mapped, MapError> {
    let as_found = |origin: &Origin| Origin {
        dtype: if origin.is_widened { DType::F32 } else { origin.dtype },
        ..origin.clone()
    };
    let found: Vec<Origin> = origins.found.iter().map(as_found).collect();
    map.apply_back(config, &Origins { found, unknown: Vec::new() }.hub())
}

/// Makes the group for a tensor whose values are in the config.
fn constant(input: usize, tensor: &HubTensor<'_>, again: &Program) -> Result<Group, MapError> {
    if (tensor.dtype, tensor.shape) != (again.dtype(), again.shape()) {
        return Err(unfit(tensor, OTHER_FACTORS.to_owned()));
    }
    let found = Program::input(input, tensor.dtype, tensor.shape);
    let check = Check { again: again.clone(), found, otherwise: Vec::new(), why: OTHER_FACTORS };
    Ok(Group { input, tensors: Vec::new(), check: Some(check) })
}

/// Makes the group of the tensors that one tensor of a GGUF comes from. `made` is what the map computes from
/// them, `plain` what it computes from `f32`.
fn group(
    gguf: &Gguf<'_>,
    origins: &Origins,
    input: usize,
    tensor: &HubTensor<'_>,
    made: &Program,
    plain: &Program,
) -> Result<Group, MapError> {
    let step = |error| MapError::Step { name: tensor.name.to_owned(), error };
    let mut found = Program::input(input, tensor.dtype, tensor.shape);
    let origin =
        |number: usize| origins.found.get(number).ok_or_else(|| unfit(tensor, "it has no origin".to_owned()));
    let first = origin(made.inputs().first().copied().unwrap_or(usize::MAX))?;
    if first.blocks.is_some() {
        found = found.retyped(DType::U8, made.shape()).map_err(step)?;
    }
    if found.shape() != made.shape() {
        return Err(unfit(
            tensor,
            format!("it has the shape {:?}, and the map makes {:?}", found.shape(), made.shape()),
        ));
    }
    if found.dtype() != made.dtype() {
        found = found.cast(made.dtype()).map_err(step)?;
    }
    let mut back = HashMap::new();
    let mut tensors = Vec::new();
    for (number, program) in made.undone(found.clone()).map_err(step)? {
        let own = origin(number)?;
        let known = if made.only_moves() { None } else { known(gguf.keys, own)? };
        let program = known.unwrap_or(program);
        back.insert(number, program.clone());
        tensors.push((own.name.clone(), typed(program, own).map_err(step)?));
    }
    let mut check = None;
    if !made.only_moves() {
        let mut otherwise = Vec::new();
        for (number, program) in plain.undone(found.clone()).map_err(step)? {
            otherwise.push((origin(number)?.name.clone(), program));
        }
        let again = made.over(&|number| back.get(&number).cloned()).map_err(step)?;
        check = Some(Check { again, found, otherwise, why: CHANGED });
    }
    Ok(Group { input, tensors, check })
}

/// Retypes bytes as the blocks that they are.
fn typed(program: Program, origin: &Origin) -> Result<Program, tensor_program::ProgramError> {
    match &origin.blocks {
        Some((dtype, shape)) => program.retyped(*dtype, shape),
        None => Ok(program),
    }
}

/// Returns the values of a tensor, if they are carried.
fn known(keys: &Object, origin: &Origin) -> Result<Option<Program>, MapError> {
    let name = format!("{VALUES}{}", origin.name);
    let Some(value) = keys.get(&name) else { return Ok(None) };
    let bytes = bytes(&name, value)?;
    Program::known(origin.dtype, &origin.shape, bytes)
        .map(Some)
        .map_err(|error| key(&name, error.to_string()))
}

/// Reads the bytes of a key.
pub(super) fn bytes(name: &str, value: &Value) -> Result<Vec<u8>, MapError> {
    let byte = |value: Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let bytes: Option<Vec<u8>> = value.as_array().and_then(|items| items.iter().map(byte).collect());
    bytes.ok_or_else(|| key(name, "it is no list of bytes".to_owned()))
}

/// Reads the text of a key; `None` if the key does not exist.
pub(super) fn text<'a>(keys: &'a Object, name: &str) -> Result<Option<&'a str>, MapError> {
    match keys.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(key(name, format!("it is {}, not text", other.kind()))),
    }
}

pub(super) fn key(name: &str, why: String) -> MapError {
    MapError::Key { key: name.to_owned(), why }
}

/// Returns the map that made a GGUF, or the map of its architecture that knows most of its tensors.
fn own_map(gguf: &Gguf<'_>) -> Result<Map, MapError> {
    match text(gguf.keys, MAP)? {
        Some("") => {
            return Err(key(MAP, "it was made by a map of its own, which has to be given".to_owned()));
        }
        Some(name) => {
            let unknown = || key(MAP, format!("{name:?} is none of the maps that are known"));
            return Map::named(name).ok().filter(|map| map.name() == name).ok_or_else(unknown);
        }
        None => {}
    }
    let Some(architecture) = text(gguf.keys, "general.architecture")? else {
        return Err(key("general.architecture", "it is not there, and says which map to take".to_owned()));
    };
    let mut best: Option<(usize, Map)> = None;
    for map in Map::of_architecture(architecture) {
        let unknown = count_unknown(&map, gguf.tensors);
        if best.as_ref().is_none_or(|(least, _)| unknown < *least) {
            best = Some((unknown, map));
        }
    }
    best.map(|(_, map)| map).ok_or_else(|| {
        let known: Vec<String> = Map::architectures().collect();
        key(
            "general.architecture",
            format!("there is no map for {architecture:?}; these have one: {}", known.join(", ")),
        )
    })
}
