//! Adapters as the hub's library PEFT writes them: a folder with `adapter_config.json`.

use modelfmt_core::author::Shortened;
use modelfmt_core::value::{Object, ParseOptions, Value, json};
use modelfmt_metadata::config;
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

use super::patterns::Patterns;
use super::{Change, Delta, Kind, Orientation, Pairs, f64_of, failed, rank};

pub(crate) const CONFIG: &str = "adapter_config.json";
const PREFIX: &str = "base_model.model.";

/// Checks whether the model is an adapter, by the config beside it and the names of its tensors.
#[cfg(feature = "gguf")]
pub(crate) fn is_adapter(model: &Model) -> bool {
    let is_matrix = |name: &str| !matches!(Part::of(name).1, Part::Whole(_));
    let has_config =
        model.sidecars().ignores(CONFIG) || model.sidecars().open(CONFIG).is_ok_and(|file| file.is_some());
    has_config && model.tensors().any(|info| is_matrix(info.name))
}

/// Returns the changes of the adapter.
///
/// # Errors
/// If there is no config beside the model, or it asks for something that cannot be merged.
pub(crate) fn changes(model: &Model) -> Result<Vec<Change>> {
    let mut config = Config::read(model)?;
    let (mut matrices, mut embeddings) = (Pairs::default(), Pairs::default());
    let mut changes = Vec::new();
    for (number, info) in model.tensors().enumerate() {
        let name = info.name.strip_prefix(PREFIX).unwrap_or(info.name);
        let twice = || failed(model, format!("tensor {:?} is there twice", Shortened(info.name)));
        let (module, part) = Part::of(name);
        match part {
            Part::Matrix(side) => matrices.add(module, side, number).then_some(()).ok_or_else(twice)?,
            Part::Embedding(side) => embeddings.add(module, side, number).then_some(()).ok_or_else(twice)?,
            Part::Magnitude => {
                let why = format!("{:?}: magnitudes (DoRA) are not merged", Shortened(info.name));
                return Err(failed(model, why));
            }
            Part::Whole(base) => changes.push(Change { base, kind: Kind::Replaces(number) }),
        }
    }
    let of_matrix = Orientation::OfModule { is_transposed: config.is_transposed };
    for (pairs, orientation) in [(matrices, of_matrix), (embeddings, Orientation::Transposed)] {
        for (module, a, b) in pairs.complete(model)? {
            let number = config.number(model, &module, rank(model, &module, (a, b))?)?;
            let kind = Kind::Delta(Delta { a, b, number, orientation });
            changes.push(Change { base: format!("{module}.weight"), kind });
        }
    }
    Ok(changes)
}

/// What a tensor of an adapter is.
enum Part {
    /// Matrix A (0) or B (1) of a weight.
    Matrix(usize),
    /// Matrix A (0) or B (1) of an embedding.
    Embedding(usize),
    Magnitude,
    /// A tensor that replaces a tensor of the base: a trained bias, or a module that was saved.
    Whole(String),
}

impl Part {
    /// Splits the name of a tensor into its module and what the tensor is there. The name of the adapter may
    /// follow.
    fn of(name: &str) -> (&str, Self) {
        const MATRICES: [&str; 2] = [".lora_A", ".lora_B"];
        const EMBEDDINGS: [&str; 2] = [".lora_embedding_A", ".lora_embedding_B"];
        let split = |mark: &str| {
            let at = name.rfind(mark)?;
            let rest = name.get(at.checked_add(mark.len())?..)?;
            (rest.is_empty() || rest.starts_with('.')).then(|| name.get(..at)).flatten()
        };
        for (side, mark) in EMBEDDINGS.iter().enumerate() {
            if let Some(module) = split(mark) {
                return (module, Self::Embedding(side));
            }
        }
        for (side, mark) in MATRICES.iter().enumerate() {
            if let Some(module) = split(mark) {
                return (module, Self::Matrix(side));
            }
        }
        if let Some(module) = split(".lora_magnitude_vector") {
            return (module, Self::Magnitude);
        }
        let base = name.replace(".base_layer.", ".").replace(".modules_to_save.default.", ".");
        (name, Self::Whole(base))
    }
}

/// The content of adapter_config.json.
struct Config {
    alpha: f64,
    alphas: Patterns,
    /// The rank; `None` if the file has none, and only the matrices show it.
    rank: Option<f64>,
    ranks: Patterns,
    is_rank_stabilized: bool,
    is_transposed: bool,
    /// The comparisons of names with patterns so far.
    work: u64,
}

impl Config {
    fn read(model: &Model) -> Result<Self> {
        const MAX_LEN: u64 = 1 << 20;
        const MAX_NODES: u64 = 1 << 18;
        let failed = |why: String| failed(model, format!("{CONFIG}: {why}"));
        if let Some(why) = model.sidecars().ignored(CONFIG) {
            return Err(failed(why));
        }
        let text = config::file(model.sidecars(), CONFIG, MAX_LEN).map_err(failed)?;
        let text = text.ok_or_else(|| failed("there is none beside the adapter".to_owned()))?;
        let parsed = json::parse_with(&text, ParseOptions::new().with_max_nodes(MAX_NODES));
        let Value::Object(config) = parsed.map_err(|error| failed(error.to_string()))? else {
            return Err(failed("it is no object".to_owned()));
        };
        let kind = config.get("peft_type").and_then(Value::as_str);
        if kind.is_some_and(|kind| kind != "LORA") {
            return Err(failed(format!("`peft_type` is {:?}, not \"LORA\"", kind.unwrap_or_default())));
        }
        for (key, what) in NOT_MERGED {
            let is_set = config.get(key).is_some_and(|value| match value {
                Value::Bool(flag) => *flag,
                Value::Array(list) => !list.is_empty(),
                Value::Object(object) => !object.is_empty(),
                Value::Null => false,
                _ => true,
            });
            if is_set {
                return Err(failed(format!("`{key}` is set, and {what}")));
            }
        }
        check_start(&config).map_err(failed)?;
        let number = |key: &str, value: &Value| {
            let number = value.as_f64().filter(|number| number.is_finite());
            number.ok_or_else(|| failed(format!("`{key}` is no finite number")))
        };
        let flag = |key: &str| match config.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(failed(format!("`{key}` is {}, not true or false", other.kind()))),
        };
        let alpha = config.get("lora_alpha").unwrap_or(&Value::Null);
        let rank =
            config.get("r").filter(|rank| !rank.is_null()).map(|rank| number("r", rank)).transpose()?;
        let patterns = |key| Patterns::read(&config, key).map_err(|why| failed(format!("`{key}`: {why}")));
        Ok(Self {
            alpha: number("lora_alpha", alpha)?,
            alphas: patterns("alpha_pattern")?,
            rank,
            ranks: patterns("rank_pattern")?,
            is_rank_stabilized: flag("use_rslora")?,
            is_transposed: flag("fan_in_fan_out")?,
            work: 0,
        })
    }

    /// Returns the factor for the product of a module. The rank is that of its matrices, and the file must
    /// not state another one.
    fn number(&mut self, model: &Model, module: &str, rank: u64) -> Result<f64> {
        let too_long = |why: String| failed(model, format!("{CONFIG}: {why}"));
        let own = self.alphas.number(module, &mut self.work).map_err(too_long)?;
        let stated = self.ranks.number(module, &mut self.work).map_err(too_long)?;
        let rank = f64_of(rank);
        if let Some(stated) = stated.or(self.rank).filter(|stated| *stated != rank) {
            let why = format!("its matrices have the rank {rank}, and {CONFIG} says {stated}");
            return Err(failed(model, format!("{:?}: {why}", Shortened(module))));
        }
        let divisor = if self.is_rank_stabilized { rank.sqrt() } else { rank };
        let number = own.unwrap_or(self.alpha) / divisor;
        let is_sound = number.is_finite() && number.abs() <= f64::from(f32::MAX);
        let why = || failed(model, format!("{:?}: its factor is no finite number", Shortened(module)));
        is_sound.then_some(number).ok_or_else(why)
    }
}

/// Keys of configs that change what an adapter means, and why they are refused.
const NOT_MERGED: [(&str, &str); 7] = [
    ("use_dora", "magnitudes (DoRA) are not merged"),
    ("use_qalora", "grouped inputs (QALoRA) are not merged"),
    ("lora_bias", "biases of matrix B are not merged"),
    ("layer_replication", "layers that are there several times are not made"),
    ("target_parameters", "parameters without a module are not merged"),
    ("trainable_token_indices", "single rows of an embedding are not merged"),
    ("alora_invocation_tokens", "what depends on the text (aLoRA) cannot be merged"),
];

/// Fails for adapters that were trained from a changed base, because the given base is not changed.
fn check_start(config: &Object) -> std::result::Result<(), String> {
    const CHANGE_THE_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];
    let Some(start) = config.get("init_lora_weights").and_then(Value::as_str) else { return Ok(()) };
    let lower = start.to_ascii_lowercase();
    match CHANGE_THE_BASE.iter().any(|name| lower.starts_with(name)) {
        true => Err(format!(
            "`init_lora_weights` is {start:?}, which changes the base before training; save the adapter as a plain LoRA"
        )),
        false => Ok(()),
    }
}
