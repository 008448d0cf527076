//! Where a file is, in the form that the patterns of a policy are compared with.

use std::path::{Path, PathBuf};

/// The place of a file that is about to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file on this machine: absolute, without links and `..`.
    File(PathBuf),
    /// A URL without user, query and fragment, decoded.
    Url(String),
    /// Bytes that have no place: standard input, memory. No pattern matches them.
    Nowhere,
}

impl Place {
    /// The place of the file at a path. Links are followed, and so the file has to exist.
    pub(crate) fn of_file(path: &Path) -> Result<Self, String> {
        if path == Path::new("/dev/stdin") {
            return Ok(Self::Nowhere); // whatever file the shell has opened as it
        }
        let real = path.canonicalize().map_err(|error| format!("its real path is not known: {error}"))?;
        Ok(Self::File(real))
    }

    /// The place of a URL.
    pub(crate) fn of_url(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file://") {
            return Self::of_file(Path::new(path));
        }
        normalized(text).map(Self::Url)
    }

    /// The place of a file that is named relative to the folder of this one.
    pub(crate) fn beside(&self, name: &str) -> Result<Self, String> {
        match self {
            Self::File(path) => Self::of_file(&path.with_file_name("").join(name)),
            Self::Url(url) => {
                let folder = url.rsplit_once('/').map_or(url.as_str(), |(folder, _)| folder);
                let whole = format!("{folder}/{name}");
                expect_straight(&whole)?;
                Ok(Self::Url(whole))
            }
            Self::Nowhere => Ok(Self::Nowhere),
        }
    }

    /// The last component.
    pub(crate) fn file_name(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.file_name()?.to_string_lossy().into_owned()),
            Self::Url(url) => Some(url.rsplit('/').next().unwrap_or(url).to_owned()),
            Self::Nowhere => None,
        }
    }

    /// The text that patterns are compared with.
    pub(crate) fn as_path(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(slashes(path)),
            Self::Url(url) => Some(PathBuf::from(url)),
            Self::Nowhere => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(url),
            Self::Nowhere => f.write_str("what has no path and no URL"),
        }
    }
}

/// A path with `/` between its components on every system.
fn slashes(path: &Path) -> PathBuf {
    if std::path::MAIN_SEPARATOR == '/' {
        return path.to_owned();
    }
    let text = path.to_string_lossy().replace('\\', "/");
    PathBuf::from(text.strip_prefix("//?/").unwrap_or(&text))
}

/// A URL without user, query, fragment and default port, with the scheme and the host in lower case. Web servers take percent codes
/// as the characters, so they are decoded, once; the keys of buckets and the paths of a hub are literal.
pub(crate) fn normalized(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it is no URL")?;
    let scheme = scheme.to_ascii_lowercase();
    let is_web = matches!(scheme.as_str(), "http" | "https");
    let rest = if is_web { rest.split(['?', '#']).next().unwrap_or(rest) } else { rest };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let whole = if is_web {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
        let port = if scheme == "https" { ":443" } else { ":80" };
        let host = host.strip_suffix(port).unwrap_or(&host);
        // The dot at the end of a name changes nothing.
        let host = host.strip_suffix('.').unwrap_or(host).replace(".:", ":");
        format!("{scheme}://{host}/{}", decoded(path)?)
    } else {
        format!("{scheme}://{host}/{path}")
    };
    expect_straight(&whole)?;
    Ok(whole)
}

/// Fails for a path with `.` or `..`: what is left of them after parsing was written in percent codes, and servers do not agree on
/// which file that is.
fn expect_straight(url: &str) -> Result<(), String> {
    let is_step = |part: &str| matches!(part, "." | "..");
    if url.split(['/', '\\']).any(is_step) {
        return Err(
            "its URL has a part that is . or .., and servers do not agree on what that names".to_owned()
        );
    }
    Ok(())
}

fn decoded(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let mut ahead = rest.clone();
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "its URL is not UTF-8 when it is decoded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_what_does_not_name_the_file() {
        for (text, place) in [
            ("HTTPS://U:P@H.example:443/a/b?q=/x#f", "https://h.example/a/b"),
            ("http://h:80/%73%2fx", "http://h/s/x"),
            ("https://h.:8443/a%2541", "https://h:8443/a%41"),
            ("https://h/%zz%4", "https://h/%zz%4"),
            ("https://h?x=/models/m", "https://h/"),
            ("s3://b/k%2e%2e/x?y#z", "s3://b/k%2e%2e/x?y#z"),
            ("hf://o/r/m.gguf@v1", "hf://o/r/m.gguf@v1"),
        ] {
            assert_eq!(normalized(text).as_deref(), Ok(place), "{text}");
        }
        for bad in
            ["m.gguf", "https://h/a%2f..%2fb", "https://h/a/%2e%2e/b", "https://h/a%5c..%5cb", "s3://b/../c"]
        {
            assert!(normalized(bad).is_err(), "{bad}");
        }
        assert!(normalized("https://h/%ff").is_err());
    }

    #[test]
    fn a_file_beside_is_in_the_same_folder() {
        let at = Place::of_url("https://h/a/index.json?x=1").unwrap();
        assert_eq!(at.beside("p/1").unwrap(), Place::Url("https://h/a/p/1".to_owned()));
        assert!(at.beside("../1").is_err());
        assert_eq!(Place::Nowhere.beside("x").unwrap(), Place::Nowhere);
    }
}
