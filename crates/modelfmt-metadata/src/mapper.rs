//! Makes the metadata of the target from the metadata of the source.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use modelfmt_core::DType;
use modelfmt_core::value::{Object, Value, json};

use crate::names::{
    AERO_KEYS, APR2_KEYS, FROM_CONFIG, NOT_COVERED, NOT_STATED, is_placeholder, is_same_family, required_keys,
};
use crate::required::RequiredKeys;
use crate::reserved::{Changes, Hints, KEY, Reserved};
use crate::source::Content;
use crate::{file_type, non_finite, plain, quants, typed_lists};
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::{Capabilities, Metadata as Kind, MetadataSchema};
use modelfmt_model::job::metadata::Metadata;
use modelfmt_model::job::tensors::{Item, OutputTensors};
use modelfmt_model::quant::Quant;
use modelfmt_rules::options::ConvertOptions;
use modelfmt_rules::wording::Choice;
use modelfmt_rules::wording::Remedy;
use modelfmt_rules::wording::unsupported::Unsupported;

/// Maps the metadata of a source to a target, so that nothing is lost silently and a conversion back restores the model
/// (docs/formats/conversion.md#nothing-is-lost-silently).
pub struct Mapper<'a> {
    /// What the target format can hold.
    pub target: &'static Capabilities,
    /// The caller's options.
    pub options: &'a ConvertOptions,
    /// The name of the source file without its ending.
    pub stem: &'a str,
}

impl Mapper<'_> {
    /// Makes the metadata of the target.
    pub fn map(&self, content: Content, tensors: &OutputTensors) -> Metadata {
        match self.target.metadata {
            Kind::Json => self.json(content, tensors),
            _ => self.plain(content, tensors),
        }
    }

    /// Makes the metadata of a target that has a JSON object.
    fn json(&self, content: Content, tensors: &OutputTensors) -> Metadata {
        let (source, stem) = (content.format, self.stem);
        let Content { mut keys, reserved, losses, own, own_set, names, config, manifest, asked_for, .. } =
            content;
        let (mut losses, mut notes) = (self.without_own(losses, own, own_set), content.notes);
        if source.capabilities().metadata == Kind::Numbers {
            let is_bare = |(_, value): &(&str, &Value)| !value.is_json();
            notes.extend(
                keys.iter()
                    .filter(is_bare)
                    .map(|(key, _)| format!("metadata key {key:?}: {}", non_finite::NOTE)),
            );
        }
        let reserved = reserved.unwrap_or_else(|| Reserved::new(source));
        let (mut reserved, is_foreign, removed) =
            self.remove_container_keys(reserved, source, &mut keys, &mut losses);
        notes.extend(left_out(&removed, &keys, stem));
        let typed = typed_names(&reserved);
        let not_stated = if content.is_config_ignored { NOT_COVERED } else { NOT_STATED };
        let required = RequiredKeys { source, names, config, not_stated, typed, options: self.options, stem };
        let mut changes = required.fill(self.target.format, &mut keys, &mut notes);
        for (key, value) in asked_for {
            if !keys.contains_key(&key) {
                changes.set(&mut keys, &key, value);
            }
        }
        for (key, value) in self.options.metadata.set.iter().flatten() {
            keys.insert(key, value.clone());
            changes.forget(key);
        }
        self.options.given_keys().for_each(|key| reserved.give(key));
        losses.extend(self.note_changes(changes, &mut reserved, source, is_foreign));
        self.quantization(&mut keys, tensors, &mut notes);
        reserved.declared.clone_from(&tensors.listed);
        reserved.shapes.clone_from(&tensors.scalars);
        reserved.quants.clone_from(&tensors.quants);
        reserved.order.clone_from(&tensors.order);
        reserved.floats = non_finite::places(&keys);
        self.set_aside(&mut keys, &mut reserved, content.shapes_reversed, &mut notes);
        let (architecture, is_from_config) = required.architecture(&keys);
        let (name, named_by) = required.name();
        if self.target.properties.schema == Some(MetadataSchema::Aero) {
            // If a key has the same text, there is a note already.
            let is_said = |key: &str, text: &str| keys.get(key).and_then(Value::as_str) == Some(text);
            let from_config = [
                ("architecture", &*architecture, is_from_config),
                ("model_name", name, named_by == Some(FROM_CONFIG)),
            ];
            let unsaid = from_config.into_iter().filter(|(key, text, is)| *is && !is_said(key, text));
            notes.extend(
                unsaid.map(|(key, text, _)| format!("{key} of the manifest is {text:?}, {FROM_CONFIG}")),
            );
        }
        let name = name.to_owned();
        let mut metadata =
            Metadata { keys, manifest, losses, notes, name, architecture, ..Metadata::default() };
        if !reserved.is_empty() {
            reserve(&mut metadata, reserved, false);
        }
        metadata
    }

    /// Adds the parts that only AERO can hold to the losses, unless the target is AERO. Does the same for the
    /// parts that only an AEROSET can hold, unless the target is one. Some of several merged models may be
    /// AERO.
    fn without_own(
        &self,
        mut losses: Vec<Unsupported>,
        own: Vec<Unsupported>,
        own_set: Vec<Unsupported>,
    ) -> Vec<Unsupported> {
        let is_aero = self.target.properties.schema == Some(MetadataSchema::Aero);
        if !is_aero {
            losses.extend(own);
        }
        if !(is_aero && self.target.format.is_set()) {
            losses.extend(own_set);
        }
        losses
    }

    /// Removes the keys that the source's container required. If the model goes back to its original format,
    /// removes the keys of all containers. Returns the updated reserved object, whether the source's format
    /// is not the model's original one, and the removed values.
    fn remove_container_keys(
        &self,
        mut reserved: Reserved,
        source: Format,
        keys: &mut Object,
        losses: &mut Vec<Unsupported>,
    ) -> (Reserved, bool, Vec<(String, Value)>) {
        let target = self.target.format;
        // A container that requires no keys adds none.
        let mut is_foreign = reserved.format != source
            && !is_same_family(reserved.format, source)
            && source.properties().schema.is_some();
        let mut removed = Vec::new();
        if is_same_family(reserved.format, target) && reserved.format != source {
            // On the way back to the original format, undo the changes of the last container first.
            reserved
                .intermediate_formats
                .iter()
                .rev()
                .for_each(|(_, changes)| removed.extend(changes.undo(keys)));
            removed.extend(reserved.changes.undo(keys));
            losses.extend(reserved.losses());
            reserved = Reserved::new(target);
            is_foreign = false;
        } else if is_foreign && let Some(known) = target.properties().schema {
            removed.extend(undo_container_keys(keys, &mut reserved, source, known));
        }
        let own = typed_names(&reserved);
        removed.retain(|(key, value)| own.get(key) != Some(value));
        (reserved, is_foreign, removed)
    }

    /// Records in the reserved object which keys were changed because the target requires them. Returns what is lost by that.
    fn note_changes(
        &self,
        changes: Changes,
        reserved: &mut Reserved,
        source: Format,
        is_foreign: bool,
    ) -> Vec<Unsupported> {
        let target = self.target.format;
        if is_same_family(source, target) || (is_foreign && reserved.has_all_metadata()) {
            // A file of the same format keeps the keys that the format requires, and the reserved object is copied verbatim.
            let why = format!("{target} asks for another kind of value there");
            let why: Arc<str> = why.into();
            let loss = |key| Unsupported::loss("metadata key", key, Arc::clone(&why));
            return changes.replaced.keys().map(loss).collect();
        }
        if !is_foreign {
            reserved.changes.extend(changes);
        } else if !changes.is_empty() {
            reserved.intermediate_formats.push((source, changes));
        }
        Vec::new()
    }

    /// Moves keys that a file of the target must not contain into the reserved object, for the way back
    /// (docs/formats/conversion.md#the-reserved-key).
    fn set_aside(
        &self,
        keys: &mut Object,
        reserved: &mut Reserved,
        shapes_reversed: bool,
        notes: &mut Vec<String>,
    ) {
        let unreadable = self.target.format.fns().and_then(|fns| fns.unreadable);
        let required = self.target.properties.schema.map_or(&[][..], required_keys);
        let mut listed = unreadable.map(|list| list(keys)).unwrap_or_default();
        if shapes_reversed {
            let why = "says that shapes are in ggml's order, and they have been reversed";
            listed.push(("source_format".to_owned(), why.to_owned()));
        }
        for (key, why) in listed.into_iter().filter(|(key, _)| !required.contains(&key.as_str())) {
            if let Some(value) = keys.remove(&key) {
                notes.push(format!("{key} is stored separately, for a conversion back: it {why}"));
                reserved.aside.insert(key, value);
            }
        }
    }

    /// Updates the key of APR and APR2 that says how the model was quantized: `--quantize` sets it for APR2, and `--dequantize`
    /// removes it if no blocks are left.
    fn quantization(&self, keys: &mut Object, tensors: &OutputTensors, notes: &mut Vec<String>) {
        let known = self.target.properties.schema;
        let (is_apr, is_apr2) = (known == Some(MetadataSchema::Apr), known == Some(MetadataSchema::Apr2));
        let is_given =
            self.options.metadata.set.as_ref().is_some_and(|given| given.contains_key("quantization"));
        if !(is_apr || is_apr2) || is_given {
            return;
        }
        if tensors.blocks.is_empty() {
            let is_decoded = |item: &Item| item.from.is_quantized() && !item.to.is_quantized();
            if tensors.items.iter().any(is_decoded) && keys.remove("quantization").is_some() {
                notes.push("quantization is left out: no tensor is quantized any more".to_owned());
            }
        } else if is_apr2 && self.options.types.rules.iter().any(|rule| rule.blocks().is_some()) {
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

    /// Makes the metadata of a target that has a list of keys with values of its own types.
    fn plain(&self, content: Content, tensors: &OutputTensors) -> Metadata {
        let Content { format, mut keys, reserved, losses, own, own_set, notes, .. } = content;
        let mut metadata = Metadata { losses, notes, ..Metadata::default() };
        metadata.losses.extend(own.into_iter().chain(own_set));
        metadata.losses.extend(self.lost_quants(tensors));
        // All keys, and the keys whose values may have the form `{"type", "value"}`.
        let (mut all, mut typed) = (Object::new(), HashSet::new());
        let (mut origin, mut hints) = (format, Hints::default());
        if let Some(reserved) = reserved {
            origin = reserved.format;
            undo(&mut metadata, &mut keys, &reserved, self.stem);
            metadata.sizevars = reserved.sizevars;
            hints = reserved.hints;
            if !reserved.metadata.is_empty() {
                typed.extend(reserved.metadata.keys().map(str::to_owned));
                all = reserved.metadata;
            }
            if self.target.metadata == Kind::Index {
                take_files(&mut metadata, &mut keys, reserved.files);
            }
        }
        for (key, value) in keys {
            // The model's own value takes precedence over the container's.
            match all.get(&key) {
                None => _ = all.insert(key, value),
                Some(known) if known.to_plain() == value => {}
                Some(_) => {
                    let why = "the model had another value under that key before it came into this format";
                    metadata.losses.push(Unsupported::loss("metadata key", &key, why));
                }
            }
        }
        for (key, value) in self.options.metadata.set.iter().flatten() {
            all.insert(key, value.clone());
            typed.insert(key.to_owned());
            hints.stored.remove(key);
        }
        if self.target.metadata == Kind::TypedLists {
            all = typed_lists::in_order(all, &hints.keys);
        }
        self.put(all, &typed, &mut hints, &mut metadata);
        if self.target.metadata == Kind::TypedLists {
            file_type::state(&mut metadata.keys, self.options, tensors, &mut metadata.notes);
        }
        self.keep_hints(&mut metadata, origin, hints);
        self.map_sizevars(&mut metadata);
        metadata
    }

    /// Adds the values in the form of the target. Values of the keys in `typed` may have the form `{"type", "value"}`.
    fn put(&self, all: Object, typed: &HashSet<String>, hints: &mut Hints, metadata: &mut Metadata) {
        let mut reasons = Reasons::default();
        let is_gguf = self.target.metadata == Kind::TypedLists;
        let not_ascii = if is_gguf { typed_lists::not_ascii(hints) } else { HashSet::new() };
        for (key, value) in all {
            if is_gguf && !key.is_ascii() && !not_ascii.contains(&key) {
                let why = reasons.shared("keys of GGUF are ASCII".to_owned());
                metadata.losses.push(Unsupported::loss("metadata key", &key, why));
                continue;
            }
            let is_typed = typed.contains(&key);
            match self.value(&key, &value, is_typed, hints) {
                Ok(value) => _ = metadata.keys.insert(key, value),
                Err(why) => match self.as_text(&key, &value, is_typed, reasons.shared(why)) {
                    Ok(text) => {
                        hints.text.push(key.clone());
                        metadata.keys.insert(key, text);
                    }
                    Err(loss) => metadata.losses.push(loss),
                },
            }
        }
    }

    /// Returns the losses of scales and zero points that are not applied to the values, if the target cannot
    /// hold them.
    fn lost_quants(&self, tensors: &OutputTensors) -> Vec<Unsupported> {
        let quants = if self.target.quants { &[][..] } else { &tensors.quants };
        let loss = |(name, _): &(String, Quant)| {
            let why = format!(
                "{} cannot store scales with values, and without scales the values are wrong",
                self.target.format
            );
            let remedy = Remedy::Dequantize(DType::F32);
            Unsupported::loss(quants::SUBJECT, name, why).with_remedy(remedy)
        };
        quants.iter().map(loss).collect()
    }

    /// Returns the value as text, if the options ask for text and the target can hold it. Otherwise returns
    /// the loss, with its remedy.
    fn as_text(&self, key: &str, value: &Value, typed: bool, why: Arc<str>) -> Result<Value, Unsupported> {
        let loss = Unsupported::loss("metadata key", key, why);
        if !self.target.format.takes(Choice::Stringify) {
            return Err(loss);
        }
        let plain = if typed { value.to_plain() } else { value.clone() };
        let text = json::to_string(&plain).ok().map(Value::from);
        match text.and_then(|text| self.value(key, &text, false, &Hints::default()).ok()) {
            Some(text) if self.options.metadata.stringify => Ok(text),
            Some(_) => Err(loss.with_remedy(Remedy::Stringify)),
            None => Err(loss),
        }
    }

    /// Keeps in the reserved object those properties of GGUF's metadata, or of the index of a set, that plain
    /// values do not show, if the target has a place for them.
    fn keep_hints(&self, metadata: &mut Metadata, origin: Format, hints: Hints) {
        let is_text = self.target.metadata == Kind::Strings && self.options.metadata.stringify;
        let has_place = is_text || matches!(self.target.metadata, Kind::Index | Kind::Object);
        if hints.is_empty() || !hints.can_be_of(origin) || !has_place {
            return;
        }
        reserve(metadata, Reserved::with_hints(origin, hints), is_text);
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
        for (name, value) in &self.options.oinf.sizevars {
            metadata.sizevars.insert(name, *value);
        }
        let losses = &mut metadata.losses;
        metadata.sizevars.retain(|name, _| match modelfmt_model::formats::capabilities::plain_fault(name) {
            Some(why) => {
                losses.push(Unsupported::loss("size variable", name, why));
                false
            }
            None => true,
        });
    }

    /// Converts a value to the form of the target, or returns the reason why the target cannot hold it. With
    /// `typed`, an object may be a value with its type. Otherwise, an object of that form is an ordinary
    /// object.
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
            _ => typed_lists::own_value(self.target, key, value.clone()),
        }
    }
}

/// Undoes the changes that containers on the way made to the keys.
fn undo(metadata: &mut Metadata, keys: &mut Object, reserved: &Reserved, stem: &str) {
    let mut removed = Vec::new();
    reserved.intermediate_formats.iter().rev().for_each(|(_, changes)| removed.extend(changes.undo(keys)));
    removed.extend(reserved.changes.undo(keys));
    metadata.losses.extend(reserved.losses());
    if reserved.has_all_metadata() {
        // The original model did not have these keys, so containers on the way added them.
        let required = AERO_KEYS.iter().chain(APR2_KEYS).filter(|key| !reserved.is_given(key));
        removed.extend(required.filter_map(|key| Some(((*key).to_owned(), keys.remove(key)?))));
    }
    let own = typed_names(reserved);
    removed.retain(|(key, value)| own.get(key) != Some(value));
    metadata.notes.extend(left_out(&removed, keys, stem));
}

/// Moves the keys that are in the files of a set, and not in its index, to `metadata.files`.
fn take_files(metadata: &mut Metadata, keys: &mut Object, files: Vec<String>) {
    let files: HashSet<String> = files.into_iter().collect();
    keys.retain(|key, value| {
        let is_of_index = !files.contains(key);
        if !is_of_index {
            metadata.files.insert(key, std::mem::take(value));
        }
        is_of_index
    });
}

/// Inserts the reserved key, as an object or as text. A value that the model itself has under this key is kept in the reserved
/// object.
fn reserve(metadata: &mut Metadata, mut reserved: Reserved, is_text: bool) {
    if let Some(own) = metadata.keys.remove(KEY) {
        metadata.notes.push(format!(
            "{KEY} is stored separately, for a conversion back, because modelfmt itself uses that key"
        ));
        reserved.aside.insert(KEY, own);
    }
    let object = reserved.to_object();
    if is_text {
        metadata.keys.insert(KEY, json::to_string(&object).unwrap_or_default());
    } else {
        metadata.keys.insert(KEY, object);
    }
}

/// Undoes the keys that were added for the current container of a model of a third format, when it left a
/// format with the metadata `known`. Returns the values that were removed.
///
/// The reserved key is copied verbatim. So for a model that has all its metadata there, a key that the
/// container requires, and that was not added on the way in, was added later.
fn undo_container_keys(
    keys: &mut Object,
    reserved: &mut Reserved,
    container: Format,
    known: MetadataSchema,
) -> Vec<(String, Value)> {
    let Some(here) = container.properties().schema else { return Vec::new() };
    if here == known {
        return Vec::new();
    }
    if reserved.has_all_metadata() {
        let (required, needed) = (required_keys(here), required_keys(known));
        let since = |key: &&&str| {
            !needed.contains(*key)
                && !reserved.changes.added.iter().any(|known| known == **key)
                && !reserved.is_given(key)
        };
        let removed =
            required.iter().filter(since).filter_map(|key| Some(((*key).to_owned(), keys.remove(key)?)));
        return removed.collect();
    }
    match reserved.intermediate_formats.pop_if(|(format, _)| format.properties().schema == Some(known)) {
        Some((_, changes)) => changes.undo(keys),
        None => Vec::new(),
    }
}

/// Returns a note for each value that is left out because a container on the way required it, unless the
/// model or its file name already says the same.
fn left_out(removed: &[(String, Value)], keys: &Object, stem: &str) -> Vec<String> {
    let is_news = |(key, value): &&(String, Value)| {
        let is_stem = key == "model_name" && value.as_str() == Some(stem);
        !is_placeholder(key, value) && !is_stem && keys.values().all(|other| other != value)
    };
    let note = |(key, value): &(String, Value)| {
        let text = json::to_string(value).unwrap_or_default();
        format!(
            "{key} {text} is left out: an earlier conversion added it, and it is not from the model itself"
        )
    };
    removed.iter().filter(is_news).map(note).collect()
}

/// The reasons why keys do not fit. Many keys share few texts, so each text is kept once.
#[derive(Default)]
struct Reasons(HashSet<Arc<str>>);

impl Reasons {
    fn shared(&mut self, why: String) -> Arc<str> {
        if let Some(known) = self.0.get(&*why) {
            return Arc::clone(known);
        }
        let why: Arc<str> = why.into();
        self.0.insert(Arc::clone(&why));
        why
    }
}

fn typed_names(reserved: &Reserved) -> Object {
    let names = AERO_KEYS.iter().chain(APR2_KEYS);
    names.filter_map(|key| Some(((*key).to_owned(), reserved.metadata.get(key)?.to_plain()))).collect()
}

/// Returns the average number of bits of a weight, scales included, for this many elements in blocks of each
/// type.
fn bits_per_weight(blocks: &BTreeMap<DType, u64>) -> f64 {
    let mut sums = (0.0, 0.0);
    for (dtype, &elements) in blocks {
        let bits = dtype.block().map_or(0.0, |block| f64::from(block.nbytes * 8) / f64::from(block.elements));
        sums = (sums.0 + bits * elements as f64, sums.1 + elements as f64);
    }
    if sums.1 > 0.0 { sums.0 / sums.1 } else { 0.0 }
}
