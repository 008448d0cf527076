//! Licences: SPDX identifiers and expressions, or names.

use modelfmt_core::value::{List, Object, Value};
use spdx::expression::Expression;

use super::text::{LONGEST, is_known, text};

/// A licence in the form in which a bill of materials can state it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Licence {
    /// An identifier in SPDX's list.
    Id(&'static str),
    /// A valid expression of such identifiers.
    Expression(String),
    /// Anything else.
    Name(String),
}

/// Names in the `spdx` crate's list that the list in CycloneDX's schema does not have: they are newer, or are
/// not identifiers by themselves. A document with one of them as an identifier would be invalid.
const NOT_IN_SCHEMA: [&str; 20] = [
    "BSD-2-Clause-pos-unchanged",
    "BSD-3-Clause-OpenWebUI",
    "BSD-Source-Code-no-disclaimer",
    "BSD-Source-alt-GPL",
    "BSD-ask-to-endorse",
    "Brian-Gladman-3-Clause-no-conversion",
    "Bugroff",
    "CC-BY-NC-3.0-IGO",
    "FDK-MPEG-H",
    "GFDL-1.1-invariants",
    "GFDL-1.1-no-invariants",
    "GFDL-1.2-invariants",
    "GFDL-1.2-no-invariants",
    "GFDL-1.3-invariants",
    "GFDL-1.3-no-invariants",
    "Hippocratic-3.0-core",
    "Informatica",
    "MVT-1.1",
    "NOASSERTION",
    "atc-game",
];

impl Licence {
    /// Returns the licence that a text states; `None` if the text says that the licence is unknown.
    fn parse(stated: &str) -> Option<Self> {
        let stated = text(stated).filter(|stated| is_known(stated))?;
        // SPDX ignores the case of identifiers, and Hugging Face writes them in lower case.
        let known = spdx::identifiers::LICENSES.iter().find(|known| known.name.eq_ignore_ascii_case(&stated));
        let is_valid = || stated.len() <= LONGEST && Expression::parse(&stated).is_ok();
        Some(match known {
            Some(known) if NOT_IN_SCHEMA.contains(&known.name) => Self::Name(stated),
            Some(known) => Self::Id(known.name),
            None if is_valid() => Self::Expression(stated),
            None => Self::Name(stated),
        })
    }

    /// Returns the licence as text.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Expression(text) | Self::Name(text) => text,
        }
    }
}

/// The licences of a model. If there is only one licence, also the address of its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Licences {
    pub(super) all: Vec<Licence>,
    pub(super) url: Option<String>,
}

/// Keys whose value is a licence, or a list of licences.
const KEYS: [&str; 3] = ["general.license", "license", "modelspec.license"];
/// Keys for the name of a licence that is not in SPDX's list. The licence itself may then be `other`.
const NAMES: [&str; 2] = ["general.license.name", "license_name"];
/// Keys for the address of the licence text.
const LINKS: [&str; 2] = ["general.license.link", "license_link"];
/// Hugging Face's word for a licence that has no identifier there.
const OTHER: &str = "other";

impl Licences {
    /// Returns the licences from the first of these objects that states any.
    pub(super) fn of(descriptions: &[Object]) -> Self {
        descriptions.iter().map(Self::of_one).find(|licences| !licences.all.is_empty()).unwrap_or_default()
    }

    fn of_one(description: &Object) -> Self {
        let first = |keys: &[&str]| keys.iter().find_map(|key| description.get(key)?.as_str()).and_then(text);
        let stated = KEYS.iter().find_map(|key| description.get(key));
        let mut all: Vec<Licence> = match stated {
            Some(Value::String(one)) => Licence::parse(one).into_iter().collect(),
            Some(Value::Array(list)) => list_of(list),
            _ => Vec::new(),
        };
        let is_other = |licence: &Licence| licence.as_str().eq_ignore_ascii_case(OTHER);
        if all.iter().all(is_other)
            && let Some(name) = first(&NAMES).and_then(|name| Licence::parse(&name))
        {
            all = vec![name];
        }
        let url = first(&LINKS).as_deref().and_then(super::url::of).filter(|_| all.len() == 1);
        Self { all, url }
    }
}

fn list_of(list: &List) -> Vec<Licence> {
    const MOST: usize = 64;
    let mut all: Vec<Licence> = Vec::new();
    for licence in list.iter().filter_map(|item| Licence::parse(item.as_str()?)).take(MOST) {
        if !all.contains(&licence) {
            all.push(licence);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use modelfmt_core::value::json::parse_object;

    use super::*;

    #[test]
    fn identifiers_are_those_of_the_list() {
        for (stated, licence) in [
            ("MIT", Some(Licence::Id("MIT"))),
            ("apache-2.0", Some(Licence::Id("Apache-2.0"))),
            (" mit ", Some(Licence::Id("MIT"))),
            ("MIT OR Apache-2.0", Some(Licence::Expression("MIT OR Apache-2.0".to_owned()))),
            ("MIT OR llama3", Some(Licence::Name("MIT OR llama3".to_owned()))),
            ("llama3.1", Some(Licence::Name("llama3.1".to_owned()))),
            ("noassertion", None),
            ("MVT-1.1", Some(Licence::Name("MVT-1.1".to_owned()))),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(Licence::parse(stated), licence, "{stated}");
        }
        assert_eq!(Licence::parse(&"(".repeat(100_000)).unwrap().as_str().chars().count(), LONGEST);
    }

    /// The list in CycloneDX's schema may be newer or older than ours.
    #[test]
    fn the_schema_of_cyclonedx_knows_every_identifier() {
        const SCRIPT: &str = "
import json, os, sys
import cyclonedx.schema
folder = os.path.join(os.path.dirname(cyclonedx.schema.__file__), '_res')
known = json.load(open(os.path.join(folder, 'spdx.SNAPSHOT.schema.json')))['enum']
print(' '.join(sorted(set(sys.argv[1].split()) - set(known))))
";
        let names: Vec<&str> = spdx::identifiers::LICENSES.iter().map(|known| known.name).collect();
        let unknown = testkit::python_with("bills-of-materials", SCRIPT, &[&names.join(" ")]);
        assert_eq!(unknown.trim(), NOT_IN_SCHEMA.join(" "));
    }

    #[test]
    fn the_name_of_another_licence_counts() {
        let of = |text: &str| Licences::of(&[Object::new(), parse_object(text.as_bytes()).unwrap()]);
        let named = |name: &str, url: Option<&str>| Licences {
            all: vec![Licence::Name(name.to_owned())],
            url: url.map(str::to_owned),
        };
        let text =
            r#"{"license": "other", "license_name": "mine", "license_link": "https://example.org/a b"}"#;
        assert_eq!(of(text), named("mine", Some("https://example.org/a%20b")));
        assert_eq!(of(r#"{"general.license": "other"}"#), named("other", None));
        assert_eq!(of(r#"{"license_name": "mine", "license_link": "LICENSE"}"#), named("mine", None));
        assert_eq!(of(r#"{"license": 5}"#), Licences::default());
        let two = of(r#"{"license": ["mit", "MIT", "x", 5], "license_link": "https://example.org"}"#);
        assert_eq!(two.all, [Licence::Id("MIT"), Licence::Name("x".to_owned())]);
        assert_eq!(two.url, None);
    }
}
