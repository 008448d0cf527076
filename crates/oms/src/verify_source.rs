//! Verifies a single file that has no path, by the bytes of its signature.

use std::path::{Path, PathBuf};

use modelfmt_core::{Execution, Source};
use modelfmt_keys::PublicKey;

use crate::bundle::Bundle;
use crate::compare::{compare, signed};
use crate::error::{Error, Result};
use crate::hash::{self, Hashed};
use crate::statement::Statement;
use crate::verified::{Verified, signer};
use crate::walk::{Found, Stamp};

/// The number of bytes to read at once. Large, because a source may ask another process for each read.
const PIECE: usize = 512 << 10;

/// Verifies one file by the bytes of its signature and the trusted keys: [`verify`](crate::verify()) for a
/// file without a path, such as in a browser. `name` is the name of the file without folders, which must be
/// the name in the statement.
///
/// ```
/// use modelfmt_core::Execution;
/// use modelfmt_keys::{KeyType, PrivateKey};
/// use modelfmt_oms::{SignOptions, sign, signature_path, verify_source};
///
/// # let folder = std::env::temp_dir().join(format!("modelfmt-oms-source-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("weights.bin");
/// std::fs::write(&file, "weights")?;
/// let key = PrivateKey::from_bytes(KeyType::P256, &[7; 32])?;
/// sign(&file, &key, &SignOptions::new(), &Execution::default())?;
///
/// let (trusted, signature) = ([key.public().clone()], std::fs::read(signature_path(&file))?);
/// let verify = |bytes: &[u8]| verify_source("weights.bin", &bytes, &signature, &trusted, &Execution::sequential());
/// assert!(verify(b"weights")?.is_ok());
/// assert_eq!(verify(b"WEIGHTS")?.changed, ["weights.bin"]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If there is no valid signature or none of the given keys made it; [`Error::Unsignable`] if the signature
/// is that of a folder. A file that differs is not an error: the result reports it.
pub fn verify_source(
    name: &str,
    source: &dyn Source,
    signature: &[u8],
    keys: &[PublicKey],
    work: &Execution<'_>,
) -> Result<Verified> {
    let path = PathBuf::from(format!("{name}.sig"));
    let bad = |fault| Error::Bundle { path: path.clone(), fault };
    let bundle = Bundle::parse(signature).map_err(bad)?;
    let key_id = signer(&path, &bundle, keys)?;
    let statement = Statement::parse(bundle.payload()).map_err(bad)?;
    let signed = signed(&statement).map_err(bad)?;
    // The specification uses the file's own name for a single file; the Python tool uses `.`.
    let by_tool = signed.contains_key(".");
    if signed.len() > 1 {
        let why = "is one file, and the signature is of a folder: verify that folder with the program";
        return Err(Error::Unsignable { path: name.into(), why });
    }
    let found = Found {
        name: if by_tool { "." } else { name }.to_owned(),
        stamp: Stamp { len: source.len(), modified: None },
    };
    let found = [found];
    let mut comparison = compare(&signed, &found, statement.shard_size.is_some());
    let mut digests = Vec::new();
    let mut buffer = vec![0; PIECE];
    for job in &comparison.jobs {
        let range = job.range.clone().unwrap_or(0..source.len());
        let digest = hash::of_source(Path::new(name), source, range, statement.algorithm, &mut buffer, work)?;
        digests.push(Hashed { digest, page: None });
    }
    comparison.take(&digests);
    let own_name = |names: Vec<String>| {
        names.into_iter().map(|found| if found == "." { name.to_owned() } else { found }).collect()
    };
    Ok(Verified {
        key_id,
        name: statement.name.clone(),
        files: signed.len(),
        missing: own_name(comparison.missing),
        extra: own_name(comparison.extra),
        changed: own_name(comparison.changed),
        empty: own_name(comparison.empty),
        ignored: Vec::new(),
        path,
    })
}
