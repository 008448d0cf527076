//! Without the feature `v0_3`, a file of that version is one clear error, and the other versions are read.
#![cfg(not(feature = "v0_3"))]
#![allow(clippy::unwrap_used)]

use mag::{Error, Fault, Reader};

#[test]
fn version_0_3_is_named_and_the_others_are_read() {
    let (mut refused, mut read) = (0, 0);
    for path in testkit::golden_files("mag", "mag") {
        let is_0_3 = path.file_name().unwrap().to_str().unwrap().starts_with("0.3");
        match Reader::from_source(std::fs::read(&path).unwrap()) {
            Err(Error::Malformed { at: 4, fault, .. }) if is_0_3 => {
                assert_eq!(fault, Fault::WithoutV0_3);
                assert!(fault.to_string().contains("feature `v0_3`"));
                refused += 1;
            }
            opened => read += usize::from(!is_0_3 && opened.unwrap().metadata().is_ok()),
        }
    }
    assert!(refused > 2 && read > 4, "{refused} refused, {read} read");
}
