//! The versions of formats that can be written, such as `mag@0.3`; `mag` alone is the version of the format's document.

use std::str::FromStr;

use modelfmt_core::DType;

use super::Format;
use super::capabilities::Capabilities;
use super::entry::Version;
use modelfmt_rules::wording::ParseError;

impl Format {
    /// Returns what a version can hold. Without a version, this is the version of the format's document.
    /// `None` if the version cannot be written.
    #[must_use]
    pub fn capabilities_of(self, version: Option<&str>) -> Option<&'static Capabilities> {
        let Some(name) = version else { return Some(self.capabilities()) };
        let version = self.versions().iter().find(|version| version.names.contains(&name))?;
        Some(version.capabilities.unwrap_or(self.capabilities()))
    }

    /// Returns what a version can hold with or without `OinfOptions::allow_extended_types`.
    pub fn capabilities_with(self, version: Option<&str>, extended: bool) -> Option<&'static Capabilities> {
        let plain = self.capabilities_of(version)?;
        let is_meant = |own: &&Version| version.is_none_or(|name| own.names.contains(&name));
        let more = self.versions().iter().find(is_meant).and_then(|own| own.extended);
        Some(more.filter(|_| extended).unwrap_or(plain))
    }

    /// Returns the first version that can hold tensors of a dtype, as text such as `mag@0.3`.
    pub fn version_with(self, dtype: DType) -> Option<String> {
        let has = |own: &&Version| own.capabilities.unwrap_or(self.capabilities()).has(dtype);
        let name = self.versions().iter().find(has)?.names.first()?;
        Some(format!("{self}@{name}"))
    }

    /// Returns the error for a version that cannot be written, for which
    /// [`capabilities_of`](Self::capabilities_of) returns `None`.
    pub fn unwritten(self, version: Option<&str>) -> ParseError {
        let names = self.versions().iter().filter_map(|own| own.names.first());
        let names: Vec<String> = names.map(|name| format!("{self}@{name}")).collect();
        let others =
            if names.is_empty() { String::new() } else { format!("; there are {}", names.join(", ")) };
        ParseError::new(format!("{self} is not written in version {:?}{others}", version.unwrap_or_default()))
    }
}

/// What to write: a format, and a version of it. Parsed from text such as `mag`, `mag@0.3` and `hf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The format.
    pub format: Format,
    /// Its version; `None` means the version of the format's document.
    pub version: Option<String>,
    /// Whether this is `hf`, a hub folder: its weights are safetensors.
    pub is_hub_folder: bool,
}

/// The name of the target that is a hub folder.
const HUB_FOLDER: &str = "hf";

impl Target {
    /// Returns the name that [`parse`](str::parse) accepts for this target, without its version.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.is_hub_folder { HUB_FOLDER } else { self.format.name() }
    }

    /// Sets the version and the form in options for the format.
    pub fn set_in(&self, options: &mut modelfmt_rules::options::ConvertOptions) {
        options.output.version.clone_from(&self.version);
        options.output.hub_folder = self.is_hub_folder;
    }
}

impl From<Format> for Target {
    fn from(format: Format) -> Self {
        Self { format, version: None, is_hub_folder: false }
    }
}

impl FromStr for Target {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == HUB_FOLDER {
            return Ok(Self { format: Format::Safetensors, version: None, is_hub_folder: true });
        }
        let (format, version) = match text.split_once('@') {
            Some((format, version)) => (format, Some(version)),
            None => (text, None),
        };
        let format: Format = format.parse().map_err(|_| unknown(format))?;
        match format.capabilities_of(version) {
            Some(_) => Ok(Self { format, version: version.map(str::to_owned), is_hub_folder: false }),
            None => Err(format.unwritten(version)),
        }
    }
}

/// Returns the error for an unknown format name, which lists the formats that can be written.
fn unknown(name: &str) -> ParseError {
    let written = Format::ALL.iter().filter(|format| format.is_writable()).map(|format| format.name());
    let written: Vec<_> = written.collect();
    ParseError::new(format!(
        "no format is named {name:?}; {} can be written, and {HUB_FOLDER}, a folder of the hub",
        written.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_asked_for_by_any_of_their_names() {
        let target = |text: &str| text.parse::<Target>().map(|target| (target.format, target.version));
        assert_eq!(target("mag"), Ok((Format::Mag, None)));
        assert_eq!(target("hf"), Ok((Format::Safetensors, None)));
        assert_eq!("hf".parse::<Target>().map(|target| target.name()), Ok("hf"));
        for version in ["1", "0.3", "0.3.0"] {
            let found = target(&format!("mag@{version}"));
            assert_eq!(found, Ok((Format::Mag, Some(version.to_owned()))));
        }
        let says = |text: &str| text.parse::<Target>().unwrap_err().to_string();
        assert_eq!(says("mag@0.2"), "mag is not written in version \"0.2\"; there are mag@1, mag@0.3");
        assert_eq!(says("safetensors@1"), "safetensors is not written in version \"1\"");
        assert!(says("zip@1").starts_with("no format is named \"zip\"; aero, "), "{}", says("zip@1"));
        assert!(says("zip").ends_with(" can be written, and hf, a folder of the hub"));
        let oinf = |version: &str| target(&format!("oinf@{version}")).map(|(format, _)| format);
        assert_eq!((oinf("1"), oinf("2")), (Ok(Format::Oinf), Ok(Format::Oinf)));
        assert!(oinf("3").is_err());
        assert_eq!(Format::Oinf.version_with(DType::I4).as_deref(), Some("oinf@2"));
        assert_eq!(Format::Mag.version_with(DType::F64), None);
        let holds = |version| Format::Mag.capabilities_of(version).unwrap().has(DType::BF16);
        assert!(!holds(None) && !holds(Some("1")) && holds(Some("0.3")));
    }
}
