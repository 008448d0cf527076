//! URLs: percent-encoded, without user, password, query and fragment.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

/// The maximum length in bytes of an address that is accepted.
const LONGEST: usize = 2048;

/// Makes a valid address (RFC 3986) from an address in metadata; `None` if it does not begin with a scheme
/// and `://`.
pub(super) fn of(stated: &str) -> Option<String> {
    let (scheme, rest) = stated.trim().split_once("://").filter(|_| stated.len() <= LONGEST)?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_scheme || rest.is_empty() {
        return None;
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // Credentials before the `@` must not be published.
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = authority
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()))
        .map_or((authority, None), |(host, port)| (host, Some(port)));
    let mut url = format!("{}://", scheme.to_ascii_lowercase());
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')?.parse::<Ipv6Addr>().ok()) {
        Some(address) => url.push_str(&format!("[{address}]")),
        None => encode(host, "!$&'()*+,;=", &mut url),
    }
    if let Some(port) = port {
        url.push(':');
        url.push_str(port);
    }
    // A query or a fragment may hold a token.
    encode(rest.split(['?', '#']).next().unwrap_or(rest), "!$&'()*+,;=:@/", &mut url);
    Some(url)
}

/// Appends a text, and percent-encodes every byte that is neither unreserved nor in `allowed`. Bytes that are
/// encoded already stay as they are.
fn encode(text: &str, allowed: &str, out: &mut String) {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let rest = bytes.get(at..).unwrap_or_default();
        let c = char::from(byte);
        let is_encoded = byte == b'%' && is_hex(rest.get(1)) && is_hex(rest.get(2));
        if byte.is_ascii_alphanumeric() || "-._~".contains(c) || allowed.contains(c) || is_encoded {
            out.push(c);
        } else {
            let _ = write!(out, "%{byte:02X}"); // writing to a String does not fail
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded() {
        for (stated, url) in [
            ("https://example.org/a b/ü[?q=[1]#x#y", "https://example.org/a%20b/%C3%BC%5B"),
            ("https://example.org/a%20b%zz%", "https://example.org/a%20b%25zz%25"),
            ("HTTPS://user:secret@Example.org:8080/", "https://Example.org:8080/"),
            ("http://[::1]:80/x", "http://[::1]:80/x"),
            ("http://a:b/", "http://a%3Ab/"),
            ("http://exämple.org\\x", "http://ex%C3%A4mple.org%5Cx"),
            (" hf://org/model\n", "hf://org/model"),
            ("s3://bucket/\u{202e}\"<>", "s3://bucket/%E2%80%AE%22%3C%3E"),
        ] {
            assert_eq!(of(stated).as_deref(), Some(url), "{stated}");
        }
        let long = format!("https://example.org/{}", "x".repeat(LONGEST));
        for stated in ["LICENSE", "org/model", "://x", "1a://x", "a b://x", "https://", &long] {
            assert_eq!(of(stated), None, "{stated}");
        }
    }
}
