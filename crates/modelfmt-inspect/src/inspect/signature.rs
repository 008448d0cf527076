//! Describes the signatures of a model in lines for people to read.

use modelfmt_core::value::Value;
#[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
use modelfmt_model::signed::DetachedSignature;
use modelfmt_rules::wording::Printable;

use super::Inspection;

/// The maximum number of characters of an error that is shown.
#[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
const LONGEST: usize = 200;

impl Inspection<'_> {
    /// Returns lines about the signature next to the model, if the caller has looked for it, and about the
    /// seal inside the model. Without trusted keys, they only repeat what the signatures claim. Characters
    /// that would disturb a terminal are escaped.
    #[must_use]
    pub fn signature_lines(&self) -> Vec<String> {
        #[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
        let beside = self.signature.as_ref().map(line);
        #[cfg(any(not(feature = "sign"), target_arch = "wasm32"))]
        let beside = None;
        // For a set, the lines about the seal would describe only its first file.
        let inside = if self.model.format().is_set() { Vec::new() } else { inside(&self.details) };
        beside.into_iter().chain(inside).collect()
    }
}

#[cfg(all(feature = "sign", not(target_arch = "wasm32")))]
/// Returns a line about a signature. Without a trusted key, it only repeats what the signature claims.
fn line(signature: &DetachedSignature) -> String {
    let path = signature.path.display().to_string();
    let key = signature.key_id.as_deref();
    let key =
        key.map_or_else(|| "a key without id".to_owned(), |id| format!("the key {}", Printable(id).cut(64)));
    let verdict = match (&signature.problem, signature.is_trusted) {
        (Some(problem), _) => Printable(problem).cut(LONGEST),
        (None, Some(true)) => format!("by {key}, which you trust; every file is as it was signed"),
        (None, _) => format!("claims to be by {key}; not checked, because no --key was given"),
    };
    format!("signature  {}: {verdict}", Printable(&path))
}

/// Returns lines about the seal in a file: who has signed the file, who can open it, and its pin.
fn inside(details: &Value) -> Vec<String> {
    let Some(statement) = details.get("statement").and_then(Value::as_str) else { return Vec::new() };
    let items = |value: Option<&Value>| -> Vec<Value> {
        value.and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let key = |value: &Value| text(value, "key_id").unwrap_or_else(|| "of an unknown algorithm".to_owned());
    let is = |value: &Value, key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let signatures = items(details.get("signatures"));
    let is_checked = signatures.iter().any(|signature| is(signature, "is_named"));
    let by = |signature: &Value| match (is(signature, "is_named"), is_checked) {
        (true, _) => format!("by the trusted key {}", key(signature)),
        (false, true) => format!("claims to be by the key {}, which is not a trusted key", key(signature)),
        (false, false) => format!("claims to be by the key {}", key(signature)),
    };
    let signed: Vec<String> = signatures.iter().map(by).collect();
    let covers = if is_checked {
        "; covers metadata, names, shapes and every value, which is checked when it is read"
    } else {
        "; not checked, because no --key was given"
    };
    let signed = if signed.is_empty() { "none".to_owned() } else { signed.join("; ") + covers };
    let mut lines = vec![format!("signature  inside: {signed}"), format!("pin        seal:{statement}")];
    if let Some(encryption) = details.get("encryption") {
        let recipient = |recipient: &Value| {
            let kind = text(recipient, "type").unwrap_or_default();
            text(recipient, "key_id").map_or(kind.clone(), |id| format!("{kind} {}", Printable(&id).cut(64)))
        };
        let recipients: Vec<String> = items(encryption.get("recipients")).iter().map(recipient).collect();
        let open = if is(encryption, "is_open") { "opened" } else { "not opened, because no key was given" };
        lines.push(format!("encryption aes-256-gcm for {}; {open}", recipients.join(", ")));
    }
    lines
}
