//! The receipt for a part that a worker has written.

use std::fmt;
use std::str::FromStr;

use modelfmt_core::DType;
use modelfmt_core::value::{Object, Value, json};
use modelfmt_write::WrittenPart;

use crate::convert::Clipped;
use modelfmt_rules::wording::ParseError;

/// Describes a written part for [`PartPlan::finish`](crate::convert::PartPlan::finish). As text it is one
/// line of JSON, which you can send to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub(super) plan: [u8; 32],
    pub(super) number: usize,
    pub(super) written: WrittenPart,
    pub(super) clipped: Vec<Clipped>,
    pub(super) notes: Vec<String>,
}

impl Receipt {
    /// Returns the number of the part.
    #[must_use]
    pub const fn part(&self) -> usize {
        self.number
    }

    /// Returns the length of its file in bytes.
    #[must_use]
    pub const fn nbytes(&self) -> u64 {
        self.written.nbytes
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = |texts: &[String]| texts.iter().map(String::as_str).collect::<Value>();
        let object = Object::from_iter([
            ("plan", Value::from(hex(&self.plan))),
            ("part", (self.number as u64).into()),
            ("nbytes", self.written.nbytes.into()),
            ("digests", hex(&self.written.digests).into()),
            ("clipped", self.clipped.iter().map(clipped_to_json).collect::<Value>()),
            ("notes", texts(&self.notes)),
        ]);
        f.write_str(&json::to_string(&object).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Receipt {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let object = json::parse_object(text.as_bytes()).ok();
        let unknown =
            || ParseError::new("this is no receipt of a part: give the text that writing it returned");
        object.as_ref().and_then(parse).ok_or_else(unknown)
    }
}

fn parse(object: &Object) -> Option<Receipt> {
    let texts = |key| {
        let texts = object.get(key)?.as_array()?;
        texts.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    };
    let number = |key| object.get(key)?.as_u64();
    let bytes = |key| unhex(object.get(key)?.as_str()?);
    Some(Receipt {
        plan: bytes("plan")?.try_into().ok()?,
        number: number("part")?.try_into().ok()?,
        written: WrittenPart { nbytes: number("nbytes")?, digests: bytes("digests")? },
        clipped: object
            .get("clipped")?
            .as_array()?
            .iter()
            .map(|one| clipped_from_json(&one))
            .collect::<Option<Vec<_>>>()?,
        notes: texts("notes")?,
    })
}

fn clipped_to_json(clipped: &Clipped) -> Object {
    let Clipped { tensor, dtype, values, zero, infinite, nan, saturated } = clipped;
    let counts: Value = [*values, *zero, *infinite, *nan, *saturated].into_iter().map(Value::from).collect();
    let texts =
        [("tensor", Value::from(tensor.as_str())), ("dtype", dtype.name().into()), ("counts", counts)];
    Object::from_iter(texts)
}

fn clipped_from_json(value: &Value) -> Option<Clipped> {
    let counts: Option<Vec<u64>> =
        value.get("counts")?.as_array()?.iter().map(|count| count.as_u64()).collect();
    let [values, zero, infinite, nan, saturated] = counts?[..] else { return None };
    let (tensor, dtype) = (value.get("tensor")?.as_str()?.to_owned(), value.get("dtype")?.as_str()?);
    Some(Clipped { tensor, dtype: DType::from_name(dtype)?, values, zero, infinite, nan, saturated })
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4) | digit(*low)?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect::<Option<Vec<u8>>>())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_text_and_back() {
        let receipt = Receipt {
            plan: [0xa5; 32],
            number: 3,
            written: WrittenPart { nbytes: u64::MAX, digests: vec![0, 15, 255] },
            clipped: vec![Clipped {
                tensor: "a…".to_owned(),
                dtype: DType::F16,
                values: u64::MAX,
                zero: 1,
                infinite: 2,
                nan: 4,
                saturated: 5,
            }],
            notes: Vec::new(),
        };
        let text = receipt.to_string();
        assert_eq!(text.parse(), Ok(receipt));
        assert!(!text.contains('\n'));
        for wrong in [
            "",
            "{}",
            "[]",
            &text.replace("a5a5", "a5a"),
            &text.replace("a5a5", "a5x5"),
            &text.replace('3', "-3"),
        ] {
            assert!(wrong.parse::<Receipt>().is_err(), "{wrong}");
        }
    }
}
