//! Text of a file that is fit for a terminal.

use std::fmt;

/// Displays text from a file with everything escaped that would move the cursor, change colours, or turn the direction of
/// writing: control characters, and the invisible ones that make text look like other text.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.chars().any(is_unprintable) {
            return f.pad(self.0);
        }
        let escape = |c: char| if is_unprintable(c) { c.escape_default().to_string() } else { c.to_string() };
        f.pad(&self.0.chars().map(escape).collect::<String>())
    }
}

/// Control characters, line and paragraph separators, and Unicode's bidirectional and invisible formatting characters.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_disturb_a_terminal_is_escaped() {
        assert_eq!(Printable("重み.weight").to_string(), "重み.weight");
        assert_eq!(Printable("a\u{1b}[31m\n\u{202e}b").to_string(), "a\\u{1b}[31m\\n\\u{202e}b");
        assert_eq!(format!("{:>4}", Printable("ab")), "  ab");
    }
}
