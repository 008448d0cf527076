//! The models that a model was made from, as its metadata names them.

use modelfmt_core::value::{Object, Value};

use super::text::{is_known, text};
use super::url;

/// The maximum number of models that are listed.
const MOST: usize = 1000;

/// A model that another model was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) organization: Option<String>,
    /// The address of its description.
    pub(super) website: Option<String>,
    /// The address of its repository.
    pub(super) repository: Option<String>,
}

/// Returns the models that these objects name, each name once.
pub(super) fn all(descriptions: &[Object]) -> Vec<Base> {
    let mut found: Vec<Base> = Vec::new();
    for base in
        descriptions.iter().flat_map(|description| numbered(description).chain(named(description))).take(MOST)
    {
        if !found.iter().any(|known| known.name == base.name) {
            found.push(base);
        }
    }
    found
}

/// Returns the base models that GGUF keys name: `general.base_model.0.name` and so on.
fn numbered(description: &Object) -> impl Iterator<Item = Base> {
    (0..MOST).map_while(|number| {
        let value = |key: &str| {
            let value = description.get(&format!("general.base_model.{number}.{key}"))?.as_str();
            value.and_then(text).filter(|value| is_known(value))
        };
        let (website, repository) = (value("url"), value("repo_url"));
        let name = value("name").or_else(|| repository.clone()).or_else(|| website.clone())?;
        let address = |stated: Option<String>| stated.as_deref().and_then(url::of);
        Some(Base {
            name,
            version: value("version"),
            organization: value("organization"),
            website: address(website),
            repository: address(repository),
        })
    })
}

/// Returns the base models that Hugging Face keys name: one name, or a list of names.
fn named(description: &Object) -> impl Iterator<Item = Base> {
    const KEYS: [&str; 2] = ["base_model", "base_model_name_or_path"];
    let names = KEYS.iter().filter_map(|key| description.get(key)).flat_map(|value| match value {
        Value::String(name) => vec![name.clone()],
        Value::Array(list) => {
            list.iter().filter_map(|item| item.as_str().map(str::to_owned)).take(MOST).collect()
        }
        _ => Vec::new(),
    });
    let names = names.filter_map(|name| text(&name).filter(|name| is_known(name)));
    names.map(|name| Base { name, ..Base::default() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use modelfmt_core::value::json::parse_object;

    use super::*;

    #[test]
    fn every_way_to_name_a_base_is_read() {
        let of = |text: &str| all(&[parse_object(text.as_bytes()).unwrap()]);
        let named = |name: &str| Base { name: name.to_owned(), ..Base::default() };
        let gguf = r#"{"general.base_model.count": 3,
            "general.base_model.0.name": "Base", "general.base_model.0.version": "1.2",
            "general.base_model.0.organization": "Org", "general.base_model.0.url": "no address",
            "general.base_model.0.repo_url": "https://example.org/a b",
            "general.base_model.1.repo_url": "https://example.org/c",
            "general.base_model.3.name": "after a gap"}"#;
        let first = Base {
            version: Some("1.2".to_owned()),
            organization: Some("Org".to_owned()),
            repository: Some("https://example.org/a%20b".to_owned()),
            ..named("Base")
        };
        let second =
            Base { repository: Some("https://example.org/c".to_owned()), ..named("https://example.org/c") };
        assert_eq!(of(gguf), [first, second]);
        assert_eq!(of(r#"{"base_model": "a/b", "base_model_name_or_path": "a/b"}"#), [named("a/b")]);
        assert_eq!(of(r#"{"base_model": ["a", 5, "b", ""]}"#), [named("a"), named("b")]);
        assert_eq!(of(r#"{"base_model": {"a": 1}, "base_model_name_or_path": null}"#), []);
        assert_eq!(of(r#"{"base_model": "unknown"}"#), []);
    }
}
