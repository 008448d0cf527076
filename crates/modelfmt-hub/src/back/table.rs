//! The properties of a folder's tensors that names and shapes in its GGUF do not show.

use std::collections::BTreeMap;

use modelfmt_value::{List, Object, Value, json};
use tensor_core::DType;

use crate::maps::Map;

/// The prefixes, dtypes and shapes of tensors that do not follow from the GGUF.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// The prefix of names.
    pub(crate) prefix: String,
    /// The dtype of tensors that are `f32` in the GGUF because llama.cpp accepts no other; `None` if it is
    /// not known.
    pub(crate) dtype: Option<DType>,
    /// The exceptions, by the name of the tensor without the prefix.
    pub(crate) except: BTreeMap<String, Exception>,
    /// The names of tensors that are not in the GGUF.
    pub(crate) left_out: Vec<String>,
    /// The names of tensors whose values are carried.
    pub(crate) values: Vec<String>,
}

/// The properties of one tensor that differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exception {
    pub(crate) prefix: Option<String>,
    pub(crate) dtype: Option<DType>,
    pub(crate) shape: Option<Vec<u64>>,
}

impl Table {
    /// Makes the usual table for a map, which has its first prefix.
    pub(crate) fn usual(map: &Map) -> Self {
        Self { prefix: map.file.prefixes.first().cloned().unwrap_or_default(), ..Self::default() }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut top = Object::new();
        if !self.prefix.is_empty() {
            top.insert("prefix", self.prefix.as_str());
        }
        if let Some(dtype) = self.dtype {
            top.insert("dtype", dtype.name());
        }
        let mut except = Object::new();
        for (name, other) in &self.except {
            let mut own = Object::new();
            if let Some(prefix) = &other.prefix {
                own.insert("prefix", prefix.as_str());
            }
            if let Some(dtype) = other.dtype {
                own.insert("dtype", dtype.name());
            }
            if let Some(shape) = &other.shape {
                own.insert("shape", shape.iter().copied().collect::<Value>());
            }
            except.insert(name, own);
        }
        if !except.is_empty() {
            top.insert("except", except);
        }
        for (key, names) in [("left_out", &self.left_out), ("values", &self.values)] {
            if !names.is_empty() {
                top.insert(key, names.iter().map(String::as_str).collect::<Value>());
            }
        }
        json::to_string(&Value::Object(top)).unwrap_or_default()
    }

    /// Reads the text of a table. Its prefixes must be prefixes of the map.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str, map: &Map) -> Result<Self, String> {
        let top = json::parse_object(text.as_bytes()).map_err(|error| error.to_string())?;
        let known = |name: &str| map.file.prefixes.iter().any(|own| own == name);
        let prefix = |object: &Object| match object.get("prefix") {
            None => Ok(None),
            Some(Value::String(own)) if known(own) => Ok(Some(own.clone())),
            Some(_) => Err("`prefix` is none of the map".to_owned()),
        };
        let mut table =
            Self { prefix: prefix(&top)?.unwrap_or_default(), dtype: float(&top)?, ..Self::default() };
        if !known(&table.prefix) {
            return Err("`prefix` is none of the map".to_owned());
        }
        for (name, own) in objects(&top, "except")? {
            let own = own.as_object().ok_or_else(|| format!("what is said of {name:?} is no object"))?;
            let other = Exception { prefix: prefix(own)?, dtype: float(own)?, shape: shape(own)? };
            table.except.insert(name.to_owned(), other);
        }
        (table.left_out, table.values) = (names(&top, "left_out")?, names(&top, "values")?);
        Ok(table)
    }
}

fn objects<'a>(top: &'a Object, key: &str) -> Result<Vec<(&'a str, &'a Value)>, String> {
    match top.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Object(object)) => Ok(object.iter().collect()),
        Some(other) => Err(format!("`{key}` is {}, not an object", other.kind())),
    }
}

fn names(top: &Object, key: &str) -> Result<Vec<String>, String> {
    let Some(names) = top.get(key) else { return Ok(Vec::new()) };
    let names = names.as_array().and_then(List::texts);
    let names = names.ok_or_else(|| format!("`{key}` is no list of names"))?;
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Reads the dtype, which must be one that the steps of a map turn into `f32`.
fn float(object: &Object) -> Result<Option<DType>, String> {
    let Some(value) = object.get("dtype") else { return Ok(None) };
    let dtype = value.as_str().and_then(DType::from_name);
    match dtype {
        Some(dtype) if dtype.is_float() => Ok(Some(dtype)),
        _ => Err("`dtype` is no type of floating-point numbers".to_owned()),
    }
}

fn shape(object: &Object) -> Result<Option<Vec<u64>>, String> {
    let Some(value) = object.get("shape") else { return Ok(None) };
    let dims = value.as_array().map(|dims| dims.iter().map(|dim| dim.as_u64()).collect::<Option<Vec<u64>>>());
    dims.flatten().map(Some).ok_or_else(|| "`shape` is no list of dimensions".to_owned())
}
