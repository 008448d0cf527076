//! The SHA-256 of each file of a folder, in the form of `sha256sum`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::run::Result;
use crate::workspace;

pub(super) const NAME: &str = "SHA256SUMS";
/// The name that `modelfmt sign` gives to the signature of a folder.
pub(super) const SIGNATURE: &str = "model.sig";

/// Returns the hashes of all files except the list of them and the signature.
pub(super) fn of(folder: &Path) -> Result<BTreeMap<String, String>> {
    let files = workspace::files(folder)?;
    let files = files.into_iter().filter(|name| name != NAME && name != SIGNATURE);
    files.map(|name| Ok((name.clone(), hex(&fs::read(folder.join(name))?)))).collect()
}

pub(super) fn write(folder: &Path) -> Result {
    let sums = of(folder)?.into_iter().map(|(name, sum)| format!("{sum}  {name}\n"));
    Ok(fs::write(folder.join(NAME), sums.collect::<String>())?)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_sums_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), "abc").unwrap();
        write(folder.path()).unwrap();
        let sums = fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(sums, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a/b\n");
        // The list itself is not among them.
        assert_eq!(of(folder.path()).unwrap().len(), 1);
    }
}
