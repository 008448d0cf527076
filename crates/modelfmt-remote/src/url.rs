//! Locations: what a URL names, and how a URL is printed without its secrets.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::Fault;

/// The location of a file or folder, given by a URL instead of a local path. A URL that ends with `/` names a
/// folder, and so does a URL that names only a bucket, a server or a repository.
///
/// `Display` prints no credentials and no query string, because a query string may be a credential (a presigned URL).
///
/// ```
/// use modelfmt_remote::Location;
///
/// let at: Location = "https://user:secret@example.org/models/m.aero?X-Amz-Signature=abc".parse()?;
/// assert_eq!(at.to_string(), "https://example.org/models/m.aero");
/// assert_eq!(at.sibling("m.aero.obao4").to_string(), "https://example.org/models/m.aero.obao4");
/// let folder: Location = "s3://bucket/models/".parse()?;
/// assert!(folder.is_folder());
/// assert_eq!(folder.sibling("m.aero").to_string(), "s3://bucket/models/m.aero");
/// # Ok::<(), modelfmt_remote::Fault>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// An object in a bucket: `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, `az://CONTAINER/KEY`.
    Bucket(Bucket),
    /// A file on a web server, with the query string of its URL: `http://…`, `https://…`.
    Web(Url),
    /// A file in a Hugging Face repository: `hf://OWNER/REPO/FILE[@REVISION]`.
    Hf(HfFile),
    /// A local file: `file:///PATH`.
    File(PathBuf),
}

/// An object in a bucket. The key is taken literally, as the providers' own tools take it: nothing in it is decoded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// The provider.
    pub service: Service,
    /// The name of the bucket; for Azure, the name of the container.
    pub bucket: String,
    /// The name of the object.
    pub key: String,
}

/// A provider of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Amazon's S3, and servers with the same interface.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl Service {
    const ALL: [(&'static str, Self); 3] = [("s3", Self::S3), ("gs", Self::Gs), ("az", Self::Az)];

    /// Returns the prefix of the provider's environment variables.
    pub(crate) const fn variables(self) -> &'static str {
        match self {
            Self::S3 => "AWS_",
            Self::Gs => "GOOGLE_",
            Self::Az => "AZURE_",
        }
    }

    /// Returns the scheme of the provider's URLs.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }
}

/// A file in a Hugging Face repository.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HfFile {
    /// `OWNER/REPO`.
    pub repository: String,
    /// The path of the file in the repository.
    pub file: String,
    /// The branch, tag or commit; `main` by default.
    pub revision: String,
}

/// The fault for a URL with another scheme, or without a scheme.
const NO_SCHEME: Fault =
    Fault::Url("it begins with none of s3:// gs:// az:// http:// https:// hf:// file://");

/// The fault for a malformed URL.
const MALFORMED: Fault = Fault::Url("it is no valid URL");

/// The fault for a path with an empty component, or with `.` or `..`.
pub(crate) const BAD_PATH: Fault =
    Fault::Url("its path has an empty part, or one that is . or .., which no object of ours has");

/// The fault for a bucket name that is missing or has invalid characters.
const BAD_BUCKET: Fault = Fault::Url(
    "the name of the bucket is missing, or has characters that no bucket may have; credentials come from the environment",
);

/// The fault for an `hf://` URL without owner and repository.
const BAD_HF: Fault =
    Fault::Url("it is not hf://OWNER/REPO or hf://OWNER/REPO/FILE, with @REVISION or without");

/// The fault for a `file:` URL of another machine.
const BAD_FILE: Fault =
    Fault::Url("it is not file:///PATH, and files of other machines cannot be read in this way");

impl Location {
    /// Checks whether a text is a URL rather than a path: whether it begins with one of the schemes.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        scheme.is_some_and(|scheme| {
            ["s3", "gs", "az", "http", "https", "hf", "file"].contains(&scheme.as_str())
        })
    }

    /// Checks whether the location is a folder: its path is empty or ends with `/`. For a local path, the
    /// file system is not accessed.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        let is_folder = |path: &str| path.is_empty() || path.ends_with('/');
        match self {
            Self::Bucket(at) => is_folder(&at.key),
            Self::Hf(at) => is_folder(&at.file),
            Self::Web(url) => is_folder(url.path()) && url.query().is_none(),
            Self::File(_) => false,
        }
    }

    /// Returns the folder with the same path in a bucket or repository. Other locations, and folders, are
    /// returned unchanged.
    #[must_use]
    pub(crate) fn as_folder(&self) -> Self {
        match self {
            at if at.is_folder() => at.clone(),
            Self::Bucket(at) => Self::Bucket(Bucket { key: format!("{}/", at.key), ..at.clone() }),
            Self::Hf(at) => Self::Hf(HfFile { file: format!("{}/", at.file), ..at.clone() }),
            other => other.clone(),
        }
    }

    /// Returns the whole location for a policy to judge, including parts that may be secret.
    #[cfg(feature = "policy")]
    pub(crate) fn whole(&self) -> String {
        match self {
            Self::Web(url) => url.as_str().to_owned(),
            other => other.to_string(),
        }
    }

    /// Returns the location of a file in the same folder, or within this folder. The query string is dropped,
    /// because it may be a signature for this file only.
    #[must_use]
    pub fn sibling(&self, path: &str) -> Self {
        let beside = |whole: &str| match whole.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{path}"),
            None => path.to_owned(),
        };
        match self {
            Self::Bucket(at) => Self::Bucket(Bucket { key: beside(&at.key), ..at.clone() }),
            Self::Hf(at) => Self::Hf(HfFile { file: beside(&at.file), ..at.clone() }),
            Self::File(at) => Self::File(at.with_file_name(path)),
            Self::Web(url) => {
                let mut url = url.clone();
                url.set_query(None);
                url.set_fragment(None);
                if let Ok(mut segments) = url.path_segments_mut() {
                    segments.pop().extend(path.split('/'));
                }
                Self::Web(url)
            }
        }
    }

    /// Returns the name of the file: the last component of its path, as used by [`sibling`](Self::sibling);
    /// empty for a folder.
    #[must_use]
    pub fn file_name(&self) -> String {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        match self {
            Self::Bucket(at) => last(&at.key),
            Self::Hf(at) => last(&at.file),
            Self::File(at) => at.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Web(url) => percent_decode_str(&last(url.path())).decode_utf8_lossy().into_owned(),
        }
    }
}

impl std::str::FromStr for Location {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let (scheme, rest) = text.split_once("://").ok_or(NO_SCHEME)?;
        let scheme = scheme.to_ascii_lowercase();
        if let Some(&(_, service)) = Service::ALL.iter().find(|(name, _)| *name == scheme) {
            return bucket(service, rest).map(Self::Bucket);
        }
        match scheme.as_str() {
            "http" | "https" => web(text).map(Self::Web),
            "hf" => hf(rest).map(Self::Hf),
            "file" => file(text).map(Self::File),
            _ => Err(NO_SCHEME),
        }
    }
}

fn bucket(service: Service, rest: &str) -> Result<Bucket, Fault> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '$');
    if bucket.is_empty() || !bucket.chars().all(is_named) {
        return Err(BAD_BUCKET);
    }
    check_path(key)?;
    Ok(Bucket { service, bucket: bucket.to_owned(), key: key.to_owned() })
}

/// Checks the path of a file, or of a folder.
fn check_path(path: &str) -> Result<(), Fault> {
    if path.is_empty() {
        return Ok(());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_bad = |part: &str| matches!(part, "" | "." | "..");
    if path.split('/').any(is_bad) || path.contains(char::is_control) {
        return Err(BAD_PATH);
    }
    Ok(())
}

fn web(text: &str) -> Result<Url, Fault> {
    let mut url = Url::parse(text).map_err(|_| MALFORMED)?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(MALFORMED);
    }
    url.set_fragment(None);
    Ok(url)
}

fn hf(rest: &str) -> Result<HfFile, Fault> {
    let (rest, revision) = match rest.rsplit_once('@') {
        Some((rest, revision)) => (rest, revision),
        None => (rest, "main"),
    };
    let mut parts = rest.splitn(3, '/');
    let (Some(owner), Some(name), file) = (parts.next(), parts.next(), parts.next().unwrap_or_default())
    else {
        return Err(BAD_HF);
    };
    let is_good = |path: &str| !path.is_empty() && check_path(path).is_ok();
    if !is_good(owner)
        || !is_good(name)
        || !is_good(revision)
        || revision.ends_with('/')
        || check_path(file).is_err()
    {
        return Err(BAD_HF);
    }
    Ok(HfFile { repository: format!("{owner}/{name}"), file: file.to_owned(), revision: revision.to_owned() })
}

fn file(text: &str) -> Result<PathBuf, Fault> {
    let url = Url::parse(text).map_err(|_| MALFORMED)?;
    url.to_file_path().map_err(|()| BAD_FILE)
}

impl HfFile {
    /// Returns the URL of the file at an endpoint, such as `https://huggingface.co`.
    #[must_use]
    pub fn at(&self, endpoint: &Url) -> Url {
        self.address(endpoint, &[], "resolve")
    }

    /// Returns the URL of the list of files in a folder, at an endpoint.
    pub(crate) fn tree(&self, endpoint: &Url) -> Url {
        self.address(endpoint, &["api", "models"], "tree")
    }

    /// Returns the URL of the server's information about the repository, which includes its files.
    #[cfg(feature = "models")]
    pub(crate) fn info(&self, endpoint: &Url) -> Url {
        let all = Self { file: String::new(), ..self.clone() };
        let mut url = all.address(endpoint, &["api", "models"], "revision");
        url.set_query(Some("blobs=true"));
        url
    }

    fn address(&self, endpoint: &Url, before: &[&str], what: &str) -> Url {
        let mut url = endpoint.clone();
        url.set_query(None);
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(before).extend(self.repository.split('/')).push(what);
            // A branch may contain slashes; here it is a single component.
            path.push(&self.revision).extend(self.file.split('/').filter(|part| !part.is_empty()));
        }
        url
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(at) => write!(f, "{at}"),
            Self::Hf(HfFile { repository, file, revision }) => match revision.as_str() {
                // The name of a folder may end with slashes, or consist only of slashes.
                "main" => write!(f, "hf://{repository}/{}", file.trim_matches('/')),
                _ => write!(f, "hf://{repository}/{}@{revision}", file.trim_matches('/')),
            },
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::Web(url) => write!(f, "{}{}", origin(url), readable(url.path())),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.service.scheme(), self.bucket, self.key)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({self})")
    }
}

/// Returns the scheme, host and port, which identify the server that a token may be sent to.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns a path in readable form: percent-decoded, if it stays the same path and can be printed.
fn readable(path: &str) -> String {
    let part = |part: &str| {
        let decoded = percent_decode_str(part).decode_utf8().unwrap_or_default();
        let is_safe =
            !decoded.is_empty() && !decoded.contains(|c: char| c == '/' || c == '\\' || c.is_control());
        if is_safe { decoded.into_owned() } else { part.to_owned() }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, Fault> {
        text.parse::<Location>().map(|at| at.to_string())
    }

    #[test]
    fn addresses_are_read_and_printed_without_secrets() {
        for (text, printed) in [
            ("s3://b/k.aero", "s3://b/k.aero"),
            ("S3://b/a b%20?x#y.aero", "s3://b/a b%20?x#y.aero"),
            ("gs://b/a/b/c", "gs://b/a/b/c"),
            ("az://container/重み", "az://container/重み"),
            ("https://u:p@h.example:8443/a%20b/m.mag?sig=S#f", "https://h.example:8443/a b/m.mag"),
            ("http://h/a%2Fb/%0a", "http://h/a%2Fb/%0a"),
            ("https://h/?file=secret", "https://h/"),
            ("hf://o/r/a/b.gguf", "hf://o/r/a/b.gguf"),
            ("hf://o/r/b.gguf@refs/pr/1", "hf://o/r/b.gguf@refs/pr/1"),
            ("hf://o/r", "hf://o/r/"),
            ("hf://o/r/a/@v1", "hf://o/r/a@v1"),
            ("file:///a%20b/c", "file:///a b/c"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(printed), "{text}");
            let debug = format!("{:?}", text.parse::<Location>());
            assert!(!debug.contains("sig") && !debug.contains("u:p"), "{debug}");
        }
        for (text, fault) in [
            ("m.aero", NO_SCHEME),
            ("ftp://h/x", NO_SCHEME),
            ("s3://b/a//c", BAD_PATH),
            ("s3://b/../c", BAD_PATH),
            ("s3://b/a\nc", BAD_PATH),
            ("s3://KEY:SECRET@b/c", BAD_BUCKET),
            ("s3:///c", BAD_BUCKET),
            ("https://", MALFORMED),
            ("http://[::1/x", MALFORMED),
            ("s3://b//", BAD_PATH),
            ("hf://o", BAD_HF),
            ("hf://o/", BAD_HF),
            ("hf:///r", BAD_HF),
            ("hf://o/r@x/", BAD_HF),
            ("hf://o/r/../x", BAD_HF),
            ("hf://o/r/x@", BAD_HF),
            ("file://host/x", BAD_FILE),
        ] {
            assert_eq!(shown(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn siblings_stand_beside_and_have_no_query() {
        for (text, sibling) in [
            ("s3://b/a/index.json", "s3://b/a/p/1.aero"),
            ("s3://b/index.json", "s3://b/p/1.aero"),
            ("https://h/a/index.json?sig=1", "https://h/a/p/1.aero"),
            ("hf://o/r/a/index.json@v1", "hf://o/r/a/p/1.aero@v1"),
        ] {
            let at: Location = text.parse().unwrap();
            let beside = at.sibling("p/1.aero");
            assert_eq!(beside.to_string(), sibling);
            assert!(!matches!(beside, Location::Web(url) if url.query().is_some()));
        }
        let at: Location = "https://h/a/x?q".parse().unwrap();
        assert!(
            matches!(at.sibling("a ?#%41"), Location::Web(url) if url.as_str() == "https://h/a/a%20%3F%23%2541")
        );
    }

    #[test]
    fn a_folder_is_one_by_its_last_slash() {
        for (text, file) in [
            ("s3://b", "s3://b/m"),
            ("s3://b/", "s3://b/m"),
            ("gs://b/x/", "gs://b/x/m"),
            ("https://h", "https://h/m"),
            ("https://u:p@h/x/", "https://h/x/m"),
            ("hf://o/r", "hf://o/r/m"),
            ("hf://o/r/x/@v", "hf://o/r/x/m@v"),
        ] {
            let at: Location = text.parse().unwrap();
            assert!(at.is_folder() && at.file_name().is_empty() && at.as_folder() == at, "{text}");
            assert_eq!(at.sibling("m").to_string(), file);
        }
        for text in ["s3://b/x", "https://h/x", "https://h/?file=x", "hf://o/r/x", "file:///x/"] {
            assert!(!text.parse::<Location>().unwrap().is_folder(), "{text}");
        }
        let at: Location = "s3://b/x".parse().unwrap();
        assert_eq!(at.as_folder().to_string(), "s3://b/x/");
    }

    #[test]
    fn a_name_is_that_of_its_own_sibling() {
        for (text, name) in [
            ("s3://b/a/m%20.aero", "m%20.aero"),
            ("https://h/a/m%20%C3%A9.aero?sig=1", "m é.aero"),
            ("hf://o/r/a/m.aero@v1/2", "m.aero"),
            ("file:///a/m.aero", "m.aero"),
        ] {
            let at: Location = text.parse().unwrap();
            assert_eq!(at.file_name(), name);
            assert_eq!(at.sibling(name).to_string(), at.to_string());
        }
    }

    #[test]
    fn a_file_of_hugging_face_has_an_address_at_each_endpoint() {
        let Ok(Location::Hf(at)) = "hf://o/r/a/b c.gguf@x/y".parse() else { panic!() };
        let endpoint = Url::parse("https://mirror.example/hf/").unwrap();
        assert_eq!(at.at(&endpoint).as_str(), "https://mirror.example/hf/o/r/resolve/x%2Fy/a/b%20c.gguf");
        let Ok(Location::Hf(at)) = "hf://o/r/a/@x/y".parse() else { panic!() };
        assert_eq!(at.tree(&endpoint).as_str(), "https://mirror.example/hf/api/models/o/r/tree/x%2Fy/a");
    }
}
