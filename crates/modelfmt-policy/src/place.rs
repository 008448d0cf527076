//! The place of a file, in the form that the patterns of a policy are compared with.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// The place of a file that is about to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A file on this machine: absolute, without links and `..`.
    File(PathBuf),
    /// A URL without user, query and fragment, decoded.
    Url(String),
    /// Bytes that have no place: standard input, memory. No pattern matches them.
    Nowhere,
}

impl Place {
    /// Returns the place of the file at a path. Links are followed, so the file has to exist.
    ///
    /// # Errors
    /// The reason why its real path is not known.
    pub fn of_file(path: &Path) -> Result<Self, String> {
        if path == Path::new("/dev/stdin") {
            return Ok(Self::Nowhere); // the shell may have opened any file as it
        }
        let real = path.canonicalize().map_err(|error| format!("its real path is not known: {error}"))?;
        Ok(Self::File(real))
    }

    /// Returns the place of a URL. For a `file://` URL, this is the path.
    ///
    /// # Errors
    /// The reason why it is not a place: servers and programs do not agree on which file it names.
    pub fn of_url(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file://") {
            return Self::of_file(Path::new(path));
        }
        normalized(text).map(Self::Url)
    }

    /// Returns the place that a text states: a URL, or an absolute path, which is not resolved. Use this
    /// where the path cannot be looked up, such as in a web page.
    ///
    /// # Errors
    /// The reason why it is not a place.
    pub fn from_text(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            return Self::of_url(text);
        }
        let mut steps = text.strip_prefix('/').unwrap_or_default().split('/');
        if steps.any(|step| matches!(step, "" | "." | "..")) {
            return Err("a place is a URL, or an absolute path without . and ..".to_owned());
        }
        Ok(Self::File(text.into()))
    }

    /// Returns the place of a file that is named relative to the folder of this one.
    ///
    /// # Errors
    /// The errors of `of_file` and `of_url`.
    pub fn beside(&self, name: &str) -> Result<Self, String> {
        match self {
            Self::File(path) => Self::of_file(&path.with_file_name("").join(name)),
            Self::Url(url) => {
                let folder = url.rsplit_once('/').map_or(url.as_str(), |(folder, _)| folder);
                let whole = format!("{folder}/{name}");
                expect_no_dots(&whole)?;
                Ok(Self::Url(whole))
            }
            Self::Nowhere => Ok(Self::Nowhere),
        }
    }

    /// Returns the last component.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.file_name()?.to_string_lossy().into_owned()),
            Self::Url(url) => Some(url.rsplit('/').next().unwrap_or(url).to_owned()),
            Self::Nowhere => None,
        }
    }

    /// Returns the text that patterns are compared with.
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

/// Returns a path with `/` between its components on every system.
fn slashes(path: &Path) -> PathBuf {
    if std::path::MAIN_SEPARATOR == '/' {
        return path.to_owned();
    }
    let text = path.to_string_lossy().replace('\\', "/");
    PathBuf::from(text.strip_prefix("//?/").unwrap_or(&text))
}

/// Normalizes a URL: without user, query, fragment and default port, with the scheme and the host in lower
/// case. Web servers treat percent codes like the characters, so they are decoded, once. The keys of buckets
/// and the paths of a hub are literal.
pub(crate) fn normalized(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or("it is no URL")?;
    let scheme = scheme.to_ascii_lowercase();
    let is_web = matches!(scheme.as_str(), "http" | "https");
    let rest = if is_web { rest.split(['?', '#']).next().unwrap_or(rest) } else { rest };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let whole = if is_web {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        format!("{scheme}://{}/{}", normalize_host(&scheme, host)?, decoded(path)?)
    } else {
        format!("{scheme}://{host}/{path}")
    };
    expect_no_dots(&whole)?;
    Ok(whole)
}

/// Normalizes a host and its port: in lower case, without a default port and a dot at the end. Fails for
/// other spellings that URLs allow, so that a rule for the host would not match: an address with fewer or
/// other numbers, or an encoded name.
pub(crate) fn normalize_host(scheme: &str, text: &str) -> Result<String, String> {
    let in_brackets =
        text.rsplit_once(']').map(|(host, rest)| (host.strip_prefix('[').unwrap_or(host), rest));
    let (host, port) = match in_brackets {
        Some((host, rest)) => (host, rest.strip_prefix(':').unwrap_or(rest)),
        None => text.rsplit_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => None,
        digits => Some(digits.parse::<u16>().map_err(|_| format!("its URL has the port {digits:?}"))?),
    };
    let default = if scheme == "https" { 443 } else { 80 };
    let port = port.filter(|port| *port != default).map(|port| format!(":{port}")).unwrap_or_default();
    if in_brackets.is_some() || text.starts_with('[') {
        let address: Ipv6Addr = host.parse().map_err(|_| format!("its URL has the host [{host}]"))?;
        // URLs write an IPv4 address within it as hex digits.
        let shown = match address.segments() {
            [0, 0, 0, 0, 0, 0xFFFF, high, low] => format!("::ffff:{high:x}:{low:x}"),
            [0, 0, 0, 0, 0, 0, high, low] if high > 0 => format!("::{high:x}:{low:x}"),
            _ => address.to_string(),
        };
        return Ok(format!("[{shown}]{port}"));
    }
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    if !host.is_ascii() || host.contains('%') {
        return Err(format!("a host is written in ASCII (xn--…), and {host:?} is not"));
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    let is_hex = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_number =
        last.bytes().all(|digit| digit.is_ascii_digit()) || last.strip_prefix("0x").is_some_and(is_hex);
    if !host.is_empty() && is_number && host.parse::<Ipv4Addr>().is_err() {
        return Err(format!("an address is written as four numbers (127.0.0.1), and {host:?} is not"));
    }
    Ok(format!("{host}{port}"))
}

/// Fails for a path with `.` or `..`. Those that are left after parsing were written in percent codes, and
/// servers do not agree on which file that is.
fn expect_no_dots(url: &str) -> Result<(), String> {
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
            ("http://127.0.0.1:0080/x", "http://127.0.0.1/x"),
            ("http://127.0.0.1:/x", "http://127.0.0.1/x"),
            ("http://[0:0:0:0:0:0:0:1]:8080/x", "http://[::1]:8080/x"),
            ("http://[::ffff:127.0.0.1]/x", "http://[::ffff:7f00:1]/x"),
            ("http://1.example/x", "http://1.example/x"),
        ] {
            assert_eq!(normalized(text).as_deref(), Ok(place), "{text}");
        }
        for bad in
            ["m.gguf", "https://h/a%2f..%2fb", "https://h/a/%2e%2e/b", "https://h/a%5c..%5cb", "s3://b/../c"]
        {
            assert!(normalized(bad).is_err(), "{bad}");
        }
        assert!(normalized("https://h/%ff").is_err());
        // Other spellings of 127.0.0.1 and of a name.
        for host in [
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.0.0.1.2",
            "0x.",
            "1.0x7f",
            "exämple.org",
            "ex%61mple.org",
            "h:99999",
            "h:x",
            "[::1",
            "[x]",
            "[127.0.0.1]",
        ] {
            assert!(normalized(&format!("http://{host}/x")).is_err(), "{host}");
        }
    }

    #[test]
    fn a_stated_path_is_absolute_and_straight() {
        assert_eq!(Place::from_text("/srv/m.gguf").unwrap(), Place::File("/srv/m.gguf".into()));
        assert_eq!(Place::from_text("HTTPS://h/m").unwrap(), Place::Url("https://h/m".to_owned()));
        for bad in ["", "/", "m.gguf", "/srv/../m", "/srv/./m", "/srv//m", "/srv/m/"] {
            assert!(Place::from_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_beside_is_in_the_same_folder() {
        let at = Place::of_url("https://h/a/index.json?x=1").unwrap();
        assert_eq!(at.beside("p/1").unwrap(), Place::Url("https://h/a/p/1".to_owned()));
        assert!(at.beside("../1").is_err());
        assert_eq!(Place::Nowhere.beside("x").unwrap(), Place::Nowhere);
    }
}
