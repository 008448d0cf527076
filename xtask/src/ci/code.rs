//! Removes comments and literals from Rust source.

/// Replaces every comment and every string or character literal by spaces. Line numbers stay the same.
pub(super) fn without_comments(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let hidden = hidden_len(rest, in_word);
        let (taken, next) = rest.split_at_checked(hidden.unwrap_or(first.len_utf8())).unwrap_or((rest, ""));
        if hidden.is_some() {
            code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(taken);
        }
        in_word = hidden.is_none() && (first.is_alphanumeric() || first == '_');
        rest = next;
    }
    code
}

/// Returns the length of the comment or literal that `text` begins with. With `in_word`, `text` continues a
/// word, so that an `r` is no prefix.
fn hidden_len(text: &str, in_word: bool) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment_len(text));
    }
    if text.starts_with('"') {
        return Some(quoted_len(text, '"'));
    }
    if text.starts_with('\'') {
        return char_len(text);
    }
    if in_word { None } else { raw_string_len(text) }
}

/// Returns the length of a block comment, which may contain others.
fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("/*") {
            depth += 1;
            rest = after;
        } else if let Some(after) = rest.strip_prefix("*/") {
            depth -= 1; // not below 0: the text begins with `/*`, and the last `*/` ends the loop
            rest = after;
            if depth == 0 {
                break;
            }
        } else {
            rest = rest.strip_prefix(first).unwrap_or_default();
        }
    }
    text.len() - rest.len()
}

/// Returns the length of a literal between two `quote`s, with escapes.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Returns the length of a character literal such as `'a'` or `'\n'`. `None` for a lifetime such as `'a`.
fn char_len(text: &str) -> Option<usize> {
    let mut chars = text.chars().skip(1);
    let first = chars.next()?;
    (first == '\\' || chars.next() == Some('\'')).then(|| quoted_len(text, '\''))
}

/// Returns the length of a raw string such as `r"…"` or `br#"…"#`.
fn raw_string_len(text: &str) -> Option<usize> {
    let after_prefix = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let body = after_prefix.trim_start_matches('#');
    let hashes = after_prefix.len() - body.len();
    let body = body.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + len)
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    /// The remaining code, with single spaces.
    fn left(source: &str) -> String {
        without_comments(source).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_go() {
        assert_eq!(left("a // b\nc"), "a c");
        assert_eq!(left("a /* b /* c */ d */ e"), "a e");
        assert_eq!(left("/*"), "");
        assert_eq!(left(r#"f("a \" b", 'x', '\'', b'"', '"') + g"#), "f( , , , b , ) + g");
        assert_eq!(left(r##"f(r#"a " b"#, br"\", r"c") + g"##), "f( , , ) + g");
    }

    #[test]
    fn what_only_looks_like_a_literal_stays() {
        assert_eq!(
            left("fn f<'a>(x: &'a str) { r#type + for_r }"),
            "fn f<'a>(x: &'a str) { r#type + for_r }"
        );
        assert_eq!(left("her\"x\" y"), "her y");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a /* \n\n */ b \"\n\" c\n// d\ne";
        assert_eq!(without_comments(source).lines().count(), source.lines().count());
        assert_eq!(without_comments(source).lines().nth(2).map(str::trim), Some("b"));
    }
}
