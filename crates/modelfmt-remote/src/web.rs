//! A file on a web server, requested by ranges. Redirects are followed here, and each server gets only the headers that it may
//! see.

use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{TryStreamExt as _, stream};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, LINK, LOCATION, RANGE,
};
use http::request::Builder;
use http::{Request, Response};
use http_body::Body as _;
use object_store::client::HttpRequestBody;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::answer::{
    self, Answer, Ask, LIST_PAGE, LONG_LIST, Version, check_encoding, check_partial, content_length,
    content_range,
};
use crate::client::Client;
use crate::error::{A_FOLDER, Fault};
use crate::min_speed::Paced;
use crate::stall::Stall;
use crate::url::origin;

/// The maximum number of redirects that are followed for one request.
const MAX_REDIRECTS: usize = 10;
/// The number of bytes of an error response body that are read.
const ERROR_BODY: usize = 8 << 10;

/// A page of a list.
pub(crate) struct Page {
    pub(crate) bytes: Vec<u8>,
    /// The URL of the next page.
    pub(crate) next: Option<Url>,
}

/// A whole file in one response.
#[cfg(feature = "models")]
pub(crate) struct Whole {
    /// Its length, if it is stated.
    pub(crate) len: Option<u64>,
    /// Whether the response states where the file ends.
    pub(crate) has_end: bool,
    pub(crate) pieces: answer::Pieces,
}

/// A file on a web server. It has no `Debug`, because the URL may have a signature.
pub(crate) struct Web {
    client: Client,
    /// The URL as it was given, with its query string.
    url: Url,
    /// The `Authorization` header, which only the server of that URL gets.
    token: Option<HeaderValue>,
    /// The target of the last redirects. Later requests begin there, until the target refuses one.
    redirected_to: Mutex<Option<Url>>,
    /// The commit that the server of that URL states for the revision.
    commit: OnceLock<String>,
    /// The SHA-256 of the file, as the server of that URL states it.
    sha256: OnceLock<[u8; 32]>,
}

impl Web {
    /// Takes a file at a URL. `token` is an `Authorization` header; credentials in the URL itself take
    /// precedence.
    pub(crate) fn new(client: Client, mut url: Url, token: Option<HeaderValue>) -> Self {
        let token = credentials(&url).or(token);
        // Neither call can fail for a URL that has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self {
            client,
            url,
            token,
            redirected_to: Mutex::default(),
            commit: OnceLock::new(),
            sha256: OnceLock::new(),
        }
    }

    /// Requests bytes of the file. With a `pin`, only bytes of that state are accepted.
    pub(crate) async fn get(&self, ask: &Ask, pin: Option<&Version>) -> Result<Answer, Fault> {
        let redirected_to = self.redirected_to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(url) = redirected_to {
            match self.follow(url, ask, pin).await {
                // A signed URL expires, so ask the server that redirected to it for a new one.
                Err(Fault::Denied { .. } | Fault::NotFound(_) | Fault::Status { status: 400, .. }) => {}
                other => return other,
            }
        }
        self.follow(self.url.clone(), ask, pin).await
    }

    /// Returns the commit of a Hugging Face file, if the server has stated it.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.commit.get().map(String::as_str)
    }

    /// Returns the SHA-256 of a large Hugging Face file, if the server has stated it.
    #[cfg(feature = "models")]
    pub(crate) fn stated_sha256(&self) -> Option<[u8; 32]> {
        self.sha256.get().copied()
    }

    /// Returns the whole file in one response, for a server that does not support requests for ranges.
    #[cfg(feature = "models")]
    pub(crate) async fn stream(&self) -> Result<Whole, Fault> {
        let (_, answer) = self.answered(self.url.clone(), |url| self.get_of(url)).await?;
        let (head, body) = answer.into_parts();
        if head.status.as_u16() != 200 {
            return Err(answer::fault(head.status.as_u16(), &head.headers, &beginning(body).await));
        }
        check_encoding(&head.headers)?;
        let len = content_length(&head.headers);
        // Without these, a body ends with its connection, also with one that broke off.
        let is_framed = head.version >= http::Version::HTTP_2
            || head.headers.contains_key(http::header::TRANSFER_ENCODING);
        Ok(Whole { len, has_end: len.is_some() || is_framed, pieces: pieces(body) })
    }

    /// Returns the whole response at this URL, or at `next`, the URL on this server where the list continues.
    pub(crate) async fn page(&self, next: Option<Url>, stall: &Stall) -> Result<Page, Fault> {
        stall.watch(self.whole_page(next, stall)).await
    }

    async fn whole_page(&self, next: Option<Url>, stall: &Stall) -> Result<Page, Fault> {
        let begin = next.unwrap_or_else(|| self.url.clone());
        let (url, answer) = self.answered(begin, |url| self.get_of(url)).await?;
        let (head, body) = answer.into_parts();
        if head.status.as_u16() != 200 {
            return Err(answer::fault(head.status.as_u16(), &head.headers, &beginning(body).await));
        }
        check_encoding(&head.headers)?;
        let mut links = head.headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
        let next = links.find_map(next_of).map(|next| url.join(next));
        let next = next.transpose().map_err(|_| Fault::Answer("what follows the list is no URL"))?;
        if next.as_ref().is_some_and(|next| origin(next) != origin(&self.url)) {
            return Err(Fault::Answer("the list goes on at another server, which is not asked"));
        }
        let mut bytes = Vec::new();
        let mut pieces = pieces(body);
        while let Some(piece) = pieces.try_next().await? {
            stall.count_received(piece.len() as u64);
            bytes.extend_from_slice(&piece);
            if bytes.len() > LIST_PAGE {
                return Err(LONG_LIST);
            }
        }
        Ok(Page { bytes, next })
    }

    async fn follow(&self, url: Url, ask: &Ask, pin: Option<&Version>) -> Result<Answer, Fault> {
        let (url, answer) = self.answered(url, |url| self.request(url, ask, pin)).await?;
        let answer = read(answer, ask, pin).await?;
        let is_elsewhere = url != self.url;
        *self.redirected_to.lock().unwrap_or_else(PoisonError::into_inner) = is_elsewhere.then_some(url);
        Ok(answer)
    }

    /// Returns the response to a request, and the URL that redirects led to.
    async fn answered(
        &self,
        mut url: Url,
        request: impl Fn(&Url) -> Builder,
    ) -> Result<(Url, Response<Paced>), Fault> {
        for _ in 0..=MAX_REDIRECTS {
            let request = request(&url).body(HttpRequestBody::empty());
            let request =
                request.map_err(|_| Fault::Answer("what identifies the file cannot be sent back"))?;
            let answer = self.client.send(request).await?;
            if url == self.url
                && let Some(commit) = answer.headers().get("x-repo-commit").and_then(commit)
            {
                let _ = self.commit.set(commit); // it is said once
            }
            if url == self.url
                && let Some(sha256) = answer.headers().get("x-linked-etag").and_then(sha256)
            {
                let _ = self.sha256.set(sha256);
            }
            if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok((url, answer));
            }
            let next = redirected(&url, answer.headers().get(LOCATION))?;
            // The server adds a slash to the name of a folder, and would send a page that lists the folder.
            if origin(&next) == origin(&url) && next.path().strip_suffix('/') == Some(url.path()) {
                return Err(A_FOLDER);
            }
            url = next;
        }
        Err(Fault::TooManyRedirects(MAX_REDIRECTS))
    }

    /// Returns a request with the headers that the server of `url` may see.
    fn get_of(&self, url: &Url) -> Builder {
        let request = Request::get(url.as_str()).header(ACCEPT_ENCODING, "identity");
        match self.token.as_ref().filter(|_| origin(url) == origin(&self.url)) {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    fn request(&self, url: &Url, ask: &Ask, pin: Option<&Version>) -> Builder {
        let range = match ask {
            Ask::Part(range) => format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
            Ask::Tail(len) => format!("bytes=-{len}"),
        };
        let mut request = self.get_of(url).header(RANGE, range);
        if let Some(pin) = pin {
            match (pin.strong(), &pin.modified) {
                (Some(etag), _) => request = request.header(IF_MATCH, etag),
                (None, Some(modified)) => request = request.header(IF_UNMODIFIED_SINCE, modified),
                (None, None) => {}
            }
        }
        request
    }
}

/// Returns the URL where a list continues: `<URL>; rel="next"`, among other links. A URL may contain commas.
fn next_of(links: &str) -> Option<&str> {
    let mut rest = links;
    loop {
        let (url, after) = rest.split_once('<')?.1.split_once('>')?;
        let (parameters, others) = after
            .split_once('<')
            .map_or((after, ""), |(own, _)| (own, after.get(own.len()..).unwrap_or_default()));
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let mut kinds = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel") && kinds.any(|kind| kind.eq_ignore_ascii_case("next"))
        });
        if is_next {
            return Some(url);
        }
        rest = others;
    }
}

/// Returns the user name and password of a URL as an `Authorization` header.
fn credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Parses a commit, given as a full hash.
fn commit(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let is_hash = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

/// Parses a SHA-256 in an entity tag.
fn sha256(value: &HeaderValue) -> Option<[u8; 32]> {
    hash_of_hex(value.to_str().ok()?.trim_matches('"'))
}

/// Parses a hash of 64 hexadecimal digits.
pub(crate) fn hash_of_hex(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

fn redirected(from: &Url, to: Option<&HeaderValue>) -> Result<Url, Fault> {
    let to = to.and_then(|to| to.to_str().ok()).and_then(|to| from.join(to).ok());
    let mut to = to.ok_or(Fault::Redirect("without a valid address"))?;
    match (from.scheme(), to.scheme()) {
        ("https", "http") => Err(Fault::Redirect("from https to http, which is refused")),
        (_, "http" | "https") if to.has_host() => {
            // A server must not choose the credentials that another server gets.
            let _ = to.set_username("");
            let _ = to.set_password(None);
            to.set_fragment(None);
            Ok(to)
        }
        _ => Err(Fault::Redirect("to something that is not http or https, which is refused")),
    }
}

/// Checks the head of a response; its body is checked as it arrives.
async fn read(answer: Response<Paced>, ask: &Ask, pin: Option<&Version>) -> Result<Answer, Fault> {
    let (head, body) = answer.into_parts();
    let headers = &head.headers;
    let (range, size) = match head.status.as_u16() {
        206 => check_partial(headers)?,
        200 => whole(content_length(headers), ask, pin)?,
        416 => match content_range(headers)? {
            (_, 0) => (0..0, 0),
            (_, size) if pin.is_some_and(|pin| pin.size != size) => return Err(Fault::Changed),
            _ => return Err(Fault::Answer("the range is refused, and the file has it")),
        },
        status => {
            let beginning = beginning(body).await;
            return Err(answer::fault(status, headers, &beginning));
        }
    };
    let version = answer::version(headers, size);
    if let Some(pin) = pin {
        pin.expect(&version)?;
    }
    check_encoding(headers)?;
    check_range(&range, size, ask)?;
    Ok(Answer { range, version, pieces: pieces(body) })
}

/// Checks a response with the whole file, which is valid only if the whole file was requested.
fn whole(len: Option<u64>, ask: &Ask, pin: Option<&Version>) -> Result<(std::ops::Range<u64>, u64), Fault> {
    let size = len.ok_or(Fault::NoRanges)?;
    if pin.is_some_and(|pin| pin.size != size) {
        return Err(Fault::Changed);
    }
    match ask {
        Ask::Part(range) if range.start == 0 && range.end >= size => Ok((0..size, size)),
        _ => Err(Fault::NoRanges),
    }
}

/// Checks that the range of a response is the requested one: it begins at the same byte, and is not longer.
fn check_range(range: &std::ops::Range<u64>, size: u64, ask: &Ask) -> Result<(), Fault> {
    let is_right = match ask {
        Ask::Part(asked) => (range.start == asked.start && range.end <= asked.end) || size == 0,
        Ask::Tail(len) => range.end == size && range.start == size.saturating_sub(*len),
    };
    if is_right { Ok(()) } else { Err(Fault::Answer("Content-Range is another range than was asked for")) }
}

/// Returns the bytes of a body as they arrive.
fn pieces(body: Paced) -> answer::Pieces {
    Box::pin(stream::try_unfold(body, |mut body| async move {
        loop {
            match std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Fault::within(&error).cloned().unwrap_or(Fault::Broken(0))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some((bytes, body)));
                    }
                }
            }
        }
    }))
}

/// Returns the beginning of the body of an error response, as far as it arrives in time.
async fn beginning(body: Paced) -> Vec<u8> {
    let mut all = Vec::new();
    let mut pieces = pieces(body);
    while let Ok(Some(piece)) = pieces.try_next().await {
        all.extend_from_slice(&piece);
        if all.len() > ERROR_BODY {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_goes_on_where_its_links_say() {
        for (links, next) in [
            ("</a?cursor=2>; rel=\"next\"", Some("/a?cursor=2")),
            ("</a?c=1,2>; rel=next", Some("/a?c=1,2")),
            ("</first>; rel=\"first\", </b>; title=\"x\"; REL=\"last next\"", Some("/b")),
            ("</first>; rel=\"first\"", None),
            ("</a>; rel=\"nextish\"", None),
            ("rel=\"next\"", None),
            ("", None),
        ] {
            assert_eq!(next_of(links), next, "{links}");
        }
    }
}
