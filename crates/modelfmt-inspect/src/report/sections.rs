//! The sections about one model.

use modelfmt_core::value::Value;
use modelfmt_rules::wording::Size;

use super::html::Html;
use super::subject::Subject;
use super::{charts, grouped, tree, values, verdicts};

/// The maximum number of characters of a name.
const NAME: usize = 160;
/// The maximum number of files that are listed.
const FILES: usize = 1000;
/// The CSS classes for the colours of dtypes.
const COLORS: [&str; 8] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"];

/// Writes everything about a model. `letter` names the model if there are two.
pub(super) fn model(subject: &Subject<'_>, letter: Option<&'static str>, html: &mut Html) {
    html.markup("<article>\n");
    head(subject, letter, html);
    verdicts::section(subject, html);
    types(subject, html);
    tree::section(subject, letter.is_none(), html);
    metadata(subject, html);
    files(subject, html);
    html.markup("</article>\n");
}

fn head(subject: &Subject<'_>, letter: Option<&'static str>, html: &mut Html) {
    let inspection = &subject.inspection;
    html.markup("<header>");
    match letter {
        Some(letter) => html.markup("<h1><i>").markup(letter).markup("</i> "),
        None => html.markup("<h1>"),
    };
    html.cut_text(&subject.stated.name, NAME).markup("</h1>\n");
    if inspection.facts.is_known() {
        html.markup("<p class=facts>").cut_text(&inspection.facts.to_string(), 2 * NAME).markup("</p>\n");
    }
    html.markup("<p class=path>")
        .code(&inspection.model.path().display().to_string(), 2 * NAME)
        .markup("</p>\n");
    verdicts::badges(subject, html);
    tiles(subject, html);
    html.markup("</header>\n");
}

fn tiles(subject: &Subject<'_>, html: &mut Html) {
    let inspection = &subject.inspection;
    let container = inspection.model.container();
    let sums = inspection.totals().all;
    let version = container.version().map_or_else(String::new, |version| format!(" {version}"));
    let listed = |list: &[String]| (!list.is_empty()).then(|| list.join(", "));
    let tiles = [
        ("Format", Some(format!("{}{version}", inspection.model.format()))),
        ("Size", Some(Size(container.file_size()).to_string())),
        ("Tensors", Some(grouped(sums.tensors))),
        ("Elements", Some(grouped(sums.elements))),
        ("Licence", Some(listed(&subject.stated.licences).unwrap_or_else(|| "not stated".to_owned()))),
        ("Version", subject.stated.version.clone()),
        ("Made of", listed(&subject.stated.bases)),
    ];
    html.markup("<dl class=tiles>");
    for (name, text) in tiles {
        if let Some(text) = text {
            html.markup("<div><dt>")
                .markup(name)
                .markup("</dt><dd>")
                .cut_text(&text, NAME)
                .markup("</dd></div>\n");
        }
    }
    html.markup("</dl>\n");
}

fn types(subject: &Subject<'_>, html: &mut Html) {
    let totals = subject.inspection.totals();
    if totals.by_dtype.is_empty() {
        return;
    }
    let mut types: Vec<_> = totals.by_dtype.iter().collect();
    types.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.nbytes));
    let color = |at: usize| COLORS.get(at).copied().unwrap_or("t7");
    html.markup("<section><h2>Sizes by type</h2>\n");
    let parts: Vec<_> = types.iter().enumerate().map(|(at, (_, sums))| (sums.nbytes, color(at))).collect();
    charts::stack(&parts, html);
    html.markup("<table><thead><tr><th>type</th><th>bytes</th><th>share</th><th>tensors</th><th>elements</th></tr></thead><tbody>\n");
    for (at, (dtype, sums)) in types.iter().enumerate() {
        let tenths = u128::from(sums.nbytes) * 1000 / u128::from(totals.all.nbytes.max(1));
        html.markup("<tr><td><svg class=dot viewBox=\"0 0 1 1\" aria-hidden=true><path class=")
            .markup(color(at));
        html.markup(" d=\"M0 0h1v1H0z\"/></svg> <code>").text(dtype).markup("</code></td><td>");
        html.text(Size(sums.nbytes)).markup("</td><td>").text(tenths / 10).markup(".").text(tenths % 10);
        html.markup(" %</td><td>")
            .text(grouped(sums.tensors))
            .markup("</td><td>")
            .text(grouped(sums.elements));
        html.markup("</td></tr>\n");
    }
    html.markup("</tbody></table></section>\n");
}

fn metadata(subject: &Subject<'_>, html: &mut Html) {
    let inspection = &subject.inspection;
    let parts = [("Metadata", &inspection.metadata), ("Details of the format", &inspection.details)];
    for (title, object) in parts {
        let Value::Object(object) = object else { continue };
        if object.iter().all(|(_, value)| value.is_null()) {
            continue;
        }
        html.markup("<section><h2>").markup(title).markup("</h2>\n");
        values::table(object, html);
        html.markup("</section>\n");
    }
    let notes: Vec<String> =
        inspection.model.warnings().into_iter().chain(inspection.model.notes()).collect();
    if !notes.is_empty() {
        html.markup("<section><h2>Notes</h2><ul>\n");
        for note in notes.iter().take(FILES) {
            html.markup("<li>").cut_text(note, 2 * NAME).markup("</li>\n");
        }
        html.markup("</ul></section>\n");
    }
}

fn files(subject: &Subject<'_>, html: &mut Html) {
    html.markup("<section><h2>Files</h2>\n<table class=files><tbody>\n");
    let most = subject.files.iter().filter_map(|(_, size)| *size).max().unwrap_or(0);
    for (name, size) in subject.files.iter().take(FILES) {
        html.markup("<tr><th scope=row>").code(name, NAME).markup("</th><td>");
        match size {
            Some(size) => {
                html.text(Size(*size)).markup("</td><td>");
                charts::bar(charts::ratio(*size, most), html);
            }
            None => {
                html.markup("cannot be opened</td><td>");
            }
        }
        html.markup("</td></tr>\n");
    }
    html.markup("</tbody></table>\n");
    values::more(subject.files.len().saturating_sub(FILES), "files", html);
    html.markup("</section>\n");
}
