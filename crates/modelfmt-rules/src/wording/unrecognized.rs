//! Recognizes files that are not models, so that an error can say what to do.

/// What a file of an unknown format looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognized {
    /// What it looks like, and what to do.
    pub hint: &'static str,
    /// Whether it is a model, or the index of one.
    pub is_model: bool,
}

/// The number of first bytes that are examined.
pub const LOOKED_AT: u64 = 512;

const fn model(hint: &'static str) -> Unrecognized {
    Unrecognized { hint, is_model: true }
}

const fn other(hint: &'static str) -> Unrecognized {
    Unrecognized { hint, is_model: false }
}

const PICKLE: &str = "it is a pickle of Python that PyTorch did not write, such as joblib's or scikit-learn's: whatever loads it runs what it says; if you trust it, load it with the program that wrote it, and save its arrays with numpy.savez";
const WEB_PAGE: &str =
    "it is a web page: the download failed, or its address is that of a page about the file";
// The two lines of Python in these hints are from
// docs/howto/checkpoint-without-torch.md#from-onnx-tensorflow-keras-or-orbax. None of them runs code from the
// file.
const HDF5: &str = r#"it is HDF5, as Keras writes; two lines of Python write arrays that modelfmt reads: `import h5py, numpy; arrays = {}; h5py.File("model.h5").visititems(lambda name, x: arrays.update({name: x[()]}) if hasattr(x, "shape") else None)` and `numpy.savez("model.npz", **arrays)`"#;
const KERAS: &str = "it is a zip archive of Keras; `unzip model.keras model.weights.h5` takes the weights out, and what modelfmt says of that file goes on";
const TFLITE: &str = "it is a TensorFlow Lite model, which modelfmt does not read; `python -m tf2onnx.convert --tflite model.tflite --output model.onnx` makes ONNX of it, and what modelfmt says of that file goes on";
const ONNX: &str = r#"it is an ONNX model, which modelfmt does not read; two lines of Python write arrays that it reads: `import numpy, onnx, onnx.numpy_helper` and `numpy.savez("model.npz", **{t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("model.onnx").graph.initializer})`"#;
/// The hint for a SavedModel of TensorFlow, found by its file or by its folder.
pub const SAVED_MODEL: &str = r#"it is a SavedModel of TensorFlow, which modelfmt does not read; two lines of Python write arrays that it reads: `import numpy, tensorflow; r = tensorflow.train.load_checkpoint("FOLDER/variables/variables")` and `numpy.savez("model.npz", **{n: r.get_tensor(n) for n in r.get_variable_to_shape_map()})`"#;
const GRAPH: &str = r#"it is a graph of TensorFlow, which modelfmt does not read; two lines of Python write its constants as arrays that it reads: `import numpy, tensorflow as tf; g = tf.compat.v1.GraphDef.FromString(open("model.pb", "rb").read())` and `numpy.savez("model.npz", **{n.name: tf.make_ndarray(n.attr["value"].tensor) for n in g.node if n.op == "Const"})`"#;
const LFS: &str =
    "it is a Git LFS pointer, which stands for the file; `git lfs pull` fetches the file itself";
const APR_ENCRYPTED: &str = "it is a model that the program `apr` has encrypted, which modelfmt does not read; decrypt it with that program first";
const OLD_GGML: &str = "it is a ggml file from before GGUF; llama.cpp has a script that makes GGUF of it";

/// The kind of files that are just Python pickles.
pub const PICKLES: &str = "Python's pickle";

/// Returns the name of the kind of model that a hint is about, such as `ONNX`.
#[must_use]
pub fn kind_of(hint: &str) -> &'static str {
    match hint {
        PICKLE => PICKLES,
        HDF5 => "HDF5",
        KERAS => "Keras",
        TFLITE => "TFLite",
        ONNX => "ONNX",
        SAVED_MODEL | GRAPH => "TensorFlow",
        CORE_ML => "CoreML",
        LFS => "Git LFS",
        APR_ENCRYPTED => "APR, encrypted",
        OLD_GGML => "ggml",
        _ => "other kinds",
    }
}

/// Beginnings of files, in lower case, because the file's bytes are compared in lower case.
const STARTS: &[(&[u8], Unrecognized)] = &[
    (b"version https://git-lfs", model(LFS)),
    (b"\x89hdf", model(HDF5)),
    (b"tjgg", model(OLD_GGML)),
    (b"lmgg", model(OLD_GGML)),
    (b"albr-enc", model(APR_ENCRYPTED)),
    (b"\x1f\x8b", other("it is compressed by gzip; decompress it first")),
    (b"\x28\xb5\x2f\xfd", other("it is compressed by zstd; decompress it first")),
    (b"\xfd7zxz\0", other("it is compressed by xz; decompress it first")),
    (b"bzh", other("it is compressed by bzip2; decompress it first")),
    (b"7z\xbc\xaf\x27\x1c", other("it is a 7z archive; unpack it first")),
];

/// Beginnings of texts after white space, in lower case.
const TEXTS: &[(&[u8], Unrecognized)] = &[
    (b"<!doctype html", other(WEB_PAGE)),
    (b"<html", other(WEB_PAGE)),
    (b"<?xml", other("it is XML, perhaps the error message of a server")),
    (b"<error", other("it is XML, perhaps the error message of a server")),
    (b"{\"error\"", other("it is JSON with an error message, perhaps of a server")),
    (b"{", other("it is JSON, but not the index of a set of files")),
];

/// Finds out what a file looks like from its first bytes: [`LOOKED_AT`] of them, or all. `None` if its kind
/// is not known.
#[must_use]
pub fn from_first_bytes(first: &[u8]) -> Option<Unrecognized> {
    let lower = first.to_ascii_lowercase();
    if let Some(&(_, unrecognized)) = STARTS.iter().find(|(start, _)| lower.starts_with(start)) {
        return Some(unrecognized);
    }
    let text = lower.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&lower).trim_ascii_start();
    if let Some(&(_, unrecognized)) = TEXTS.iter().find(|(start, _)| text.starts_with(start)) {
        return Some(unrecognized);
    }
    Some(match first {
        [] => other("it is empty"),
        [b'P', b'K', 3, 4, ..] => of_zip(first),
        [0x80, 2..=5, ..] => model(PICKLE),
        [_, _, _, _, b'T', b'F', b'L', b'3', ..] => model(TFLITE),
        [0x08, version @ 1..=32, rest @ ..] => return of_versioned(*version, rest),
        [0x0a, rest @ ..] if is_graph(rest) => model(GRAPH),
        // A header of less than 100 MB, the limit of safetensors, and JSON after its length.
        [_, _, _, 0..=5, 0, 0, 0, 0, b'{', b'"', ..] => model(
            "it begins as safetensors do, but its header would be longer than the file: it is cut short; if you downloaded it, download it again",
        ),
        _ if first.get(257..262) == Some(b"ustar") => other("it is a tar archive; unpack it first"),
        _ if first.len() >= 64 && first.iter().all(|&byte| byte == 0) => {
            other("it begins with zeros alone, as the file of a download that did not finish does")
        }
        _ => return None,
    })
}

/// The hint for CoreML, found by its file or by its folder.
pub const CORE_ML: &str =
    "it is a CoreML model, which modelfmt does not read; look for the model that it was converted from";

/// Recognizes protocol buffers whose field 1 is a version: ONNX (its ModelProto), CoreML (its Model) and
/// TensorFlow (its SavedModel). `rest` follows the version.
fn of_versioned(version: u8, rest: &[u8]) -> Option<Unrecognized> {
    // In ONNX, field 2 is text, in the others a message; 7 is the graph, and 8 the operator sets.
    let inside = match rest {
        [0x12, rest @ ..] => after_varint(rest),
        [0x3a | 0x42, ..] => return Some(model(ONNX)),
        _ => return None,
    };
    Some(match inside {
        // CoreML describes a model by lists of inputs, outputs and functions, and by metadata.
        [0x0a, message @ ..] => match after_varint(message) {
            // TensorFlow has the graph's operators, tags and version before the graph.
            [0x12 | 0x1a | 0x22 | 0x2a | 0x32, ..] if version == 1 => model(SAVED_MODEL),
            _ => model(CORE_ML),
        },
        [0x12, ..] if version == 1 => model(SAVED_MODEL),
        [0xa2 | 0xaa, ..] => model(CORE_ML),
        _ => model(ONNX),
    })
}

/// Checks whether a message begins like a graph of TensorFlow (GraphDef), with a node that has a name and an
/// operator. `rest` follows the first tag.
fn is_graph(rest: &[u8]) -> bool {
    let text = |bytes: &[u8]| -> Option<(usize, bool)> {
        let (&len, text) = bytes.split_first()?;
        let text = text.get(..usize::from(len))?;
        let is_plain = text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-./>:\\".contains(byte));
        Some((usize::from(len) + 1, is_plain && (1..128).contains(&len)))
    };
    let [0x0a, name @ ..] = after_varint(rest) else { return false };
    let Some((len, true)) = text(name) else { return false };
    matches!(name.get(len..), Some([0x12, operator @ ..]) if text(operator).is_some_and(|(_, is_plain)| is_plain))
}

/// Returns the bytes after a varint, a number with seven bits in each byte.
fn after_varint(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().take(9).take_while(|byte| **byte >= 0x80).count();
    bytes.get(len + 1..).unwrap_or_default()
}

/// Finds out what wrote a zip archive, by the first name in it.
fn of_zip(first: &[u8]) -> Unrecognized {
    let name = first.get(30..).unwrap_or_default();
    let len = first.get(26..28).and_then(|len| len.try_into().ok()).map_or(0, u16::from_le_bytes);
    let name = name.get(..usize::from(len)).unwrap_or(name);
    if matches!(name, b"metadata.json" | b"config.json") || name.ends_with(b".weights.h5") {
        model(KERAS)
    } else {
        other("it is a zip archive in which neither PyTorch nor NumPy has put tensors; unpack it first")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_have_instead_of_models_is_told() {
        let zip = |name: &str| {
            let mut file = b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
            file.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
            file.extend([0, 0]);
            file.extend(name.as_bytes());
            file.extend(b"contents");
            file
        };
        let mut tar = b"model.safetensors".to_vec();
        tar.resize(257, 0);
        tar.extend(b"ustar\x0000");
        for (content, is_model, word) in [
            (&b""[..], false, "empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", true, "Git LFS pointer"),
            (b"PK\x03\x04\0\0", false, "zip archive in which"),
            (&zip("metadata.json"), true, "of Keras"),
            (&zip("word/document.xml"), false, "zip archive in which"),
            (b"\x80\x04\x95", true, "pickle"),
            (b"\x89HDF\r\n\x1a\n", true, "Keras"),
            (b"\x1c\0\0\0TFL3\x14\0", true, "TensorFlow Lite"),
            (b"\x08\x08\x12\x07pytorch\x1a\x05", true, "an ONNX"),
            (b"\x08\x01\x12\x0bRust_onnx_w\x1a\x05", true, "an ONNX"),
            (b"\x08\x07\x12\0\x1a\0:\x10", true, "an ONNX"),
            (b"\x08\x07:\xc5\x02\n", true, "an ONNX"),
            (b"\x08\x0aB\x04\n\0\x10\x11", true, "an ONNX"),
            // An input named "image" with its type; functions alone; also in version 1.
            (b"\x08\x04\x12\xd2\x02\n\x14\n\x05image\x1a\x0b", true, "a CoreML"),
            (b"\x08\x01\x12\x32\n\x14\n\x05image\x1a\x0b", true, "a CoreML"),
            (b"\x08\x09\x12\x32\xa2\x01\x10\n\x04main", true, "a CoreML"),
            // The operators of a SavedModel; its tags and version, if operators were left out; a graph without either.
            (
                b"\x08\x01\x12\x9b\xe9\x04\n\x9b\x20\x12\xd3\x1f\n:\n\x03Add\x12",
                true,
                "a SavedModel of TensorFlow",
            ),
            (b"\x08\x01\x12\x9b\xe9\x04\n\x10\"\x05serve*\x06", true, "a SavedModel of TensorFlow"),
            (b"\x08\x01\x12\x9b\xe9\x04\x12\x9b\x20\n", true, "a SavedModel of TensorFlow"),
            (b"\n\x2b\n\x05input\x12\x0bPlaceholder*\x0b", true, "a graph of TensorFlow"),
            // A model of SentencePiece: a piece has a name and a score.
            (b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", false, "no format"),
            (b"\n\x0e\n\x05piece\x15\0\0\0\0\x18\x02", false, "no format"),
            (b"\x08\x01", false, "no format"),
            (b"\n", false, "no format"),
            (&zip("config.json"), true, "of Keras"),
            (b"ALBR-ENC\x01\x02", true, "`apr` has encrypted"),
            (b"<!DOCTYPE html><html>", false, "web page"),
            (b"\xef\xbb\xbf\n  <html>", false, "web page"),
            (b"<?xml version=\"1.0\"?><Error><Code>AccessDenied", false, "XML"),
            (b"{\"error\":\"Entry not found\"}", false, "error message"),
            (b"\xfd7zXZ\0\0\x04", false, "xz"),
            (b"BZh91AY", false, "bzip2"),
            (b"7z\xbc\xaf\x27\x1c", false, "7z"),
            (&tar, false, "tar archive"),
            (&[0; 100], false, "zeros"),
            (&[0; 8], false, "no format"),
            (b"{\"hidden_size\": 384}", false, "not the index"),
            (b"\0\x10\0\0\0\0\0\0{\"a\":", true, "cut short"),
            (b"\x03\0\0\0\0\0\0\0x", false, "no format"),
            (b"hello", false, "no format"),
        ] {
            let found = from_first_bytes(content).unwrap_or(other("no format"));
            assert!(found.hint.contains(word) && found.is_model == is_model, "{found:?}");
        }
    }
}
