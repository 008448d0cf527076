//! How the program reports errors and exits.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use modelfmt::modelfmt_core::source::folder_of;
use modelfmt::value::json;
use modelfmt::wording::Printable;
use modelfmt::{Object, Value};

use crate::flags::Flags;
use crate::nearest::nearest;
use crate::urls::without_secrets;
use modelfmt::wording::escaped_json;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A check failed, or two models differ. The details have already been printed.
    Checked,
    /// Wrong usage that clap does not detect.
    Usage(String),
    /// A file that is given to an option is invalid.
    Input(String),
    /// A job failed with an error of its own: the stable name of its kind, and the text.
    #[cfg(feature = "remote")]
    Coded(&'static str, String),
    /// The library returned an error.
    Job(modelfmt::Error),
    /// Writing to standard output failed.
    Output(io::Error),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl From<modelfmt::Error> for Failure {
    fn from(error: modelfmt::Error) -> Self {
        match error {
            modelfmt::Error::Output { source } => Self::Output(source),
            error if error.is_usage() => Self::Usage(error.in_words(&Flags)),
            error => Self::Job(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    /// Prints the error, as an object for a command that prints JSON, and returns the exit status.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let status = ExitCode::from(if matches!(self, Self::Usage(_)) { 2 } else { 1 });
        match self.message().map(Message::without_secrets) {
            Some(message) if json => message.say_json(),
            Some(message) => message.say(),
            None if matches!(self, Self::Output(_)) => return ExitCode::SUCCESS,
            None => {}
        }
        status
    }

    /// Returns the message, or `None` if it was already printed, or if standard output was closed, as with `|
    /// head`, which is not an error.
    fn message(&self) -> Option<Message> {
        let message = |code, text| Some(Message { code, text, hint: "", causes: Vec::new() });
        match self {
            Self::Checked => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::Output(error) => message("output", format!("cannot write to standard output: {error}")),
            Self::Usage(text) => Some(Message {
                hint: "\n\nFor more information, try '--help'.",
                ..message("usage", text.clone())?
            }),
            Self::Input(text) => message("input", text.clone()),
            #[cfg(feature = "remote")]
            Self::Coded(code, text) => message(code, text.clone()),
            Self::Job(error) => Some(Message::of(error)),
        }
    }
}

/// An error in the form in which it is printed.
struct Message {
    /// The stable name of the kind of error.
    code: &'static str,
    text: String,
    /// Advice for the user.
    hint: &'static str,
    /// The causes that are not in the text.
    causes: Vec<String>,
}

impl Message {
    fn of(error: &modelfmt::Error) -> Self {
        let message = |text, causes| Self { code: error.code(), text, hint: "", causes };
        if let modelfmt::Error::Write { path, source } = error
            && source.kind() == io::ErrorKind::NotFound
            && !path.to_string_lossy().contains("://")
            && is_without_folder(path)
        {
            // The cause says "no such file", which would be misleading for a file that is to be created.
            let text =
                format!("{}: cannot be written: its folder does not exist; make it first", path.display());
            return message(text, Vec::new());
        }
        let mut text = error.in_words(&Flags);
        if let modelfmt::Error::Open { path, source } = error
            && source.kind() == io::ErrorKind::NotFound
            && let Some(other) = nearest(path)
        {
            text = format!("{text}; did you mean {}?", other.display());
        }
        let mut causes = Vec::new();
        if let modelfmt::Error::Unsupported { unsupported, .. } = error
            && unsupported.len() > 1
        {
            let groups = modelfmt::convert::Unsupported::grouped(unsupported);
            causes.extend(groups.iter().map(|group| group.in_words(&Flags)));
        }
        let mut said = text.clone();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !said.contains(&text) {
                said.push_str(&text);
                causes.push(text);
            }
            cause = inner.source();
        }
        message(text, causes)
    }

    /// Removes secrets in URLs. Must run before escaping, so that URLs are found.
    fn without_secrets(self) -> Self {
        let without = |text: &String| without_secrets(text).into_owned();
        Self { text: without(&self.text), causes: self.causes.iter().map(without).collect(), ..self }
    }

    /// Prints `error: …` in one line, and a line for each cause. Paths and names can contain anything, including line breaks.
    fn say(&self) {
        say(format_args!("error: {}{}", Printable(&self.text), self.hint));
        self.causes.iter().for_each(|cause| say(format_args!("caused by: {}", Printable(cause))));
    }

    fn say_json(&self) {
        let causes: Value = self.causes.iter().map(String::as_str).collect();
        let text = [("error", Value::from(self.text.as_str())), ("code", self.code.into())];
        let mut object = Object::from_iter(text);
        object.insert("caused_by", causes);
        say(escaped_json(&json::to_string(&Value::Object(object)).unwrap_or_default()));
    }
}

/// Checks whether standard output was closed by its reader.
pub(crate) fn is_reader_gone(printed: &Result) -> bool {
    matches!(printed, Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints a line to standard error. A failure is ignored, because it cannot be reported anywhere and does not
/// change the exit status.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{}", without_secrets(&line.to_string()));
}

fn is_without_folder(path: &Path) -> bool {
    !folder_of(path).exists()
}
