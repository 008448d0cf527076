use super::*;

#[test]
fn the_header_is_69_bytes_of_fields_and_3_of_zeros() {
    let header =
        Header { version: Version::V1, counts: [1, 2, 3], tables: [72, 96, 128], data: 160, file_size: 168 };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    assert_eq!(bytes.len() as u64, HEADER_LEN);
    assert_eq!(&bytes[..17], b"OINF\0\x01\0\0\0\0\0\0\0\x01\0\0\0");
    assert_eq!((&bytes[61..69], &bytes[69..]), (&168u64.to_le_bytes()[..], &[0; 3][..]));
    assert_eq!(Header::decode(&mut Cursor::new(&bytes, 0)).unwrap(), header);
}

#[test]
fn strings_take_a_multiple_of_8_with_their_length() {
    for (text, len) in [("a", 8), ("abcd", 8), ("abcde", 16), ("abcdefghijkl", 16), ("A-Z.a_z09", 16)] {
        let mut bytes = Vec::new();
        encode_text(text, &mut bytes).unwrap();
        assert_eq!(bytes.len(), len, "{text}");
        // The padding counts from the start of the string, wherever the string is.
        let mut c = Cursor::new(&bytes, 1004);
        let decoded = Text::decode(&mut c, "name", 100).unwrap();
        assert_eq!((decoded.text, c.remaining()), (text, 0));
        assert_eq!(decoded.padding_at, 1004 + 4 + text.len() as u64);
    }
}

#[test]
fn strings_have_the_characters_of_the_document_and_no_others() {
    for byte in 0..=u8::MAX {
        let allowed = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-".contains(&byte);
        assert_eq!(is_string_byte(byte), allowed, "{byte:#x}");
        assert_eq!(is_string_char(char::from(byte)), allowed, "{byte:#x}");
        let bytes = [1, 0, 0, 0, byte, 0, 0, 0];
        assert_eq!(Text::decode(&mut Cursor::new(&bytes, 0), "name", 1).is_ok(), allowed);
    }
    assert!(!is_string_char('é') && !is_string_char('０'));
}

#[test]
fn value_types_are_numbered_as_in_the_document() {
    let names = "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 bool bitset str ndarray";
    for (code, name) in (1..).zip(names.split(' ')) {
        let value_type = ValueType::try_from(code).unwrap();
        assert_eq!((value_type.name(), value_type.code()), (name, code));
        assert_eq!(value_type.dtype().map(DType::name), Some(name).filter(|_| code <= 12));
        assert_eq!(value_type.dtype().map_or(Some(value_type), ValueType::from_dtype), Some(value_type));
        assert_eq!(element_type(code).is_ok(), code <= 12);
    }
    assert_eq!(ValueType::from_dtype(DType::C64), None);
}

#[test]
fn types_that_came_later_are_numbered_behind_them() {
    for (code, name) in (16..).zip("bf16 f8_e5m2 i4 i2 i1 u4 u2 u1 t2 t1".split(' ')) {
        let value_type = ValueType::try_from(code).unwrap();
        assert_eq!((value_type.name(), value_type.code(), value_type.is_extended()), (name, code, true));
        assert_eq!(element_type(code).map(DType::name), Ok(name));
    }
    assert!(!ValueType::Ndarray.is_extended());
    for code in [0, 26, u32::MAX] {
        assert_eq!(ValueType::try_from(code), Err(Fault::UnknownType(code)));
    }
}

#[test]
fn records_are_read_as_they_are_written() {
    let limits = Limits::default();
    let mut bytes = Vec::new();
    encode_text("kéy".replace('é', "e").as_str(), &mut bytes).unwrap();
    MetadataRecord::encode_rest(ValueType::F16, 2, 4096, &mut bytes);
    let record = MetadataRecord::decode(&mut Cursor::new(&bytes, 0), &limits).unwrap();
    assert_eq!(
        (record.key.text, record.value_type, record.nbytes, record.offset),
        ("key", ValueType::F16, 2, 4096)
    );

    let place = |record: BlobRecord| record.is_there.then_some((record.offset, record.nbytes));
    let extent = |(offset, len)| Extent::new(offset, len, 1000).unwrap();
    for (version, data, quant) in [
        (Version::V1, None, None),
        (Version::V1, Some((512, 24)), None),
        (Version::V2, None, Some((544, 56))),
        (Version::V2, Some((512, 24)), Some((544, 56))),
    ] {
        let mut bytes = Vec::new();
        encode_text("w", &mut bytes).unwrap();
        let blobs = [data.map(extent), quant.map(extent)];
        encode_tensor_rest(version, ValueType::F32, &[2, 3], blobs, &mut bytes).unwrap();
        let quant_len = if version == Version::V2 { 16 } else { 0 };
        assert_eq!(bytes.len(), 8 + 12 + 16 + 16 + quant_len);
        let mut c = Cursor::new(&bytes, 0);
        let record = decode_tensor(&mut c, &limits, version).unwrap();
        assert_eq!((place(record.data), place(record.quant)), (data, quant));
        assert_eq!((record.name.text, record.dtype), ("w", DType::F32));
        assert!(record.dims.eq([2, 3]) && c.remaining() == 0);
    }
}
