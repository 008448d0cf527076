//! Reads the text of a policy. Anything unknown is an error: a rule that is not understood must not be taken
//! for a weaker one.

use std::collections::BTreeMap;

use modelfmt_core::author::with_causes;
use modelfmt_keys::PublicKey;
use modelfmt_rules::pin::Pin;
use toml::{Table, Value};

use crate::pattern::Pattern;
use crate::rule::Rule;

/// Returns the family of the format with this name: the name of its single-file form.
pub type Families<'a> = &'a dyn Fn(&str) -> Option<&'static str>;

/// Reads the key that a policy names.
pub type Keys<'a> = &'a dyn Fn(&str) -> modelfmt_keys::Result<PublicKey>;

/// The maximum number of rules in a policy.
const MAX_RULES: usize = 1 << 12;

/// Parses a policy: whether files that no rule matches are allowed, and the rules.
pub(crate) fn parse(text: &str, families: Families<'_>, keys: Keys<'_>) -> Result<(bool, Vec<Rule>), String> {
    let mut top: Table = text.parse().map_err(|error: toml::de::Error| one_line(&error.to_string()))?;
    let allows = match top.remove("default") {
        None => false,
        Some(Value::String(word)) if word == "refuse" => false,
        Some(Value::String(word)) if word == "allow" => true,
        Some(_) => return Err("default is \"refuse\" or \"allow\"".to_owned()),
    };
    let rules = match top.remove("rule") {
        None => Vec::new(),
        Some(Value::Array(rules)) if rules.len() <= MAX_RULES => rules,
        Some(_) => return Err(format!("rule is a list of at most {MAX_RULES} tables, each under [[rule]]")),
    };
    expect_empty(&top)?;
    let rules = rules.into_iter().enumerate().map(|(at, table)| {
        let number = at + 1;
        rule(number, table, families, keys).map_err(|why| format!("rule {number}: {why}"))
    });
    Ok((allows, rules.collect::<Result<_, _>>()?))
}

fn rule(number: usize, table: Value, families: Families<'_>, read: Keys<'_>) -> Result<Rule, String> {
    let Value::Table(mut table) = table else { return Err("it is not a table".to_owned()) };
    let patterns = texts(&mut table, "match")?.ok_or("it has no `match`, and so matches nothing")?;
    let patterns = patterns.iter().map(|text| Pattern::parse(text)).collect::<Result<_, _>>()?;
    let keys = keys(texts(&mut table, "keys")?, read)?;
    let threshold = match number_of(&mut table, "threshold")? {
        None => 1,
        Some(_) if keys.is_empty() => return Err("`threshold` without `keys` demands nothing".to_owned()),
        Some(0) => return Err("a `threshold` of 0 demands nothing".to_owned()),
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    if threshold > keys.len().max(1) {
        let found = keys.len();
        return Err(format!("`threshold` is {threshold}, and there are {found} different keys"));
    }
    let formats =
        texts(&mut table, "formats")?.map(|names| names.iter().map(|name| format(name, families)).collect());
    let rule = Rule {
        number,
        patterns,
        keys,
        threshold,
        formats: formats.transpose()?,
        min_revision: number_of(&mut table, "min_revision")?,
        pins: pins(table.remove("pins"))?,
    };
    expect_empty(&table)?;
    Ok(rule)
}

/// Takes a list of texts from a table, none of them empty.
fn texts(table: &mut Table, key: &str) -> Result<Option<Vec<String>>, String> {
    let wrong = || format!("`{key}` is a list of texts that are not empty, such as [\"…\"]");
    let Some(value) = table.remove(key) else { return Ok(None) };
    let Value::Array(values) = value else { return Err(wrong()) };
    let text = |value: Value| match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(wrong()),
    };
    let texts = values.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    if texts.is_empty() { Err(wrong()) } else { Ok(Some(texts)) }
}

fn number_of(table: &mut Table, key: &str) -> Result<Option<u64>, String> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::Integer(number)) if number >= 0 => Ok(u64::try_from(number).ok()),
        Some(_) => Err(format!("`{key}` is a whole number, 0 or more")),
    }
}

/// Reads the keys. A key that is named twice, or is in two files, counts once.
fn keys(names: Option<Vec<String>>, read: Keys<'_>) -> Result<Vec<PublicKey>, String> {
    let mut keys: Vec<PublicKey> = Vec::new();
    for name in names.unwrap_or_default() {
        let key = read(&name).map_err(|error| format!("keys: {}", with_causes(&error)))?;
        if !key.key_type().signs() {
            return Err(format!("keys: {name} is a key of the type {}, which signs nothing", key.key_type()));
        }
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn format(name: &str, families: Families<'_>) -> Result<&'static str, String> {
    match families(name) {
        Some(family) if family == name => Ok(family),
        Some(family) => Err(format!("formats: {name} is of the family {family}; write that")),
        None => Err(format!("formats: there is no {name:?}")),
    }
}

fn pins(value: Option<Value>) -> Result<BTreeMap<String, Pin>, String> {
    const WRONG: &str = "`pins` is a table of file names, each with its pin: { \"m.aero\" = \"aero:…\" }";
    let pins = match value {
        None => return Ok(BTreeMap::new()),
        Some(Value::Table(pins)) if !pins.is_empty() => pins,
        Some(_) => return Err(WRONG.to_owned()),
    };
    let pin = |(name, pin): (String, Value)| {
        let text = pin.as_str().filter(|_| !name.is_empty() && !name.contains(['/', '\\'])).ok_or(WRONG)?;
        let pin = text.parse().map_err(|error| format!("pins: {name:?}: {error}"))?;
        Ok((name, pin))
    };
    pins.into_iter().map(pin).collect()
}

fn expect_empty(table: &Table) -> Result<(), String> {
    table.keys().next().map_or(Ok(()), |key| Err(format!("there is no key {key:?} in a policy")))
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use modelfmt_keys::{KeyType, PrivateKey};

    use super::*;

    #[test]
    fn what_is_not_understood_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let key = PrivateKey::from_bytes(KeyType::Ed25519, &[1; 32]).unwrap();
        for name in ["a.pub", "copy.pub"] {
            std::fs::write(folder.path().join(name), key.public().to_pem()).unwrap();
        }
        std::fs::write(folder.path().join("bad.pub"), "no key").unwrap();
        let families = |name: &str| match name {
            "safetensors" => Some("safetensors"),
            "gguf" | "gguf-sharded" => Some("gguf"),
            _ => None,
        };
        let key = |name: &str| PublicKey::read(&folder.path().join(name));
        let read = |text: &str| parse(text, &families, &key);
        let rule = |rest: &str| read(&format!("[[rule]]\nmatch = [\"/m/**\"]\n{rest}"));
        assert!(!read("").unwrap().0 && !read("default = 'refuse'").unwrap().0);
        assert!(read("default = 'allow'").unwrap().0);
        let all = "keys = ['a.pub']\nthreshold = 1\nformats = ['safetensors', 'gguf']\nmin_revision = 3\n";
        let (_, rules) = rule(&format!("{all}pins = {{ 'm.aero' = 'aero:{}' }}", "0".repeat(64))).unwrap();
        assert_eq!((rules[0].number, rules[0].keys.len(), rules[0].pins.len()), (1, 1, 1));
        assert_eq!(rule("keys = ['a.pub', 'copy.pub', './a.pub']").unwrap().1[0].keys.len(), 1);
        for bad in [
            "default = 'yes'",
            "default = true",
            "defualt = 'refuse'",
            "rules = []",
            "rule = 3",
            "[rule]\nmatch = ['/m']",
            "[[rule]]",
            "[[rule]]\nmatch = '/m'",
            "[[rule]]\nmatch = []",
            "[[rule]]\nmatch = ['']",
            "[[rule]]\nmatch = ['m/*']",
            "[[rule",
            "default = 'refuse'\ndefault = 'allow'",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for bad in [
            "key = ['a.pub']",
            "keys = []",
            "keys = 'a.pub'",
            "keys = ['']",
            "keys = ['none.pub']",
            "keys = ['bad.pub']",
            "threshold = 1",
            "keys = ['a.pub']\nthreshold = 0",
            "keys = ['a.pub', 'copy.pub']\nthreshold = 2",
            "formats = []",
            "formats = ['onnx']",
            "formats = ['gguf-sharded']",
            "min_revision = -1",
            "min_revision = 1.5",
            "pins = {}",
            "pins = { 'm.aero' = 'md5:1' }",
            "pins = { 'a/m.aero' = 'aero:00' }",
            "pins = { '' = 'aero:00' }",
        ] {
            let why = rule(bad).unwrap_err();
            assert!(why.starts_with("rule 1: "), "{bad}: {why}");
        }
    }
}
