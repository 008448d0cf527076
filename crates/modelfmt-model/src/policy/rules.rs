//! The rules of a policy, and which of them is for a place.

use std::collections::BTreeMap;
use std::path::Path;

use globset::{GlobBuilder, GlobSet};
use modelfmt_keys::PublicKey;

use super::place::{self, Place};
use crate::formats::Format;
use crate::pin::Pin;

/// What a rule demands of the files that it matches.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its position, from 1 on.
    pub(crate) number: usize,
    pub(crate) patterns: Vec<Pattern>,
    /// Each key once.
    pub(crate) keys: Vec<PublicKey>,
    pub(crate) threshold: usize,
    /// The families that are opened; all of them if there is no list.
    pub(crate) formats: Option<Vec<&'static str>>,
    pub(crate) min_revision: Option<u64>,
    /// By file name.
    pub(crate) pins: BTreeMap<String, Pin>,
}

impl Rule {
    pub(crate) fn matches(&self, place: &Place) -> bool {
        place
            .as_path()
            .is_some_and(|path| self.patterns.iter().any(|pattern| pattern.matcher.is_match(&path)))
    }

    /// How errors name the rule.
    pub(crate) fn title(&self) -> String {
        let first = self.patterns.first().map_or("", |pattern| pattern.text.as_str());
        format!("rule {} ({first:?})", self.number)
    }

    /// Fails for a format of a family that the rule does not open.
    pub(crate) fn check_format(&self, format: Option<Format>) -> Result<(), String> {
        let Some(allowed) = &self.formats else { return Ok(()) };
        let found = format.map(family);
        if found.is_some_and(|found| allowed.contains(&found)) {
            return Ok(());
        }
        let found = found.unwrap_or("of no known format");
        Err(format!("it is {found}, and the rule opens only {}", allowed.join(", ")))
    }

    /// The pins for a file, by the name that was asked for and by its real name.
    pub(crate) fn pins_of(&self, asked: &str, place: &Place) -> Vec<Pin> {
        let real = place.file_name().filter(|real| real != asked);
        let names = [Some(asked.to_owned()), real];
        let mut pins: Vec<Pin> =
            names.iter().flatten().filter_map(|name| self.pins.get(name).copied()).collect();
        pins.dedup();
        pins
    }
}

/// The family of a format: the name of the form that is one file.
pub(crate) fn family(format: Format) -> &'static str {
    let name = format.unsharded().name();
    // No output of ours needs to know that an AEROSET is made of AERO files, so its entry does not say it.
    name.strip_suffix("-sharded").or_else(|| name.strip_suffix("set")).unwrap_or(name)
}

/// A pattern of places.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    /// Of this one pattern.
    matcher: GlobSet,
}

/// The longest pattern in bytes.
const LONGEST: usize = 16 << 10;

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("a pattern has at most {LONGEST} bytes, and one has {}", text.len()));
        }
        let text = as_places_are(text);
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
}

/// Why no place is written like a pattern: it would demand nothing of the files that it seems to mean.
fn matches_nothing(text: &str) -> Option<&'static str> {
    let (url, path) = match text.split_once("://") {
        Some((_, rest)) => (Some(rest), rest),
        None => (None, text.strip_prefix('/').unwrap_or(text)),
    };
    if let Some(rest) = url {
        let Some((host, path)) = rest.split_once('/') else { return Some("it names no file") };
        // What has wildcards is compared with hosts in their one spelling.
        let is_web = ["http", "https"]
            .iter()
            .any(|scheme| text.split_once("://").is_some_and(|(own, _)| own == *scheme));
        if is_web && !host.contains(['*', '?', '{', '\\', '@', '%']) && place::authority("", host).is_err() {
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

/// A pattern as places are written: scheme and host in lower case, without a default port; a `file://` URL as its path.
fn as_places_are(text: &str) -> String {
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
    format!("{scheme}://{}/{path}", place::authority(&scheme, &host).unwrap_or(host))
}

/// Fails for a pattern below a folder that is reached through a link or `..`: real paths never match it, so that it would demand
/// nothing.
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
            let found = Pattern::parse(pattern).unwrap().matcher.is_match(place.as_path().unwrap());
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

    #[test]
    fn families_have_the_names_of_their_files() {
        let families: Vec<_> = Format::ALL.iter().map(|&format| family(format)).collect();
        assert!(
            !families.iter().any(|name| name.contains("sharded") || name.contains("set")),
            "{families:?}"
        );
    }
}
