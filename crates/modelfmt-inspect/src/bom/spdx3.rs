//! SPDX 3.0.1: a graph of elements in JSON-LD.

use modelfmt_core::Encoding;
use modelfmt_core::value::{Object, Value};

use super::base::Base;
use super::created::Created;
use super::files::HashedFile;
use super::licence::{Licence, Licences};
use super::object;
use super::subject::{Subject, Tensor};

/// The node that states who made the document, and when. Every element refers to it.
const CREATION: &str = "_:creation";

/// Returns the whole document.
pub(super) fn document(subjects: &[Subject], uuid: &str, created: Created) -> Object {
    let mut graph = Graph { prefix: format!("urn:uuid:{uuid}#"), elements: Vec::new() };
    let tool = graph.id("tool");
    let creation = object([
        ("type", Some("CreationInfo".into())),
        ("@id", Some(CREATION.into())),
        ("specVersion", Some("3.0.1".into())),
        ("created", Some(created.to_string().into())),
        ("createdBy", Some(Value::from_iter([&*tool]))),
    ]);
    graph.elements.push(creation);
    let name = concat!("modelfmt ", env!("CARGO_PKG_VERSION"));
    graph.add("SoftwareAgent", &tool, [("name", Some(name.into()))]);
    let roots: Vec<String> =
        subjects.iter().enumerate().map(|(number, subject)| graph.model(number, subject)).collect();
    let document = graph.id("document");
    let profiles = ["core", "software", "simpleLicensing", "ai"];
    graph.add(
        "SpdxDocument",
        &document,
        [
            ("profileConformance", Some(Value::from_iter(profiles))),
            ("rootElement", Some(roots.into_iter().collect())),
        ],
    );
    object([
        ("@context", Some("https://spdx.org/rdf/3.0.1/spdx-context.jsonld".into())),
        ("@graph", Some(graph.elements.into_iter().collect())),
    ])
}

/// The elements so far, and the prefix of their identifiers.
struct Graph {
    prefix: String,
    elements: Vec<Object>,
}

impl Graph {
    fn id(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Adds an element.
    fn add<const N: usize>(&mut self, kind: &str, id: &str, members: [(&str, Option<Value>); N]) {
        let mut element = Object::from_iter([("type", kind), ("spdxId", id), ("creationInfo", CREATION)]);
        element.extend(members.into_iter().filter_map(|(key, value)| Some((key, value?))));
        self.elements.push(element);
    }

    /// Adds a relationship, unless `to` is empty.
    fn relate(&mut self, id: &str, from: &str, kind: &str, to: Vec<String>) {
        if to.is_empty() {
            return;
        }
        let members = [
            ("from", Some(from.into())),
            ("relationshipType", Some(kind.into())),
            ("to", Some(to.into_iter().collect())),
        ];
        self.add("Relationship", id, members);
    }

    /// Adds a model and everything that belongs to it, and returns its identifier.
    fn model(&mut self, number: usize, subject: &Subject) -> String {
        let id = self.id(&format!("model-{}", number.saturating_add(1)));
        let members = [
            ("name", Some((&*subject.name).into())),
            ("software_primaryPurpose", Some("model".into())),
            ("software_packageVersion", subject.version.as_deref().map(Value::from)),
            ("verifiedUsing", subject.only_file().map(hashes)),
            ("ai_typeOfModel", subject.family.as_deref().map(|family| Value::from_iter([family]))),
            ("ai_hyperparameter", Some(subject.facts.iter().map(entry).collect())),
        ];
        self.add("ai_AIPackage", &id, members);
        let files: Vec<String> =
            subject.files.iter().enumerate().map(|(number, file)| self.file(&id, number, file)).collect();
        for (number, tensor) in subject.tensors.iter().enumerate() {
            self.tensor(&id, number, tensor, subject, &files);
        }
        self.relate(&format!("{id}/contains"), &id, "contains", files);
        let licences = self.licences(&id, &subject.licences);
        self.relate(&format!("{id}/hasDeclaredLicense"), &id, "hasDeclaredLicense", licences);
        let bases: Vec<String> =
            subject.bases.iter().enumerate().map(|(number, base)| self.base(&id, number, base)).collect();
        self.relate(&format!("{id}/descendantOf"), &id, "descendantOf", bases);
        for (number, key) in subject.signers.iter().enumerate() {
            let members = [
                ("annotationType", Some("other".into())),
                ("subject", Some((&*id).into())),
                ("statement", Some(format!("verified: signed by the key {key}").into())),
            ];
            self.add("Annotation", &numbered(&id, "signer", number), members);
        }
        id
    }

    fn file(&mut self, of: &str, number: usize, file: &HashedFile) -> String {
        let id = numbered(of, "file", number);
        let members = [
            ("name", Some((&*file.name).into())),
            ("comment", Some(format!("{} bytes", file.size).into())),
            ("verifiedUsing", Some(hashes(file))),
            ("software_fileKind", Some("file".into())),
        ];
        self.add("software_File", &id, members);
        id
    }

    /// Adds a tensor as a part of the file that contains it.
    fn tensor(&mut self, of: &str, number: usize, tensor: &Tensor, subject: &Subject, files: &[String]) {
        let at = &tensor.location;
        let place = subject.files.iter().position(|file| at.file.as_ref() == Some(&file.name)).unwrap_or(0);
        let range = at.offset.filter(|_| at.encoding == Encoding::Raw && at.stored_nbytes > 0);
        // SPDX counts bytes from 1, and the range includes the last byte.
        let range = range.map(|offset| {
            Object::from_iter([
                ("type", Value::from("PositiveIntegerRange")),
                ("beginIntegerRange", offset.saturating_add(1).into()),
                ("endIntegerRange", offset.saturating_add(at.stored_nbytes).into()),
            ])
        });
        let members = [
            ("name", Some((&*tensor.name).into())),
            ("comment", Some(format!("tensor, {} {}", tensor.dtype, tensor.shape).into())),
            ("verifiedUsing", tensor.blake3.as_ref().map(|hex| Value::from_iter([hash("blake3", hex)]))),
            ("software_primaryPurpose", Some("data".into())),
            ("software_snippetFromFile", files.get(place).map(|file| Value::from(&**file))),
            ("software_byteRange", range.map(Value::from)),
        ];
        self.add("software_Snippet", &numbered(of, "tensor", number), members);
    }

    /// Adds the licences of a model and returns their identifiers.
    fn licences(&mut self, of: &str, licences: &Licences) -> Vec<String> {
        let mut ids = Vec::new();
        for (number, licence) in licences.all.iter().enumerate() {
            let id = numbered(of, "license", number);
            let text = || Some(Value::from(licence.as_str()));
            match licence {
                Licence::Id(_) | Licence::Expression(_) => {
                    let members = [("simplelicensing_licenseExpression", text())];
                    self.add("simplelicensing_LicenseExpression", &id, members);
                }
                // Only the name is known, but the text must not be empty.
                Licence::Name(_) => {
                    let members = [("name", text()), ("simplelicensing_licenseText", text())];
                    self.add("simplelicensing_SimpleLicensingText", &id, members);
                }
            }
            ids.push(id);
        }
        ids
    }

    fn base(&mut self, of: &str, number: usize, base: &Base) -> String {
        let id = numbered(of, "base", number);
        let address = |kind: &str, url: &Option<String>| {
            url.as_deref().map(|url| {
                Object::from_iter([
                    ("type", Value::from("ExternalRef")),
                    ("externalRefType", kind.into()),
                    ("locator", Value::from_iter([url])),
                ])
            })
        };
        let addresses = [address("altWebPage", &base.website), address("vcs", &base.repository)];
        let addresses: Vec<Value> = addresses.into_iter().flatten().map(Value::from).collect();
        let by = base.organization.as_deref().map(|name| format!("organization: {name}").into());
        let members = [
            ("name", Some((&*base.name).into())),
            ("comment", by),
            ("externalRef", (!addresses.is_empty()).then(|| addresses.into())),
            ("software_primaryPurpose", Some("model".into())),
            ("software_packageVersion", base.version.as_deref().map(Value::from)),
        ];
        self.add("ai_AIPackage", &id, members);
        id
    }
}

fn numbered(of: &str, what: &str, number: usize) -> String {
    format!("{of}/{what}-{}", number.saturating_add(1))
}

fn hashes(file: &HashedFile) -> Value {
    Value::from_iter([hash("sha256", &file.sha256), hash("blake3", &file.blake3)])
}

fn hash(algorithm: &str, hex: &str) -> Object {
    Object::from_iter([("type", "Hash"), ("algorithm", algorithm), ("hashValue", hex)])
}

fn entry((name, value): &(String, String)) -> Object {
    Object::from_iter([("type", "DictionaryEntry"), ("key", &**name), ("value", &**value)])
}
