//! Builds HTML. Markup comes only from literals of this crate, and all other text is escaped, so that no text
//! of a model can become markup by mistake.

use std::fmt::{self, Display, Write as _};

use modelfmt_rules::wording::Printable;
use modelfmt_rules::wording::format_g::G6;

use super::grouped;

/// The HTML of a page.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup, which must be a literal and never text of a model.
    pub(super) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text, for an element or a quoted attribute. Characters with a meaning in HTML are escaped.
    /// Characters that are invisible or change the direction of the text are shown by their numbers.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a string does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Adds at most `max` characters of a text. If the text is longer, also adds its length.
    pub(super) fn cut_text(&mut self, text: &str, max: usize) -> &mut Self {
        let cut = cut(text, max);
        self.text(cut.unwrap_or(text)).length(cut.is_some(), text)
    }

    /// Does the same as `cut_text`, but marks the text as code.
    pub(super) fn code(&mut self, text: &str, max: usize) -> &mut Self {
        let cut = cut(text, max);
        self.markup("<code>").text(cut.unwrap_or(text)).markup("</code>").length(cut.is_some(), text)
    }

    fn length(&mut self, is_cut: bool, text: &str) -> &mut Self {
        if is_cut {
            self.markup("… <small>(")
                .text(grouped(text.chars().count() as u64))
                .markup(" characters)</small>");
        }
        self
    }

    /// Adds a number with four digits, or with six digits if it is an integer.
    pub(super) fn number(&mut self, number: f64) -> &mut Self {
        if number.fract() == 0.0 {
            return self.text(G6(number));
        }
        self.text(G6(format!("{number:.3e}").parse().unwrap_or(number)))
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// Returns the first `max` characters, if there are more.
fn cut(text: &str, max: usize) -> Option<&str> {
    text.char_indices().nth(max).and_then(|(end, _)| text.get(..end))
}

struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '`' => self.0.push_str("&#96;"),
                c if Printable::is_escaped(c) || is_noncharacter(c) => self.0.extend(c.escape_default()),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// Checks whether a character is a noncharacter of Unicode, which HTML does not allow.
const fn is_noncharacter(c: char) -> bool {
    matches!(c, '\u{fdd0}'..='\u{fdef}') || c as u32 & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut html = Html::default();
        html.markup("<p title=\"")
            .text("\"><img onerror='x'>")
            .markup("\">")
            .text("a\u{202e}b\0\n&lt;\u{ffff}`");
        assert_eq!(
            html.into_string(),
            "<p title=\"&quot;&gt;&lt;img onerror=&#39;x&#39;&gt;\">a\\u{202e}b\\u{0}\\n&amp;lt;\\u{ffff}&#96;"
        );
    }

    #[test]
    fn a_long_text_is_cut_and_its_length_said() {
        let mut html = Html::default();
        html.code(&"<".repeat(1500), 2);
        assert_eq!(html.into_string(), "<code>&lt;&lt;</code>… <small>(1,500 characters)</small>");
        let mut html = Html::default();
        html.code("重み", 2);
        assert_eq!(html.into_string(), "<code>重み</code>");
    }
}
