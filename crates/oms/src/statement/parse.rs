//! Parses statements from JSON.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use serde::de::{Error as _, MapAccess};

use super::json::{Members, Object, Objects, members, text};
use super::{PREDICATE_TYPE, Resource, Statement, TYPE, root, unhex};
use crate::error::Fault;
use crate::hash::Algorithm;
use crate::walk::Stamp;

#[derive(Default)]
struct Parsed {
    kind: Option<String>,
    subjects: Option<Vec<Subject>>,
    predicate_type: Option<String>,
    predicate: Option<Predicate>,
}

impl<'de> Members<'de> for Parsed {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "_type" => self.kind = Some(map.next_value()?),
            "subject" => self.subjects = Some(map.next_value_seed(Objects::default())?),
            "predicateType" => self.predicate_type = Some(map.next_value()?),
            "predicate" => self.predicate = Some(map.next_value_seed(Object::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Subject {
    name: Option<String>,
    digest: Option<RootDigest>,
}

impl<'de> Members<'de> for Subject {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "name" => self.name = Some(map.next_value()?),
            "digest" => self.digest = Some(map.next_value_seed(Object::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct RootDigest(Option<String>);

impl<'de> Members<'de> for RootDigest {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        if key == "sha256" {
            self.0 = Some(map.next_value()?);
        }
        Ok(key == "sha256")
    }
}

#[derive(Default)]
struct Predicate {
    serialization: Option<Serialization>,
    resources: Option<Vec<Listed>>,
}

impl<'de> Members<'de> for Predicate {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "serialization" => self.serialization = Some(map.next_value_seed(Object::default())?),
            "resources" => self.resources = Some(map.next_value_seed(Objects::default())?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Serialization {
    method: Option<String>,
    hash_type: Option<String>,
    allow_symlinks: bool,
    ignore_paths: Vec<String>,
    shard_size: Option<f64>,
}

impl<'de> Members<'de> for Serialization {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "method" => self.method = Some(map.next_value()?),
            "hash_type" => self.hash_type = Some(map.next_value()?),
            "allow_symlinks" => self.allow_symlinks = map.next_value()?,
            "ignore_paths" => self.ignore_paths = map.next_value()?,
            // The Python tool writes a float, such as 128.0.
            "shard_size" => self.shard_size = Some(map.next_value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Listed {
    name: Option<String>,
    algorithm: Option<String>,
    digest: Vec<u8>,
    size: Option<u64>,
    modified: Option<i128>,
}

impl<'de> Members<'de> for Listed {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "name" => self.name = Some(map.next_value()?),
            "algorithm" => self.algorithm = Some(map.next_value()?),
            "digest" => {
                let digest: String = map.next_value()?;
                self.digest =
                    unhex(&digest).ok_or_else(|| A::Error::custom("a digest is not in lower-case hex"))?;
            }
            // Only modelfmt writes these members, so values of another type are ignored.
            "size" => self.size = map.next_value::<serde_json::Value>()?.as_u64(),
            "modified_ns" => {
                self.modified =
                    map.next_value::<serde_json::Value>()?.as_str().and_then(|text| text.parse().ok());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub(super) fn statement(payload: &[u8]) -> Result<Statement, Fault> {
    let parsed: Parsed = members(payload)?;
    known("the statement's type", parsed.kind, TYPE)?;
    known("the predicate's type", parsed.predicate_type, PREDICATE_TYPE)?;
    let subjects = parsed.subjects.unwrap_or_default();
    let found = subjects.len();
    let Ok([subject]) = <[Subject; 1]>::try_from(subjects) else {
        return Err(Fault::NotOne { what: "subjects", found });
    };
    let Some(Predicate { serialization: Some(how), resources: Some(listed) }) = parsed.predicate else {
        return Err(Fault::Json("the predicate lacks serialization or resources".to_owned()));
    };
    let algorithm = algorithm(how.hash_type)?;
    let shard_size = shard_size(how.method, how.shard_size)?;
    let resources: Result<Vec<_>, _> =
        listed.into_iter().map(|listed| resource(listed, algorithm, shard_size)).collect();
    let resources = resources?;
    let stated = subject.digest.and_then(|digest| unhex(&digest.0?));
    if stated.as_deref() != Some(&root(&resources)) {
        return Err(Fault::Root);
    }
    Ok(Statement {
        name: subject.name.unwrap_or_default(),
        algorithm,
        shard_size,
        allow_symlinks: how.allow_symlinks,
        ignored: how.ignore_paths,
        resources,
    })
}

fn known(what: &'static str, found: Option<String>, expected: &'static str) -> Result<(), Fault> {
    match found {
        Some(found) if found == expected => Ok(()),
        found => Err(Fault::Unknown { what, found: found.unwrap_or_default(), expected }),
    }
}

fn algorithm(name: Option<String>) -> Result<Algorithm, Fault> {
    let name = text(name, "hash_type")?;
    let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    let expected = "sha256, blake2b or blake3";
    known.ok_or(Fault::Unknown { what: "the hash of the files", found: name, expected })
}

fn shard_size(method: Option<String>, size: Option<f64>) -> Result<Option<u64>, Fault> {
    let method = text(method, "method")?;
    match &*method {
        "files" => Ok(None),
        "shards" => {
            let size = size.unwrap_or(1e9);
            // Beyond this limit, floats cannot represent every integer.
            let is_size = (1.0..=9e15).contains(&size) && size.fract() == 0.0;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is an integer in range"
            )]
            let shards = is_size.then_some(size as u64);
            shards.map(Some).ok_or_else(|| Fault::Json(format!("{size} is no size of a range")))
        }
        _ => {
            let expected = "files or shards";
            Err(Fault::Unknown { what: "the method of the statement", found: method, expected })
        }
    }
}

fn resource(listed: Listed, algorithm: Algorithm, shard_size: Option<u64>) -> Result<Resource, Fault> {
    let name = text(listed.name, "name of a resource")?;
    let found = listed.algorithm.unwrap_or_default();
    // The form that the Python tool writes for ranges.
    let sharded = shard_size.map(|size| format!("{}-sharded-{size}", algorithm.name()));
    if found != algorithm.name() && Some(&found) != sharded.as_ref() {
        return Err(Fault::Digest(name));
    }
    let stamp = listed.size.zip(listed.modified);
    let stamp = stamp.map(|(len, modified)| Stamp { len, modified: Some(modified) });
    Ok(Resource { name, digest: listed.digest, stamp })
}
