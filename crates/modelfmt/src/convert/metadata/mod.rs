//! The metadata of the target, made from the metadata of the source.

mod bare;
#[cfg(not(target_arch = "wasm32"))]
pub(super) mod config;
mod file_type;
pub(crate) mod flat;
pub(crate) mod mapped;
pub(super) mod names;
mod plain;
pub(crate) mod reserved;
mod several;
pub(super) mod source;
mod typed_lists;

use std::collections::{BTreeMap, HashSet};

use modelfmt_core::DType;
use modelfmt_core::value::{Object, Value, json};

use super::fit::Unsupported;
use super::options::ConvertOptions;
use super::tensors::chosen::{Item, Tensors};
use crate::choice::Choice;
use crate::formats::Format;
use crate::formats::capabilities::{Capabilities, Metadata as Kind};
use crate::quant::Quant;
use crate::words::Remedy;
use mapped::Metadata;
use names::{
    AERO_KEYS, APR_VERSION, APR2_KEYS, ModelNames, NO_STEM, SILENT, UNKNOWN, family, is_filler,
    is_same_family,
};
use reserved::{Changes, Hints, KEY, Reserved};
use source::Content;

/// Maps the metadata of a source to a target, so that nothing is lost silently and a model comes back as it was
/// (docs/formats/conversion.md#nothing-is-lost-silently).
pub(super) struct Mapper<'a> {
    pub(crate) target: &'static Capabilities,
    pub(crate) options: &'a ConvertOptions,
    /// The name of the source's file, without its ending.
    pub(crate) stem: &'a str,
}

impl Mapper<'_> {
    pub(crate) fn map(&self, content: Content, tensors: &Tensors) -> Metadata {
        match self.target.metadata {
            Kind::Json => self.json(content, tensors),
            _ => self.plain(content, tensors),
        }
    }

    /// For a target whose metadata is a JSON object.
    fn json(&self, content: Content, tensors: &Tensors) -> Metadata {
        let target = self.target.format;
        let source = content.format;
        let is_same = is_same_family(source, target);
        let Content {
            mut keys,
            reserved,
            mut losses,
            own,
            own_set,
            said,
            config,
            manifest,
            is_turned,
            mut notes,
            ..
        } = content;
        // AERO alone has such things; of several models not each need be one.
        if family(target).is_none_or(|(known, _)| known != Format::Aero) {
            losses.extend(own);
        }
        if target != Format::AeroSet {
            losses.extend(own_set);
        }
        if source == Format::Mag {
            let is_bare = |(_, value): &(&str, &Value)| !value.is_json();
            notes.extend(
                keys.iter().filter(is_bare).map(|(key, _)| format!("metadata key {key:?}: {}", bare::NOTE)),
            );
        }
        let mut reserved = reserved.unwrap_or_else(|| Reserved::new(source));
        // A container that asks for no keys adds none.
        let mut is_foreign =
            reserved.format != source && !is_same_family(reserved.format, source) && family(source).is_some();
        let mut gone = Vec::new();
        if is_same_family(reserved.format, target) && reserved.format != source {
            // Back to where it came from, from the last container to the first.
            reserved.via.iter().rev().for_each(|(_, changes)| gone.extend(changes.undo(&mut keys)));
            gone.extend(reserved.changes.undo(&mut keys));
            losses.extend(reserved.losses());
            reserved = Reserved::new(target);
            is_foreign = false;
        } else if is_foreign && let Some((known, _)) = family(target) {
            gone.extend(leave(&mut keys, &mut reserved, source, known));
        }
        let own = typed_names(&reserved);
        gone.retain(|(key, value)| own.get(key) != Some(value));
        notes.extend(left_out(&gone, &keys, self.stem));
        let asked = Asked {
            source,
            said,
            config,
            typed: typed_names(&reserved),
            options: self.options,
            stem: self.stem,
        };
        let mut changes = asked.fill(target, &mut keys, &mut notes);
        for (key, value) in self.options.metadata.iter().flatten() {
            keys.insert(key, value.clone());
            changes.forget(key);
        }
        self.options.given_keys().for_each(|key| reserved.give(key));
        if is_same || (is_foreign && reserved.has_all_metadata()) {
            // What a format asks for, a file of it keeps, and the reserved key travels verbatim.
            for key in changes.replaced.keys() {
                let why = format!("{target} asks for another kind of value there");
                losses.push(Unsupported::loss("metadata key", key, why));
            }
        } else if !is_foreign {
            reserved.changes.extend(changes);
        } else if !changes.is_empty() {
            reserved.via.push((source, changes));
        }
        self.quantization(&mut keys, tensors, &mut notes);
        reserved.declared.clone_from(&tensors.listed);
        reserved.shapes.clone_from(&tensors.scalars);
        reserved.quants.clone_from(&tensors.quants);
        reserved.order.clone_from(&tensors.order);
        reserved.floats = bare::places(&keys);
        self.set_aside(&mut keys, &mut reserved, is_turned, &mut notes);
        let architecture = asked.architecture(&keys);
        let name = asked.name().0.to_owned();
        let mut metadata = Metadata {
            keys,
            sizevars: Object::new(),
            files: Object::new(),
            manifest,
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

    /// Puts keys that must not are in a file of the target under the reserved key, for the way back
    /// (docs/formats/conversion.md#the-reserved-key).
    fn set_aside(
        &self,
        keys: &mut Object,
        reserved: &mut Reserved,
        is_turned: bool,
        notes: &mut Vec<String>,
    ) {
        let unreadable = self.target.format.driver().and_then(|driver| driver.unreadable);
        let asked = family(self.target.format).map_or(&[][..], |(_, asked)| asked);
        let mut listed = unreadable.map(|list| list(keys)).unwrap_or_default();
        if is_turned {
            let why = "says that shapes are in ggml's order, and they have been reversed";
            listed.push(("source_format".to_owned(), why.to_owned()));
        }
        for (key, why) in listed.into_iter().filter(|(key, _)| !asked.contains(&key.as_str())) {
            if let Some(value) = keys.remove(&key) {
                notes.push(format!("{key} is kept aside, for the way back: it {why}"));
                reserved.aside.insert(key, value);
            }
        }
    }

    /// APR and APR2 have a key that says how the model was quantized: `--quantize` sets that of APR2, and `--dequantize` removes it where it
    /// leaves no blocks.
    fn quantization(&self, keys: &mut Object, tensors: &Tensors, notes: &mut Vec<String>) {
        let known = family(self.target.format).map(|(known, _)| known);
        let (is_apr, is_apr2) = (known == Some(Format::Apr), known == Some(Format::Apr2));
        let is_given = self.options.metadata.as_ref().is_some_and(|given| given.contains_key("quantization"));
        if !(is_apr || is_apr2) || is_given {
            return;
        }
        if tensors.blocks.is_empty() {
            let is_decoded = |item: &Item| item.from.is_quantized() && !item.to.is_quantized();
            if tensors.items.iter().any(is_decoded) && keys.remove("quantization").is_some() {
                notes.push("quantization is left out: no tensor is quantized any more".to_owned());
            }
        } else if is_apr2 && !self.options.quantize.is_empty() {
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
    fn plain(&self, content: Content, tensors: &Tensors) -> Metadata {
        let Content { format, mut keys, reserved, losses, own, own_set, notes, .. } = content;
        let mut metadata = Metadata {
            keys: Object::new(),
            sizevars: Object::new(),
            files: Object::new(),
            manifest: Object::new(),
            losses,
            notes,
            name: String::new(),
            architecture: String::new(),
        };
        metadata.losses.extend(own.into_iter().chain(own_set));
        metadata.losses.extend(self.lost_quants(tensors));
        // All keys, and those whose values may be in the form `{"type", "value"}`.
        let (mut all, mut typed) = (Object::new(), HashSet::new());
        let (mut origin, mut hints) = (format, Hints::default());
        if let Some(reserved) = reserved {
            origin = reserved.format;
            metadata.undo(&mut keys, &reserved, self.stem);
            metadata.sizevars = reserved.sizevars;
            hints = reserved.hints;
            if !reserved.metadata.is_empty() {
                typed.extend(reserved.metadata.keys().map(str::to_owned));
                all = reserved.metadata;
            }
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
        for (key, value) in keys {
            // What the model itself says comes first.
            match all.get(&key) {
                None => _ = all.insert(key, value),
                Some(known) if known.to_plain() == value => {}
                Some(_) => {
                    let why = "the model had another value under that key before it came into this format";
                    metadata.losses.push(Unsupported::loss("metadata key", &key, why));
                }
            }
        }
        for (key, value) in self.options.metadata.iter().flatten() {
            all.insert(key, value.clone());
            typed.insert(key.to_owned());
            hints.stored.remove(key);
        }
        if self.target.metadata == Kind::TypedLists {
            all = typed_lists::in_order(all, &hints.keys);
        }
        for (key, value) in all {
            let is_typed = typed.contains(&key);
            match self.value(&key, &value, is_typed, &hints) {
                Ok(value) => _ = metadata.keys.insert(key, value),
                Err(why) => match self.as_text(&key, &value, is_typed, why) {
                    Ok(text) => {
                        hints.text.push(key.clone());
                        metadata.keys.insert(key, text);
                    }
                    Err(loss) => metadata.losses.push(loss),
                },
            }
        }
        if matches!(self.target.format, Format::Gguf | Format::GgufSharded) {
            file_type::state(&mut metadata.keys, self.options, tensors, &mut metadata.notes);
        }
        self.keep_hints(&mut metadata, origin, hints);
        self.map_sizevars(&mut metadata);
        metadata
    }

    /// Scales and zero points that stay beside numbers, for a target that has none.
    fn lost_quants(&self, tensors: &Tensors) -> Vec<Unsupported> {
        let quants = if self.target.quants { &[][..] } else { &tensors.quants };
        let loss = |(name, _): &(String, Quant)| {
            let why = format!(
                "{} has no scales beside values, and without them its numbers are others",
                self.target.format
            );
            let remedy = Some(Remedy::Dequantize(DType::F32));
            Unsupported { remedy, ..Unsupported::loss(super::values::quants::SUBJECT, name, why) }
        };
        quants.iter().map(loss).collect()
    }

    /// The value as text, if that is asked for and helps; else what is lost, and what would help.
    fn as_text(&self, key: &str, value: &Value, typed: bool, why: String) -> Result<Value, Unsupported> {
        let loss = Unsupported::loss("metadata key", key, why);
        if !self.target.format.takes(Choice::Stringify) {
            return Err(loss);
        }
        let plain = if typed { value.to_plain() } else { value.clone() };
        let text = json::to_string(&plain).ok().map(Value::from);
        match text.and_then(|text| self.value(key, &text, false, &Hints::default()).ok()) {
            Some(text) if self.options.stringify => Ok(text),
            Some(_) => Err(Unsupported { remedy: Some(Remedy::Stringify), ..loss }),
            None => Err(loss),
        }
    }

    /// Puts what the values do not tell of those of GGUF under the reserved key, where the target has a place for it.
    fn keep_hints(&self, metadata: &mut Metadata, origin: Format, hints: Hints) {
        let is_of_gguf = matches!(origin, Format::Gguf | Format::GgufSharded) && !hints.is_empty();
        let is_text = self.target.metadata == Kind::Strings && self.options.stringify;
        if !is_of_gguf || !(is_text || matches!(self.target.metadata, Kind::Index | Kind::Object)) {
            return;
        }
        let reserved = Reserved::with_hints(origin, hints);
        if metadata.keys.contains_key(KEY) || !is_text {
            return metadata.reserve(&reserved);
        }
        let text = json::to_string(&reserved.to_object()).unwrap_or_default();
        metadata.keys.insert(KEY, text);
    }

    fn map_sizevars(&self, metadata: &mut Metadata) {
        if self.target.metadata != Kind::Typed {
            let format = self.target.format;
            for (name, _) in std::mem::take(&mut metadata.sizevars) {
                let why = format!("{format} has no size variables");
                metadata.losses.push(Unsupported::loss("size variable", &name, why));
            }
            return;
        }
        for (name, value) in &self.options.sizevars {
            metadata.sizevars.insert(name, *value);
        }
        let losses = &mut metadata.losses;
        metadata.sizevars.retain(|name, _| match crate::formats::capabilities::plain_fault(name) {
            Some(why) => {
                losses.push(Unsupported::loss("size variable", name, why));
                false
            }
            None => true,
        });
    }

    /// The value in the form that the target takes, or why it cannot. `typed` says whether an object may be a value with its
    /// type; elsewhere an object that looks like one is an object.
    fn value(&self, key: &str, value: &Value, typed: bool, hints: &Hints) -> Result<Value, String> {
        let format = self.target.format;
        let found = if typed { plain::kind(value) } else { value.kind().to_owned() };
        let unwrapped = || if typed { value.to_plain() } else { value.clone() };
        match self.target.metadata {
            Kind::Numbers if !(1..=65_535).contains(&key.len()) => {
                Err(format!("keys of {format} have 1 to 65,535 bytes"))
            }
            Kind::Numbers => {
                let fits = |value: &Value| matches!(value, Value::Float(_)) || value.as_i64().is_some();
                let why = || format!("{format} holds integers below 2^63 and floats, not {found}");
                Some(unwrapped()).filter(fits).ok_or_else(why)
            }
            Kind::Object => Ok(unwrapped()),
            Kind::Strings => {
                let why = || format!("metadata of {format} are strings, not {found}");
                Some(unwrapped()).filter(|value| value.as_str().is_some()).ok_or_else(why)
            }
            Kind::Index if key == "total_size" => {
                Err("the index states there how many bytes its own tensors take".to_owned())
            }
            Kind::Index => {
                let why = || format!("JSON has no NaN and no infinity, as {found} has here");
                Some(unwrapped()).filter(|value| !typed || value.is_json()).ok_or_else(why)
            }
            Kind::Typed if !typed && value.as_object().is_some() => {
                Err(format!("{format} holds numbers, booleans, strings and flat lists, not {found}"))
            }
            Kind::TypedLists => typed_lists::value(self.target, key, value, typed, hints),
            _ => super::output::write::own_value(self.target, key, value.clone()),
        }
    }
}

impl Metadata {
    /// Takes back what containers on the way have added to the keys.
    fn undo(&mut self, keys: &mut Object, reserved: &Reserved, stem: &str) {
        let mut gone = Vec::new();
        reserved.via.iter().rev().for_each(|(_, changes)| gone.extend(changes.undo(keys)));
        gone.extend(reserved.changes.undo(keys));
        self.losses.extend(reserved.losses());
        if reserved.has_all_metadata() {
            // The model knew nothing of these, so containers on the way have asked for them.
            let asked = AERO_KEYS.iter().chain(APR2_KEYS).filter(|key| !reserved.is_given(key));
            gone.extend(asked.filter_map(|key| Some(((*key).to_owned(), keys.remove(key)?))));
        }
        let own = typed_names(reserved);
        gone.retain(|(key, value)| own.get(key) != Some(value));
        self.notes.extend(left_out(&gone, keys, stem));
    }

    /// Puts the reserved key in, or says what is lost because the model already uses it.
    fn reserve(&mut self, reserved: &Reserved) {
        if self.keys.try_insert(KEY, reserved.to_object()).is_ok() {
            return;
        }
        let taken = || format!("the metadata key {KEY:?}, which would say so, is in use");
        for (_, declared) in &reserved.declared {
            self.losses.push(Unsupported::loss("declared tensor", &declared.name, taken()));
        }
        for name in &reserved.shapes {
            self.losses.push(Unsupported::loss("the shape [] of tensor", name, taken()));
        }
        for (name, _) in &reserved.quants {
            self.losses.push(Unsupported::loss(super::values::quants::SUBJECT, name, taken()));
        }
        for key in reserved.hints.types.keys() {
            self.losses.push(Unsupported::loss("type of metadata key", key, taken()));
        }
        let keys = reserved.metadata.keys().chain(reserved.sizevars.keys());
        let keys = keys.chain(reserved.aside.keys()).chain(reserved.floats.keys());
        for key in keys {
            self.losses.push(Unsupported::loss("metadata key", key, taken()));
        }
    }
}

/// Undoes what was added when a model of a third format left the family `known` for the container that it is in now.
/// Returns what was there and is gone.
///
/// The reserved key travels verbatim, so for a model that has all its metadata there the rule is: what a container
/// asks for and was not added on the way in has been added since.
fn leave(
    keys: &mut Object,
    reserved: &mut Reserved,
    container: Format,
    known: Format,
) -> Vec<(String, Value)> {
    let Some((here, asked)) = family(container) else { return Vec::new() };
    if here == known {
        return Vec::new();
    }
    if reserved.has_all_metadata() {
        let needed = family(known).map_or(&[][..], |(_, needed)| needed);
        let since = |key: &&&str| {
            !needed.contains(*key)
                && !reserved.changes.added.iter().any(|known| known == **key)
                && !reserved.is_given(key)
        };
        let gone = asked.iter().filter(since).filter_map(|key| Some(((*key).to_owned(), keys.remove(key)?)));
        return gone.collect();
    }
    match reserved.via.pop_if(|(format, _)| is_same_family(*format, known)) {
        Some((_, changes)) => changes.undo(keys),
        None => Vec::new(),
    }
}

/// A note for each value that is left out because a container on the way has asked for it, unless it says nothing that the
/// model or the name of its file does not say.
fn left_out(gone: &[(String, Value)], keys: &Object, stem: &str) -> Vec<String> {
    let is_news = |(key, value): &&(String, Value)| {
        let is_stem = key == "model_name" && value.as_str() == Some(stem);
        !is_filler(key, value) && !is_stem && keys.values().all(|other| other != value)
    };
    let note = |(key, value): &(String, Value)| {
        let text = json::to_string(value).unwrap_or_default();
        format!("{key} {text} is left out: an earlier conversion put it in, the model itself does not say it")
    };
    gone.iter().filter(is_news).map(note).collect()
}

fn typed_names(reserved: &Reserved) -> Object {
    let names = AERO_KEYS.iter().chain(APR2_KEYS);
    names.filter_map(|key| Some(((*key).to_owned(), reserved.metadata.get(key)?.to_plain()))).collect()
}

/// What AERO and APR2 ask for, from what there is.
struct Asked<'a> {
    source: Format,
    /// What the source says outside of the keys.
    said: ModelNames,
    /// What a config.json beside it says, which is asked last.
    config: ModelNames,
    /// What a model whose metadata is typed has under the keys that formats ask for.
    typed: Object,
    options: &'a ConvertOptions,
    stem: &'a str,
}

impl Asked<'_> {
    /// Puts in what the user gave, and what the target asks for and the keys lack or have otherwise.
    fn fill(&self, target: Format, keys: &mut Object, notes: &mut Vec<String>) -> Changes {
        let mut changes = Changes::default();
        let known = family(target).map(|(known, _)| known);
        let (is_apr, is_apr2) = (known == Some(Format::Apr), known == Some(Format::Apr2));
        let ConvertOptions { model_name, architecture, model_type, .. } = self.options;
        let text = |value: &Option<String>| value.as_deref().map(Value::from);
        let architecture_value = |text| if is_apr2 { object_of(text) } else { Value::from(text) };
        let given = [
            (if is_apr { "name" } else { "model_name" }, text(model_name)),
            ("architecture", architecture.as_deref().map(architecture_value)),
            ("model_type", text(model_type)),
        ];
        let said = self.said(keys, if is_apr || is_apr2 { "architecture" } else { "model_type" });
        for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            keys.insert(key, value);
        }
        let mut lacks = |key: &str, is_good: fn(&Value) -> bool, value: Value, note: Option<&str>| {
            let there = keys.get(key).or(self.typed.get(key));
            if keys.get(key).is_some_and(is_good) {
                return;
            }
            if let Some(own) = self.typed.get(key).filter(|own| is_good(own) && own.is_json()) {
                return changes.set(keys, key, own.clone());
            }
            // What `--metadata` says replaces this later.
            let is_given = self.options.metadata.as_ref().is_some_and(|given| given.contains_key(key));
            let other = there.map(|_| "because the format asks for another kind of value than there is");
            if let Some(note) = other.or(note).filter(|_| !is_given) {
                let text = json::to_string(&value).unwrap_or_default();
                notes.push(format!("{key} is {text}, {note}"));
            }
            changes.set(keys, key, value);
        };
        let is_text = |value: &Value| value.as_str().is_some();
        let note = match (&said, &self.config.architecture) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(BESIDE),
            (None, None) => Some(SILENT),
        };
        let said = said.or_else(|| self.config.architecture.clone()).unwrap_or_else(|| UNKNOWN.to_owned());
        if is_apr2 {
            let plain = architecture.clone().filter(|text| json::parse_object(text.as_bytes()).is_err());
            let note = note.filter(|_| plain.is_none());
            let is_architecture = |value: &Value| matches!(value, Value::Object(_) | Value::String(_));
            lacks("apr_version", is_text, APR_VERSION.into(), None);
            lacks("model_type", is_text, plain.unwrap_or(said).into(), note);
            lacks("architecture", is_architecture, Object::new().into(), None);
        } else if is_apr {
            lacks("model_type", is_text, architecture.clone().unwrap_or(said).into(), note);
        } else if known.is_some() {
            let (name, from) = self.name();
            lacks("model_name", |_| true, name.into(), from);
            lacks("architecture", |_| true, said.into(), note);
        }
        changes
    }

    /// The model's name, and where it comes from if the source does not say it.
    fn name(&self) -> (&str, Option<&'static str>) {
        match (&self.said.name, &self.config.name) {
            (Some(name), _) => (name, None),
            (None, Some(name)) => (name, Some(BESIDE)),
            // Standard input has no name.
            (None, None) if self.stem == NO_STEM => (self.stem, Some(SILENT)),
            (None, None) => (self.stem, Some("taken from the file name")),
        }
    }

    /// What there is for the name of an architecture: what GGUF says, the text under `key`, what the source says elsewhere.
    fn said(&self, keys: &Object, key: &str) -> Option<String> {
        let there = keys.get(key).and_then(Value::as_str).map(str::to_owned);
        let said = self.said.architecture.clone();
        if matches!(self.source, Format::Gguf | Format::GgufSharded) {
            said.or(there)
        } else {
            there.or(said)
        }
    }

    /// The name of the architecture for AERO's manifest, where a key of that name may be an object.
    fn architecture(&self, keys: &Object) -> String {
        let there = keys.get("architecture").and_then(Value::as_str).map(str::to_owned);
        there
            .or_else(|| self.said(keys, "model_type"))
            .or_else(|| self.config.architecture.clone())
            .unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

const BESIDE: &str = "from the config.json beside the file";

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
