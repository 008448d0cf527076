//! What a file that is no model looks like, so that an error can say what to do about it.

use std::io;

use tensor_core::Source;

/// What a source looks like that [`Format::detect`](crate::Format::detect) does not know.
///
/// # Errors
/// If the source cannot be read.
pub(crate) fn hint(source: &impl Source) -> io::Result<&'static str> {
    const LOOKED_AT: u64 = 64;
    if source.is_empty() {
        return Ok("it is empty");
    }
    Ok(of_first_bytes(&source.read(0..source.len().min(LOOKED_AT))?))
}

fn of_first_bytes(first: &[u8]) -> &'static str {
    /// In lower case, as what they are compared with.
    const STARTS: &[(&[u8], &str)] = &[
        (
            b"version https://git-lfs",
            "it is a Git LFS pointer, which stands for the file; `git lfs pull` fetches the file itself",
        ),
        (
            b"pk\x03\x04",
            "it is a zip archive, as PyTorch and numpy write; save the tensors as safetensors first",
        ),
        (b"\x93numpy", "it is an array of numpy; save the tensors as safetensors first"),
        (b"\x89hdf", "it is HDF5, as Keras writes; save the tensors as safetensors first"),
        (b"tjgg", "it is a ggml file from before GGUF; llama.cpp has a script that makes GGUF of it"),
        (b"lmgg", "it is a ggml file from before GGUF; llama.cpp has a script that makes GGUF of it"),
        (b"\x1f\x8b", "it is compressed by gzip; decompress it first"),
        (b"\x28\xb5\x2f\xfd", "it is compressed by zstd; decompress it first"),
        (b"<!doctype", "it is a web page, perhaps of a download that failed"),
        (b"<html", "it is a web page, perhaps of a download that failed"),
        (b"{", "it is JSON, but not the index of a set of files"),
    ];
    let lower = first.to_ascii_lowercase();
    if let Some(&(_, hint)) = STARTS.iter().find(|(start, _)| lower.starts_with(start)) {
        return hint;
    }
    match first {
        [0x80, 2..=5, ..] => {
            "it is a pickle of Python, as old PyTorch writes; save the tensors as safetensors first"
        }
        // A header of less than 100 MB, which is the most that a safetensors file has, and JSON behind its length.
        [_, _, _, 0..=5, 0, 0, 0, 0, b'{', b'"', ..] => {
            "it begins as safetensors do, but its header would be longer than the file: it is cut short"
        }
        _ => {
            "its content is of no format that modelfmt knows (aero, mag, oinf, apr2, apr1, safetensors, gguf, indexes of sets)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_have_instead_of_models_is_told() {
        for (content, word) in [
            (&b""[..], "empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a", "Git LFS pointer"),
            (b"PK\x03\x04\0\0", "zip archive"),
            (b"\x80\x04\x95", "pickle"),
            (b"\x93NUMPY\x01\0", "numpy"),
            (b"<!DOCTYPE html><html>", "web page"),
            (b"{\"hidden_size\": 384}", "not the index"),
            (b"\0\x10\0\0\0\0\0\0{\"a\":", "cut short"),
            (b"\x03\0\0\0\0\0\0\0x", "no format"),
            (b"hello", "no format"),
        ] {
            let hint = hint(&content).unwrap();
            assert!(hint.contains(word), "{hint}");
        }
    }
}
