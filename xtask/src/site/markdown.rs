//! Renders a document as HTML.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::links::{self, Tree};

use super::page_of;

/// A rendered document.
pub(super) struct Document {
    /// Its first heading of level 1.
    pub(super) title: String,
    pub(super) body: String,
    pub(super) sections: Vec<Section>,
    /// Images and other files that the page needs, by their paths from the root.
    pub(super) files: BTreeSet<String>,
}

/// A heading, and the text below it up to the next one.
#[derive(Default)]
pub(super) struct Section {
    /// 1 to 6, or 0 for the text before the first heading.
    pub(super) level: u8,
    pub(super) anchor: String,
    pub(super) heading: String,
    /// The words that the search finds.
    pub(super) text: String,
    /// The documents that the section leads to.
    pub(super) links: Vec<String>,
}

impl Document {
    /// Reads the document at `path`; `pages` are the documents that the site has.
    pub(super) fn read(tree: &Tree, pages: &BTreeSet<String>, path: &str, text: &str) -> Self {
        let mut writer = Writer::new(tree, pages, path);
        let mut parser = Parser::new_ext(text, Options::ENABLE_TABLES);
        while let Some(event) = parser.next() {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    let inner = until(&mut parser, |end| matches!(end, TagEnd::Heading(_)));
                    writer.heading(level as u8, inner);
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) if &*kind == "console" => {
                    let inner = until(&mut parser, |end| matches!(end, TagEnd::CodeBlock));
                    writer.session(&words(&inner));
                }
                event => writer.event(event),
            }
        }
        writer.finish()
    }
}

/// Returns the events up to a matching end, which is dropped.
fn until<'a>(parser: &mut Parser<'a>, is_end: impl Fn(&TagEnd) -> bool) -> Vec<Event<'a>> {
    parser.take_while(|event| !matches!(event, Event::End(end) if is_end(end))).collect()
}

/// Returns the plain text of events.
fn words(events: &[Event<'_>]) -> String {
    let word = |event: &Event<'_>| match event {
        Event::Text(text) | Event::Code(text) => text.to_string(),
        Event::SoftBreak | Event::HardBreak => " ".to_owned(),
        _ => String::new(),
    };
    events.iter().map(word).collect()
}

/// Collects a document from its events.
struct Writer<'a> {
    tree: &'a Tree,
    pages: &'a BTreeSet<String>,
    path: &'a str,
    events: Vec<Event<'a>>,
    sections: Vec<Section>,
    anchors: BTreeSet<String>,
    files: BTreeSet<String>,
    /// Whether the current text is in a link that leads nowhere on the site.
    in_plain_link: bool,
}

impl<'a> Writer<'a> {
    fn new(tree: &'a Tree, pages: &'a BTreeSet<String>, path: &'a str) -> Self {
        Self {
            tree,
            pages,
            path,
            events: Vec::new(),
            sections: vec![Section::default()],
            anchors: BTreeSet::new(),
            files: BTreeSet::new(),
            in_plain_link: false,
        }
    }

    fn finish(self) -> Document {
        let mut body = String::new();
        html::push_html(&mut body, self.events.into_iter());
        let title = self.sections.iter().find(|section| section.level == 1);
        Document {
            title: title.map(|section| section.heading.clone()).unwrap_or_default(),
            body,
            sections: self.sections,
            files: self.files,
        }
    }

    fn html(&mut self, html: String) {
        self.events.push(Event::Html(html.into()));
    }

    fn heading(&mut self, level: u8, inner: Vec<Event<'a>>) {
        let heading = words(&inner);
        let anchor = links::add_anchor(&mut self.anchors, &heading);
        self.html(format!("<h{level} id=\"{anchor}\">"));
        let words_before = self.sections.last().map_or(0, |section| section.text.len());
        inner.into_iter().for_each(|event| self.event(event));
        if let Some(section) = self.sections.last_mut() {
            section.text.truncate(words_before); // the heading does not belong to the section before it
        }
        self.html(format!(
            "<a class=\"anchor\" href=\"#{anchor}\" aria-label=\"Link to this section\">#</a></h{level}>"
        ));
        self.sections.push(Section { level, anchor, heading, ..Section::default() });
    }

    /// Writes commands and what they print, in different styles.
    fn session(&mut self, text: &str) {
        self.note(text);
        let mut html = String::from("<pre class=\"session\"><code>");
        for line in text.lines() {
            let line = escaped(line);
            match line.strip_prefix("$ ") {
                Some(command) => {
                    html.push_str(&format!("<span class=\"prompt\">$ </span><b>{command}</b>\n"));
                }
                None => html.push_str(&format!("{line}\n")),
            }
        }
        self.html(html + "</code></pre>\n");
    }

    /// Adds words that the search finds.
    fn note(&mut self, words: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(words);
            section.text.push(' ');
        }
    }

    fn event(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match self.destination(&dest_url) {
                Some(dest_url) => {
                    let dest_url = dest_url.into();
                    self.events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
                None => {
                    self.in_plain_link = true;
                    let source = escaped(&links::resolved(self.path, &dest_url));
                    self.html(format!("<span class=\"source\" title=\"{source} in the repository\">"));
                }
            },
            Event::End(TagEnd::Link) if self.in_plain_link => {
                self.in_plain_link = false;
                self.html("</span>".to_owned());
            }
            Event::Start(Tag::Table(alignments)) => {
                self.html("<div class=\"table\">".to_owned());
                self.events.push(Event::Start(Tag::Table(alignments)));
            }
            Event::End(TagEnd::Table) => {
                self.events.push(Event::End(TagEnd::Table));
                self.html("</div>".to_owned());
            }
            event => {
                if let Event::Start(Tag::Image { dest_url, .. }) = &event {
                    self.files.insert(links::resolved(self.path, dest_url));
                }
                self.note(&words(std::slice::from_ref(&event)));
                self.events.push(event);
            }
        }
    }

    /// Returns where a link leads on the site. `None` if it leads to a source file of the repository.
    fn destination(&mut self, target: &CowStr<'a>) -> Option<String> {
        if !links::is_ours(target) || target.starts_with('#') {
            return Some(target.to_string());
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = links::resolved(self.path, file);
        let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        if let Some(page) = self.tree.document(&to).filter(|page| self.pages.contains(page)) {
            let link = format!("{}{}{anchor}", to_root(self.path), page_of(&page));
            self.sections.last_mut()?.links.push(page);
            return Some(link);
        }
        let is_shipped = self.tree.has_file(&to) && (to.starts_with("docs/") || !to.contains('/'));
        is_shipped.then(|| {
            let link = format!("{}{to}", to_root(self.path));
            self.files.insert(to);
            link
        })
    }
}

/// Returns the path from a document to the root of the site: `../` for each folder.
pub(super) fn to_root(path: &str) -> String {
    "../".repeat(path.matches('/').count())
}

/// Escapes text for HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> Document {
        let mut tree = Tree::default();
        for (path, text) in
            [("docs/A.md", "# A"), ("crates/x/README.md", "# X"), ("src/a.rs", ""), ("docs/a.svg", "")]
        {
            tree.add(path, text.to_owned());
        }
        let pages = BTreeSet::from(["docs/A.md".to_owned(), "crates/x/README.md".to_owned()]);
        Document::read(&tree, &pages, path, text)
    }

    #[test]
    fn links_lead_to_pages_and_sources_are_named() {
        let text =
            "[a](../A.md#one) [x](../../crates/x) [s](../../src/a.rs) ![i](../a.svg) [w](https://x.y/z)\n";
        let document = read("docs/howto/b.md", text);
        for part in [
            "<a href=\"../../docs/A.html#one\">a</a>",
            "<a href=\"../../crates/x/index.html\">x</a>",
            "<span class=\"source\" title=\"src/a.rs in the repository\">s</span>",
            "<img src=\"../a.svg\"",
            "<a href=\"https://x.y/z\">w</a>",
        ] {
            assert!(document.body.contains(part), "{part}: {}", document.body);
        }
        assert!(document.files.iter().eq(["docs/a.svg"]));
        assert_eq!(document.sections[0].links, ["docs/A.md", "crates/x/README.md"]);
    }

    #[test]
    fn headings_have_anchors_and_sessions_are_told_apart_from_what_they_print() {
        let document = read("docs/b.md", "# T `c`\n## Two\n```console\n$ a <b>\n<c>\n```\n");
        assert_eq!(document.title, "T c");
        assert!(document.body.contains("<h2 id=\"two\">Two<a"), "{}", document.body);
        let session = "<span class=\"prompt\">$ </span><b>a &lt;b&gt;</b>\n&lt;c&gt;\n";
        assert!(document.body.contains(session), "{}", document.body);
        assert_eq!(document.sections[1].text, "");
        assert_eq!(document.sections[2].text.trim(), "$ a <b>\n<c>");
    }
}
