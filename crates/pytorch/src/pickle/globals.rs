//! The known globals, and their meaning in a checkpoint. There is a single list, by full module and name
//! (docs/formats/pytorch.md#globals). A part of a name never counts, because every module of torch has
//! functions that run code.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use modelfmt_core::DType;

/// The meaning of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A function that makes a tensor from a storage.
    Rebuild(Rebuild),
    /// A class of storages, with the type of their elements if it determines one.
    Storage(StorageClass),
    /// An element type.
    DType(Elements),
    /// A class of dictionaries.
    Dict,
    /// Any other global that only builds plain values.
    Plain,
}

/// The functions that make tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rebuild {
    /// Storage, offset, size, stride.
    Tensor,
    /// The arguments of `Tensor`, then requires_grad, hooks and metadata.
    TensorV2,
    /// The arguments of `Tensor`, then requires_grad, hooks, dtype and metadata.
    TensorV3,
    /// A tensor, and arguments that are ignored.
    Parameter,
    /// A function, a type, the function's arguments, and state.
    FromType,
    /// A NumPy array, which cannot be read.
    FromNumpy,
}

/// The elements of a class of storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageClass {
    Typed(Elements),
    /// Bytes. A reference to the storage states their number.
    Untyped,
}

/// A type of elements, or the name of one that cannot be read.
pub(crate) type Elements = Result<DType, &'static str>;

/// Looks up a global.
pub(crate) fn known(module: &[u8], name: &[u8]) -> Option<Known> {
    let (module, name) = (std::str::from_utf8(module).ok()?, std::str::from_utf8(name).ok()?);
    Some(match (module, name) {
        ("torch._utils", "_rebuild_tensor") => Known::Rebuild(Rebuild::Tensor),
        ("torch._utils", "_rebuild_tensor_v2") => Known::Rebuild(Rebuild::TensorV2),
        ("torch._utils", "_rebuild_tensor_v3") => Known::Rebuild(Rebuild::TensorV3),
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state")
        | ("torch.nn.parameter", "Parameter" | "Buffer") => Known::Rebuild(Rebuild::Parameter),
        ("torch._tensor", "_rebuild_from_type_v2") => Known::Rebuild(Rebuild::FromType),
        ("torch._utils", "_rebuild_device_tensor_from_numpy") => Known::Rebuild(Rebuild::FromNumpy),
        ("torch", "Tensor" | "Size" | "device") => Known::Plain,
        ("torch", name) => {
            return storage(name).map(Known::Storage).or_else(|| dtype(name).map(Known::DType));
        }
        ("torch.storage", "UntypedStorage" | "_UntypedStorage") => Known::Storage(StorageClass::Untyped),
        ("torch.storage", "TypedStorage" | "_TypedStorage") => Known::Plain,
        ("collections", "OrderedDict" | "defaultdict" | "Counter") => Known::Dict,
        ("builtins" | "__builtin__", "dict") => Known::Dict,
        (
            "builtins" | "__builtin__",
            "set" | "frozenset" | "list" | "tuple" | "int" | "float" | "bool" | "str" | "bytes" | "bytearray"
            | "complex" | "slice" | "object",
        ) => Known::Plain,
        ("_codecs", "encode") => Known::Plain,
        ("copyreg" | "copy_reg", "_reconstructor") => Known::Plain,
        ("argparse", "Namespace") => Known::Plain,
        (
            "pathlib",
            "Path" | "PosixPath" | "WindowsPath" | "PurePath" | "PurePosixPath" | "PureWindowsPath",
        ) => Known::Plain,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct" | "scalar") => Known::Plain,
        ("numpy", "ndarray" | "dtype") => Known::Plain,
        _ => return None,
    })
}

/// Returns, as text for an error, the kind of tensor that a class makes and that cannot be read.
pub(crate) fn refused(module: &[u8], name: &[u8]) -> Option<&'static str> {
    if module != b"torch._utils" {
        return None;
    }
    Some(match name {
        b"_rebuild_sparse_tensor" | b"_rebuild_sparse_csr_tensor" => {
            "a sparse tensor; make it dense with `to_dense`"
        }
        b"_rebuild_qtensor" => "a quantized tensor; save what `dequantize` or `int_repr` gives",
        b"_rebuild_meta_tensor_no_storage" => "a tensor on the device meta, which has no values",
        b"_rebuild_device_tensor_from_numpy" => {
            "a tensor of an accelerator that is stored as an array of NumPy; save what `cpu` gives"
        }
        b"_rebuild_nested_tensor" => "a nested tensor; save the tensors in it",
        b"_rebuild_wrapper_subclass" => "a tensor of a class of its own; save the tensors in it",
        _ => return None,
    })
}

fn storage(name: &str) -> Option<StorageClass> {
    Some(StorageClass::Typed(match name {
        "DoubleStorage" => Ok(DType::F64),
        "FloatStorage" => Ok(DType::F32),
        "HalfStorage" => Ok(DType::F16),
        "BFloat16Storage" => Ok(DType::BF16),
        "LongStorage" => Ok(DType::I64),
        "IntStorage" => Ok(DType::I32),
        "ShortStorage" => Ok(DType::I16),
        "CharStorage" => Ok(DType::I8),
        "ByteStorage" => Ok(DType::U8),
        "BoolStorage" => Ok(DType::Bool),
        "ComplexFloatStorage" => Ok(DType::C64),
        "ComplexDoubleStorage" => Err("complex128"),
        "QInt8Storage" => Err("qint8, a quantized type"),
        "QUInt8Storage" => Err("quint8, a quantized type"),
        "QInt32Storage" => Err("qint32, a quantized type"),
        "QUInt4x2Storage" => Err("quint4x2, a quantized type"),
        "QUInt2x4Storage" => Err("quint2x4, a quantized type"),
        "UntypedStorage" => return Some(StorageClass::Untyped),
        _ => return None,
    }))
}

fn dtype(name: &str) -> Option<Elements> {
    Some(match name {
        "float64" | "double" => Ok(DType::F64),
        "float32" | "float" => Ok(DType::F32),
        "float16" | "half" => Ok(DType::F16),
        "bfloat16" => Ok(DType::BF16),
        "int64" | "long" => Ok(DType::I64),
        "int32" | "int" => Ok(DType::I32),
        "int16" | "short" => Ok(DType::I16),
        "int8" => Ok(DType::I8),
        "uint8" => Ok(DType::U8),
        "uint16" => Ok(DType::U16),
        "uint32" => Ok(DType::U32),
        "uint64" => Ok(DType::U64),
        "bool" => Ok(DType::Bool),
        "complex64" | "cfloat" => Ok(DType::C64),
        "float8_e4m3fn" => Ok(DType::F8E4M3),
        "float8_e5m2" => Ok(DType::F8E5M2),
        "float8_e4m3fnuz" => Ok(DType::F8E4M3Fnuz),
        "float8_e5m2fnuz" => Ok(DType::F8E5M2Fnuz),
        "float8_e8m0fnu" => Ok(DType::F8E8M0),
        "complex128" | "cdouble" => Err("complex128"),
        "complex32" | "chalf" => Err("complex32"),
        "float4_e2m1fn_x2" => Err("float4_e2m1fn_x2, two numbers in a byte"),
        "qint8" => Err("qint8, a quantized type"),
        "quint8" => Err("quint8, a quantized type"),
        "qint32" => Err("qint32, a quantized type"),
        "quint4x2" => Err("quint4x2, a quantized type"),
        "quint2x4" => Err("quint2x4, a quantized type"),
        "bits8" | "bits16" | "bits1x8" | "bits2x4" | "bits4x2" => Err("a type of bits"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_count() {
        assert_eq!(known(b"torch._utils", b"_rebuild_tensor_v2"), Some(Known::Rebuild(Rebuild::TensorV2)));
        assert_eq!(known(b"collections", b"OrderedDict"), Some(Known::Dict));
        for (module, name) in [
            ("os", "system"),
            ("posix", "system"),
            ("builtins", "eval"),
            ("builtins", "getattr"),
            ("__builtin__", "exec"),
            ("torch._utils", "_rebuild_tensor_v2.__globals__"),
            ("torch._utils._rebuild_tensor_v2", "__globals__"),
            ("torch", "load"),
            ("torch.hub", "load"),
            ("torch.storage", "_load_from_bytes"),
            ("torch.utils.collect_env", "run"),
            ("torch.jit.unsupported_tensor_ops", "execWrapper"),
            ("torch._inductor.codecache", "compile_file"),
            ("torch", "float32 "),
            ("torch", ""),
            ("", ""),
            ("collections", "OrderedDict.fromkeys"),
            ("numpy", "load"),
            ("numpy.testing._private.utils", "runstring"),
        ] {
            assert_eq!(known(module.as_bytes(), name.as_bytes()), None, "{module} {name}");
        }
        assert_eq!(known(b"torch", b"\xff"), None);
    }
}
