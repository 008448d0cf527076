//! Patterns of places.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};

use crate::place;

/// A pattern of places.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    /// Matches only this pattern.
    matcher: GlobSet,
}

/// The maximum length of a pattern in bytes.
const MAX_LEN: usize = 16 << 10;

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LEN {
            return Err(format!("a pattern has at most {MAX_LEN} bytes, and one has {}", text.len()));
        }
        let text = normalize(text);
        let is_rooted =
            text.starts_with(['/', '*']) || text.contains("://") || Path::new(&text).is_absolute();
        if !is_rooted {
            return Err(format!("{text:?} can match nothing: a pattern is an absolute path or a URL"));
        }
        if text.replace("\\[", "").contains('[') {
            return Err(format!(
                "{text:?}: sets of characters ([a-z]) are not known here; a bracket is written \\["
            ));
        }
        if let Some(why) = matches_nothing(&text) {
            return Err(format!("{text:?} can match nothing: {why}"));
        }
        expect_real(&text)?;
        let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
        let refused = |error: globset::Error| format!("{text:?}: {}", error.kind());
        // A matcher of the pattern alone panics if it is too large.
        let matcher = GlobSet::builder().add(glob.map_err(refused)?).build().map_err(refused)?;
        Ok(Self { matcher, text })
    }

    /// Returns the pattern in its canonical spelling.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.matcher.is_match(path)
    }
}

/// Returns why no place can match a pattern. Such a rule would demand nothing of the files that it seems to
/// mean.
fn matches_nothing(text: &str) -> Option<&'static str> {
    let (url, path) = match text.split_once("://") {
        Some((_, rest)) => (Some(rest), rest),
        None => (None, text.strip_prefix('/').unwrap_or(text)),
    };
    if let Some(rest) = url {
        let Some((host, path)) = rest.split_once('/') else { return Some("it names no file") };
        // A host with wildcards is compared with hosts in their canonical spelling.
        let is_web = ["http", "https"]
            .iter()
            .any(|scheme| text.split_once("://").is_some_and(|(own, _)| own == *scheme));
        if is_web
            && !host.contains(['*', '?', '{', '\\', '@', '%'])
            && place::normalize_host("", host).is_err()
        {
            return Some("its host has another spelling in places: 127.0.0.1, ::1 or a name in ASCII");
        }
        if host.contains('@') || path.contains('#') {
            return Some("places have no user and no fragment");
        }
        if host.ends_with('.') || rest.contains('%') {
            return Some("it is compared with the decoded URL, whose host has no dot at its end");
        }
    }
    let mut steps = path.split('/').skip(usize::from(url.is_some()));
    if path.is_empty() || steps.any(|step| matches!(step, "" | "." | "..")) {
        return Some("a place has no empty step, no `.` and no `..`, and no slash at its end");
    }
    let crosses = |step: &str| step.contains("**") && step != "**";
    if path.split('/').any(crosses) {
        return Some("`**` stands alone between slashes");
    }
    None
}

/// Spells a pattern like a place: scheme and host in lower case, without a default port; a `file://` URL as
/// its path.
fn normalize(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" {
        return rest.to_owned();
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(scheme.as_str(), "http" | "https") {
        return format!("{scheme}://{rest}");
    }
    let host = host.to_ascii_lowercase();
    if host.contains(['*', '?', '{', '\\']) || host.ends_with('.') {
        let port = if scheme == "https" { ":443" } else { ":80" };
        return format!("{scheme}://{}/{path}", host.strip_suffix(port).unwrap_or(&host));
    }
    format!("{scheme}://{}/{path}", place::normalize_host(&scheme, &host).unwrap_or(host))
}

/// Fails for a pattern below a folder that is reached through a link or `..`. Real paths never match it, so
/// it would demand nothing.
fn expect_real(text: &str) -> Result<(), String> {
    let literal = text.split(['*', '?', '{', '\\']).next().unwrap_or_default();
    let folder =
        if literal == text { Some(text) } else { literal.rsplit_once('/').map(|(folder, _)| folder) };
    let Some(folder) = folder.filter(|_| text.starts_with('/')).map(Path::new) else { return Ok(()) };
    match folder.canonicalize() {
        Ok(real) if real != folder && !folder.as_os_str().is_empty() => {
            Err(format!("{text:?} can match nothing, because its real path is {}", real.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;

    #[test]
    fn a_star_stays_in_its_folder_and_two_cross() {
        for (pattern, place, matches) in [
            ("/m/*.gguf", "/m/a.gguf", true),
            ("/m/*.gguf", "/m/b/a.gguf", false),
            ("/m/**", "/m/b/.c/a.gguf", true),
            ("/m/**", "/mm/a.gguf", false),
            ("/m/**/a.gguf", "/m/a.gguf", true),
            ("/m/?.gguf", "/m/ab.gguf", false),
            ("/m/{a,b}.gguf", "/m/b.gguf", true),
            ("/m/\\[x].gguf", "/m/[x].gguf", true),
            ("**", "/m/a", true),
            ("https://H:443/m/*", "https://h/m/a", true),
            ("https://h/m/*", "https://h/m/a/b", false),
            ("https://h:0443/m/*", "https://h/m/a", true),
            ("https://h/m/*", "http://h/m/a", false),
            ("https://*/m/**", "https://h/m/a", true),
            ("https://*/m/**", "https://h/x/m/a", false),
            ("file:///m/*", "/m/a", true),
        ] {
            let place =
                if place.starts_with('/') { Place::File(place.into()) } else { Place::Url(place.to_owned()) };
            let found = Pattern::parse(pattern).unwrap().matches(&place.as_path().unwrap());
            assert_eq!(found, matches, "{pattern} {place}");
        }
        for bad in [
            "m/*",
            "",
            "/m/[ab]",
            "/m/{a",
            "./m/**",
            "//m/**",
            "/m//a",
            "/m/./a",
            "/m/../a",
            "/m/",
            "/m/**.aero",
            "/m/a**",
            "http://u@h/**",
            "http://h./**",
            "http://127.1/**",
            "http://0x7f.0.0.1/**",
            "http://exämple.org/**",
            "http://h:x/**",
            "http://h//m",
            "http://h/%65",
            "http://h/a#b",
            "s3://b",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
