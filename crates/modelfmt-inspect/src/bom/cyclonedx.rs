//! CycloneDX 1.6.

use modelfmt_core::value::{Object, Value};

use super::base::Base;
use super::files::HashedFile;
use super::licence::{Licence, Licences};
use super::object;
use super::subject::{Subject, Tensor};

/// Returns the whole document.
pub(super) fn document(subjects: &[Subject], uuid: &str) -> Object {
    let tool = object([
        ("type", Some("application".into())),
        ("name", Some("modelfmt".into())),
        ("version", Some(env!("CARGO_PKG_VERSION").into())),
    ]);
    let tools = Object::from_iter([("components", Value::from_iter([tool]))]);
    object([
        ("$schema", Some("http://cyclonedx.org/schema/bom-1.6.schema.json".into())),
        ("bomFormat", Some("CycloneDX".into())),
        ("specVersion", Some("1.6".into())),
        ("serialNumber", Some(format!("urn:uuid:{uuid}").into())),
        ("version", Some(1.into())),
        ("metadata", Some(Object::from_iter([("tools", Value::from(tools))]).into())),
        ("components", Some(subjects.iter().enumerate().map(model).collect())),
    ])
}

fn model((number, subject): (usize, &Subject)) -> Object {
    let id = format!("model-{}", number.saturating_add(1));
    let files = subject.files.iter().enumerate().map(|(number, of)| file(&id, number, of));
    let tensors = subject.tensors.iter().enumerate().map(|(number, of)| tensor(&id, number, of));
    let signers = subject.signers.iter().map(|key| property("signedBy", key));
    let bases = subject.bases.iter().enumerate().map(|(number, of)| base(&id, number, of));
    let pedigree = || Object::from_iter([("ancestors", bases.collect::<Value>())]);
    object([
        ("type", Some("machine-learning-model".into())),
        ("bom-ref", Some((&*id).into())),
        ("name", Some((&*subject.name).into())),
        ("version", subject.version.as_deref().map(Value::from)),
        ("hashes", subject.only_file().map(hashes)),
        ("licenses", licences(&subject.licences)),
        ("pedigree", (!subject.bases.is_empty()).then(|| pedigree().into())),
        ("components", Some(files.chain(tensors).collect())),
        ("modelCard", Some(card(subject).into())),
        ("properties", (!subject.signers.is_empty()).then(|| signers.collect())),
    ])
}

/// Returns the model card: what is known about the model itself.
fn card(subject: &Subject) -> Object {
    let family = subject.family.as_deref();
    let parameters = family.map(|family| Object::from_iter([("modelArchitecture", Value::from(family))]));
    let properties = subject.facts.iter().map(|(name, value)| property(name, value));
    object([("modelParameters", parameters.map(Value::from)), ("properties", Some(properties.collect()))])
}

fn file(of: &str, number: usize, file: &HashedFile) -> Object {
    object([
        ("type", Some("file".into())),
        ("bom-ref", Some(format!("{of}/file-{}", number.saturating_add(1)).into())),
        ("name", Some((&*file.name).into())),
        ("hashes", Some(hashes(file))),
        ("properties", Some(Value::from_iter([property("size", &file.size.to_string())]))),
    ])
}

fn hashes(file: &HashedFile) -> Value {
    Value::from_iter([hash("SHA-256", &file.sha256), hash("BLAKE3", &file.blake3)])
}

fn hash(algorithm: &str, hex: &str) -> Object {
    Object::from_iter([("alg", algorithm), ("content", hex)])
}

fn tensor(of: &str, number: usize, tensor: &Tensor) -> Object {
    let properties = [property("dtype", tensor.dtype), property("shape", &tensor.shape)];
    object([
        ("type", Some("data".into())),
        ("bom-ref", Some(format!("{of}/tensor-{}", number.saturating_add(1)).into())),
        ("name", Some((&*tensor.name).into())),
        ("hashes", tensor.blake3.as_ref().map(|hex| Value::from_iter([hash("BLAKE3", hex)]))),
        ("properties", Some(Value::from_iter(properties))),
    ])
}

fn base(of: &str, number: usize, base: &Base) -> Object {
    let address = |kind: &str, url: &Option<String>| {
        url.as_deref().map(|url| Object::from_iter([("type", kind), ("url", url)]))
    };
    let addresses = [address("website", &base.website), address("vcs", &base.repository)];
    let addresses: Vec<Value> = addresses.into_iter().flatten().map(Value::from).collect();
    object([
        ("type", Some("machine-learning-model".into())),
        ("bom-ref", Some(format!("{of}/base-{}", number.saturating_add(1)).into())),
        ("group", base.organization.as_deref().map(Value::from)),
        ("name", Some((&*base.name).into())),
        ("version", base.version.as_deref().map(Value::from)),
        ("externalReferences", (!addresses.is_empty()).then(|| addresses.into())),
    ])
}

/// Returns the licences as a list, which may hold either one expression or any number of other licences.
fn licences(licences: &Licences) -> Option<Value> {
    let expression = |text: &str| Object::from_iter([("expression", text)]);
    match &*licences.all {
        [] => None,
        [Licence::Expression(text)] => Some(Value::from_iter([expression(text)])),
        all => {
            let licence = |licence: &Licence| {
                let key = if matches!(licence, Licence::Id(_)) { "id" } else { "name" };
                let url = licences.url.as_deref().map(Value::from);
                let licence = object([(key, Some(licence.as_str().into())), ("url", url)]);
                Object::from_iter([("license", Value::from(licence))])
            };
            Some(all.iter().map(licence).collect())
        }
    }
}

fn property(name: &str, value: &str) -> Object {
    Object::from_iter([("name", format!("modelfmt:{name}")), ("value", value.to_owned())])
}
