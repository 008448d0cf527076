//! The parts of a `tokenizer.json` that may be a sequence of others.

use modelfmt_value::Value;

use super::error::fault;
use crate::MapError;

/// Returns the members of a sequence and of the sequences in it, in order. `key` is the name of its list. A
/// single value is a sequence of one, and null is an empty sequence.
pub(super) fn flat(file: &str, value: Option<&Value>, key: &str) -> Result<Vec<Value>, MapError> {
    const MAX_DEPTH: usize = 8;
    let mut members: Vec<Value> = value.filter(|value| !value.is_null()).cloned().into_iter().collect();
    for _ in 0..MAX_DEPTH {
        let is_sequence = |member: &Value| member.get("type").and_then(Value::as_str) == Some("Sequence");
        if !members.iter().any(is_sequence) {
            return Ok(members);
        }
        let mut next = Vec::new();
        for member in members {
            match member.get(key).and_then(Value::as_array) {
                Some(list) if is_sequence(&member) => next.extend(list.iter()),
                _ if is_sequence(&member) => {
                    return Err(fault(file, format!("it has a sequence without a list `{key}`")));
                }
                _ => next.push(member),
            }
        }
        members = next;
    }
    Err(fault(file, format!("it has `{key}` in {MAX_DEPTH} levels")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use modelfmt_value::json;

    #[test]
    fn sequences_in_sequences_are_one_list() {
        let sequence = json::parse(
            br#"{"type": "Sequence", "steps": [{"type": "A"}, {"type": "Sequence", "steps": [{"type": "B"}]}, {"type": "C"}]}"#,
        )
        .unwrap();
        let steps = flat("f", Some(&sequence), "steps").unwrap();
        let names: Vec<_> =
            steps.iter().map(|step| step.get("type").and_then(Value::as_str).unwrap()).collect();
        assert_eq!(names, ["A", "B", "C"]);
        assert!(flat("f", None, "steps").unwrap().is_empty());
        assert!(flat("f", Some(&Value::Null), "steps").unwrap().is_empty());
    }

    #[test]
    fn deep_and_broken_ones_are_refused() {
        let deep = format!("{}{}", r#"{"type": "Sequence", "steps": ["#.repeat(20), "]}".repeat(20));
        let error = flat("f", Some(&json::parse(deep.as_bytes()).unwrap()), "steps").unwrap_err();
        assert_eq!(error.to_string(), "f: it has `steps` in 8 levels");
        let broken = json::parse(br#"{"type": "Sequence"}"#).unwrap();
        let error = flat("f", Some(&broken), "steps").unwrap_err();
        assert_eq!(error.to_string(), "f: it has a sequence without a list `steps`");
    }
}
