//! What errors and notes say, as data, for programs that print them in their own words.
//!
//! An error names what the caller chose ([`Choice`]) and what would help ([`Remedy`]). `Display` uses the names of this crate's
//! fields and methods. A program whose users know other names implements [`Words`]:
//!
//! ```
//! use modelfmt::wording::{Choice, Remedy, Words};
//!
//! struct Options;
//!
//! impl Words for Options {
//!     fn choice(&self, choice: Choice) -> &str {
//!         if choice == Choice::Output { "OUT" } else { choice.name() }
//!     }
//!     fn remedy(&self, remedy: Remedy) -> String {
//!         format!("--{remedy:?}").to_lowercase()
//!     }
//! }
//!
//! let error = modelfmt::save("model.unknown", Vec::<(&str, modelfmt::View<'_>)>::new(), &modelfmt::Object::new()).unwrap_err();
//! assert!(error.in_words(&Options).contains("OUT"));
//! ```

mod choice;
pub mod format_g;
mod parse;
mod printable;
pub mod unrecognized;
pub mod unsupported;

use std::fmt;
use std::path::PathBuf;

use modelfmt_core::DType;

pub use choice::Choice;
pub use parse::ParseError;
pub use printable::{Printable, escaped_json};

/// What would resolve an error or an item that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Replace the file that exists: `Overwrite::Replace`.
    Overwrite,
    /// Copy values without checking them: `ConvertOptions::no_verify`.
    SkipVerification,
    /// Write tensors that share their bytes separately: `TensorOptions::allow_ties`.
    AllowTies,
    /// Drop metadata that does not fit: `MetadataOptions::lossy`.
    Lossy,
    /// Write metadata as text: `MetadataOptions::stringify`.
    Stringify,
    /// Leave the tensor out: `TensorOptions::exclude`.
    Exclude,
    /// Widen to this dtype: `TypeOptions::widen`.
    Widen(DType),
    /// Cast to a dtype: `TypeRule::cast`.
    Cast {
        /// The dtype.
        to: DType,
        /// Whether the rule has to name the tensor. Without a name, a rule casts floats only.
        by_name: bool,
    },
    /// Decode blocks to this dtype: `TypeRule::dequantize`.
    Dequantize(DType),
    /// Quantize to this dtype: `TypeRule::quantize`.
    Quantize(DType),
    /// Say which tensor holds the scales: `TypeOptions::scales`.
    Scales,
    /// Look up the names of the tensors: `Model::tensors`.
    ListNames,
    /// Allow more, if the file is trusted: [`Limits`](modelfmt_core::Limits).
    RaiseLimit,
    /// Undo an edit that was interrupted: `edit::recover`.
    Recover,
    /// Give a key or a passphrase that opens the file: `seal::Access::open_with`.
    Unlock,
    /// Fetch the whole file again.
    FetchAgain,
}

/// A program's own names for choices and remedies.
///
/// `Display` of errors, items and notes uses the names of fields and methods. A program whose users know other names implements
/// this trait and passes it to `Error::in_words` and its siblings.
pub trait Words {
    /// Returns the name of a choice.
    fn choice(&self, choice: Choice) -> &str;

    /// Returns the text of a remedy.
    fn remedy(&self, remedy: Remedy) -> String;
}

/// The names of fields and methods in Rust.
pub struct FieldNames;

impl Words for FieldNames {
    fn choice(&self, choice: Choice) -> &str {
        choice.name()
    }

    fn remedy(&self, remedy: Remedy) -> String {
        match remedy {
            Remedy::Overwrite => "Overwrite::Replace".to_owned(),
            Remedy::SkipVerification => "no_verify".to_owned(),
            Remedy::AllowTies => "allow_ties".to_owned(),
            Remedy::Lossy => "lossy".to_owned(),
            Remedy::Stringify => "stringify".to_owned(),
            Remedy::Exclude => "exclude".to_owned(),
            Remedy::Widen(_) => "widen".to_owned(),
            Remedy::Cast { to, by_name: true } => format!("cast by name to {to}"),
            Remedy::Cast { to, by_name: false } => format!("cast to {to}"),
            Remedy::Dequantize(to) => format!("dequantize to {to}"),
            Remedy::Quantize(to) => format!("quantize to {to}"),
            Remedy::Scales => "scales".to_owned(),
            Remedy::ListNames => "Model::tensors".to_owned(),
            Remedy::RaiseLimit => "Limits".to_owned(),
            Remedy::Recover => "edit::recover".to_owned(),
            Remedy::Unlock => "Access::open_with".to_owned(),
            Remedy::FetchAgain => "download it again".to_owned(),
        }
    }
}

impl Remedy {
    /// Returns the effect of the remedy, as text that follows its name; empty if the name says it all.
    pub fn effect(self) -> String {
        match self {
            Self::Widen(to) => format!(", which makes it {to}"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&FieldNames.remedy(*self))
    }
}

/// Displays a number of bytes with a unit, such as `44.71 MiB`.
pub struct Size(pub u64);

impl fmt::Display for Size {
    #[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut size = self.0 as f64 / 1024.0;
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        for unit in UNITS {
            if size < 1024.0 {
                return write!(f, "{size:.2} {unit}");
            }
            size /= 1024.0;
        }
        Ok(()) // there are no more than 16 EiB
    }
}

/// A note for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The choices that the note is about. Their names come before the text.
    pub choices: Vec<Choice>,
    /// The text after the names of the choices.
    pub text: String,
    /// The file that the note is about, if it is not the model itself: an outboard or a signature.
    pub file: Option<PathBuf>,
}

impl Note {
    /// Makes a note about choices.
    pub fn of(choices: &[Choice], text: impl Into<String>) -> Self {
        Self { choices: choices.to_vec(), ..Self::from(text.into()) }
    }

    /// Makes a note about a file beside the model.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn about(file: PathBuf, text: String) -> Self {
        Self { file: Some(file), ..Self::from(text) }
    }

    /// Returns the whole text of the note, in the words of a program.
    #[must_use]
    pub fn in_words(&self, words: &dyn Words) -> String {
        match &*self.choices {
            [] => self.text.clone(),
            choices => format!("{} {}", joined(choices, words), self.text),
        }
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self { choices: Vec::new(), text, file: None }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(&FieldNames))
    }
}

/// Returns the names of choices, such as `include and exclude`.
pub fn joined(choices: &[Choice], words: &dyn Words) -> String {
    choices.iter().map(|choice| words.choice(*choice)).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_are_for_people() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (46_881_792, "44.71 MiB"),
            (100_000_000_000, "93.13 GiB"),
            (u64::MAX, "16.00 EiB"),
        ];
        for (nbytes, text) in sizes {
            assert_eq!(Size(nbytes).to_string(), text);
        }
    }
}
