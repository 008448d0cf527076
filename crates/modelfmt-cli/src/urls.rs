//! Prints URLs in the arguments without parts that may be secret: a user name, a password, a query string or
//! a fragment.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

/// The texts after `://` in the arguments, each with the part of it that may be printed; the longest text
/// first.
static URLS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// Records the URLs in the arguments, before anything is printed.
pub(crate) fn note(args: &[OsString]) {
    URLS.get_or_init(|| in_arguments(args.iter().filter_map(|arg| arg.to_str())));
}

/// Removes from a text what may be secret in the URLs of the arguments. All output about arguments passes
/// through here last, because an argument can be quoted anywhere: by the argument parser, in an error of the
/// system, as a path.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    without(text, URLS.get().map_or(&[], Vec::as_slice))
}

fn without<'a>(text: &'a str, urls: &[(String, String)]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for (secret, shown) in urls {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret, shown));
        }
    }
    text
}

fn in_arguments<'a>(args: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut urls: Vec<_> = args.flat_map(in_argument).filter(|(secret, shown)| secret != shown).collect();
    urls.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    urls.dedup();
    urls
}

/// Returns the URL in an argument: alone, or after an option or a name. Also returns the part before an `@`
/// in the URL, because options take names with a version after it, and errors print the name.
fn in_argument(arg: &str) -> Vec<(String, String)> {
    let Some((before, rest)) = arg.split_once("://").filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let scheme = before.rsplit(|c| !is_of_scheme(c)).next().unwrap_or_default();
    if has_no_secret(&format!("{scheme}://{rest}"), scheme) {
        return Vec::new();
    }
    let as_shown = |rest: &str| {
        let shown = shown(Path::new(&format!("{scheme}://{rest}"))).to_string_lossy().into_owned();
        format!("://{}", shown.split_once("://").map_or("…", |(_, shown)| shown))
    };
    let whole = as_shown(rest);
    let is_secret = whole != format!("://{rest}");
    let names = [rest.split_once('@'), rest.rsplit_once('@')].into_iter().flatten().filter(|_| is_secret);
    let names = names.map(|(name, _)| (format!("://{name}"), "://…".to_owned()));
    names.filter(|(name, _)| name != "://").chain([(format!("://{rest}"), whole)]).collect()
}

/// Checks whether a URL is a place in a bucket or on Hugging Face, every part of which may be printed: there,
/// `@` begins a version.
#[cfg(feature = "remote")]
fn has_no_secret(url: &str, scheme: &str) -> bool {
    let is_place = || matches!(modelfmt_remote::models::location(Path::new(url)), Ok(Some(_)));
    ["hf", "s3", "gs", "az"].contains(&scheme) && is_place()
}

#[cfg(not(feature = "remote"))]
fn has_no_secret(_: &str, _: &str) -> bool {
    false
}

/// Returns an argument without secrets, for printing.
pub(crate) fn shown(path: &Path) -> Cow<'_, Path> {
    let text = path.to_string_lossy();
    let Some((scheme, _)) = text.split_once("://").filter(|_| !path.exists()) else {
        return Cow::Borrowed(path);
    };
    #[cfg(feature = "remote")]
    if let Ok(Some(place)) = modelfmt_remote::models::location(path) {
        return Cow::Owned(place.to_string().into());
    }
    Cow::Owned(format!("{scheme}://…").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_found_wherever_they_stand() {
        let args = [
            "http://u:PW@h/x.aero?sig=PW#PW",
            "--metadata=https://u:PW@h/y?PW",
            "-oftp://u:PW@h/z",
            "name=http://PW@h/z/?PW",
            "s3://bucket/key?no=query",
            "plain",
            "://",
        ];
        let urls = in_arguments(args.into_iter());
        for arg in args {
            let name = arg.split('@').next().unwrap();
            let text = format!("error: '{arg}', {name:?} and {arg}: again");
            let shown = without(&text, &urls);
            assert!(!shown.contains("PW"), "{shown}");
            assert!(shown.ends_with(": again") && shown.starts_with("error: '"), "{shown}");
        }
        assert_eq!(without("s3://bucket/key?no=query", &urls), "s3://bucket/key?no=query");
        if cfg!(feature = "remote") {
            let places = in_arguments(["hf://owner/repo", "hf://owner/repo@v1"].into_iter());
            for printed in ["hf://owner/repo/: error", "hf://owner/repo/@v1: error"] {
                assert_eq!(without(printed, &places), printed);
            }
            assert_eq!(without("http://u:PW@h/x.aero?sig=PW#PW", &urls), "http://h/x.aero");
        }
    }
}
