//! Makes a page about a model, or about two models and how they differ: one HTML file that needs no scripts
//! and no other files.
//!
//! A page shows facts about the model, the results of [`check`](crate::check) and [`verify`](Model::verify),
//! its signatures, its tensors with histograms and heat maps of their values, its metadata and its files.
//! Every byte of a model is treated as hostile: its texts are escaped, long ones are cut, and a
//! Content-Security-Policy forbids everything except the page's own style. The same files give the same
//! bytes.
//!
//! ```
//! use modelfmt::report::{ReportOptions, report};
//! use modelfmt::{Execution, Model};
//!
//! let model = Model::open("../../testdata/reference/one-shard.aero")?;
//! let page = report(&model, None, &ReportOptions::new(), &Execution::default())?;
//! assert!(page.html().starts_with("<!doctype html>") && page.html().contains("embed.weight"));
//! # Ok::<(), modelfmt::Error>(())
//! ```

mod bins;
mod charts;
mod comparison;
mod grid;
mod html;
mod profile;
mod sections;
mod subject;
mod tree;
mod values;
mod verdicts;

use modelfmt_core::{Execution, VerifyLevel};
use modelfmt_model::error::Result;
use modelfmt_model::model::Model;

use crate::diff::{DiffOptions, diff_with};
use crate::inspect::facts::grouped;
use html::Html;
use subject::Subject;

/// The page's style. The policy of the page contains its hash.
const STYLE: &str = include_str!("style.css");

/// The beginning of a page. The policy allows this style, by its hash, and nothing else.
const HEAD: &str = "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
'sha256-wPndJ+MNydnencVijOiwEVCg8G5BUowG4/Uok342ayw='; base-uri 'none'; form-action 'none'\">\n\
<meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
<meta name=color-scheme content=\"light dark\">\n<meta name=referrer content=no-referrer>\n<title>";

/// The options of a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportOptions {
    verify: VerifyLevel,
}

impl ReportOptions {
    /// Makes options that verify everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how much is verified.
    #[must_use]
    pub const fn verify(mut self, level: VerifyLevel) -> Self {
        self.verify = level;
        self
    }
}

/// A report as a page.
#[derive(Clone, Debug)]
pub struct Report {
    html: String,
    is_ok: bool,
}

impl Report {
    /// Returns the page: HTML in UTF-8, with a newline at its end.
    #[must_use]
    pub fn html(&self) -> &str {
        &self.html
    }

    /// Returns the page as an owned string.
    #[must_use]
    pub fn into_html(self) -> String {
        self.html
    }

    /// Checks that neither `check` nor `verify` has found a fault.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.is_ok
    }
}

/// Makes a page about a model. With `other`, the page also shows how the two models differ. Values are read
/// once for checks, charts and statistics, once more for the hashes of formats that have them, and once more
/// to compare two models. Faults in a file are shown on the page and are not errors. To show which signatures
/// are good, open the model with the keys that you trust.
///
/// # Errors
/// If a model has no list of tensors, if its index or metadata cannot be read, or if the progress callback
/// stops the work.
pub fn report(
    model: &Model,
    other: Option<&Model>,
    options: &ReportOptions,
    work: &Execution<'_>,
) -> Result<Report> {
    let tensors = other.map_or(0, Model::tensor_count).saturating_add(model.tensor_count());
    let subject = Subject::of(model, options, tensors, work)?;
    let mut html = Html::default();
    let Some(other) = other else {
        begin(&subject.stated.name, &mut html);
        sections::model(&subject, None, &mut html);
        return Ok(end(html, subject.is_ok()));
    };
    let second = Subject::of(other, options, tensors, work)?;
    let diff = diff_with(model, other, &DiffOptions { norms: true, ..DiffOptions::default() }, work)?;
    begin(&format!("{} and {}", subject.stated.name, second.stated.name), &mut html);
    comparison::comparison(&subject, &second, &diff, &mut html);
    sections::model(&subject, Some("A"), &mut html);
    sections::model(&second, Some("B"), &mut html);
    Ok(end(html, subject.is_ok() && second.is_ok()))
}

fn begin(title: &str, html: &mut Html) {
    const LONGEST: usize = 200;
    html.markup(HEAD).text(title.chars().take(LONGEST).collect::<String>());
    html.markup("</title>\n<style>").markup(STYLE).markup("</style></head>\n<body><main>\n");
}

fn end(mut html: Html, is_ok: bool) -> Report {
    html.markup("<footer>Made by modelfmt ").markup(env!("CARGO_PKG_VERSION"));
    html.markup(". Nothing on this page comes from elsewhere.</footer>\n</main></body></html>\n");
    Report { html: html.into_string(), is_ok }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// Encodes Base64 (RFC 4648).
    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
            for at in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
                text.push(if at <= three.len() { char::from(letter) } else { '=' });
            }
        }
        text
    }

    #[test]
    fn the_policy_allows_the_style() {
        let hash = base64(&Sha256::digest(STYLE));
        assert!(HEAD.contains(&format!("style-src 'sha256-{hash}';")), "{hash}");
        // The style must not contain the end tag of its element.
        assert!(!STYLE.contains('<'));
    }
}
