//! Reads trees through serde, from any self-describing format.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{KeyError, List, MAX_DEPTH, Object, Value};
use crate::names::{NameError, NameTable};

/// The single key of the map in which serde_json delivers every number as text if its feature
/// `arbitrary_precision` is enabled. Any crate of a build may enable it.
const SERDE_JSON_NUMBER: &str = "$serde_json::private::Number";

/// Options and limits of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    max_depth: u32,
    max_nodes: u64,
    last_of_repeated: bool,
}

impl ParseOptions {
    /// Returns the default options: at most [`MAX_DEPTH`] levels, no limit on the number of nodes.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_depth: MAX_DEPTH, max_nodes: u64::MAX, last_of_repeated: false }
    }

    /// Refuses containers nested deeper than `levels`: 0 allows scalars only. Values above [`MAX_DEPTH`] have
    /// no effect.
    #[must_use]
    pub const fn with_max_depth(mut self, levels: u32) -> Self {
        self.max_depth = if levels < MAX_DEPTH { levels } else { MAX_DEPTH };
        self
    }

    /// Refuses trees of more than `nodes` values. Each scalar and each container counts as one.
    #[must_use]
    pub const fn with_max_nodes(mut self, nodes: u64) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Keeps the last value of a key that occurs several times in an object, instead of refusing the key.
    /// This is for formats whose own tools write such objects and read them this way.
    #[must_use]
    pub const fn with_last_of_repeated(mut self) -> Self {
        self.last_of_repeated = true;
        self
    }
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a [`Value`] from a self-describing format, such as JSON or MessagePack.
///
/// These are errors: containers nested too deep, more nodes than the options allow, duplicate keys, keys that
/// are not text, numbers too large for a float, and MessagePack's extension types. An integer that fits
/// neither `i64` nor `u64` becomes the nearest float, because serde_json delivers it as one;
/// [`json::parse`](super::json::parse) keeps it.
///
/// rmp-serde delivers text that is not UTF-8 as bytes, so it becomes [`Value::Bytes`]. As a key it is an
/// error.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueSeed {
    options: ParseOptions,
}

impl ValueSeed {
    /// Creates a seed with these options.
    #[must_use]
    pub const fn new(options: ParseOptions) -> Self {
        Self { options }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Node::<Tree>::root(&self.options, &State::default()).deserialize(deserializer)
    }
}

/// Reads like [`ValueSeed`], but from JSON text with numbers that serde_json changes, such as integers beyond
/// 64 bits.
#[cfg(feature = "json")]
pub(super) struct ExactSeed {
    pub(super) options: ParseOptions,
    pub(super) known: Vec<KnownNumber>,
}

#[cfg(feature = "json")]
impl<'de> DeserializeSeed<'de> for ExactSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let state = State { known: &self.known, ..State::default() };
        Node::<Tree>::root(&self.options, &state).deserialize(deserializer)
    }
}

/// Reads one member of an object and skips the others.
#[cfg(feature = "json")]
pub(super) struct MemberSeed<'a> {
    pub(super) key: &'a str,
    pub(super) known: Vec<KnownNumber>,
}

#[cfg(feature = "json")]
impl<'de> DeserializeSeed<'de> for MemberSeed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[cfg(feature = "json")]
impl<'de> Visitor<'de> for MemberSeed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        let (options, mut found) = (ParseOptions::new(), None);
        let state = State { known: &self.known, ..State::default() };
        while let Some(key) = map.next_key_seed(TextSeed)? {
            if key == self.key {
                found = Some(map.next_value_seed(Node::<Tree>::root(&options, &state))?);
            } else {
                map.next_value_seed(Node::<Nothing>::root(&options, &state))?;
            }
        }
        Ok(found)
    }
}

/// A number that serde_json delivers as a different one (an integer beyond 64 bits, a float that JSON lacks),
/// with the count of the numbers before it in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownNumber {
    pub(super) before: u64,
    pub(super) value: Value,
}

/// The state of reading one tree.
#[derive(Default)]
struct State<'a> {
    /// The number of values that have been begun.
    values: Cell<u64>,
    /// The number of numbers that have been read.
    numbers: Cell<u64>,
    /// The numbers that serde_json changes, in the order of the text.
    known: &'a [KnownNumber],
}

impl State<'_> {
    /// Counts a number. Returns its exact value if serde_json has changed it.
    fn number(&self) -> Option<Value> {
        let before = self.numbers.replace(self.numbers.get().saturating_add(1));
        let found = self.known.binary_search_by_key(&before, |known| known.before).ok()?;
        Some(self.known.get(found)?.value.clone())
    }
}

/// Checks a tree like [`ValueSeed`], with the same errors, but keeps nothing: for trees that are parsed again
/// on first use. Returns the kind of the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckSeed {
    options: ParseOptions,
}

impl CheckSeed {
    /// Creates a seed with these options.
    #[must_use]
    pub const fn new(options: ParseOptions) -> Self {
        Self { options }
    }
}

impl<'de> DeserializeSeed<'de> for CheckSeed {
    /// The kind of the value: the text that [`Value::kind`] returns.
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        Node::<Nothing>::root(&self.options, &State::default()).deserialize(deserializer)
    }
}

/// What to build from a tree while it is being read.
trait Make {
    type Value;
    type List: Default;
    type Map: Default;

    /// Makes a value from a scalar.
    fn leaf(value: Value) -> Self::Value;
    fn push(list: &mut Self::List, item: Self::Value);
    fn list(list: Self::List) -> Self::Value;
    /// Adds a member. If the key is already present, `replace` decides whether its value is replaced or an
    /// error is returned.
    fn insert(map: &mut Self::Map, key: String, item: Self::Value, replace: bool) -> Result<(), KeyError>;
    fn map(map: Self::Map) -> Self::Value;
}

struct Tree;

impl Make for Tree {
    type Value = Value;
    type List = List;
    type Map = Object;

    fn leaf(value: Value) -> Value {
        value
    }

    fn push(list: &mut List, item: Value) {
        list.push(item);
    }

    fn list(mut list: List) -> Value {
        list.shrink_to_fit();
        Value::Array(list)
    }

    fn insert(map: &mut Object, key: String, item: Value, replace: bool) -> Result<(), KeyError> {
        if replace {
            map.insert(key, item);
            return Ok(());
        }
        map.try_insert(key, item)
    }

    fn map(mut map: Object) -> Value {
        map.shrink_to_fit();
        Value::Object(map)
    }
}

/// Builds only the kind of each value. Keeps the keys of the objects that are being read, to find duplicates.
struct Nothing;

impl Make for Nothing {
    type Value = &'static str;
    type List = ();
    type Map = NameTable;

    fn leaf(value: Value) -> &'static str {
        value.kind()
    }

    fn push((): &mut (), _: &'static str) {}

    fn list((): ()) -> &'static str {
        Value::Array(List::new()).kind()
    }

    fn insert(map: &mut NameTable, key: String, _: &'static str, replace: bool) -> Result<(), KeyError> {
        match map.push(&key) {
            Err(NameError::Duplicate(_)) if replace => Ok(()),
            // A full table is reported as a duplicate too; a tree could not hold so many keys anyway.
            pushed => pushed.map(drop).map_err(|_| KeyError::duplicate(key)),
        }
    }

    fn map(_: NameTable) -> &'static str {
        Value::Object(Object::new()).kind()
    }
}

impl<'de> Deserialize<'de> for Value {
    /// Reads like [`ValueSeed`] with the default options.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueSeed::default().deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Object {
    /// Reads like [`ValueSeed`] with the default options. Refuses anything but a map.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(object) => Ok(object),
            other => Err(D::Error::custom(format_args!("expected an object, found {}", other.kind()))),
        }
    }
}

/// Reads one value that is inside `depth` containers.
struct Node<'a, M> {
    options: &'a ParseOptions,
    depth: u32,
    state: &'a State<'a>,
    made: PhantomData<M>,
}

impl<M> Clone for Node<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Node<'_, M> {}

impl<'a, M> Node<'a, M> {
    const fn root(options: &'a ParseOptions, state: &'a State<'a>) -> Self {
        Self { options, depth: 0, state, made: PhantomData }
    }

    /// Returns the seed for the content of the container that begins here.
    fn inside<E: Error>(self) -> Result<Self, E> {
        if self.depth >= self.options.max_depth {
            return Err(E::custom(TooDeep(self.options.max_depth)));
        }
        Ok(Self { depth: self.depth.saturating_add(1), ..self })
    }

    fn count<E: Error>(&self) -> Result<(), E> {
        let seen = &self.state.values;
        if seen.get() >= self.options.max_nodes {
            return Err(E::custom(format_args!("more than {} values", self.options.max_nodes)));
        }
        seen.set(seen.get().saturating_add(1));
        Ok(())
    }
}

impl<'de, M: Make> DeserializeSeed<'de> for Node<'_, M> {
    type Value = M::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<M::Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de, M: Make> Visitor<'de> for Node<'_, M> {
    type Value = M::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a null, boolean, number, string, byte string, list or map")
    }

    fn visit_unit<E: Error>(self) -> Result<M::Value, E> {
        Ok(M::leaf(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<M::Value, E> {
        Ok(M::leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<M::Value, D::Error> {
        // This counts as a level, so that a chain of such values cannot exceed the limit.
        deserializer.deserialize_any(self.inside()?)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, _: D) -> Result<M::Value, D::Error> {
        // This is how rmp-serde delivers extension types.
        Err(D::Error::custom("extension types are not supported"))
    }

    fn visit_bool<E: Error>(self, b: bool) -> Result<M::Value, E> {
        Ok(M::leaf(b.into()))
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<M::Value, E> {
        self.state.number();
        Ok(M::leaf(n.into()))
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<M::Value, E> {
        Ok(M::leaf(self.state.number().unwrap_or_else(|| n.into())))
    }

    fn visit_f64<E: Error>(self, x: f64) -> Result<M::Value, E> {
        Ok(M::leaf(self.state.number().unwrap_or_else(|| x.into())))
    }

    fn visit_str<E: Error>(self, s: &str) -> Result<M::Value, E> {
        Ok(M::leaf(s.into()))
    }

    fn visit_string<E: Error>(self, s: String) -> Result<M::Value, E> {
        Ok(M::leaf(s.into()))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<M::Value, E> {
        Ok(M::leaf(Value::Bytes(bytes.to_vec())))
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<M::Value, E> {
        Ok(M::leaf(Value::Bytes(bytes)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<M::Value, A::Error> {
        let inside = self.inside()?;
        let mut items = M::List::default();
        while let Some(item) = list.next_element_seed(inside)? {
            M::push(&mut items, item);
        }
        Ok(M::list(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M::Value, A::Error> {
        // A number may be delivered as a map; such a map does not count as a level.
        let mut key = map.next_key_seed(KeySeed)?;
        if key.as_ref().is_some_and(|key| key.bare && key.text == SERDE_JSON_NUMBER) {
            let number = number(&map.next_value::<String>()?)?;
            return Ok(M::leaf(self.state.number().unwrap_or(number)));
        }
        let inside = self.inside()?;
        let mut members = M::Map::default();
        while let Some(Key { text, .. }) = key {
            let value = map.next_value_seed(inside)?;
            M::insert(&mut members, text, value, self.options.last_of_repeated).map_err(A::Error::custom)?;
            key = map.next_key_seed(KeySeed)?;
        }
        Ok(M::map(members))
    }
}

/// The error for a container below the last allowed level.
pub(super) struct TooDeep(pub(super) u32);

impl fmt::Display for TooDeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nested deeper than {} levels", self.0)
    }
}

/// Parses the text of a number, as delivered under serde_json's `arbitrary_precision`. Returns the value that
/// serde_json delivers without that feature.
fn number<E: Error>(text: &str) -> Result<Value, E> {
    let is_json = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let integer = if text == "-0" {
        None
    } else {
        text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from)).ok()
    };
    integer
        .or_else(|| text.parse::<f64>().ok().filter(|x| x.is_finite()).map(Value::from))
        .filter(|_| is_json)
        .ok_or_else(|| E::custom("number out of range"))
}

/// A key of a map.
struct Key {
    text: String,
    /// Whether the deserializer delivered text directly, although an optional value was requested.
    bare: bool,
}

/// Reads a key as if it were optional, to tell two cases apart. For a key of the input, serde_json's reader
/// calls `visit_some`; for the key that marks a number, it delivers text directly. So a file's own
/// `{"$serde_json::private::Number": "1"}` stays an object.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string as key")
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        Ok(Key { text: deserializer.deserialize_str(Text)?, bare: false })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
        Ok(Key { text: text.to_owned(), bare: true })
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Key, E> {
        Ok(Key { text, bare: true })
    }
}

/// Accepts only text; `String`'s own visitor would also accept bytes.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string as key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }
}

/// Reads a string, which is borrowed from the input if it has no escapes.
#[derive(Clone, Copy, Debug)]
pub struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
