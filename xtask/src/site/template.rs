//! The parts of a page around the document: the head, the search, the sidebar, the headings.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{Document, escaped, to_root};
use super::{CONTENTS, FRONT, page_of};

const TEMPLATE: &str = include_str!("template.html");

/// The sidebar.
pub(super) struct Contents {
    groups: Vec<Group>,
}

struct Group {
    name: String,
    /// Documents and their titles.
    pages: Vec<(String, String)>,
}

impl Contents {
    /// Collects what a document leads to, in the order of its links, each page once.
    pub(super) fn of(contents: &Document, documents: &BTreeMap<&str, Document>) -> Self {
        let mut seen = BTreeSet::from([FRONT, CONTENTS]);
        let mut groups = Vec::new();
        for section in &contents.sections {
            let links = section.links.iter().filter(|link| seen.insert(link));
            let titled =
                links.filter_map(|link| Some((link.clone(), documents.get(link.as_str())?.title.clone())));
            let pages: Vec<_> = titled.collect();
            let name = if section.level < 2 { String::new() } else { section.heading.clone() };
            if !pages.is_empty() {
                groups.push(Group { name, pages });
            }
        }
        Self { groups }
    }

    fn html(&self, current: &str) -> String {
        let root = to_root(current);
        let item = |path: &str, title: &str| {
            let mark = if path == current { " aria-current=\"page\"" } else { "" };
            format!("<li><a href=\"{root}{}\"{mark}>{}</a></li>\n", page_of(path), escaped(title))
        };
        let mut html = format!("<ul>\n{}</ul>\n", item(CONTENTS, "All pages"));
        for Group { name, pages } in &self.groups {
            let items: String = pages.iter().map(|(path, title)| item(path, title)).collect();
            html.push_str(&format!("<h2>{}</h2>\n<ul>\n{items}</ul>\n", escaped(name)));
        }
        html
    }
}

/// Returns the page of a document.
pub(super) fn page(path: &str, document: &Document, contents: &Contents) -> String {
    let title =
        if path == FRONT { document.title.clone() } else { format!("{} · modelfmt", document.title) };
    // The body comes last, because its text may contain the placeholders.
    TEMPLATE
        .replace("{root}", &to_root(path))
        .replace("{title}", &escaped(&title))
        .replace("{contents}", &contents.html(path))
        .replace("{headings}", &headings(document))
        .replace("{body}", &document.body)
}

/// Returns the second-level headings of a page, if it has several.
fn headings(document: &Document) -> String {
    let second: Vec<_> = document.sections.iter().filter(|section| section.level == 2).collect();
    if second.len() < 2 {
        return String::new();
    }
    let item =
        |anchor: &str, heading: &str| format!("<li><a href=\"#{anchor}\">{}</a></li>\n", escaped(heading));
    let items: String = second.iter().map(|section| item(&section.anchor, &section.heading)).collect();
    format!(
        "<nav class=\"headings\" aria-label=\"On this page\"><h2>On this page</h2>\n<ul>\n{items}</ul></nav>"
    )
}

/// Returns a script with the words of each section, which the search loads: pages that are opened as files
/// may not fetch others.
pub(super) fn search_index(documents: &BTreeMap<&str, Document>) -> String {
    let mut entries = Vec::new();
    for (path, document) in documents {
        for section in &document.sections {
            let is_top = section.level < 2;
            let anchor = if is_top { String::new() } else { format!("#{}", section.anchor) };
            let heading = if is_top { "" } else { &section.heading };
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            if !(text.is_empty() && is_top) {
                entries.push(serde_json::json!([page_of(path) + &anchor, document.title, heading, text]));
            }
        }
    }
    format!("window.sections = {};\n", serde_json::Value::Array(entries))
}
