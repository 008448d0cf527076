//! Typed access to the keys of an object, with errors that name the key.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::{KeyError, List, Object, Value};

macro_rules! typed {
    ($($required:ident $optional:ident $type:ty, $accessor:ident, $expected:literal;)*) => {
        /// Typed access to keys. `required_…` fails if the key is missing. `optional_…` returns `None` if the
        /// key is missing or its value is null.
        impl Object {
            $(
                #[doc = concat!("The value under `key`, which must be ", $expected, ".")]
                ///
                /// # Errors
                ///
                /// [`KeyError`] if the key is missing or its value has another type.
                pub fn $required(&self, key: &str) -> Result<$type, KeyError> {
                    let found = self.get(key);
                    found.and_then(Value::$accessor).ok_or_else(|| KeyError::new(key, $expected, found))
                }

                #[doc = concat!("The value under `key`, which is ", $expected, " where it is there.")]
                ///
                /// # Errors
                ///
                /// [`KeyError`] if the value has another type and is not null.
                pub fn $optional(&self, key: &str) -> Result<Option<$type>, KeyError> {
                    match self.get(key) {
                        None | Some(Value::Null) => Ok(None),
                        Some(_) => self.$required(key).map(Some),
                    }
                }
            )*
        }
    };
}

typed! {
    required_bool optional_bool bool, as_bool, "a boolean";
    required_u64 optional_u64 u64, as_u64, "an unsigned integer";
    required_i64 optional_i64 i64, as_i64, "an integer below 2^63";
    required_f64 optional_f64 f64, as_f64, "a number that a 64-bit float holds";
    required_str optional_str &str, as_str, "a string";
    required_bytes optional_bytes &[u8], as_bytes, "bytes";
    required_array optional_array &List, as_array, "an array";
    required_object optional_object &Object, as_object, "an object";
}

impl Object {
    /// Returns the value of `key`, of any type.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the key is missing.
    pub fn required(&self, key: &str) -> Result<&Value, KeyError> {
        self.get(key).ok_or_else(|| KeyError::new(key, "a value", None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Object {
        let mut object = Object::new();
        object.insert("size_bytes", "12");
        object.insert("count", -1);
        object.insert("big", u64::MAX);
        object.insert("bits", 4);
        object.insert("nothing", Value::Null);
        object.insert("digest", Value::Bytes(vec![1]));
        object
    }

    #[test]
    fn errors_name_key_and_types() {
        let object = sample();
        let text = |error: KeyError| error.to_string();
        assert_eq!(
            text(object.required_u64("size_bytes").unwrap_err()),
            "key `size_bytes`: expected an unsigned integer, found a string"
        );
        assert_eq!(
            text(object.required_u64("count").unwrap_err()),
            "key `count`: expected an unsigned integer, found a negative integer"
        );
        assert_eq!(
            text(object.required_i64("big").unwrap_err()),
            "key `big`: expected an integer below 2^63, found an integer"
        );
        let missing = object.required_str("name").unwrap_err();
        assert!(missing.is_missing());
        assert_eq!(
            text(missing.within("parts[3]").within("set")),
            "key `set.parts[3].name`: expected a string, but there is no such key"
        );
        let null = object.required_object("nothing").unwrap_err();
        assert!(!null.is_missing());
        assert_eq!(text(null), "key `nothing`: expected an object, found null");
        assert_eq!(object.required("absent").unwrap_err().key(), "absent");
    }

    #[test]
    fn values_of_the_right_type_come_out() {
        let object = sample();
        assert_eq!(object.required_str("size_bytes"), Ok("12"));
        assert_eq!(object.required_i64("count"), Ok(-1));
        assert_eq!(object.required_f64("bits"), Ok(4.0));
        assert_eq!(object.required_bytes("digest"), Ok(&[1u8][..]));
        assert_eq!(object.required("nothing"), Ok(&Value::Null));
        assert_eq!(object.optional_u64("big"), Ok(Some(u64::MAX)));
    }

    #[test]
    fn optional_keys_may_be_absent_or_null_but_not_wrong() {
        let object = sample();
        assert_eq!(object.optional_str("absent"), Ok(None));
        assert_eq!(object.optional_array("nothing"), Ok(None));
        assert!(object.optional_bool("count").is_err());
    }
}
