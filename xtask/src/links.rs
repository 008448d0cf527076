//! Checks links between documents, and citations of documents in comments: each leads to a file and a heading
//! that exist, and every page of `docs/` can be reached from its front page. The pages of the built site are
//! checked in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::run::{Result, step};
use crate::workspace;

/// The front page of `docs/`.
const FRONT: &str = "docs/README.md";

pub(crate) fn check() -> Result {
    step("links: documents lead to files and headings that are there, comments too");
    let tree = Tree::of_repository()?;
    let mut faults = tree.dead();
    faults.extend(tree.lost());
    verdict(&faults)
}

/// Checks that the pages in a folder lead to files and headings in that folder.
pub(crate) fn check_site(folder: &Path) -> Result {
    let mut tree = Tree::default();
    tree.add_folder(folder, "")?;
    verdict(&tree.dead())
}

fn verdict(faults: &[String]) -> Result {
    for fault in faults {
        println!("{fault}");
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("{} dead links", faults.len()).into()) }
}

/// The files of the repository, or of the built site.
#[derive(Default)]
pub(crate) struct Tree {
    /// The files by path, with the text of those that can have links.
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    /// The anchors of each document.
    anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Tree {
    /// Reads the files that git tracks or would track.
    pub(crate) fn of_repository() -> Result<Self> {
        let root = workspace::root();
        let listed = workspace::files_of_git()?;
        let mut tree = Self::default();
        for path in listed.split('\0').filter(|path| root.join(path).is_file()) {
            let is_text = path.ends_with(".md") || path.ends_with(".rs");
            let text = if is_text { fs::read_to_string(root.join(path))? } else { String::new() };
            tree.add(path, text);
        }
        Ok(tree)
    }

    /// Adds what is in a folder, below `prefix`, which is empty or ends in `/`.
    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add_folder(&entry.path(), &format!("{path}/"))?;
            } else {
                let is_page = path.ends_with(".html");
                self.add(&path, if is_page { fs::read_to_string(entry.path())? } else { String::new() });
            }
        }
        Ok(())
    }

    /// Returns the text of a document.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Checks whether there is a file with this path.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the document at a path: the file itself, or the README of a folder.
    pub(crate) fn document(&self, path: &str) -> Option<String> {
        let readme = if path.is_empty() { "README.md".to_owned() } else { format!("{path}/README.md") };
        let candidates = [path.to_owned(), readme];
        candidates.into_iter().find(|path| path.ends_with(".md") && self.files.contains_key(path))
    }

    pub(crate) fn add(&mut self, path: &str, text: String) {
        if path.ends_with(".md") {
            self.anchors.insert(path.to_owned(), anchors(&text));
        } else if path.ends_with(".html") {
            self.anchors.insert(path.to_owned(), attributes(&text, "id=\"").map(str::to_owned).collect());
        }
        let mut folder = path;
        while let Some((parent, _)) = folder.rsplit_once('/') {
            self.folders.insert(parent.to_owned());
            folder = parent;
        }
        self.files.insert(path.to_owned(), text);
    }

    /// Returns a fault for each link that leads nowhere.
    fn dead(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (path, text) in &self.files {
            for (line, target) in targets(path, text) {
                faults.extend(self.fault(path, &target).map(|why| format!("{path}:{line}: {why}")));
            }
        }
        faults
    }

    /// Returns a fault for each page of `docs/` that no page leads to.
    fn lost(&self) -> Vec<String> {
        let reached = self.reached(FRONT, "docs/");
        let pages = self.files.keys().filter(|path| path.starts_with("docs/") && path.ends_with(".md"));
        let lost = pages.filter(|page| !reached.contains(*page));
        lost.map(|page| format!("{page}: no page leads here from {FRONT}")).collect()
    }

    /// Returns what is wrong with a link of a file, if anything is.
    fn fault(&self, from: &str, target: &str) -> Option<String> {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = resolved(from, path);
        if !self.files.contains_key(&to) && !self.folders.contains(&to) {
            return Some(format!("{target:?}: there is no {to}"));
        }
        let known = self.anchors.get(&to).is_none_or(|anchors| anchors.contains(anchor));
        (!anchor.is_empty() && !known).then(|| format!("{target:?}: {to} has no heading for #{anchor}"))
    }

    /// Returns the documents below `within` that can be reached from a front page by links.
    pub(crate) fn reached(&self, front: &str, within: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::from([front.to_owned()]);
        let mut next = vec![front.to_owned()];
        while let Some(page) = next.pop() {
            let Some(text) = self.files.get(&page) else { continue };
            for (_, target) in targets(&page, text) {
                let to = resolved(&page, target.split('#').next().unwrap_or_default());
                let Some(to) = self.document(&to).filter(|to| to.starts_with(within)) else { continue };
                if reached.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        reached
    }
}

/// Returns the links of a document, or the citations of a source file, with their line numbers. A citation is
/// a path from the root of the repository, so it begins with `/` here.
fn targets(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if path.ends_with(".rs") {
            found.extend(cited(line).into_iter().map(|target| (number, format!("/{target}"))));
            continue;
        }
        if path.ends_with(".html") {
            found.extend(
                of_html(line).filter(|target| is_ours(target)).map(|target| (number, target.to_owned())),
            );
            continue;
        }
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            found.extend(linked(line).into_iter().map(|target| (number, target)));
        }
    }
    found
}

/// Returns the targets of `[text](target)` and `src="target"`, except those that lead out of the repository.
fn linked(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline.chain(of_html(line)).filter(|target| is_ours(target)).map(str::to_owned).collect()
}

/// Returns the targets of HTML's links and images.
fn of_html(line: &str) -> impl Iterator<Item = &str> {
    ["src=\"", "srcset=\"", "href=\""].into_iter().flat_map(|name| attributes(line, name))
}

/// Returns the values of an attribute. `name` includes the `="` after it.
fn attributes<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(name).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Checks whether a link leads to a file of the repository or the site.
pub(crate) fn is_ours(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns paths such as `docs/formats/mag.md#checksum` in a comment.
fn cited(line: &str) -> Vec<String> {
    let Some((code, comment)) = line.split_once("//") else { return Vec::new() };
    if code.matches('"').count() % 2 == 1 {
        return Vec::new(); // within a string
    }
    let in_path = |c: char| c.is_ascii_alphanumeric() || "/._-#".contains(c);
    let words = comment.split(|c: char| !in_path(c)).map(|word| word.trim_end_matches('.'));
    let is_cited =
        |word: &&str| word.starts_with("docs/") && (word.contains(".md#") || word.ends_with(".md"));
    words.filter(is_cited).map(str::to_owned).collect()
}

/// Returns the path from the root that a link leads to.
pub(crate) fn resolved(from: &str, target: &str) -> String {
    if target.is_empty() {
        return from.to_owned();
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchors that GitHub gives the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        add_anchor(&mut found, heading.trim());
    }
    found
}

/// Adds the anchor of a heading to those of the headings before it, and returns the anchor.
pub(crate) fn add_anchor(anchors: &mut BTreeSet<String>, heading: &str) -> String {
    let anchor = slug(heading);
    let mut free = anchor.clone();
    let mut number = 0;
    while !anchors.insert(free.clone()) {
        number += 1;
        free = format!("{anchor}-{number}");
    }
    free
}

/// Returns a heading in lower case, with hyphens for spaces, and with no punctuation but `-` and `_`.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        files.iter().for_each(|(path, text)| tree.add(path, (*text).to_owned()));
        tree
    }

    #[test]
    fn headings_have_githubs_anchors() {
        let found = anchors("# The `.apr` ending\n## Rank 0\n```\n# no heading\n```\n## Rank 0\n#no\n");
        assert!(found.iter().eq(["rank-0", "rank-0-1", "the-apr-ending"]));
        assert_eq!(slug("apr_q4 and apr_q8"), "apr_q4-and-apr_q8");
    }

    #[test]
    fn dead_links_and_citations_are_found() {
        let page =
            "[a](A.md#one) [b](../x.svg) [c](https://x.y/z.md) [d](#front)\n# Front\n```\n[e](no)\n```\n";
        let good = [
            ("docs/README.md", page),
            ("docs/A.md", "## One\n[src](../src)"),
            ("x.svg", ""),
            ("src/a.rs", "// docs/A.md#one.\nlet s = \"docs/B.md\";"),
        ];
        let faults = |files: &[(&str, &str)]| [tree(files).dead(), tree(files).lost()].concat();
        assert_eq!(faults(&good), Vec::<String>::new());
        for (place, text, fault) in [
            (1, "## Two\n", "docs/README.md:1: \"A.md#one\": docs/A.md has no heading for #one"),
            (1, "## One\n[x](B.md)", "docs/A.md:2: \"B.md\": there is no docs/B.md"),
            (1, "## One\n<img src=\"y.svg\">", "docs/A.md:2: \"y.svg\": there is no docs/y.svg"),
            (
                3,
                "//! see docs/A.md#none",
                "src/a.rs:1: \"/docs/A.md#none\": docs/A.md has no heading for #none",
            ),
            (0, "", "docs/A.md: no page leads here from docs/README.md"),
        ] {
            let mut files = good;
            files[place].1 = text;
            let faults = faults(&files);
            assert!(faults.iter().any(|found| found == fault), "{fault}: {faults:?}");
        }
    }

    #[test]
    fn links_of_a_page_are_checked_and_its_text_is_not() {
        let page = "<h2 id=\"one\">a</h2><a href=\"#one\">x</a> <a href=\"b.html#two\">y</a> <code>[x](no.md)</code>";
        assert_eq!(tree(&[("a.html", page), ("b.html", "<p id=\"two\">")]).dead(), Vec::<String>::new());
        assert_eq!(tree(&[("a.html", page), ("b.html", "")]).dead().len(), 1);
        assert_eq!(tree(&[("a.html", page)]).dead(), ["a.html:1: \"b.html#two\": there is no b.html"]);
    }
}
