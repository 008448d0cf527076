//! The answers to JavaScript: a value or an error as JSON, and bytes.

use modelfmt::Error;
use modelfmt::convert::Unsupported;
use modelfmt::wording::{Choice, Remedy, Words};
use serde_json::{Value, json};

/// The answer to an operation.
pub(crate) struct Answer {
    json: String,
    bytes: Vec<u8>,
}

impl Answer {
    /// Makes an answer of text that is already JSON.
    pub(crate) const fn text(json: String) -> Self {
        Self { json, bytes: Vec::new() }
    }

    /// Adds bytes to the answer.
    pub(crate) fn with_bytes(self, bytes: Vec<u8>) -> Self {
        Self { bytes, ..self }
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self::text(value.to_string())
    }
}

/// Why there is no answer.
pub(crate) enum Refusal {
    /// The library's error.
    Model(Box<Error>),
    /// The request is not valid here.
    Usage(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Model(Box::new(error))
    }
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

pub(crate) type Result<T = Answer, E = Refusal> = std::result::Result<T, E>;

/// Returns the error for an invalid argument.
pub(crate) fn usage(text: impl Into<String>) -> Refusal {
    Refusal::Usage(text.into())
}

/// Returns the answer in the form for JavaScript.
pub(crate) fn sent(answer: Result) -> (String, Vec<u8>) {
    match answer {
        Ok(Answer { json, bytes }) => (format!("{{\"value\":{json}}}"), bytes),
        Err(refusal) => (json!({ "error": error(&refusal) }).to_string(), Vec::new()),
    }
}

fn error(refusal: &Refusal) -> Value {
    match refusal {
        Refusal::Usage(text) => json!({ "code": "usage", "text": text, "details": [], "remedies": [] }),
        Refusal::Model(error) => {
            let (mut details, mut remedies) = (Vec::new(), Vec::new());
            if let Error::Unsupported { unsupported, .. } = &**error {
                let groups = Unsupported::grouped(unsupported);
                details.extend(groups.iter().map(|group| group.in_words(&Options)));
                remedies.extend(unsupported.iter().filter_map(|item| item.remedy));
            }
            remedies.extend(error.remedy());
            let mut remedies: Vec<String> =
                remedies.into_iter().map(|remedy| Options.remedy(remedy)).collect();
            remedies.sort();
            remedies.dedup();
            json!({ "code": error.code(), "text": text(error), "details": details, "remedies": remedies })
        }
    }
}

/// Returns the error's text, with those of its causes that it does not contain itself.
fn text(error: &Error) -> String {
    let mut text = match error {
        Error::Damaged { path, error } => {
            let helps = Options.remedy(Remedy::SkipVerification);
            format!("{}: {error}; {helps} takes values as they are", path.display())
        }
        error => error.in_words(&Options),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    text
}

/// The names of the library's fields as properties of `convert`'s options in JavaScript.
pub(crate) struct Options;

impl Words for Options {
    fn choice(&self, choice: Choice) -> &str {
        match choice {
            Choice::Target => "to",
            other => other.name(),
        }
    }

    fn remedy(&self, remedy: Remedy) -> String {
        match remedy {
            Remedy::Overwrite => "another name".to_owned(),
            Remedy::SkipVerification => "verify: false".to_owned(),
            Remedy::AllowTies => "allow_ties: true".to_owned(),
            Remedy::Lossy => "lossy: true".to_owned(),
            Remedy::Stringify => "stringify: true".to_owned(),
            Remedy::Exclude => "exclude: […]".to_owned(),
            Remedy::Widen(_) => "widen: true".to_owned(),
            Remedy::Cast { to, by_name: true } => format!("cast: [\"NAME={to}\"]"),
            Remedy::Cast { to, by_name: false } => format!("cast: [\"{to}\"]"),
            Remedy::Dequantize(to) => format!("dequantize: [\"{to}\"]"),
            Remedy::Quantize(to) => format!("quantize: [\"{to}\"]"),
            Remedy::Scales => "scales: [\"WEIGHT=SCALE\"]".to_owned(),
            Remedy::ListNames => "the list of tensors".to_owned(),
            Remedy::Unlock => "a key or a passphrase that opens it".to_owned(),
            other => other.to_string(),
        }
    }
}
