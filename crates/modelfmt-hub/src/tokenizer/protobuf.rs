//! The fields of a protobuf message.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a message in order, each with its number. The first error is the last item.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("it ends in the middle of a field")?;
        self.rest = rest;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0_u32..70).step_by(7) {
            let [byte, rest @ ..] = self.rest else { return Err("it ends in the middle of a number") };
            self.rest = rest;
            let bits = u64::from(*byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits.checked_shl(shift).unwrap_or(0);
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err("it has a number of more than 64 bits")
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), &'static str> {
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err("it has a field with a number that no field has");
        }
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => {
                self.bytes(8)?;
                Field::Fixed64
            }
            2 => {
                let len = self.varint()?;
                let len = usize::try_from(len).map_err(|_| "it has a field that is longer than itself")?;
                Field::Bytes(self.bytes(len)?)
            }
            5 => {
                let bytes = self.bytes(4)?;
                Field::Fixed32(bytes.try_into().map_err(|_| "it ends in the middle of a field")?)
            }
            _ => return Err("it has a field of a type that is not used here"),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Field<'a>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u64, Field<'_>)>, &'static str> {
        Fields::new(message).collect()
    }

    #[test]
    fn fields_of_each_type_are_read() {
        let message = [8, 0xac, 2, 0x12, 2, b'a', b'b', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields = all(&message).unwrap();
        let expected = [
            (1, Field::Varint(300)),
            (2, Field::Bytes(b"ab")),
            (3, Field::Fixed32([1, 2, 3, 4])),
            (4, Field::Fixed64),
        ];
        assert_eq!(fields, expected);
        let largest = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(all(&largest).unwrap(), [(1, Field::Varint(u64::MAX))]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let longer = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        let endless = [8, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
        for (message, why) in [
            (&longer[..], "it has a number of more than 64 bits"),
            (&endless, "it has a number of more than 64 bits"),
            (&[8], "it ends in the middle of a number"),
            (&[0x12, 5, 1], "it ends in the middle of a field"),
            (&[0x1d, 1, 2, 3], "it ends in the middle of a field"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
                "it ends in the middle of a field",
            ),
            (&[0x00], "it has a field with a number that no field has"),
            (&[0x0b], "it has a field of a type that is not used here"),
        ] {
            assert_eq!(all(message).unwrap_err(), why, "{message:x?}");
        }
    }
}
