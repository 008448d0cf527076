//! Prints the content of a file as text, for golden files.

use std::fmt::Write;

use modelfmt_core::value::Value;
use modelfmt_core::{Container, DisplayShape, Execution, TensorInfo, VerifyLevel};

/// Values of up to this many bytes are shown in hex, longer ones as their BLAKE3.
const SHOWN: usize = 32;

/// Prints everything that a [`Container`] reports about a file, as text that a person can compare and `git
/// diff` can show: version, size, details, metadata, tensors with their positions and values, and the result
/// of each check.
///
/// # Panics
/// If metadata or values cannot be read.
#[must_use]
pub fn dump(container: &dyn Container) -> String {
    let mut out = String::new();
    let mut line = |text: &str| out.extend([text, "\n"]);
    line(&format!("version {}", container.version().as_deref().unwrap_or("none")));
    line(&format!("{} bytes", container.file_size()));
    line("details");
    tree(&mut line, 1, &container.details().expect("details"));
    line("metadata");
    tree(&mut line, 1, &container.metadata().expect("metadata"));
    line("tensors");
    for number in 0..container.tensor_count() {
        line(&tensor(container, number));
    }
    line("checks");
    for check in container.verify(VerifyLevel::Full, &Execution::default()).checks {
        line(&format!("  {} {}", check.name, check.status.name()));
    }
    out
}

fn tensor(container: &dyn Container, number: usize) -> String {
    let TensorInfo { name, dtype, shape, nbytes, .. } = container.info(number).expect("a tensor");
    let mut text = format!("  {name:?} {dtype} {} {nbytes} bytes", DisplayShape(shape));
    let location = container.location(number).expect("a location");
    let Some(offset) = location.offset else { return text + ", no data" };
    let encoding = location.encoding.name();
    let file = location.file.map(|file| format!(" of {file:?}")).unwrap_or_default();
    let _ = write!(text, ", at {offset}{file}, {} stored {encoding}", location.stored_nbytes);
    match &*container.read(number).expect("values") {
        [] => text,
        values if values.len() <= SHOWN => text + ": " + &hex(values),
        values => text + ": blake3 " + blake3::hash(values).to_hex().as_str(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints one line for each leaf, with the bits of floats that look the same as text.
fn tree(line: &mut dyn FnMut(&str), depth: usize, value: &Value) {
    let indent = "  ".repeat(depth);
    let mut member = |label: String, value: &Value| match value {
        Value::Object(object) if !object.is_empty() => {
            line(&format!("{indent}{label}"));
            tree(line, depth + 1, value);
        }
        Value::Array(items)
            if items.iter().any(|item| matches!(item, Value::Array(_) | Value::Object(_))) =>
        {
            line(&format!("{indent}{label}"));
            tree(line, depth + 1, value);
        }
        _ => line(&format!("{indent}{label} {}", leaf(value))),
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| member(format!("{key:?}:"), value)),
        Value::Array(items) => items.iter().for_each(|value| member("-".to_owned(), &value)),
        Value::Null => {}
        scalar => line(&format!("{indent}{}", leaf(scalar))),
    }
}

fn leaf(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(x) if x.is_finite() => format!("{x:?}"),
        Value::Float(x) => format!("{x:?} ({:#018x})", x.to_bits()),
        Value::String(s) => format!("{s:?}"),
        Value::Bytes(bytes) => format!("hex {}", hex(bytes)),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| leaf(&item)).collect::<Vec<_>>().join(", "))
        }
        Value::Object(_) => "{}".to_owned(),
    }
}
