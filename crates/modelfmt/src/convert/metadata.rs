//! The metadata of the target, made from that of the source.

use std::collections::{BTreeMap, HashSet};

use tensor_core::DType;
use tensor_core::value::{Object, Value, json};

use super::fit::{Capabilities, Metadata as Kind, Misfit};
use super::options::ConvertOptions;
use super::reserved::{Changes, KEY, Reserved};
use super::source::Content;
use super::tensors::Tensors;
use crate::format::Format;

/// Metadata as a target takes it.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Keys and values: any JSON; for MAG numbers, for safetensors strings, for OINF what its crate reads.
    pub(super) keys: Object,
    /// OINF: size variables.
    pub(super) sizevars: Object,
    /// Sharded safetensors: strings of the files that the index does not have.
    pub(super) files: Object,
    /// What the target cannot hold.
    pub(super) losses: Vec<Misfit>,
    /// What was chosen for the user.
    pub(super) notes: Vec<String>,
    /// AERO's manifest has texts for these even if MJSN has something else under such a key.
    #[cfg_attr(not(feature = "aero"), expect(dead_code, reason = "no other format has a manifest"))]
    pub(super) name: String,
    #[cfg_attr(not(feature = "aero"), expect(dead_code, reason = "no other format has a manifest"))]
    pub(super) architecture: String,
}

/// Keys that AERO and APR2 ask for, of which a model that came from elsewhere knows nothing.
const AERO_KEYS: &[&str] = &["model_name", "architecture"];
const APR2_KEYS: &[&str] = &["apr_version", "model_type", "architecture"];

/// The formats with JSON that ask for the same keys.
pub(super) fn family(format: Format) -> Option<(Format, &'static [&'static str])> {
    match format {
        Format::Aero | Format::AeroSet => Some((Format::Aero, AERO_KEYS)),
        Format::Apr2 | Format::Apr2Sharded | Format::Apr1 => Some((Format::Apr2, APR2_KEYS)),
        _ => None,
    }
}

/// Whether the key is one that some format asks for, which a conversion may add or replace.
pub(super) fn is_asked_for(key: &str) -> bool {
    AERO_KEYS.iter().chain(APR2_KEYS).any(|asked| *asked == key)
}

fn is_same_family(a: Format, b: Format) -> bool {
    a == b || family(a).zip(family(b)).is_some_and(|((a, _), (b, _))| a == b)
}

/// Maps the metadata of a source to a target, as DECISIONS, "Conversion between formats" has it.
pub(super) struct Mapper<'a> {
    pub(super) target: &'static Capabilities,
    pub(super) options: &'a ConvertOptions,
    /// The name of the source's file, without its ending.
    pub(super) stem: &'a str,
}

impl Mapper<'_> {
    pub(super) fn map(&self, content: Content, tensors: &Tensors) -> Metadata {
        match self.target.metadata {
            Kind::Json => self.json(content, tensors),
            _ => self.plain(content),
        }
    }

    /// For a target whose metadata is a JSON object.
    fn json(&self, content: Content, tensors: &Tensors) -> Metadata {
        let Content { format: source, mut keys, reserved, mut losses, name, architecture, mut notes } =
            content;
        let mut reserved = reserved.unwrap_or_else(|| Reserved::new(source));
        let target = self.target.format;
        let mut is_foreign = reserved.format != source && !is_same_family(reserved.format, source);
        if is_same_family(reserved.format, target) && reserved.format != source {
            // Back to where it came from.
            reserved.changes.undo(&mut keys);
            losses.extend(reserved.losses());
            reserved = Reserved::new(target);
            is_foreign = false;
        } else if is_foreign && let Some((known, _)) = family(target) {
            leave(&mut keys, &mut reserved, source, known);
        }
        let asked = Asked { source, name, architecture, options: self.options, stem: self.stem };
        let mut changes = asked.fill(target, &mut keys, &mut notes);
        for (key, value) in self.options.metadata.iter().flatten() {
            keys.insert(key, value.clone());
            changes.forget(key);
            reserved.changes.forget(key);
        }
        if is_same_family(source, target) {
            // What a format asks for, a file of it keeps.
        } else if !is_foreign {
            reserved.changes.extend(changes);
        } else if !reserved.has_all_metadata() && !changes.is_empty() {
            reserved.via.push((source, changes));
        }
        self.quantization(&mut keys, tensors);
        reserved.declared.clone_from(&tensors.listed);
        reserved.shapes.clone_from(&tensors.scalars);
        let architecture = asked.architecture(&keys);
        let name = asked.name.as_deref().unwrap_or(self.stem).to_owned();
        let mut metadata = Metadata {
            keys,
            sizevars: Object::new(),
            files: Object::new(),
            losses,
            notes,
            name,
            architecture,
        };
        if !reserved.is_empty() {
            metadata.reserve(&reserved);
        }
        metadata
    }

    /// APR2 has a key that says how the model was quantized: `--quantize` sets it, and `--dequantize` removes it where it
    /// leaves no blocks.
    fn quantization(&self, keys: &mut Object, tensors: &Tensors) {
        if family(self.target.format).is_none_or(|(known, _)| known != Format::Apr2) {
            return;
        }
        if tensors.blocks.is_empty() {
            if !self.options.dequantize.is_empty() {
                keys.remove("quantization");
            }
        } else if !self.options.quantize.is_empty() {
            let method = match tensors.blocks.keys().collect::<Vec<_>>()[..] {
                [dtype] => dtype.name().to_uppercase(),
                _ => "MIXED".to_owned(),
            };
            let bits = bits_per_weight(&tensors.blocks);
            let value =
                Object::from_iter([("method", Value::from(method)), ("bits_per_weight", bits.into())]);
            keys.insert("quantization", value);
        }
    }

    /// For a target whose metadata is a list of keys with values of its own kinds.
    fn plain(&self, content: Content) -> Metadata {
        let Content { mut keys, reserved, losses, notes, .. } = content;
        let mut metadata = Metadata {
            keys: Object::new(),
            sizevars: Object::new(),
            files: Object::new(),
            losses,
            notes,
            name: String::new(),
            architecture: String::new(),
        };
        if let Some(reserved) = reserved {
            for (_, changes) in reserved.via.iter().rev() {
                changes.undo(&mut keys);
            }
            reserved.changes.undo(&mut keys);
            metadata.losses.extend(reserved.losses());
            if reserved.has_all_metadata() {
                // The model knew nothing of these, so containers on the way have asked for them.
                AERO_KEYS.iter().chain(APR2_KEYS).for_each(|key| _ = keys.remove(key));
                let said_twice = "the model had another value under that key before it came into this format";
                keys =
                    reserved.metadata.into_iter().chain(keys).fold(Object::new(), |mut all, (key, value)| {
                        // What the model itself says comes first.
                        match all.get(&key) {
                            None => _ = all.insert(key, value),
                            Some(known) if *known == value => {}
                            Some(_) => metadata.losses.push(Misfit::loss("metadata key", &key, said_twice)),
                        }
                        all
                    });
            }
            metadata.sizevars = reserved.sizevars;
            if self.target.metadata == Kind::Index {
                let files: HashSet<String> = reserved.files.into_iter().collect();
                keys.retain(|key, value| {
                    let is_of_index = !files.contains(key);
                    if !is_of_index {
                        metadata.files.insert(key, std::mem::take(value));
                    }
                    is_of_index
                });
            }
        }
        for (key, value) in self.options.metadata.iter().flatten() {
            keys.insert(key, value.clone());
        }
        for (key, value) in keys {
            match self.value(&key, value) {
                Ok(value) => _ = metadata.keys.insert(key, value),
                Err(why) => metadata.losses.push(Misfit::loss("metadata key", &key, why)),
            }
        }
        self.map_sizevars(&mut metadata);
        metadata
    }

    fn map_sizevars(&self, metadata: &mut Metadata) {
        if self.target.metadata != Kind::Typed {
            let format = self.target.format;
            for (name, _) in std::mem::take(&mut metadata.sizevars) {
                let why = format!("{format} has no size variables");
                metadata.losses.push(Misfit::loss("size variable", &name, why));
            }
            return;
        }
        for (name, value) in &self.options.sizevars {
            metadata.sizevars.insert(name, *value);
        }
        let losses = &mut metadata.losses;
        metadata.sizevars.retain(|name, _| match super::fit::plain_fault(name) {
            Some(why) => {
                losses.push(Misfit::loss("size variable", name, why));
                false
            }
            None => true,
        });
    }

    /// The value in the form that the target takes, or why it cannot.
    fn value(&self, key: &str, value: Value) -> Result<Value, String> {
        match self.target.metadata {
            Kind::Numbers if !(1..=65_535).contains(&key.len()) => {
                Err(format!("keys of {} have 1 to 65,535 bytes", self.target.format))
            }
            Kind::Numbers => number(&value).ok_or_else(|| {
                let found = typed(&value).map_or(value.kind().to_owned(), |(name, _)| format!("a {name}"));
                format!("it is {found}, and {} holds integers below 2^63 and floats", self.target.format)
            }),
            Kind::Strings => match typed(&value) {
                None if value.as_str().is_some() => Ok(value),
                Some(("str", Some(text))) => Ok(text.clone()),
                _ => {
                    let found =
                        typed(&value).map_or(value.kind().to_owned(), |(name, _)| format!("a {name}"));
                    Err(format!("it is {found}, and metadata of {} are strings", self.target.format))
                }
            },
            Kind::Index => match typed(&value) {
                Some(("str", Some(text))) => Ok(text.clone()),
                _ => Ok(value),
            },
            _ => super::targets::oinf_value(key, value),
        }
    }
}

impl Metadata {
    /// Puts the reserved key in, or says what is lost because somebody else uses it.
    fn reserve(&mut self, reserved: &Reserved) {
        if self.keys.try_insert(KEY, reserved.to_object()).is_ok() {
            return;
        }
        let taken = || format!("the metadata key {KEY:?}, which would say so, is in use");
        for (_, declared) in &reserved.declared {
            self.losses.push(Misfit::loss("declared tensor", &declared.name, taken()));
        }
        for name in &reserved.shapes {
            self.losses.push(Misfit::loss("the shape [] of tensor", name, taken()));
        }
        for key in reserved.metadata.keys().chain(reserved.sizevars.keys()) {
            self.losses.push(Misfit::loss("metadata key", key, taken()));
        }
    }
}

/// Undoes what was added when a model of a third format left the family `known` for the container that it is in now.
///
/// The reserved key travels verbatim, so for a model that has all its metadata there the rule is: what a container
/// asks for and was not added on the way in has been added since.
fn leave(keys: &mut Object, reserved: &mut Reserved, container: Format, known: Format) {
    let Some((here, asked)) = family(container) else { return };
    if here == known {
        return;
    }
    if reserved.has_all_metadata() {
        // A string that stood where APR2 asks for an object is its model_type now.
        let model_type = keys.get("model_type").filter(|value| value.as_str().is_some()).cloned();
        if let Some(model_type) = model_type.filter(|_| known == Format::Aero)
            && keys.get("architecture").and_then(Value::as_object).is_some_and(Object::is_empty)
        {
            keys.insert("architecture", model_type);
        }
        let needed = family(known).map_or(&[][..], |(_, needed)| needed);
        let since = |key: &&&str| {
            !needed.contains(*key) && !reserved.changes.added.iter().any(|known| known == **key)
        };
        asked.iter().filter(since).for_each(|key| _ = keys.remove(key));
    } else if reserved.via.last().is_some_and(|&(format, _)| is_same_family(format, known))
        && let Some((_, changes)) = reserved.via.pop()
    {
        changes.undo(keys);
    }
}

/// What AERO and APR2 ask for, from what there is.
struct Asked<'a> {
    source: Format,
    /// What the source says outside of the keys.
    name: Option<String>,
    architecture: Option<String>,
    options: &'a ConvertOptions,
    stem: &'a str,
}

impl Asked<'_> {
    /// Puts in what the user gave, and what the target asks for and the keys lack or have otherwise.
    fn fill(&self, target: Format, keys: &mut Object, notes: &mut Vec<String>) -> Changes {
        let mut changes = Changes::default();
        let is_apr2 = family(target).is_some_and(|(family, _)| family == Format::Apr2);
        let ConvertOptions { model_name, architecture, model_type, .. } = self.options;
        let text = |value: &Option<String>| value.as_deref().map(Value::from);
        let architecture_value = |text| if is_apr2 { object_of(text) } else { Value::from(text) };
        let given = [
            ("model_name", text(model_name)),
            ("architecture", architecture.as_deref().map(architecture_value)),
            ("model_type", text(model_type)),
        ];
        let said = self.said(keys, if is_apr2 { "architecture" } else { "model_type" });
        for (key, value) in given {
            if let Some(value) = value
                && keys.insert(key, value).is_none()
            {
                changes.added.push(key.to_owned());
            }
        }
        let mut lacks = |key: &str, is_good: fn(&Value) -> bool, value: Value, note: Option<&str>| {
            if keys.get(key).is_some_and(is_good) {
                return;
            }
            // What `--metadata` says replaces this later.
            let is_given = self.options.metadata.as_ref().is_some_and(|given| given.get(key).is_some());
            if let Some(note) = note.filter(|_| !is_given) {
                let text = json::to_string(&value).unwrap_or_default();
                notes.push(format!("{key} is {text}, {note}"));
            }
            changes.set(keys, key, value);
        };
        let unknown = "because the source does not say";
        let is_text = |value: &Value| value.as_str().is_some();
        let note = said.is_none().then_some(unknown);
        if is_apr2 {
            let plain = architecture.clone().filter(|text| json::parse_object(text.as_bytes()).is_err());
            let note = note.filter(|_| plain.is_none());
            let model_type = plain.or(said).unwrap_or_else(|| "unknown".to_owned());
            lacks("apr_version", is_text, "2.0.0".into(), None);
            lacks("model_type", is_text, model_type.into(), note);
            lacks("architecture", |value| value.as_object().is_some(), Object::new().into(), None);
        } else if family(target).is_some() {
            let from_file = self.name.is_none().then_some("after the file");
            let name = self.name.as_deref().unwrap_or(self.stem);
            lacks("model_name", |_| true, name.into(), from_file);
            lacks("architecture", |_| true, said.unwrap_or_else(|| "unknown".to_owned()).into(), note);
        }
        changes
    }

    /// What there is for the name of an architecture: what GGUF says, the text under `key`, what a manifest says.
    fn said(&self, keys: &Object, key: &str) -> Option<String> {
        let there = keys.get(key).and_then(Value::as_str).map(str::to_owned);
        let said = self.architecture.clone();
        if self.source == Format::Gguf { said.or(there) } else { there.or(said) }
    }

    /// The name of the architecture for AERO's manifest, where a key of that name may be an object.
    fn architecture(&self, keys: &Object) -> String {
        let there = keys.get("architecture").and_then(Value::as_str).map(str::to_owned);
        there.or_else(|| self.said(keys, "model_type")).unwrap_or_else(|| "unknown".to_owned())
    }
}

/// The bits that a weight takes on average, scales included, of so many elements in blocks of each type.
fn bits_per_weight(blocks: &BTreeMap<DType, u64>) -> f64 {
    let mut sums = (0.0, 0.0);
    for (dtype, &elements) in blocks {
        let bits = dtype.block().map_or(0.0, |block| f64::from(block.nbytes * 8) / f64::from(block.elements));
        sums = (sums.0 + bits * elements as f64, sums.1 + elements as f64);
    }
    if sums.1 > 0.0 { sums.0 / sums.1 } else { 0.0 }
}

/// `--architecture` for APR2: the text of an object, or a name, which is put into one.
fn object_of(text: &str) -> Value {
    let named = || Object::from_iter([("name", text)]);
    json::parse_object(text.as_bytes()).unwrap_or_else(|_| named()).into()
}

/// Type and value of `{"type", "value"}` or `{"type", "bits"}`, as OINF's metadata and floats that JSON lacks are expressed.
fn typed(value: &Value) -> Option<(&str, Option<&Value>)> {
    let object = value.as_object()?;
    let name = object.get("type")?.as_str()?;
    let is_typed = object.contains_key("value") || object.contains_key("bits");
    is_typed.then(|| (name, object.get("value")))
}

/// The number as MAG holds it, if it is one.
fn number(value: &Value) -> Option<Value> {
    let fits = |value: &Value| matches!(value, Value::Float(_)) || value.as_i64().is_some();
    match typed(value) {
        None => fits(value).then(|| value.clone()),
        Some((name, value)) => {
            let dtype: DType = name.parse().ok()?;
            match (dtype, value) {
                (DType::F16 | DType::F32 | DType::F64, Some(value)) => value.as_f64().map(Value::Float),
                (DType::F16 | DType::F32 | DType::F64, None) => None, // see below
                (_, Some(Value::Int(n))) => n.as_i64().map(Value::from),
                _ => None,
            }
        }
    }
    .or_else(|| float_of_bits(value).map(Value::Float))
}

/// The float of `{"type": "f32", "bits": "7fc00000"}`, with its bits where f64 has the same.
fn float_of_bits(value: &Value) -> Option<f64> {
    let object = value.as_object()?;
    let digits = object.get("bits")?.as_str()?;
    let bits = u64::from_str_radix(digits, 16).ok()?;
    match (object.get("type")?.as_str()?, digits.len()) {
        ("f64", 16) => Some(f64::from_bits(bits)),
        ("f32", 8) => Some(f32::from_bits(u32::try_from(bits).ok()?).into()),
        ("f16", 4) => Some(tensor_core::f16::from_bits(u16::try_from(bits).ok()?).into()),
        _ => None,
    }
}
