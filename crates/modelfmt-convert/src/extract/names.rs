//! Makes file names from tensor names.

use std::fmt::Write as _;

/// The maximum length in bytes of a name in a file system.
const LONGEST: usize = 255;

/// Returns the file name for a tensor, without folders, valid on any system. Characters that a file name
/// cannot have are percent-encoded, and so is the percent sign, so that no two tensors share a file. A name
/// that would be too long is cut, followed by `%-`, which no other name contains, and half of the BLAKE3 hash
/// of the tensor's name.
pub(super) fn file_name(name: &str, ending: &str) -> String {
    let mut file = encoded_whole(name);
    if file.len() + ending.len() > LONGEST {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        let tail = format!("%-{}", hash.get(..32).unwrap_or_default());
        file.truncate(file.floor_char_boundary(LONGEST - tail.len() - ending.len()));
        // Do not cut within the encoding of a byte.
        if let Some(at) = file.rfind('%').filter(|at| at + 3 > file.len()) {
            file.truncate(at);
        }
        file.push_str(&tail);
    }
    file.push_str(ending);
    file
}

/// Checks whether [`file_name`] cuts a name.
pub(super) fn is_shortened(name: &str, ending: &str) -> bool {
    // Encoding turns one byte into at most three.
    name.len() + ending.len() > LONGEST / 3 && encoded_whole(name).len() + ending.len() > LONGEST
}

fn encoded_whole(name: &str) -> String {
    encoded(name, |c| c.is_control() || r#"/\:*?"<>|%"#.contains(c))
}

/// Returns the name of a tensor in an archive. The name is unchanged, because numpy finds an array by it,
/// unless it would lead out of the folder that an archive is unpacked to, or looks like the encoding of such
/// a name.
#[cfg(feature = "extract-npy")]
pub(super) fn member_name(name: &str, ending: &str) -> String {
    let is_drive = name.as_bytes().get(1) == Some(&b':');
    let leads_out = is_drive || name.starts_with('/') || name.split('/').any(|part| part == "..");
    let is_odd = name.chars().any(|c| c.is_control() || r"\%".contains(c));
    let name = if leads_out || is_odd { &*encoded_whole(name) } else { name };
    format!("{name}{ending}")
}

fn encoded(name: &str, is_encoded: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if is_encoded(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder_and_apart() {
        for (name, file) in [
            ("model.layers.0.weight", "model.layers.0.weight.npy"),
            ("../x", "..%2Fx.npy"),
            ("/etc/passwd", "%2Fetc%2Fpasswd.npy"),
            ("..%2Fx", "..%252Fx.npy"),
            ("a\\b:c", "a%5Cb%3Ac.npy"),
            ("a\n\0", "a%0A%00.npy"),
            ("größe", "größe.npy"),
            ("", ".npy"),
        ] {
            assert_eq!(file_name(name, ".npy"), file);
        }
        for name in ["w".repeat(251), "é".repeat(125) + "w", "/".repeat(83) + "ab"] {
            assert!(!is_shortened(&name, ".npy"));
            assert_eq!(file_name(&name, ".npy"), encoded_whole(&name) + ".npy");
        }
        for name in ["w".repeat(252), "é".repeat(126), "/".repeat(84), "é%".repeat(300), "w".repeat(65_535)]
        {
            assert!(is_shortened(&name, ".npy"));
            let file = file_name(&name, ".npy");
            let (start, hash) = file.strip_suffix(".npy").unwrap().rsplit_once("%-").unwrap();
            assert!((250..=255).contains(&file.len()) && encoded_whole(&name).starts_with(start), "{file}");
            assert!(!start.contains('%') || start.len() >= start.rfind('%').unwrap() + 3, "{file}");
            assert_eq!(hash, &blake3::hash(name.as_bytes()).to_hex()[..32]);
            assert_ne!(file_name(&(name + "x"), ".npy"), file);
        }
        #[cfg(feature = "extract-npy")]
        for (name, member) in [
            ("a/b.c", "a/b.c.npy"),
            ("a/../b", "a%2F..%2Fb.npy"),
            ("/a", "%2Fa.npy"),
            ("..", "...npy"),
            ("c:x", "c%3Ax.npy"),
            ("dense/kernel:0", "dense/kernel:0.npy"),
            ("a%2Fb", "a%252Fb.npy"),
        ] {
            assert_eq!(member_name(name, ".npy"), member);
        }
    }
}
