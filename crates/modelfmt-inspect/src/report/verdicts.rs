//! Shows the results of `check` and `verify`, and the signers.

use modelfmt_core::{Status, VerifyLevel};

use super::grouped;
use super::html::Html;
use super::subject::Subject;
use super::values::more;
use crate::check::{CheckReport, TensorFindings};

/// The maximum number of findings of a kind that are listed.
const LISTED: usize = 100;
/// The maximum number of characters of a finding.
const LONGEST: usize = 400;

/// Writes the verdicts, each as one word.
pub(super) fn badges(subject: &Subject<'_>, html: &mut Html) {
    html.markup("<p class=badges>");
    badge("check", subject.check.as_ref().is_ok_and(CheckReport::is_ok), html);
    badge("verify", subject.verification.is_ok(), html);
    let signers = subject.stated.signers.len();
    if signers > 0 {
        html.markup("<span class=\"badge ok\">signed: ").text(signers);
        html.markup(if signers == 1 { " key" } else { " keys" }).markup("</span>");
    }
    html.markup("</p>\n");
}

fn badge(what: &'static str, is_ok: bool, html: &mut Html) {
    html.markup(if is_ok { "<span class=\"badge ok\">" } else { "<span class=\"badge bad\">" });
    html.markup(what).markup(if is_ok { ": ok" } else { ": FAILED" }).markup("</span>");
}

pub(super) fn section(subject: &Subject<'_>, html: &mut Html) {
    html.markup("<section><h2>Verdicts</h2>\n<div class=columns><div>\n");
    check(subject, html);
    html.markup("</div><div>\n");
    verify(subject, html);
    signatures(subject, html);
    html.markup("</div></div></section>\n");
}

fn check(subject: &Subject<'_>, html: &mut Html) {
    html.markup("<h3>Values: <code>check</code></h3>\n");
    let report = match &subject.check {
        Ok(report) => report,
        Err(error) => {
            html.markup("<ul><li class=bad>");
            html.cut_text(error, LONGEST).markup("</li></ul>\n");
            return;
        }
    };
    html.markup("<p>").text(grouped(report.tensors_checked.unwrap_or(0) as u64)).markup(" tensors read");
    if report.without_values > 0 {
        html.markup(", ").text(grouped(report.without_values as u64)).markup(" without values");
    }
    let is_clean = report.is_ok() && report.tensors.is_empty() && report.texts.is_empty();
    html.markup(if is_clean { ". Nothing was found.</p>\n" } else { ".</p>\n" });
    let runs = report.pickle.iter().flat_map(|pickle| &pickle.unknown);
    let faults: Vec<String> = report.disagreements.iter().chain(runs).cloned().collect();
    let (code, odd): (Vec<_>, Vec<_>) = report.texts.iter().partition(|text| text.runs_code);
    let code = code.iter().map(ToString::to_string);
    list("bad", &faults.into_iter().chain(code).collect::<Vec<_>>(), html);
    let odd = odd.iter().map(ToString::to_string).chain(report.unread.iter().cloned());
    list("odd", &odd.chain(report.not_searched()).collect::<Vec<_>>(), html);
    let bad = |tensor: &&TensorFindings| tensor.nan > 0 || tensor.inf > 0;
    let line = |tensor: &TensorFindings| format!("{}: {}", tensor.name, words(tensor).join(", "));
    list("bad", &report.tensors.iter().filter(bad).map(line).collect::<Vec<_>>(), html);
    let others = report.tensors.iter().filter(|tensor| !bad(tensor));
    list("odd", &others.map(line).collect::<Vec<_>>(), html);
}

/// Describes the findings in a tensor in a few words.
pub(super) fn words(tensor: &TensorFindings) -> Vec<String> {
    let mut words = Vec::new();
    if tensor.nan > 0 {
        words.push(format!("{} NaN", grouped(tensor.nan)));
    }
    if tensor.inf > 0 {
        let word = if tensor.inf == 1 { "infinity" } else { "infinities" };
        words.push(format!("{} {word}", grouped(tensor.inf)));
    }
    if let Some(outlier) = tensor.outlier {
        words.push(format!("outlier {:e}, median {:e}", outlier.max_abs, outlier.median_abs));
    }
    if tensor.is_zero {
        words.push("all zero".to_owned());
    } else if tensor.is_constant {
        words.push("constant".to_owned());
    }
    if let Some(other) = &tensor.same_as {
        words.push(format!("equal to {other}"));
    }
    words
}

fn verify(subject: &Subject<'_>, html: &mut Html) {
    let report = &subject.verification;
    html.markup("<h3>Bytes: <code>verify</code></h3>\n<p>Level ").markup(match report.level {
        VerifyLevel::Header => "header",
        VerifyLevel::Control => "control",
        _ => "full",
    });
    html.markup(". What the format has no checksum of is not covered.</p>\n<ul>");
    for check in &report.checks {
        let (class, word) = match check.status {
            Status::Ok if check.is_partial => ("odd", "in part"),
            Status::Ok => ("ok", "ok"),
            Status::Failed => ("bad", "FAILED"),
            _ => ("none", "absent"),
        };
        html.markup("<li class=").markup(class).markup("><b>").text(check.name).markup("</b> ").markup(word);
        html.markup(" <small>").cut_text(&check.detail, LONGEST).markup("</small></li>\n");
    }
    html.markup("</ul>\n");
    list("bad", &report.errors, html);
}

fn signatures(subject: &Subject<'_>, html: &mut Html) {
    let lines = subject.inspection.signature_lines();
    html.markup("<h3>Signatures</h3>\n");
    for signer in &subject.stated.signers {
        html.markup("<p class=ok>Verified: key ").code(signer, LONGEST).markup("</p>\n");
    }
    if lines.is_empty() {
        html.markup("<p>There is no signature.</p>\n");
        return;
    }
    list("none", &lines, html);
}

/// Writes a list of texts, or nothing if there are none.
fn list(class: &'static str, texts: &[String], html: &mut Html) {
    if texts.is_empty() {
        return;
    }
    html.markup("<ul>");
    for text in texts.iter().take(LISTED) {
        html.markup("<li class=").markup(class).markup(">").cut_text(text, LONGEST).markup("</li>\n");
    }
    html.markup("</ul>\n");
    more(texts.len().saturating_sub(LISTED), "findings", html);
}
