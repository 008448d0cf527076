//! The file of a map.

use modelfmt_value::{Object, ParseOptions, Value, ValueSeed};
use serde::de::DeserializeSeed;

use super::shape::Shape;
use super::steps::Step;

/// The content of the file.
#[derive(Clone, Debug)]
pub(crate) struct MapFile {
    pub(crate) architecture: String,
    pub(crate) families: Vec<String>,
    /// The class of the hub's library, for a config that is made from a GGUF.
    pub(crate) class: Option<String>,
    /// The key of the config that counts layers.
    pub(crate) layers: String,
    /// The key that counts experts.
    pub(crate) experts: Option<String>,
    pub(crate) rope_scaling: Vec<RopeScaling>,
    /// The last of each group of this many layers sees all tokens, and the others see a window.
    pub(crate) full_attention_each: Option<u64>,
    /// Whether llama.cpp computes the architecture without a sliding window.
    pub(crate) ignores_window: bool,
    /// Whether the model embeds texts, so that the embeddings of tokens are pooled.
    pub(crate) pools: bool,
    pub(crate) prefixes: Vec<String>,
    pub(crate) leave_out: Vec<String>,
    pub(crate) defaults: Object,
    /// Keys of the config, each with its name in other files.
    pub(crate) aliases: Vec<(String, String)>,
    pub(crate) require: Vec<(String, Required)>,
    pub(crate) tensors: Vec<(String, Tensor)>,
    pub(crate) metadata: Vec<(String, KeyEntry)>,
}

/// A kind of rope scaling, as configs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RopeScaling {
    Linear,
    Yarn,
    Llama3,
    LongRope,
}

impl RopeScaling {
    /// Returns the kind that a config or a map names.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "linear" => Some(Self::Linear),
            "yarn" => Some(Self::Yarn),
            "llama3" => Some(Self::Llama3),
            "longrope" | "su" => Some(Self::LongRope),
            _ => None,
        }
    }
}

/// How a tensor is mapped.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// Its new name, with `{i}`.
    pub(crate) to: String,
    pub(crate) steps: Vec<Step>,
    /// Whether a model may lack it.
    pub(crate) is_optional: bool,
    /// It is not written if this key of the config is true.
    pub(crate) unless: Option<String>,
    /// It is required if this key of the config is true, and optional otherwise.
    pub(crate) when: Option<String>,
    /// The key that counts `{i}`, if it is not the key of the layers.
    pub(crate) layers: Option<String>,
    /// The key that counts `{e}`, if it is not the key of the experts.
    pub(crate) counted: Option<String>,
    /// The shape that the tensor must have, if the map states it.
    pub(crate) shape: Option<Shape>,
}

/// What a value of the config must be.
#[derive(Clone, Debug)]
pub(crate) enum Required {
    /// Missing, null, false or an empty list.
    Nothing,
    /// One of these values.
    OneOf(Vec<Value>),
    /// The value of another key.
    Same {
        key: String,
        /// With this many layers, the value of this key instead.
        with_layers: Option<(u64, String)>,
    },
    /// True in models of at least this many layers, and nothing in others.
    FromLayers(u64),
    /// A count that is not above the count of another key.
    AtMost(String),
}

/// The source of a metadata key.
#[derive(Clone, Debug)]
pub(crate) enum KeyEntry {
    /// The value of a key of the config.
    Config {
        kind: Kind,
        path: String,
        /// The key to use if the config lacks the first.
        or: Option<String>,
        /// The factor for a count from `or`.
        times: u32,
        /// The value if the config has none.
        otherwise: Option<Value>,
        /// Whether the key is left out if the config has no value.
        is_optional: bool,
    },
    /// A fixed value.
    Is(Value),
}

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U32,
    F32,
    Bool,
}

impl MapFile {
    /// Reads the text of a map.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const MAX_NODES: u64 = 1 << 16;
        let parsed = toml::Deserializer::parse(text).map_err(|error| one_line(&error))?;
        let seed = ValueSeed::new(ParseOptions::new().with_max_nodes(MAX_NODES));
        let mut top = Table {
            at: String::new(),
            object: seed.deserialize(parsed).map_err(|error| one_line(&error))?.into_object(),
        };
        let kinds = top.texts("rope_scaling")?.unwrap_or_default();
        let kind = |name: String| {
            RopeScaling::from_name(&name).ok_or_else(|| format!("rope_scaling: {name:?} is no kind of it"))
        };
        let shapes = top.table("shapes")?.each(|at, value| shape(&at, &value))?;
        let mut file = Self {
            architecture: top.required_text("architecture")?,
            families: top.texts("families")?.unwrap_or_default(),
            class: top.text("class")?,
            layers: top.required_text("layers")?,
            experts: top.text("experts")?,
            rope_scaling: kinds.into_iter().map(kind).collect::<Result<_, _>>()?,
            full_attention_each: top.count("full_attention_each")?.map(u64::from),
            ignores_window: top.flag("ignores_window")?,
            pools: top.flag("pools")?,
            prefixes: top.texts("prefixes")?.unwrap_or_else(|| vec![String::new()]),
            leave_out: top.texts("leave_out")?.unwrap_or_default(),
            defaults: top.table("defaults")?.object,
            aliases: top.table("aliases")?.each(|at, value| match value {
                Value::String(name) => Ok(name),
                other => Err(format!("{at} is {}, not a name", other.kind())),
            })?,
            require: top.table("require")?.each(Required::of)?,
            tensors: top.table("tensors")?.each(Tensor::of)?,
            metadata: top.table("metadata")?.each(KeyEntry::of)?,
        };
        top.end()?;
        for (name, tensor) in &mut file.tensors {
            tensor.shape = shape_of(name, &shapes).cloned();
        }
        Ok(file)
    }
}

/// Reads the shape of an entry.
fn shape(at: &str, value: &Value) -> Result<Shape, String> {
    let Value::String(text) = value else { return Err(format!("{at}: {} is no shape", value.kind())) };
    text.parse().map_err(|why| format!("{at}: {why}"))
}

/// Returns the shape for a name: the one whose pattern has the longest matching end.
fn shape_of<'a>(name: &str, shapes: &'a [(String, Shape)]) -> Option<&'a Shape> {
    let ends = shapes.iter().filter(|(pattern, _)| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == pattern,
    });
    ends.max_by_key(|(pattern, _)| pattern.len()).map(|(_, shape)| shape)
}

impl Tensor {
    fn of(at: String, value: Value) -> Result<Self, String> {
        let mut table = match value {
            Value::String(to) => {
                let steps = Vec::new();
                let (unless, when, layers, counted, shape) = (None, None, None, None, None);
                return Ok(Self { to, steps, is_optional: false, unless, when, layers, counted, shape });
            }
            Value::Object(object) => Table { at, object },
            other => return Err(format!("{at}: {} is neither a name nor a table", other.kind())),
        };
        let steps = table.texts("steps")?.unwrap_or_default();
        let tensor = Self {
            to: table.required_text("to")?,
            steps: steps.iter().map(|step| step.parse()).collect::<Result<_, String>>()?,
            is_optional: table.flag("optional")?,
            unless: table.text("unless")?,
            when: table.text("when")?,
            layers: table.text("layers")?,
            counted: table.text("count")?,
            shape: None,
        };
        table.end()?;
        Ok(tensor)
    }
}

impl Required {
    fn of(at: String, value: Value) -> Result<Self, String> {
        let object = match value {
            Value::Bool(false) => return Ok(Self::Nothing),
            Value::Array(values) => return Ok(Self::OneOf(values.iter().collect())),
            Value::Object(object) => object,
            other => return Ok(Self::OneOf(vec![other])),
        };
        let mut table = Table { at, object };
        if let Some(count) = table.count("from_layers")? {
            table.end()?;
            return Ok(Self::FromLayers(u64::from(count)));
        }
        if let Some(key) = table.text("at_most")? {
            table.end()?;
            return Ok(Self::AtMost(key));
        }
        let with_layers = match (table.count("with_layers")?, table.text("then")?) {
            (Some(count), Some(key)) => Some((u64::from(count), key)),
            (None, None) => None,
            _ => return Err(format!("{}: `with_layers` and `then` are there together", table.at)),
        };
        let same = Self::Same { key: table.required_text("key")?, with_layers };
        table.end()?;
        Ok(same)
    }
}

impl KeyEntry {
    fn of(at: String, value: Value) -> Result<Self, String> {
        let Value::Object(object) = value else { return Err(format!("{at}: {} is no table", value.kind())) };
        let mut table = Table { at, object };
        let kinds = [
            (Kind::U32, table.text("u32")?),
            (Kind::F32, table.text("f32")?),
            (Kind::Bool, table.text("bool")?),
        ];
        let mut paths = kinds.into_iter().filter_map(|(kind, path)| Some((kind, path?)));
        let entry = match (paths.next(), paths.next(), table.object.remove("is")) {
            (None, None, Some(value)) if is_own(&value) => Self::Is(value),
            (None, None, Some(value)) => {
                let found = modelfmt_value::json::to_string(&value).unwrap_or_default();
                return Err(format!(
                    "{}: `is` is {found}, not text, true, false, a number with a point or a count below 2^32",
                    table.at
                ));
            }
            (Some((kind, path)), None, None) => table.config(kind, path)?,
            _ => return Err(format!("{}: it has one of `u32`, `f32`, `bool` and `is`", table.at)),
        };
        table.end()?;
        Ok(entry)
    }
}

/// Checks whether a value can be the value of a key.
fn is_own(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::String(_) => true,
        Value::Float(number) => crate::number::rounded(*number).is_finite(),
        other => other.as_u64().is_some_and(|count| u32::try_from(count).is_ok()),
    }
}

/// A table of the file, from which the known keys are taken.
struct Table {
    /// Its name, for errors.
    at: String,
    object: Object,
}

impl Table {
    fn wrong(&self, key: &str, value: &Value, wants: &str) -> String {
        let dot = if self.at.is_empty() { "" } else { ": " };
        format!("{}{dot}`{key}` is {}, not {wants}", self.at, value.kind())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.object.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, &other, "text")),
        }
    }

    fn required_text(&mut self, key: &str) -> Result<String, String> {
        let missing = if self.at.is_empty() { "it".to_owned() } else { self.at.clone() };
        self.text(key)?.ok_or_else(|| format!("{missing} has no `{key}`"))
    }

    fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.object.remove(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|items| items.texts());
        let texts = texts.ok_or_else(|| self.wrong(key, &value, "a list of texts"))?;
        Ok(Some(texts.into_iter().map(str::to_owned).collect()))
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.object.remove(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.wrong(key, &other, "true or false")),
        }
    }

    fn count(&mut self, key: &str) -> Result<Option<u32>, String> {
        let Some(value) = self.object.remove(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        count.map(Some).ok_or_else(|| self.wrong(key, &value, "a count"))
    }

    fn table(&mut self, key: &str) -> Result<Self, String> {
        match self.object.remove(key) {
            None => Ok(Self { at: key.to_owned(), object: Object::new() }),
            Some(Value::Object(object)) => Ok(Self { at: key.to_owned(), object }),
            Some(other) => Err(self.wrong(key, &other, "a table")),
        }
    }

    /// Reads each member.
    fn each<T>(self, of: impl Fn(String, Value) -> Result<T, String>) -> Result<Vec<(String, T)>, String> {
        let Self { at, object } = self;
        let members = object.into_iter().map(|(key, value)| {
            let read = of(format!("{at}.{key:?}"), value)?;
            Ok((key, read))
        });
        members.collect()
    }

    /// Reads the rest of a key that is taken from the config.
    fn config(&mut self, kind: Kind, path: String) -> Result<KeyEntry, String> {
        let times = self.count("times")?.unwrap_or(1);
        let (or, is_optional) = (self.text("or")?, self.flag("optional")?);
        let otherwise = self.object.remove("else");
        Ok(KeyEntry::Config { kind, path, or, times, otherwise, is_optional })
    }

    /// Fails for a key that was not taken.
    fn end(self) -> Result<(), String> {
        let dot = if self.at.is_empty() { "" } else { ": " };
        match self.object.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("{}{dot}`{key}` is no key of a map", self.at)),
        }
    }
}

/// Returns the text of an error on one line.
fn one_line(error: &toml::de::Error) -> String {
    let text = error.to_string();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
