//! The statement: the signed list of files and digests.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod json;
mod parse;
#[cfg(not(target_arch = "wasm32"))]
mod unique;

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

use crate::error::Fault;
use crate::hash::Algorithm;
use crate::names;
use crate::walk::Stamp;

pub(crate) use json::{Members, Object, Objects, members, text};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use unique::expect_unique_members;

/// The payload type of the envelope.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
pub(crate) const TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://model_signing/signature/v1.0";

/// The signer's statement about a model's files.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    /// The length of a range in bytes, if files were hashed in ranges.
    pub(crate) shard_size: Option<u64>,
    pub(crate) allow_symlinks: bool,
    pub(crate) ignored: Vec<String>,
    /// The files in the order of the list; the root digest depends on this order.
    pub(crate) resources: Vec<Resource>,
}

/// The digest of a file, or of a range of one.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Ends with `:START:END` if files were hashed in ranges.
    pub(crate) name: String,
    pub(crate) digest: Vec<u8>,
    /// The file's size and modification time, if the signer noted them.
    pub(crate) stamp: Option<Stamp>,
}

impl Statement {
    /// Parses a payload whose signature was verified, and checks everything that can be checked without the files.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Fault> {
        let statement = parse::statement(payload)?;
        let mut names = HashSet::with_capacity(statement.resources.len());
        for resource in &statement.resources {
            let name = &resource.name;
            let bad = |why| Fault::Name { name: name.clone(), why };
            // `.` is the name of a model that is a single file.
            if name != "."
                && let Some(why) = names::fault(name)
            {
                return Err(bad(why));
            }
            if !names.insert(name.as_str()) {
                return Err(bad("is there twice"));
            }
            if resource.digest.len() != statement.algorithm.len() {
                return Err(Fault::Digest(name.clone()));
            }
        }
        for name in &statement.ignored {
            if let Some(why) = names::fault(name) {
                return Err(Fault::Name { name: name.clone(), why });
            }
        }
        Ok(statement)
    }

    /// Returns the statement as JSON.
    pub(crate) fn to_json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = format!(
            "{{\"_type\":\"{TYPE}\",\"subject\":[{{\"name\":{},\"digest\":{{\"sha256\":\"{}\"}}}}],\
             \"predicateType\":\"{PREDICATE_TYPE}\",\"predicate\":{{\"serialization\":{{\"method\":\"files\",\
             \"hash_type\":\"{}\",\"allow_symlinks\":{},\"ignore_paths\":[",
            quoted(&self.name),
            hex(&root(&self.resources)),
            self.algorithm.name(),
            self.allow_symlinks,
        );
        for (i, name) in self.ignored.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            out.push_str(&quoted(name));
        }
        out.push_str("]},\"resources\":[");
        for (i, Resource { name, digest, stamp }) in self.resources.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { "," });
            let (name, algorithm, digest) = (quoted(name), self.algorithm.name(), hex(digest));
            out.push_str(&format!("{{\"name\":{name},\"algorithm\":\"{algorithm}\",\"digest\":\"{digest}\""));
            if let Some(Stamp { len, modified: Some(modified) }) = stamp {
                // The time is a string, because not every JSON reader keeps nanoseconds exactly.
                out.push_str(&format!(",\"size\":{len},\"modified_ns\":\"{modified}\""));
            }
            out.push('}');
        }
        out.push_str("]}}");
        out
    }
}

/// Returns the digest of all digests. It is always SHA-256, even if the files were hashed with another
/// function.
fn root(resources: &[Resource]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    resources.iter().for_each(|resource| hasher.update(&resource.digest));
    hasher.finalize().into()
}

/// Formats bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
    out
}

/// Parses lower-case hex digits; returns `None` if the text is not such digits.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c.saturating_sub(b'0')),
        b'a'..=b'f' => Some(c.saturating_sub(b'a').saturating_add(10)),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}
