//! The reserved key `modelfmt` of a JSON object. It carries what the target cannot hold elsewhere, so that a
//! conversion back can restore it.

use std::collections::{HashMap, HashSet};

use modelfmt_core::value::{List, Object, Value};

use super::non_finite;
use crate::quants;
use modelfmt_model::formats::Format;
use modelfmt_model::formats::capabilities::Metadata as Kind;
use modelfmt_model::formats::common_metadata::ValueTypes;
use modelfmt_model::quant::Quant;
use modelfmt_rules::options::Declared;
use modelfmt_rules::wording::unsupported::Unsupported;

/// The name of the reserved key.
pub const KEY: &str = "modelfmt";

const VERSION: u64 = 1;

/// The part with the old values of keys.
pub(crate) const REPLACED: &str = "replaced";

/// The reserved object: the value under the key.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The format that the model came from.
    pub(crate) format: Format,
    /// Whether the source's metadata was a JSON object, in a format that can also have other metadata (MAG 0.3).
    pub(crate) is_object: bool,
    /// The source's metadata, if it is not a JSON object itself.
    pub(crate) metadata: Object,
    /// Size variables and their values.
    pub(crate) sizevars: Object,
    /// Tensors without values, each with its position among all tensors, ascending.
    pub declared: Vec<(u64, Declared)>,
    /// Names of scalar tensors that are written with the shape `[1]`.
    pub shapes: Vec<String>,
    /// Scales and zero points of tensors, by their names.
    pub quants: Vec<(String, Quant)>,
    /// Keys that the files of a set have and its index does not.
    pub(crate) files: Vec<String>,
    /// Required keys that the user gave for a model whose own metadata is not at top level. They do not count as added by a
    /// conversion.
    pub(crate) given: Vec<String>,
    /// Keys that must not be at top level in the container, with their values.
    pub(crate) aside: Object,
    /// The places of floats that JSON lacks, from [`non_finite::places`].
    pub(crate) floats: Object,
    /// The original order of the tensors, by their positions in the container, if the container sorts them.
    pub order: Vec<u64>,
    /// The properties that plain values do not show, for a model whose format has value types of its own.
    pub(crate) hints: Hints,
    /// The changes to keys at top level that the target required.
    pub(crate) changes: Changes,
    /// For a model of a third format: the formats that it has left since, and how its keys changed each time.
    pub(crate) intermediate_formats: Vec<(Format, Changes)>,
    /// Unknown members, which are kept.
    pub(crate) other: Object,
}

/// The properties of GGUF's metadata that plain values do not show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    /// The types of values that would get another type, by key.
    pub(crate) types: Object,
    /// Values that JSON does not hold bit for bit, as they are in the file, by key.
    pub(crate) stored: Object,
    /// The keys in their order, if there are several.
    pub(crate) keys: Vec<String>,
    /// The keys whose values are JSON text, because the container holds only text.
    pub(crate) text: Vec<String>,
}

impl From<ValueTypes> for Hints {
    fn from(known: ValueTypes) -> Self {
        let ValueTypes { types, stored, keys } = known;
        Self { types, stored, keys, text: Vec::new() }
    }
}

impl Hints {
    pub(crate) fn is_empty(&self) -> bool {
        self.types.is_empty() && self.stored.is_empty() && self.keys.is_empty() && self.text.is_empty()
    }

    /// Checks whether a model of this format can have these hints: the index of a safetensors set holds any
    /// JSON, and its files only text.
    pub(crate) fn can_be_of(&self, format: Format) -> bool {
        match format.capabilities().metadata {
            Kind::TypedLists => true,
            Kind::Index => self.types.is_empty() && self.stored.is_empty() && self.keys.is_empty(),
            _ => self.is_empty(),
        }
    }

    fn take(from: &mut Object) -> Option<Self> {
        Some(Self {
            types: object(from.remove("types"))?,
            stored: object(from.remove("stored"))?,
            keys: list(from.remove("keys"), text)?,
            text: list(from.remove("text"), text)?,
        })
    }

    fn insert_into(&self, object: &mut Object) {
        for (part, values) in [("types", &self.types), ("stored", &self.stored)] {
            if !values.is_empty() {
                object.insert(part, values.clone());
            }
        }
        for (part, keys) in [("keys", &self.keys), ("text", &self.text)] {
            if !keys.is_empty() {
                object.insert(part, keys.iter().map(String::as_str).collect::<Value>());
            }
        }
    }
}

/// Changes to keys at top level that a target required.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Keys that were added.
    pub(crate) added: Vec<String>,
    /// The old values of keys whose values the target does not accept, such as a string where APR2 requires
    /// an object.
    pub(crate) replaced: Object,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.replaced.is_empty()
    }

    /// Sets a key, and records whether that added the key or replaced a value.
    pub(crate) fn set(&mut self, keys: &mut Object, key: &str, value: Value) {
        match keys.insert(key, value) {
            Some(old) => _ = self.replaced.insert(key, old),
            None => self.added.push(key.to_owned()),
        }
    }

    /// Undoes the changes. Returns the values that this removes.
    pub(crate) fn undo(&self, keys: &mut Object) -> Vec<(String, Value)> {
        let added = self.added.iter().filter_map(|key| Some((key.clone(), keys.remove(key)?)));
        let mut removed: Vec<(String, Value)> = added.collect();
        for (key, value) in &self.replaced {
            removed.extend(keys.insert(key, value.clone()).map(|now| (key.to_owned(), now)));
        }
        removed
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.added.extend(other.added);
        self.replaced.extend(other.replaced);
    }

    /// Forgets the changes to a key, which is the user's own from now on.
    pub(crate) fn forget(&mut self, key: &str) {
        self.added.retain(|added| added != key);
        self.replaced.remove(key);
    }

    /// Checks whether all changed keys are keys that some format requires.
    fn are_plausible(&self) -> bool {
        let mut keys = self.added.iter().map(String::as_str).chain(self.replaced.keys());
        keys.all(super::names::is_required_key)
    }

    fn take(from: &mut Object) -> Option<Self> {
        Some(Self { added: list(from.remove("added"), text)?, replaced: object(from.remove("replaced"))? })
    }

    fn insert_into(&self, object: &mut Object) {
        if !self.added.is_empty() {
            object.insert("added", self.added.iter().map(String::as_str).collect::<Value>());
        }
        if !self.replaced.is_empty() {
            object.insert("replaced", self.replaced.clone());
        }
    }
}

impl Reserved {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            is_object: false,
            metadata: Object::new(),
            sizevars: Object::new(),
            declared: Vec::new(),
            shapes: Vec::new(),
            quants: Vec::new(),
            files: Vec::new(),
            given: Vec::new(),
            aside: Object::new(),
            floats: Object::new(),
            order: Vec::new(),
            hints: Hints::default(),
            changes: Changes::default(),
            intermediate_formats: Vec::new(),
            other: Object::new(),
        }
    }

    pub(crate) fn with_hints(format: Format, hints: Hints) -> Self {
        Self { hints, ..Self::new(format) }
    }

    /// Parses the value under the key; `None` if the key is used for something else. An object that no conversion writes also
    /// counts as something else: if it were trusted, it would make other metadata disappear silently
    /// (docs/formats/conversion.md#the-reserved-key).
    pub(crate) fn parse(value: &Value) -> Option<Self> {
        let mut other = value.as_object()?.clone();
        if other.remove("version")?.as_u64()? != VERSION {
            return None;
        }
        let format = other.remove("format")?.as_str()?.parse().ok()?;
        let is_object = match other.remove("object") {
            None => false,
            Some(value) => value.as_bool()?,
        };
        let metadata = object(other.remove("metadata"))?;
        let sizevars = object(other.remove("sizevars"))?;
        let declared = list(other.remove("declared"), declared)?;
        let shapes = object(other.remove("shapes"))?;
        let quants = object(other.remove("quants"))?;
        let quant = |(name, quant): (&str, &Value)| Some((name.to_owned(), quants::parse(quant)?));
        let quants = quants.iter().map(quant).collect::<Option<_>>()?;
        let files = list(other.remove("files"), text)?;
        let given = list(other.remove("given"), text)?;
        let aside = object(other.remove("aside"))?;
        let floats = object(other.remove("floats"))?;
        let order = list(other.remove("order"), Value::as_u64)?;
        let hints = Hints::take(&mut other)?;
        let changes = Changes::take(&mut other)?;
        let intermediate_formats = list(other.remove("via"), hop)?;
        let all_scalars = shapes.values().all(|shape| shape.as_array().is_some_and(List::is_empty));
        if !all_scalars || sizevars.values().any(|n| n.as_u64().is_none()) {
            return None;
        }
        let shapes = shapes.keys().map(str::to_owned).collect();
        let reserved = Self {
            format,
            is_object,
            metadata,
            sizevars,
            declared,
            shapes,
            quants,
            files,
            given,
            aside,
            floats,
            order,
            hints,
            changes,
            intermediate_formats,
            other,
        };
        reserved.is_plausible().then_some(reserved)
    }

    /// Checks whether a conversion can have written this object
    /// (docs/formats/conversion.md#the-reserved-key).
    fn is_plausible(&self) -> bool {
        const HOPS: usize = 16; // going back to the previous format removes the last entry
        let is_container = |format: Format| format.properties().schema.is_some();
        let kind = self.format.capabilities().metadata;
        (!self.is_object || kind == Kind::Numbers)
            && non_finite::are_places(&self.floats)
            && (self.metadata.is_empty() || self.has_all_metadata())
            && (self.sizevars.is_empty() || kind == Kind::Typed)
            && (self.quants.is_empty() || kind == Kind::Typed)
            && (self.files.is_empty() || kind == Kind::Index)
            && (self.given.is_empty() || self.has_all_metadata())
            && self.hints.can_be_of(self.format)
            && self.changes.are_plausible()
            && self.intermediate_formats.len() <= HOPS
            && self
                .intermediate_formats
                .iter()
                .all(|(format, changes)| is_container(*format) && changes.are_plausible())
    }

    /// Marks a key as the user's own from now on.
    pub(crate) fn give(&mut self, key: &str) {
        self.changes.forget(key);
        self.intermediate_formats.iter_mut().for_each(|(_, changes)| changes.forget(key));
        if self.has_all_metadata() && super::names::is_required_key(key) && !self.is_given(key) {
            self.given.push(key.to_owned());
        }
    }

    /// Checks whether the user gave the key.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|given| given == key)
    }

    /// Returns the old values of keys, each with its part and its key. Declared tensors are not among them,
    /// because they are tensors of the model.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = (&'static str, &str, Value)> {
        let all = std::iter::once(&self.changes)
            .chain(self.intermediate_formats.iter().map(|(_, changes)| changes));
        let old = all.flat_map(|changes| changes.replaced.iter());
        old.map(|(key, value)| (REPLACED, key, value.clone()))
    }

    /// Returns the unknown members of the reserved object.
    pub(crate) const fn other(&self) -> &Object {
        &self.other
    }

    /// Returns the unknown members as losses, for a target without the reserved key.
    pub(crate) fn losses(&self) -> impl Iterator<Item = Unsupported> {
        let why = "this version does not know what it means";
        self.other.keys().map(move |key| Unsupported::loss("metadata key", &format!("{KEY}.{key}"), why))
    }

    /// Checks whether the reserved object has nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.to_object().len() == if self.is_object { 3 } else { 2 } // version, format and `object`
    }

    /// Returns the object to write under the key, with each part that is not empty.
    pub(crate) fn to_object(&self) -> Object {
        let mut object = Object::new();
        object.insert("version", VERSION);
        object.insert("format", self.format.name());
        let mut part = |key, is_empty: bool, value: &dyn Fn() -> Value| {
            if !is_empty {
                object.insert(key, value());
            }
        };
        part("object", !self.is_object, &|| true.into());
        part("metadata", self.metadata.is_empty(), &|| self.metadata.clone().into());
        part("sizevars", self.sizevars.is_empty(), &|| self.sizevars.clone().into());
        part("declared", self.declared.is_empty(), &|| self.declared.iter().map(declared_value).collect());
        part("shapes", self.shapes.is_empty(), &|| {
            let scalar = |name: &String| (name.clone(), Value::Array(List::new()));
            Value::Object(self.shapes.iter().map(scalar).collect())
        });
        part("quants", self.quants.is_empty(), &|| {
            let quant = |(name, quant): &(String, Quant)| (name.clone(), quants::to_value(quant));
            Value::Object(self.quants.iter().map(quant).collect())
        });
        part("files", self.files.is_empty(), &|| self.files.iter().map(String::as_str).collect());
        part("given", self.given.is_empty(), &|| self.given.iter().map(String::as_str).collect());
        part("aside", self.aside.is_empty(), &|| self.aside.clone().into());
        part("floats", self.floats.is_empty(), &|| self.floats.clone().into());
        part("order", self.order.is_empty(), &|| self.order.iter().copied().collect());
        self.hints.insert_into(&mut object);
        self.changes.insert_into(&mut object);
        if !self.intermediate_formats.is_empty() {
            object.insert("via", self.intermediate_formats.iter().map(hop_value).collect::<Value>());
        }
        object.extend(self.other.clone());
        object
    }

    /// Checks whether the model came from a format whose own metadata is not a JSON object. Then the reserved
    /// object has all its metadata.
    pub(crate) const fn has_all_metadata(&self) -> bool {
        matches!(self.format.capabilities().metadata, Kind::Numbers | Kind::Typed) && !self.is_object
    }
}

/// Updates the reserved object of a file after an edit: keys that the edit set or removed are the user's own from then on, and
/// tensors may have new names. `sorts` says whether the format sorts its tensors by name.
#[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "there are no files to edit"))]
pub fn follow_edit<'k>(
    keys: &mut Object,
    edited: impl IntoIterator<Item = &'k str>,
    names: &HashMap<&str, &str>,
    sorts: bool,
) {
    let Some(mut reserved) = keys.get(KEY).and_then(Reserved::parse) else { return };
    let edited: Vec<&str> = edited.into_iter().collect();
    let stale: HashSet<&str> = edited.iter().copied().collect();
    let Hints { types, stored, text, .. } = &mut reserved.hints;
    text.retain(|key| !stale.contains(key.as_str()));
    for object in [&mut reserved.metadata, &mut reserved.aside, &mut reserved.floats, types, stored] {
        object.retain(|key, _| !stale.contains(key));
    }
    edited.into_iter().filter(|key| super::names::is_required_key(key)).for_each(|key| reserved.give(key));
    let rename = |name: &mut String| {
        if let Some(new) = names.get(name.as_str()) {
            *name = (*new).to_owned();
        }
    };
    reserved.shapes.iter_mut().for_each(rename);
    reserved.quants.iter_mut().for_each(|(name, _)| rename(name));
    if sorts && !names.is_empty() {
        reserved.order.clear();
    }
    if reserved.is_empty() {
        keys.remove(KEY);
    } else {
        keys.insert(KEY, reserved.to_object());
    }
}

fn declared_value((index, declared): &(u64, Declared)) -> Object {
    let Declared { name, dtype, shape } = declared;
    Object::from_iter([
        ("index", Value::from(*index)),
        ("name", name.as_str().into()),
        ("dtype", dtype.name().into()),
        ("shape", shape.iter().copied().collect()),
    ])
}

fn declared(value: &Value) -> Option<(u64, Declared)> {
    if value.as_object()?.len() != 4 {
        return None;
    }
    let shape = value.get("shape")?.as_array()?.iter().map(|dim| dim.as_u64()).collect::<Option<_>>()?;
    let name = text(value.get("name")?)?;
    let dtype = modelfmt_core::DType::from_name(value.get("dtype")?.as_str()?)?;
    Some((value.get("index")?.as_u64()?, Declared { name, dtype, shape }))
}

fn hop_value((format, changes): &(Format, Changes)) -> Object {
    let mut object = Object::from_iter([("format", format.name())]);
    changes.insert_into(&mut object);
    object
}

fn hop(value: &Value) -> Option<(Format, Changes)> {
    let mut object = value.as_object()?.clone();
    let hop = (object.remove("format")?.as_str()?.parse().ok()?, Changes::take(&mut object)?);
    object.is_empty().then_some(hop)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns the object of a part; empty if the part is missing, `None` if it is not an object.
fn object(part: Option<Value>) -> Option<Object> {
    match part {
        None => Some(Object::new()),
        Some(Value::Object(object)) => Some(object),
        Some(_) => None,
    }
}

/// Returns the members of a part; empty if the part is missing, `None` if it is not a valid list.
fn list<T>(part: Option<Value>, member: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match part {
        None => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(|item| member(&item)).collect(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_core::DType;
    use modelfmt_core::value::json;

    #[test]
    fn what_is_written_reads_back() {
        let mut reserved = Reserved::new(Format::Oinf);
        assert!(reserved.is_empty());
        reserved.metadata.insert("k", 1);
        reserved.sizevars.insert("D", 128);
        reserved.declared.push((2, Declared { name: "y".to_owned(), dtype: DType::I16, shape: vec![2, 3] }));
        reserved.shapes.push("x".to_owned());
        let quant = Quant::new(Some(0), vec![0.5, f32::INFINITY], Some(vec![3, -4]));
        reserved.quants.push(("w".to_owned(), quant));
        let mut keys = Object::from_iter([("architecture", "llama")]);
        reserved.changes.set(&mut keys, "model_name", "m".into());
        reserved.changes.set(&mut keys, "architecture", Object::new().into());
        reserved
            .intermediate_formats
            .push((Format::Aero, Changes { added: vec!["apr_version".to_owned()], ..Changes::default() }));
        let text = json::to_string(&reserved.to_object()).unwrap();
        let expected = concat!(
            r#"{"version":1,"format":"oinf","metadata":{"k":1},"sizevars":{"D":128},"#,
            r#""declared":[{"index":2,"name":"y","dtype":"i16","shape":[2,3]}],"shapes":{"x":[]},"#,
            r#""quants":{"w":{"scheme":"asymmetric","axis":0,"scales":[0.5,{"type":"f32","bits":"7f800000"}],"zero_points":[3,-4]}},"#,
            r#""added":["model_name"],"replaced":{"architecture":"llama"},"via":[{"format":"aero","added":["apr_version"]}]}"#
        );
        assert_eq!(text, expected);
        let again = Reserved::parse(&json::parse(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(again.to_object(), reserved.to_object());
        again.changes.undo(&mut keys);
        assert_eq!(keys, Object::from_iter([("architecture", "llama")]));
    }

    #[test]
    fn what_somebody_else_put_there_is_not_read() {
        for text in [
            r#""text""#,
            r#"{"version":2,"format":"mag"}"#,
            r#"{"version":1,"format":"zip"}"#,
            r#"{"version":1,"format":"mag","declared":[{"index":0}]}"#,
            r#"{"version":1,"format":"mag","shapes":{"x":[2]}}"#,
            r#"{"version":1,"format":"mag","metadata":[]}"#,
            r#"{"version":1,"format":"aero","metadata":{"k":1}}"#,
            r#"{"version":1,"format":"mag","sizevars":{"D":1}}"#,
            r#"{"version":1,"format":"safetensors","files":["k"]}"#,
            r#"{"version":1,"format":"oinf","quants":{"w":{}}}"#,
            r#"{"version":1,"format":"mag","object":true,"floats":{"a":1}}"#,
            r#"{"version":1,"format":"mag","quants":{"w":{"scheme":"symmetric","axis":null,"scales":[1.0],"zero_points":null}}}"#,
            r#"{"version":1,"format":"safetensors","types":{"k":"u8"}}"#,
            r#"{"version":1,"format":"gguf","keys":"k"}"#,
            r#"{"version":1,"format":"safetensors","added":["license"]}"#,
            r#"{"version":1,"format":"safetensors","replaced":{"license":"none"}}"#,
            r#"{"version":1,"format":"safetensors","via":[{"format":"aero","added":["license"]}]}"#,
            r#"{"version":1,"format":"safetensors","via":[{"format":"mag"}]}"#,
        ] {
            assert!(Reserved::parse(&json::parse(text.as_bytes()).unwrap()).is_none(), "{text}");
        }
        let hops = vec![r#"{"format":"aero"}"#; 17].join(",");
        let text = format!(r#"{{"version":1,"format":"safetensors","via":[{hops}]}}"#);
        assert!(Reserved::parse(&json::parse(text.as_bytes()).unwrap()).is_none());
        let files = r#"{"version":1,"format":"safetensors-sharded","files":["format"]}"#;
        let reserved = Reserved::parse(&json::parse(files.as_bytes()).unwrap()).unwrap();
        assert_eq!(json::to_string(&reserved.to_object()).unwrap(), files);
        let types = r#"{"version":1,"format":"gguf","types":{"k":"u8"},"stored":{"n":"00"},"keys":["n","k"],"text":["k"]}"#;
        let reserved = Reserved::parse(&json::parse(types.as_bytes()).unwrap()).unwrap();
        assert_eq!(json::to_string(&reserved.to_object()).unwrap(), types);
        let kept = r#"{"version":1,"format":"mag","later":true}"#;
        let reserved = Reserved::parse(&json::parse(kept.as_bytes()).unwrap()).unwrap();
        assert_eq!(json::to_string(&reserved.to_object()).unwrap(), kept);
    }
}
