//! Names of tensors as names of files.

use std::fmt::Write as _;

/// The name of a tensor as one of a file, without folders, on any system: what a file name cannot have is percent-encoded, and so is
/// the percent sign, so that no two tensors share a file.
pub(super) fn file_name(name: &str, ending: &str) -> String {
    let mut file = encoded(name, |c| c.is_control() || r#"/\:*?"<>|%"#.contains(c));
    file.push_str(ending);
    file
}

/// The name of a tensor as one in an archive: as it is, for numpy finds an array by it, unless it would lead out of the folder that
/// an archive is unpacked to, or could be taken for the encoding of such a name.
#[cfg(feature = "npy")]
pub(super) fn member_name(name: &str, ending: &str) -> String {
    let is_drive = name.as_bytes().get(1) == Some(&b':');
    let leads_out = is_drive || name.starts_with('/') || name.split('/').any(|part| part == "..");
    let is_odd = name.chars().any(|c| c.is_control() || r"\%".contains(c));
    if leads_out || is_odd { file_name(name, ending) } else { format!("{name}{ending}") }
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
        #[cfg(feature = "npy")]
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
