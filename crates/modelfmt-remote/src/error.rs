//! Errors of requests and of servers.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with the file that it concerns. It prints on one line, without credentials, query strings and
/// the bodies of error responses.
#[derive(Clone, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct Error {
    place: Box<str>,
    fault: Fault,
}

modelfmt_core::author::debug_as_sentence!(Error);

/// The kind of an error.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The text is not a valid URL.
    #[error("{0}")]
    Url(&'static str),
    /// There is no such file.
    #[error("there is no such file (the server says {0})")]
    NotFound(u16),
    /// There is no such bucket, or Azure container.
    #[error("there is no bucket of that name")]
    NoBucket,
    /// The location is a folder, but a file is needed.
    #[error("{0}")]
    Folder(&'static str),
    /// The folder has more files than can be listed.
    #[error("it is a folder with more than {0} files; name one of them")]
    TooManyFiles(usize),
    /// The server asks for credentials, or for different ones.
    #[error("the server refuses access ({status}{code}); check the credentials")]
    Denied {
        /// The status: 401 or 403.
        status: u16,
        /// The server's error code in parentheses, if it has one.
        code: Box<str>,
    },
    /// The server answered with an error that is not worth a retry, or answered every try with an error.
    #[error("the server answers {status}{code}")]
    Status {
        /// The status.
        status: u16,
        /// The server's error code, if it has one.
        code: Box<str>,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The file has changed since it was opened.
    #[error("the file has changed on the server since it was opened; open it again")]
    Changed,
    /// A response does not identify its version, although the one that opened the file did.
    #[error(
        "the server's answer has no entity tag or date, though it had when the file was opened; it may be of another version, and is not used"
    )]
    Unnamed,
    /// The server sends only whole files.
    #[error(
        "the server does not answer requests for ranges; get the file first with `modelfmt fetch`, or send it through a pipe: curl … | modelfmt inspect -"
    )]
    NoRanges,
    /// The response breaks the rules of HTTP.
    #[error("the server's answer breaks a rule of HTTP: {0}")]
    Answer(&'static str),
    /// The body ended early or broke off.
    #[error("the connection broke off after {0} bytes of the answer")]
    Broken(u64),
    /// There is no connection.
    #[error("no connection to the server: {0}")]
    Connect(Box<str>),
    /// The host name has no address.
    #[error("the server's name has no address: {0}")]
    Name(Box<str>),
    /// The server did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    NoAnswer(Duration),
    /// The bytes came too slowly.
    #[error("less than 4 KiB came within {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// The server sent next to nothing for too long, all tries included.
    #[error(
        "the server sent less than 4 KiB within {} s, retries included; to wait longer, use --stall-timeout",
        .0.as_secs_f32()
    )]
    Silent(Duration),
    /// A redirect has no target, or a forbidden one.
    #[error("the server redirects {0}")]
    Redirect(&'static str),
    /// There are too many redirects.
    #[error("the server redirects more than {0} times")]
    TooManyRedirects(usize),
    /// A redirect leads to a private network.
    #[error(
        "the server redirects to {0}, an address of a {1} network, which is refused unless an option allows it"
    )]
    PrivateRedirect(IpAddr, &'static str),
    /// The address is one at which a cloud gives a machine its secrets.
    #[error("{0} is an address at which a cloud tells a machine's secrets; it is never read from")]
    Metadata(IpAddr),
    /// There are no credentials except those at the cloud's metadata address.
    #[error("there are no credentials for {service}: {help}")]
    NoCredentials {
        /// The provider.
        service: &'static str,
        /// What you can do.
        help: &'static str,
    },
    /// The credentials or the endpoint in the environment cannot be used.
    #[error("the environment's settings for {service} are refused: {why}")]
    Settings {
        /// The provider.
        service: &'static str,
        /// The reason.
        why: Box<str>,
    },
    /// TLS does not work on this machine.
    #[error("https is not available: {0}")]
    Tls(Box<str>),
    /// The bytes do not fit into memory.
    #[error("cannot allocate {0} bytes")]
    Memory(u64),
    /// The location is a local file.
    #[error("it is a file of this machine; open it by its path")]
    Local,
    /// The location is not an object in a bucket.
    #[error("only buckets are written to: s3://, gs:// or az://")]
    NotWritable,
    /// Any other error of a store.
    #[error("{0}")]
    Store(Box<str>),
}

modelfmt_core::author::debug_as_sentence!(Fault);

/// The fault if a single file has to be named, whatever is in the folder.
pub(crate) const NOT_A_FILE: Fault = Fault::Folder("it is a folder; name a file in it");

/// The fault if several files may have been meant.
pub(crate) const A_FOLDER: Fault = Fault::Folder(
    "it is a folder; name the file in it, for a set its index (NAME.index.json) or any file of the split; a repository of a hub is \
     hf://OWNER/REPO",
);

impl Error {
    /// Makes an error for the file `place`, whose text must contain no secrets.
    pub(crate) fn new(place: &impl fmt::Display, fault: Fault) -> Self {
        Self { place: place.to_string().into(), fault }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the file, without secrets.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.place
    }

    /// Finds the error of this crate inside an [`io::Error`] that a reader returned.
    #[must_use]
    pub fn within(error: &io::Error) -> Option<&Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref())
    }
}

impl Fault {
    /// Checks whether a retry may help.
    pub(crate) const fn is_passing(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            Self::Broken(_) | Self::Connect(_) | Self::NoAnswer(_) | Self::Stalled(_) | Self::Name(_) => true,
            _ => false,
        }
    }

    /// Finds a fault of this crate inside an error of another crate.
    pub(crate) fn within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(fault) = error.downcast_ref::<Self>() {
                return Some(fault);
            }
            // The `source` of an `io::Error` skips the error inside it, so look at that error first.
            let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if let Some(fault) = inner.and_then(|inner| inner.downcast_ref::<Self>()) {
                return Some(fault);
            }
            next = error.source();
        }
        None
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.fault() {
            Fault::NotFound(_) | Fault::NoBucket => io::ErrorKind::NotFound,
            Fault::Denied { .. } | Fault::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
            Fault::NoAnswer(_) | Fault::Stalled(_) | Fault::Silent(_) => io::ErrorKind::TimedOut,
            Fault::Memory(_) => io::ErrorKind::OutOfMemory,
            Fault::NoRanges => io::ErrorKind::Unsupported,
            Fault::Broken(_) => io::ErrorKind::ConnectionReset,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
