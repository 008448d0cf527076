//! The characters with which charts are drawn on this terminal.

use std::env;

use modelfmt::show::Charset;

/// Returns block characters, unless the locale has an encoding other than UTF-8 or the terminal lacks such
/// characters. If no locale is set, as in a container, the terminal is assumed to use UTF-8.
pub(crate) fn charset() -> Charset {
    of(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

fn of(variable: impl Fn(&str) -> Option<String>) -> Charset {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&variable);
    let is_utf8 = locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    let is_simple = matches!(variable("TERM").as_deref(), Some("dumb" | "linux"));
    if is_utf8 && !is_simple { Charset::Blocks } else { Charset::Ascii }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_and_the_terminal_decide() {
        let of = |set: &[(&str, &str)]| {
            let find =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            of(find)
        };
        for set in [&[][..], &[("LANG", "de_DE.UTF-8")], &[("LC_ALL", "C.utf8"), ("LANG", "C")]] {
            assert_eq!(of(set), Charset::Blocks, "{set:?}");
        }
        for set in
            [[("LANG", "C")], [("LC_CTYPE", "de_DE.ISO-8859-1")], [("TERM", "linux")], [("TERM", "dumb")]]
        {
            assert_eq!(of(&set), Charset::Ascii, "{set:?}");
        }
    }
}
