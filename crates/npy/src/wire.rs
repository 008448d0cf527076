//! The header of an array: a magic, a version, a length, and a dictionary as Python writes it
//! (docs/formats/npy.md#the-header).
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::author::Cursor;
use modelfmt_core::{DType, Limits, Part};

use crate::error::{Error, Fault, Result};

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// The length of the magic, the version and the longer form of the length field.
const PREAMBLE_LEN: u64 = 12;
/// The largest header that is read. NumPy itself refuses headers of more than 10,000 bytes unless the caller
/// says that the file can be trusted.
const MAX_HEADER_LEN: u64 = 64 << 10;
/// The largest number of dimensions in NumPy: 64 from version 2 on, 32 before.
pub(crate) const MAX_DIMS: usize = 64;

/// The types that have a counterpart, with the names that NumPy gives them in files, without the byte order.
pub(crate) const TYPES: [(&str, DType); 13] = [
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("u1", DType::U8),
    ("i2", DType::I16),
    ("u2", DType::U16),
    ("i4", DType::I32),
    ("u4", DType::U32),
    ("i8", DType::I64),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("c8", DType::C64),
];

/// The header of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of bytes before the values.
    pub(crate) len: u64,
    pub(crate) major: u8,
    pub(crate) kind: std::result::Result<Elements, Fault>,
    pub(crate) is_fortran: bool,
    pub(crate) shape: Vec<u64>,
}

/// The type of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    pub(crate) is_big_endian: bool,
}

/// Returns the length of the header that begins with these bytes, or `None` if more bytes are needed to
/// compute it.
pub(crate) fn header_len(bytes: &[u8], at: u64, part: &Part) -> Result<Option<u64>> {
    let have = bytes.len().min(MAGIC.len());
    if bytes.get(..have) != MAGIC.get(..have) {
        return Err(malformed(part, "magic", at, Fault::Magic));
    }
    let Some(&[major, minor]) = bytes.get(MAGIC.len()..).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    let mut c =
        Cursor::new(bytes.get(MAGIC.len().saturating_add(2)..).unwrap_or_default(), at.saturating_add(8));
    let (text, front) = match (major, minor) {
        (1, 0) => match c.u16("length") {
            Ok(len) => (u64::from(len), PREAMBLE_LEN.saturating_sub(2)),
            Err(_) => return Ok(None),
        },
        (2 | 3, 0) => match c.u32("length") {
            Ok(len) => (u64::from(len), PREAMBLE_LEN),
            Err(_) => return Ok(None),
        },
        _ => return Err(malformed(part, "version", at.saturating_add(6), Fault::Version { major, minor })),
    };
    Limits::check("the length of the header of an array", text, MAX_HEADER_LEN)?;
    Ok(Some(front.saturating_add(text)))
}

/// Decodes a header that begins at byte `at`. An unsupported element type is not an error of the header,
/// because the array may be left out.
pub(crate) fn decode(bytes: &[u8], at: u64, part: &Part) -> Result<Header> {
    let have = bytes.len() as u64;
    let need = header_len(bytes, at, part)?.unwrap_or(PREAMBLE_LEN);
    let truncated = || Error::Truncated { part: part.clone(), at, need, have };
    let header = usize::try_from(need).ok().and_then(|len| bytes.get(..len)).ok_or_else(truncated)?;
    let major = header.get(MAGIC.len()).copied().unwrap_or_default();
    let front = if major == 1 { PREAMBLE_LEN.saturating_sub(2) } else { PREAMBLE_LEN };
    let text = usize::try_from(front).ok().and_then(|front| header.get(front..)).ok_or_else(truncated)?;
    let text_at = at.saturating_add(front);
    let mut literal = Literal { text, pos: 0 };
    let read = dictionary(&mut literal);
    let here = text_at.saturating_add(literal.pos as u64);
    let (kind, is_fortran, shape) =
        read.map_err(|why| malformed(part, "header", here, Fault::Header(why)))?;
    Ok(Header { len: need, major, kind, is_fortran, shape })
}

fn malformed(part: &Part, field: &'static str, at: u64, fault: Fault) -> Error {
    Error::Malformed { part: part.clone().with_field(field), at, fault }
}

type Keys = (std::result::Result<Elements, Fault>, bool, Vec<u64>);

fn dictionary(literal: &mut Literal<'_>) -> std::result::Result<Keys, &'static str> {
    let (mut kind, mut is_fortran, mut shape) = (None, None, None);
    literal.expect(b'{', "it does not begin with `{`")?;
    while !literal.takes(b'}') {
        let key = literal.string()?;
        literal.expect(b':', "a key without `:`")?;
        match key {
            b"descr" if kind.is_none() => kind = Some(descr(literal)?),
            b"fortran_order" if is_fortran.is_none() => is_fortran = Some(literal.boolean()?),
            b"shape" if shape.is_none() => shape = Some(literal.shape()?),
            _ => return Err("it has another key, or one twice"),
        }
        if !literal.takes(b',') {
            literal.expect(b'}', "it does not end with `}`")?;
            break;
        }
    }
    literal.skip_blanks();
    if literal.pos < literal.text.len() {
        return Err("something follows it");
    }
    match (kind, is_fortran, shape) {
        (Some(kind), Some(is_fortran), Some(shape)) => Ok((kind, is_fortran, shape)),
        _ => Err("a key is missing"),
    }
}

/// Parses the type of the elements: a string, or a list of fields for a structured array.
fn descr(
    literal: &mut Literal<'_>,
) -> std::result::Result<std::result::Result<Elements, Fault>, &'static str> {
    literal.skip_blanks();
    match literal.text.get(literal.pos) {
        Some(b'[' | b'(' | b'{') => {
            literal.skip_nested()?;
            Ok(Err(Fault::Structured))
        }
        _ => Ok(elements(literal.string()?)),
    }
}

/// Parses a type as NumPy writes it: byte order, kind and size.
fn elements(text: &[u8]) -> std::result::Result<Elements, Fault> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    let (order, kind) = match text {
        // `=` is the byte order of the machine that wrote the file. All current machines are little-endian.
        [order @ (b'<' | b'>' | b'|' | b'='), kind @ ..] => (*order, kind),
        kind => (b'|', kind),
    };
    let kind = match kind {
        b"?" => b"b1",
        b"b" => b"i1",
        b"B" => b"u1",
        [b'O', ..] => return Err(Fault::Objects),
        [b'V', size @ ..] => return Err(Fault::Void(String::from_utf8_lossy(size).into_owned())),
        kind => kind,
    };
    let counterpart = TYPES.iter().find(|(name, _)| name.as_bytes() == kind);
    let &(_, dtype) = counterpart.ok_or_else(|| Fault::DType(shown()))?;
    Ok(Elements { dtype, is_big_endian: order == b'>' })
}

/// Parses the Python literals that NumPy writes. Only skipped values may be nested.
struct Literal<'a> {
    text: &'a [u8],
    pos: usize,
}

impl<'a> Literal<'a> {
    fn skip_blanks(&mut self) {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.pos = self.pos.saturating_add(blanks);
    }

    /// Skips this character if it is next. Returns whether it was.
    fn takes(&mut self, what: u8) -> bool {
        self.skip_blanks();
        let is_next = self.text.get(self.pos) == Some(&what);
        self.pos = self.pos.saturating_add(usize::from(is_next));
        is_next
    }

    fn expect(&mut self, what: u8, why: &'static str) -> std::result::Result<(), &'static str> {
        if self.takes(what) { Ok(()) } else { Err(why) }
    }

    /// Parses a string in quotes of either kind, without escapes.
    fn string(&mut self) -> std::result::Result<&'a [u8], &'static str> {
        self.skip_blanks();
        let rest = self.text.get(self.pos..).unwrap_or_default();
        // Python 2 may put `u` or `b` before a string.
        let prefix = usize::from(matches!(rest.first(), Some(b'u' | b'b')));
        let (&quote, body) = rest.get(prefix..).and_then(<[u8]>::split_first).ok_or("text is missing")?;
        if !matches!(quote, b'\'' | b'"') {
            return Err("text is not between quotes");
        }
        let len = body.iter().position(|&byte| byte == quote).ok_or("text does not end")?;
        self.pos = self.pos.saturating_add(prefix).saturating_add(len).saturating_add(2);
        match body.get(..len) {
            Some(text) if !text.contains(&b'\\') => Ok(text),
            _ => Err("text has an escape"),
        }
    }

    fn boolean(&mut self) -> std::result::Result<bool, &'static str> {
        self.skip_blanks();
        let rest = self.text.get(self.pos..).unwrap_or_default();
        let (is_true, len) = match rest {
            [b'T', b'r', b'u', b'e', ..] => (true, 4),
            [b'F', b'a', b'l', b's', b'e', ..] => (false, 5),
            _ => return Err("fortran_order is neither True nor False"),
        };
        self.pos = self.pos.saturating_add(len);
        Ok(is_true)
    }

    /// Parses a tuple of numbers. Python 2 puts an `L` after each.
    fn shape(&mut self) -> std::result::Result<Vec<u64>, &'static str> {
        self.expect(b'(', "shape is no tuple")?;
        let mut shape = Vec::new();
        while !self.takes(b')') {
            self.skip_blanks();
            let rest = self.text.get(self.pos..).unwrap_or_default();
            let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let digits = rest.get(..len).and_then(|digits| std::str::from_utf8(digits).ok());
            let number =
                digits.and_then(|digits| digits.parse().ok()).ok_or("shape has what is no number")?;
            self.pos = self.pos.saturating_add(len);
            self.takes(b'L');
            if shape.len() == MAX_DIMS {
                return Err("shape has more dimensions than NumPy has");
            }
            shape.push(number);
            if !self.takes(b',') {
                self.expect(b')', "shape does not end")?;
                break;
            }
        }
        Ok(shape)
    }

    /// Skips a list, tuple or dictionary and everything in it.
    fn skip_nested(&mut self) -> std::result::Result<(), &'static str> {
        let mut depth = 0_usize;
        loop {
            self.skip_blanks();
            match self.text.get(self.pos) {
                None => return Err("a list does not end"),
                Some(b'\'' | b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'[' | b'(' | b'{') => depth = depth.saturating_add(1),
                Some(b']' | b')' | b'}') => depth = depth.saturating_sub(1),
                Some(_) => {}
            }
            self.pos = self.pos.saturating_add(1);
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(major: u8, text: &str) -> Result<Header> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([major, 0]);
        let len = u32::try_from(text.len()).unwrap().to_le_bytes();
        bytes.extend(if major == 1 { &len[..2] } else { &len[..] });
        bytes.extend(text.as_bytes());
        decode(&bytes, 0, &Part::new("array"))
    }

    #[test]
    fn headers_of_every_version_are_read() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }            \n";
        for major in 1..=3 {
            let header = of(major, text).unwrap();
            assert_eq!(header.kind, Ok(Elements { dtype: DType::F32, is_big_endian: false }));
            assert_eq!((header.is_fortran, &*header.shape), (false, &[2, 3][..]));
            assert_eq!(header.len, text.len() as u64 + if major == 1 { 10 } else { 12 });
        }
        let old = of(1, "{'shape': (3L,), \"fortran_order\": True, 'descr': u'>i8'}").unwrap();
        assert_eq!((old.is_fortran, &*old.shape), (true, &[3][..]));
        assert_eq!(old.kind, Ok(Elements { dtype: DType::I64, is_big_endian: true }));
        assert_eq!(of(1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}").unwrap().shape, [0_u64; 0]);
    }

    #[test]
    fn types_without_a_counterpart_are_named() {
        let kind = |descr: &str| {
            of(1, &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}")).unwrap().kind
        };
        assert_eq!(kind("'|O'"), Err(Fault::Objects));
        assert_eq!(kind("'|V2'"), Err(Fault::Void("2".to_owned())));
        assert_eq!(kind("'<U5'"), Err(Fault::DType("<U5".to_owned())));
        assert_eq!(kind("'<c16'"), Err(Fault::DType("<c16".to_owned())));
        assert_eq!(kind("[('a', '<f4'), ('b]', [('c', '<i4', (2,))])]"), Err(Fault::Structured));
    }

    #[test]
    fn every_type_with_a_counterpart_is_read_with_its_byte_order() {
        for (descrs, dtype) in [
            (["|b1", "?"], DType::Bool),
            (["|i1", "b"], DType::I8),
            (["|u1", "B"], DType::U8),
            (["<i2", "=i2"], DType::I16),
            (["<u2", "=u2"], DType::U16),
            (["<i4", "=i4"], DType::I32),
            (["<u4", "=u4"], DType::U32),
            (["<i8", "=i8"], DType::I64),
            (["<u8", "=u8"], DType::U64),
            (["<f2", "=f2"], DType::F16),
            (["<f4", "=f4"], DType::F32),
            (["<f8", "=f8"], DType::F64),
            (["<c8", "=c8"], DType::C64),
        ] {
            for descr in descrs {
                let little = Ok(Elements { dtype, is_big_endian: false });
                assert_eq!(elements(descr.as_bytes()), little, "{descr}");
            }
            let swapped = descrs[0].replace('<', ">");
            let is_big_endian = swapped != descrs[0];
            assert_eq!(elements(swapped.as_bytes()), Ok(Elements { dtype, is_big_endian }), "{swapped}");
        }
    }

    #[test]
    fn as_many_dimensions_and_bytes_as_numpy_has_are_read_and_no_more() {
        let of_dims = |dims| {
            of(1, &format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}", "1,".repeat(dims)))
        };
        assert_eq!(of_dims(MAX_DIMS).unwrap().shape, [1; MAX_DIMS]);
        assert!(of_dims(MAX_DIMS + 1).is_err());
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': ()}";
        let of_len = |len: usize| of(2, &(text.to_owned() + &" ".repeat(len - text.len())));
        let most = usize::try_from(MAX_HEADER_LEN).unwrap();
        assert_eq!(of_len(most).unwrap().len, MAX_HEADER_LEN + PREAMBLE_LEN);
        assert!(matches!(of_len(most + 1), Err(Error::Limit { .. })));
    }

    #[test]
    fn errors_say_where_in_the_file() {
        let at = |bytes: &[u8]| match decode(bytes, 1000, &Part::new("array")) {
            Err(Error::Malformed { at, .. } | Error::Truncated { at, .. }) => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(at(b"\x93NUMPX\x01\0\0\0"), 1000, "magic");
        assert_eq!(at(b"\x93NUMPY\x01\x01\0\0"), 1006, "version");
        assert_eq!(at(b"\x93NUMPY\x01\0\x09\0{'descr'}"), 1000 + 10 + 8, "the end of the key");
        assert_eq!(at(b"\x93NUMPY\x02\0\x0a\0\0\0{'descr' }"), 1000 + 12 + 9, "the brace");
        assert_eq!(at(b"\x93NUMPY\x01\0\x09\0{}"), 1000, "what is too short, from its start");
    }

    #[test]
    fn what_numpy_does_not_write_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            "{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': <f4, 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} + __import__('os')",
            "{'descr': '<f\\4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(of(1, text).is_err(), "{text}");
        }
        assert!(matches!(of(4, "{}"), Err(Error::Malformed { fault: Fault::Version { major: 4, .. }, .. })));
    }
}
