//! Makes metadata values from trees, such as those of JSON, and lists what trees cannot express.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::value::{Integer, List, Object, Value};

use super::llama_type;
use super::{Entry, MAX_ARRAYS, Metadata, skip, take, take_head, take_string};
use crate::error::Fault;
use crate::wire::{ALIGNMENT, ValueType, check_key_len};

/// What the trees of metadata cannot express. From a tree and its hints, [`Metadata::push_tree`] makes the
/// original bytes again.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// By key, the types of values that would get another type from the plain tree.
    pub types: Object,
    /// By key, values that a JSON tree cannot hold exactly (a NaN, an infinity, a boolean that is neither 0
    /// nor 1), as the type and the value in the file in hex digits.
    pub stored: Object,
}

impl Metadata {
    /// Adds a key with the value of a tree. The key need not be ASCII, but a writer refuses other keys unless
    /// [`WriteOptions::utf8_keys`](crate::WriteOptions::utf8_keys) allows them.
    ///
    /// A plain value gets the first type that can hold it: an integer i32, u32, i64 or u64, a list of
    /// integers the first of these that holds all of them, and a float f64. An empty list has the type i32. A
    /// key that llama.cpp reads gets the type that llama.cpp expects ([`llama_type`]), if this type can hold
    /// the value.
    ///
    /// An object `{"type": T, "value": V}` names the type: one of [`ValueType::name`], followed by `[]` for a
    /// list (`f32[]`) and for each level of lists in lists (`u8[][]`). For lists of different types in a
    /// list, the type is a list of their types. An object `{"stored": HEX}` holds the type and the value as
    /// they are in a file.
    ///
    /// # Errors
    /// [`Fault`] if no type can hold the value. In this case nothing is added.
    pub fn push_tree(&mut self, key: &str, tree: &Value) -> Result<(), Fault> {
        check_key_len(key)?;
        let mut bytes = Vec::new();
        let kind = match tree {
            Value::Object(object) => encode_object(object, &mut bytes)?,
            plain if key == ALIGNMENT => encode(plain, Stated::Text(ValueType::U32.name()), 0, &mut bytes)?,
            plain => {
                let known = llama_type(key).map(Stated::Text);
                match known.map(|known| encode(plain, known, 0, &mut bytes)) {
                    Some(Ok(kind)) => kind,
                    _ => {
                        bytes.clear();
                        encode(plain, Stated::Nothing, 0, &mut bytes)?
                    }
                }
            }
        };
        self.push_key(key, kind)?;
        self.extend(&bytes, None);
        Ok(())
    }

    /// Returns what the tree of [`to_object`](Self::to_object) cannot express.
    #[must_use]
    pub fn hints(&self) -> Hints {
        let mut hints = Hints::default();
        for (number, &Entry { kind, start }) in self.entries.iter().enumerate() {
            let end = self.entries.get(number.saturating_add(1)).map_or(self.bytes.len(), |next| next.start);
            let Some((key, stored)) = self.keys.name(number).zip(self.bytes.get(start..end)) else {
                continue;
            };
            let Some(tree) = take(kind, &mut { stored }).map(|value| value.to_value()) else { continue };
            let mut again = Vec::with_capacity(stored.len());
            let is_json = tree.is_json();
            if is_json && encode(&tree, Stated::Nothing, 0, &mut again) == Ok(kind) && again == stored {
                continue;
            }
            let Some(of_value) = type_of(kind, &mut { stored }) else { continue };
            again.clear();
            let typed = Stated::of(&of_value).and_then(|stated| encode(&tree, stated, 0, &mut again));
            if !is_json || typed != Ok(kind) || again != stored {
                hints.stored.insert(key, hex(kind, stored));
            }
            hints.types.insert(key, of_value);
        }
        hints
    }
}

/// The type that the caller states for a value.
#[derive(Clone, Copy)]
enum Stated<'a> {
    /// No type is stated: the first type that holds the value.
    Nothing,
    /// The type with this name.
    Text(&'a str),
    /// The type of each list in a list of lists.
    Each(&'a List),
}

impl<'a> Stated<'a> {
    fn of(tree: &'a Value) -> Result<Self, Fault> {
        match tree {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(types) => Ok(Self::Each(types)),
            other => Err(Fault::NotOfType(other.kind().to_owned(), "any value")),
        }
    }
}

/// Appends the value of an object that states a type or stored bytes, and returns its type.
fn encode_object(object: &Object, out: &mut Vec<u8>) -> Result<ValueType, Fault> {
    match (object.len(), object.get("type"), object.get("value"), object.get("stored")) {
        (2, Some(stated), Some(value), None) => encode(value, Stated::of(stated)?, 0, out),
        (1, None, None, Some(Value::String(digits))) => stored(digits, out).ok_or(Fault::Stored),
        _ => Err(Fault::NoValue("an object")),
    }
}

/// Appends the bytes of a value that is nested in `depth` lists, and returns its type.
fn encode(tree: &Value, stated: Stated<'_>, depth: u32, out: &mut Vec<u8>) -> Result<ValueType, Fault> {
    if let Value::Array(items) = tree {
        encode_list(items, stated, depth, out)?;
        return Ok(ValueType::Array);
    }
    let kind = match stated {
        Stated::Nothing => plain_type(tree)?,
        Stated::Text(name) => ValueType::of_name(name).ok_or_else(|| not_of(name, tree))?,
        Stated::Each(_) => return Err(not_of("array", tree)),
    };
    encode_as(kind, tree, out)?;
    Ok(kind)
}

fn encode_list(items: &List, stated: Stated<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    if depth >= MAX_ARRAYS {
        return Err(Fault::ArrayDepth);
    }
    let (kind, members) = match stated {
        Stated::Nothing => (common_type(items)?, Stated::Nothing),
        Stated::Each(types) if types.len() == items.len() => (ValueType::Array, stated),
        Stated::Each(_) => return Err(Fault::NotOfType("list".to_owned(), "a list of this length")),
        Stated::Text("array[]") if items.is_empty() => (ValueType::Array, Stated::Nothing),
        Stated::Text(name) => {
            let unknown = || Fault::NotOfType(name.to_owned(), "an array");
            let member = name.strip_suffix("[]").ok_or_else(unknown)?;
            let is_list = member.ends_with("[]");
            let kind = if is_list { Some(ValueType::Array) } else { ValueType::of_name(member) };
            (
                kind.filter(|&kind| is_list || kind != ValueType::Array).ok_or_else(unknown)?,
                Stated::Text(member),
            )
        }
    };
    out.extend(kind.number().to_le_bytes());
    out.extend((items.len() as u64).to_le_bytes());
    let mut types = if let Stated::Each(types) = members { Some(types.iter()) } else { None };
    for item in items.iter() {
        match (&item, types.as_mut().and_then(Iterator::next)) {
            (Value::Array(inner), Some(stated)) => {
                encode_list(inner, Stated::of(&stated)?, depth.saturating_add(1), out)?;
            }
            (Value::Array(inner), None) if kind == ValueType::Array => {
                encode_list(inner, members, depth.saturating_add(1), out)?;
            }
            _ => encode_as(kind, &item, out)?,
        }
    }
    Ok(())
}

/// Returns the first type that holds a value other than a list.
fn plain_type(tree: &Value) -> Result<ValueType, Fault> {
    match tree {
        Value::Bool(_) => Ok(ValueType::Bool),
        Value::String(_) => Ok(ValueType::String),
        Value::Float(_) => Ok(ValueType::F64),
        Value::Array(_) => Ok(ValueType::Array),
        &Value::Int(n) => integer_type(n, n).ok_or(Fault::Integer(n)),
        other => Err(Fault::NoValue(other.kind())),
    }
}

/// Returns the first type that holds all integers from `least` to `most`.
fn integer_type(least: Integer, most: Integer) -> Option<ValueType> {
    let within = |low: i64, high: u64| least >= Integer::from(low) && most <= Integer::from(high);
    [
        (ValueType::I32, i64::from(i32::MIN), u64::from(i32::MAX.unsigned_abs())),
        (ValueType::U32, 0, u64::from(u32::MAX)),
        (ValueType::I64, i64::MIN, i64::MAX.unsigned_abs()),
        (ValueType::U64, 0, u64::MAX),
    ]
    .into_iter()
    .find_map(|(kind, low, high)| within(low, high).then_some(kind))
}

/// Returns the first type that holds every element of a list.
fn common_type(items: &List) -> Result<ValueType, Fault> {
    let mut items = items.iter();
    let Some(first) = items.next() else { return Ok(ValueType::I32) };
    let kind = plain_type(&first)?;
    let mut range = if let Value::Int(n) = first { Some((n, n)) } else { None };
    for item in items {
        match (&mut range, &item) {
            (Some((least, most)), &Value::Int(n)) => (*least, *most) = ((*least).min(n), (*most).max(n)),
            (None, other) if plain_type(other)? == kind => {}
            (_, other) => return Err(Fault::MixedList(first.kind(), other.kind())),
        }
    }
    let Some((least, most)) = range else { return Ok(kind) };
    let is_beyond = |n: &Integer| n.as_i64().is_none() && n.as_u64().is_none();
    match [least, most].into_iter().find(is_beyond) {
        Some(beyond) => Err(Fault::Integer(beyond)),
        None => integer_type(least, most).ok_or(Fault::IntegerList(least, most)),
    }
}

/// Appends the bytes of a value of this type, which must not be a list.
fn encode_as(kind: ValueType, tree: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    macro_rules! integer {
        ($n:expr, $($kind:ident $type:ty),*) => {
            match kind {
                $(ValueType::$kind => {
                    let n = $n.as_i64().map(<$type>::try_from).and_then(Result::ok);
                    let n = n.or_else(|| $n.as_u64().map(<$type>::try_from).and_then(Result::ok));
                    n.map(|n| out.extend(n.to_le_bytes()))
                })*
                ValueType::F32 | ValueType::F64 => $n.as_f64().and_then(|x| float(kind, x, out)),
                _ => None,
            }
        };
    }
    let done = match (kind, tree) {
        (ValueType::Bool, Value::Bool(b)) => {
            out.push((*b).into());
            Some(())
        }
        (ValueType::String, Value::String(text)) => {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
            Some(())
        }
        (_, Value::Float(x)) => float(kind, *x, out),
        (_, Value::Int(n)) => integer!(n, U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64),
        _ => None,
    };
    done.ok_or_else(|| not_of(kind.name(), tree))
}

/// Appends a float if the type can hold it. An f32 holds a decimal number if the f32 is written with the same
/// digits.
#[expect(clippy::cast_possible_truncation, reason = "what is lost is looked at")]
fn float(kind: ValueType, x: f64, out: &mut Vec<u8>) -> Option<()> {
    match kind {
        ValueType::F64 => out.extend(x.to_le_bytes()),
        ValueType::F32 => {
            let small = x as f32;
            let is_same = f64::from(small).to_bits() == x.to_bits() || small.to_string().parse() == Ok(x);
            out.extend(is_same.then_some(small)?.to_le_bytes());
        }
        _ => return None,
    }
    Some(())
}

fn not_of(name: &str, tree: &Value) -> Fault {
    Fault::NotOfType(name.to_owned(), tree.kind())
}

/// Removes a value from the front of `rest` and returns its type in the form that [`Metadata::push_tree`] reads.
fn type_of(kind: ValueType, rest: &mut &[u8]) -> Option<Value> {
    if kind != ValueType::Array {
        skip(kind, 1, rest)?;
        return Some(kind.name().into());
    }
    let (member, len) = take_head(rest)?;
    if member != ValueType::Array || len == 0 {
        skip(member, len, rest)?;
        return Some(format!("{}[]", member.name()).into());
    }
    let (mut types, mut first, mut is_same) = (List::new(), None, true);
    for _ in 0..len {
        let inner = type_of(ValueType::Array, rest)?;
        is_same &= *first.get_or_insert_with(|| inner.clone()) == inner;
        types.push(inner);
    }
    match first {
        Some(Value::String(name)) if is_same => Some(format!("{name}[]").into()),
        _ => Some(types.into()),
    }
}

fn hex(kind: ValueType, stored: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    let bytes = kind.number().to_le_bytes().into_iter().chain(stored.iter().copied());
    bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Appends the bytes of a value given in hex digits, and returns its type. Returns `None` if the digits are
/// not the bytes of one value.
fn stored(digits: &str, out: &mut Vec<u8>) -> Option<ValueType> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(|&[a, b]| Some(digit(a)? << 4 | digit(b)?)).collect();
    let bytes = bytes.filter(|_| odd.is_empty())?;
    let (kind, value) = bytes.split_first_chunk()?;
    let kind = ValueType::try_from(u32::from_le_bytes(*kind)).ok()?;
    let mut rest = value;
    check(kind, 1, 0, &mut rest)?;
    out.extend_from_slice(rest.is_empty().then_some(value)?);
    Some(kind)
}

/// Removes unchecked values from the front. Returns `None` if they are not valid or are nested too deep.
fn check(kind: ValueType, len: u64, depth: u32, rest: &mut &[u8]) -> Option<()> {
    match kind {
        ValueType::String => {
            for _ in 0..len {
                std::str::from_utf8(take_string(rest)?).ok()?;
            }
        }
        ValueType::Array if depth >= MAX_ARRAYS => return None,
        ValueType::Array => {
            for _ in 0..len {
                let (kind, len) = take_head(rest)?;
                check(kind, len, depth.saturating_add(1), rest)?;
            }
        }
        _ => skip(kind, len, rest)?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{ArrayBuf, MetaValue};
    use modelfmt_core::value::json;

    /// Returns the type and the tree of the value that `push_tree` makes from a tree.
    fn pushed(text: &str) -> Result<String, Fault> {
        let mut metadata = Metadata::new();
        metadata.push_tree("k", &json::parse(text.as_bytes()).unwrap())?;
        let value = metadata.get("k").unwrap();
        let tree = json::to_string(&value.to_value()).unwrap();
        let entry = metadata.entries[0];
        let kind = type_of(entry.kind, &mut &*metadata.bytes).unwrap();
        Ok(format!("{} {tree}", json::to_string(&kind).unwrap().replace('"', "")))
    }

    #[test]
    fn plain_values_get_the_first_type_that_holds_them() {
        for (text, expected) in [
            ("true", "bool true"),
            (r#""a""#, "string \"a\""),
            ("1", "i32 1"),
            ("-2147483649", "i64 -2147483649"),
            ("4294967295", "u32 4294967295"),
            ("4294967296", "i64 4294967296"),
            ("18446744073709551615", "u64 18446744073709551615"),
            ("1.0", "f64 1.0"),
            ("[]", "i32[] []"),
            ("[1, -1]", "i32[] [1,-1]"),
            ("[1, 4294967295]", "u32[] [1,4294967295]"),
            ("[-1, 4294967295]", "i64[] [-1,4294967295]"),
            (r#"["a", "b"]"#, "string[] [\"a\",\"b\"]"),
            ("[[true], [1.5], []]", "[bool[],f64[],i32[]] [[true],[1.5],[]]"),
            ("[[1], [2, 3]]", "i32[][] [[1],[2,3]]"),
        ] {
            assert_eq!(pushed(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_type_that_is_named_is_taken_if_it_holds_the_value() {
        for (kind, value, is_good) in [
            (r#""u8""#, "255", true),
            (r#""u8""#, "256", false),
            (r#""i8""#, "-1", true),
            (r#""u64""#, "-1", false),
            (r#""f32""#, "0.1", true),
            (r#""f32""#, "0.10000000149011612", true),
            (r#""f32""#, "0.123456789", false),
            (r#""f32""#, "16777217", false),
            (r#""f64""#, "1", true),
            (r#""u8""#, "1.0", false),
            (r#""bool""#, "1", false),
            (r#""u8[]""#, "[]", true),
            (r#""u8[][]""#, "[]", true),
            (r#""u8[][]""#, "[[1],[]]", true),
            (r#""array[]""#, "[]", true),
            (r#""array[]""#, "[[]]", false),
            (r#""array""#, "[]", false),
            (r#""u8[]""#, "[[1]]", false),
            (r#""u8[]""#, "1", false),
            (r#""u7""#, "1", false),
            (r#"["u8[]","f32[]"]"#, "[[1],[0.5]]", true),
            (r#"["u8[]"]"#, "[[1],[0.5]]", false),
            (r#"["u8"]"#, "[1]", false),
            ("3", "3", false),
        ] {
            let found = pushed(&format!(r#"{{"type":{kind},"value":{value}}}"#));
            assert_eq!(found.is_ok(), is_good, "{kind} {value}: {found:?}");
        }
        assert_eq!(pushed(r#"{"type":"f32","value":0.1}"#).unwrap(), "f32 0.10000000149011612");
    }

    #[test]
    fn what_no_type_holds_is_refused() {
        let says = |text: &str| pushed(text).unwrap_err().to_string();
        assert_eq!(says("null"), "GGUF holds numbers, booleans, strings and lists, not null");
        assert_eq!(says("{}"), "GGUF holds numbers, booleans, strings and lists, not an object");
        assert_eq!(says("[{}]"), "GGUF holds numbers, booleans, strings and lists, not an object");
        assert_eq!(
            says(r#"[1, "a"]"#),
            "a list of GGUF has members of one type, and this has an integer and a string"
        );
        assert!(says("[1, 2.5]").ends_with("this has an integer and a float"));
        assert!(says("[-1, 18446744073709551615]").ends_with("none holds both -1 and 18446744073709551615"));
        assert!(says("18446744073709551616").ends_with("and this is 18446744073709551616"));
        let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(pushed(&deep(126)).is_ok());
        let mut tree = json::parse(deep(126).as_bytes()).unwrap();
        tree = Value::from_iter([tree]);
        assert_eq!(Metadata::new().push_tree("k", &tree), Err(Fault::ArrayDepth));
        let mut metadata = Metadata::new();
        let long = "é".repeat(40_000);
        assert_eq!(metadata.push_tree(&long, &1.into()), Err(Fault::KeyLength(80_000)));
        metadata.push_tree("general.alignment", &64.into()).unwrap();
        assert_eq!(metadata.get("general.alignment"), Some(MetaValue::U32(64)));
        metadata.push_tree("llama.block_count", &2.into()).unwrap();
        assert_eq!(metadata.get("llama.block_count"), Some(MetaValue::U32(2)));
        metadata.push_tree("llama.rope.freq_base", &10_000.into()).unwrap();
        assert_eq!(metadata.get("llama.rope.freq_base"), Some(MetaValue::F32(10_000.0)));
        metadata.push_tree("tokenizer.ggml.eos_token_id", &(-1).into()).unwrap();
        assert_eq!(metadata.get("tokenizer.ggml.eos_token_id"), Some(MetaValue::I32(-1)));
        assert!(metadata.push_tree("general.alignment", &64.into()).is_err());
    }

    #[test]
    fn hints_bring_every_byte_back() {
        let mut metadata = Metadata::new();
        let mut put = |key: &str, value: MetaValue<'_>| metadata.push(key, value).unwrap();
        put("plain", MetaValue::I32(-7));
        put("text", MetaValue::String("é"));
        put("byte", MetaValue::U8(7));
        put("wide", MetaValue::I64(7));
        put("float", MetaValue::F32(0.1));
        put("nan", MetaValue::F32(f32::from_bits(0x7fa0_0001)));
        put("infinity", MetaValue::F64(f64::INFINITY));
        put("double", MetaValue::F64(-0.0));
        let mut bytes = ArrayBuf::new(ValueType::U8);
        [1, 2].iter().for_each(|&n| bytes.push(MetaValue::U8(n)).unwrap());
        put("bytes", bytes.as_value());
        let mut nans = ArrayBuf::new(ValueType::F32);
        [1.0, 0.1].iter().for_each(|&x| nans.push(MetaValue::F32(x)).unwrap());
        let mut lists = ArrayBuf::new(ValueType::Array);
        lists.push(bytes.as_value()).unwrap();
        lists.push(nans.as_value()).unwrap();
        put("lists", lists.as_value());
        put("none", ArrayBuf::new(ValueType::Array).as_value());
        metadata.push_key("odd", ValueType::Bool).unwrap();
        metadata.extend(&[2], None);
        let hints = metadata.hints();
        assert_eq!(
            json::to_string(&hints.types).unwrap(),
            concat!(
                r#"{"byte":"u8","wide":"i64","float":"f32","nan":"f32","infinity":"f64","bytes":"u8[]","#,
                r#""lists":["u8[]","f32[]"],"none":"array[]","odd":"bool"}"#
            )
        );
        assert_eq!(
            json::to_string(&hints.stored).unwrap(),
            r#"{"nan":"060000000100a07f","infinity":"0c000000000000000000f07f","odd":"0700000002"}"#
        );
        let mut again = Metadata::new();
        for (key, tree) in &metadata.to_object() {
            let tree = match (hints.stored.get(key), hints.types.get(key)) {
                (Some(digits), _) => Object::from_iter([("stored", digits.clone())]).into(),
                (None, Some(kind)) => {
                    Object::from_iter([("type", kind.clone()), ("value", tree.clone())]).into()
                }
                (None, None) => tree.clone(),
            };
            again.push_tree(key, &tree).unwrap();
        }
        let encoded = |metadata: &Metadata| {
            let mut out = Vec::new();
            metadata.encode(&mut out);
            out
        };
        assert_eq!(encoded(&again), encoded(&metadata));
    }

    #[test]
    fn bytes_that_nobody_has_checked_are_checked() {
        let nested = "09000000".to_owned() + &format!("09000000{:016x}", 1u64.swap_bytes()).repeat(130);
        for digits in [
            "",
            "0",
            "000000",
            "00000000",
            "0000000001ff",
            "zz00000001",
            "0d00000001",
            "08000000ffffffffffffffff",
            "080000000100000000000000ff",
            "0900000000000000ffffffffffffffff",
            "0900000008000000ffffffffffffffff",
            "0900000004000000010000000000000000",
            &nested,
        ] {
            let tree = Value::Object(Object::from_iter([("stored", digits)]));
            assert_eq!(Metadata::new().push_tree("k", &tree), Err(Fault::Stored), "{digits}");
        }
        assert_eq!(pushed(r#"{"stored":"00000000ff"}"#).as_deref(), Ok("u8 255"));
    }
}
