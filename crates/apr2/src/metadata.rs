//! The metadata section: JSON, with typed access to the keys that the specification names.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::fmt;

use modelfmt_core::Limits;
use modelfmt_core::author::parse_object;
use modelfmt_core::value::{JsonObject, KeyError, Object, ParseOptions, Value};

use crate::error::Result;

/// The `apr_version` that is written if the metadata has none.
pub(crate) const APR_VERSION: &str = "2.0.0";

/// The metadata of a model: a complete JSON object, in file order.
///
/// The typed accessors return the keys that APR2 2.0 names in "Metadata Section". For all other keys, use
/// [`object`](Self::object).
///
/// The JSON text is checked when the file is opened. It is parsed into a tree on first use, because a tree
/// takes up to ten times the memory of its text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata(JsonObject);

/// A mel filterbank: `shape[0]` rows of `shape[1]` weights.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MelFilterbank {
    /// The numbers of rows and columns, if the file states them under `mel_filterbank_shape`.
    pub shape: Option<[u64; 2]>,
    /// The weights, row by row.
    pub values: Vec<f64>,
}

/// How a model was quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quantization<'a> {
    /// The method, such as `Q8_0`.
    pub method: &'a str,
    /// The average number of bits per weight, including scales.
    pub bits_per_weight: f64,
}

impl Metadata {
    /// Creates metadata with the keys that the specification requires.
    #[must_use]
    pub fn new(model_type: &str, architecture: Object) -> Self {
        let mut object = Object::new();
        object.insert("apr_version", APR_VERSION);
        object.insert("model_type", model_type);
        object.insert("architecture", architecture);
        object.into()
    }

    /// Parses the metadata section, which begins at byte `at` of the file.
    pub(crate) fn parse(text: &[u8], at: u64, limits: &Limits) -> Result<Self> {
        let depth = u32::try_from(limits.depth).unwrap_or(u32::MAX);
        Ok(Self(parse_object(text, at, ParseOptions::new().with_max_depth(depth))?))
    }

    /// Returns all keys, in the order of the file.
    #[must_use]
    pub fn object(&self) -> &Object {
        self.0.object()
    }

    /// Returns a new tree of all keys, equal to [`object`](Self::object). The metadata does not keep a copy
    /// of it.
    #[must_use]
    pub fn to_object(&self) -> Object {
        self.0.to_object()
    }

    /// Converts the metadata into the tree of all keys.
    #[must_use]
    pub fn into_object(self) -> Object {
        self.0.into_object()
    }

    /// Returns the version that the metadata states, such as `2.0.0`.
    ///
    /// # Errors
    /// If the key is missing or not a string.
    pub fn apr_version(&self) -> Result<&str, KeyError> {
        self.object().required_str("apr_version")
    }

    /// Returns the kind of model, such as `whisper`.
    ///
    /// # Errors
    /// If the key is missing or not a string.
    pub fn model_type(&self) -> Result<&str, KeyError> {
        self.object().required_str("model_type")
    }

    /// Returns the value of `architecture`: an object, as in the specification, or a string, as aprender's
    /// tools write it (docs/formats/apr2.md#metadata).
    ///
    /// # Errors
    /// If the key is missing or has another type.
    pub fn architecture_value(&self) -> Result<&Value, KeyError> {
        let value = self.object().get("architecture");
        let is_good = |value: &&Value| matches!(value, Value::Object(_) | Value::String(_));
        value.filter(is_good).ok_or_else(|| KeyError::new("architecture", "an object or a string", value))
    }

    /// Returns the model's dimensions by name: the value of `architecture` as an object.
    ///
    /// # Errors
    /// If the key is missing or not an object.
    pub fn architecture(&self) -> Result<&Object, KeyError> {
        self.object().required_object("architecture")
    }

    /// Returns the tokens in the order of their numbers, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not an array of strings.
    pub fn vocab(&self) -> Result<Option<Vec<&str>>, KeyError> {
        let Some(tokens) = self.object().optional_array("vocab")? else { return Ok(None) };
        let texts = tokens.texts().ok_or_else(|| {
            let other = tokens.iter().enumerate().find(|(_, value)| value.as_str().is_none());
            let (i, value) = other.unwrap_or_default();
            KeyError::new(format!("vocab[{i}]"), "a string", Some(&value))
        })?;
        Ok(Some(texts))
    }

    /// Returns the mel filterbank with its shape, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not an array of numbers, or its shape does not have two dimensions or does not match
    /// the number of elements.
    pub fn mel_filterbank(&self) -> Result<Option<MelFilterbank>, KeyError> {
        let Some(values) = self.object().optional_array("mel_filterbank")? else { return Ok(None) };
        let number = |(i, value): (usize, Value)| {
            let expected = || KeyError::new(format!("mel_filterbank[{i}]"), "a number", Some(&value));
            value.as_f64().ok_or_else(expected)
        };
        let values = values.iter().enumerate().map(number).collect::<Result<Vec<_>, _>>()?;
        let key = "mel_filterbank_shape";
        let Some(dims) = self.object().optional_array(key)? else {
            return Ok(Some(MelFilterbank { shape: None, values }));
        };
        let expected = || {
            KeyError::new(
                key,
                "two dimensions whose product is the length of mel_filterbank",
                self.object().get(key),
            )
        };
        let dims: Vec<u64> =
            dims.iter().map(|dim| dim.as_u64()).collect::<Option<_>>().ok_or_else(expected)?;
        let shape: [u64; 2] = dims.try_into().map_err(|_| expected())?;
        if modelfmt_core::element_count(&shape) != Some(values.len() as u64) {
            return Err(expected());
        }
        Ok(Some(MelFilterbank { shape: Some(shape), values }))
    }

    /// Returns the tokenizer's configuration, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not an object.
    pub fn tokenizer_config(&self) -> Result<Option<&Object>, KeyError> {
        self.object().optional_object("tokenizer_config")
    }

    /// Returns the model card, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not an object.
    pub fn model_card(&self) -> Result<Option<&Object>, KeyError> {
        self.object().optional_object("model_card")
    }

    /// Returns how the model was quantized, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not an object with a method and a number of bits.
    pub fn quantization(&self) -> Result<Option<Quantization<'_>>, KeyError> {
        let Some(object) = self.object().optional_object("quantization")? else { return Ok(None) };
        let within = |error: KeyError| error.within("quantization");
        Ok(Some(Quantization {
            method: object.required_str("method").map_err(within)?,
            bits_per_weight: object.required_f64("bits_per_weight").map_err(within)?,
        }))
    }

    /// Returns one error for each required key that is missing or has another type.
    pub(crate) fn missing(&self) -> impl Iterator<Item = KeyError> {
        let faults = [self.apr_version().err(), self.model_type().err(), self.architecture_value().err()];
        faults.into_iter().flatten()
    }
}

impl From<Object> for Metadata {
    fn from(object: Object) -> Self {
        Self(object.into())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metadata").field(self.object()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(text: &str) -> Metadata {
        Metadata::parse(text.as_bytes(), 32, &Limits::default()).unwrap()
    }

    #[test]
    fn the_keys_of_the_specification_are_typed_and_others_kept() {
        let m = metadata(
            r#"{"apr_version":"2.0.0","model_type":"whisper","architecture":{"n_mels":80},"vocab":["a","b"],
            "mel_filterbank":[0.0,1,2.5,3,4,5],"mel_filterbank_shape":[2,3],"tokenizer_config":{"x":1},
            "model_card":{"license":"MIT"},"quantization":{"method":"Q8_0","bits_per_weight":8.5},"own":[1]}"#,
        );
        assert_eq!((m.apr_version(), m.model_type()), (Ok("2.0.0"), Ok("whisper")));
        assert_eq!(m.architecture().unwrap().required_u64("n_mels"), Ok(80));
        assert_eq!(m.vocab().unwrap().unwrap(), ["a", "b"]);
        let mel = m.mel_filterbank().unwrap().unwrap();
        assert_eq!((mel.shape, &mel.values[..3]), (Some([2, 3]), &[0.0, 1.0, 2.5][..]));
        assert_eq!(m.tokenizer_config().unwrap().unwrap().len(), 1);
        assert_eq!(m.model_card().unwrap().unwrap().required_str("license"), Ok("MIT"));
        let quantization = m.quantization().unwrap().unwrap();
        assert_eq!((quantization.method, quantization.bits_per_weight), ("Q8_0", 8.5));
        assert!(m.object().contains_key("own"));
        assert_eq!(m.missing().count(), 0);
    }

    #[test]
    fn wrong_types_are_errors_that_name_the_key() {
        let m =
            metadata(r#"{"vocab":["a",1],"mel_filterbank":[1],"mel_filterbank_shape":[2,3],"model_type":1}"#);
        assert_eq!(m.vocab().unwrap_err().key(), "vocab[1]");
        assert_eq!(m.mel_filterbank().unwrap_err().key(), "mel_filterbank_shape");
        assert_eq!(m.missing().count(), 3);
        assert_eq!(metadata("{}").vocab(), Ok(None));
    }

    #[test]
    fn what_is_not_an_object_is_refused_with_its_place() {
        for text in ["", "[]", "{", "{\"a\":1,\"a\":2}", "{}x", "\u{feff}{}"] {
            let error = Metadata::parse(text.as_bytes(), 32, &Limits::default()).unwrap_err();
            assert!(matches!(error, crate::Error::Malformed { at: 32.., .. }), "{text:?}: {error}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Metadata::parse(deep.as_bytes(), 32, &Limits::default()).is_err());
    }
}
