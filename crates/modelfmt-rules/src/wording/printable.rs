//! Text from a file, made safe for a terminal.

use std::borrow::Cow;
use std::fmt;

/// Displays text from a file, and escapes characters that would move the cursor, change colours, change the
/// direction of the text or be invisible.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.chars().any(Self::is_escaped) {
            return f.pad(self.0);
        }
        let escape =
            |c: char| if Self::is_escaped(c) { c.escape_default().to_string() } else { c.to_string() };
        f.pad(&self.0.chars().map(escape).collect::<String>())
    }
}

impl Printable<'_> {
    /// Returns at most `max` characters of the escaped text, then an ellipsis if there are more. Only the
    /// start of the text is read.
    #[must_use]
    pub fn cut(&self, max: usize) -> String {
        let start = self.0.char_indices().nth(max.saturating_add(1)).and_then(|(end, _)| self.0.get(..end));
        let text = Printable(start.unwrap_or(self.0)).to_string();
        match text.char_indices().nth(max) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    /// Checks whether a character is escaped: control characters, line and paragraph separators, and
    /// Unicode's default ignorable characters, which are invisible or change the direction of the text.
    #[must_use]
    pub fn is_escaped(c: char) -> bool {
        c.is_control()
            || matches!(c,
                '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}'
                // Unicode 16, DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
                | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}')
    }
}

/// Escapes characters in JSON text that would disturb a terminal. JSON itself requires this only below
/// U+0020.
#[must_use]
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    // Control characters below U+007F were escaped by the serializer, or are white space between the strings.
    let is_escaped = |c: char| c >= '\u{7f}' && Printable::is_escaped(c);
    if !json.contains(is_escaped) {
        return json.into();
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_escaped(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_disturb_a_terminal_is_escaped() {
        assert_eq!(Printable("重み.weight").to_string(), "重み.weight");
        assert_eq!(Printable("a\u{1b}[31m\n\u{202e}b").to_string(), "a\\u{1b}[31m\\n\\u{202e}b");
        assert_eq!(Printable("a\u{3164}\u{fe0f}\u{e0100}").to_string(), "a\\u{3164}\\u{fe0f}\\u{e0100}");
        assert_eq!(format!("{:>4}", Printable("ab")), "  ab");
    }

    #[test]
    fn long_text_is_cut_after_it_was_escaped() {
        assert_eq!(Printable("重み.weight").cut(9), "重み.weight");
        assert_eq!(Printable("重み.weight").cut(8), "重み.weigh…");
        assert_eq!(Printable("a\nb").cut(4), "a\\nb");
        assert_eq!(Printable("a\nb").cut(2), "a\\…");
        assert_eq!((Printable("").cut(0), Printable("a").cut(0)), (String::new(), "…".to_owned()));
    }
}
