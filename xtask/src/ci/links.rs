//! Links between documents, and citations of documents in comments: each leads to a file and a heading that are there, and every
//! page of `docs/` is reached from its front page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::run::{self, Result, step};
use crate::workspace;

/// Where a reader of `docs/` begins.
const FRONT: &str = "docs/README.md";

pub(super) fn check() -> Result {
    step("links: documents lead to files and headings that are there, comments too");
    let root = workspace::root();
    let listed = run::output(workspace::command("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut tree = Tree::default();
    for path in listed.split('\0').filter(|path| root.join(path).exists()) {
        let is_text = path.ends_with(".md") || path.ends_with(".rs");
        let text = if is_text { fs::read_to_string(root.join(path))? } else { String::new() };
        tree.add(path, text);
    }
    let faults = tree.faults();
    for fault in &faults {
        println!("{fault}");
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("{} dead links", faults.len()).into()) }
}

/// The files of the repository.
#[derive(Default)]
struct Tree {
    /// By path, with the text of those that can have links.
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    /// The anchors of each document.
    anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Tree {
    fn add(&mut self, path: &str, text: String) {
        if path.ends_with(".md") {
            self.anchors.insert(path.to_owned(), anchors(&text));
        }
        let mut folder = path;
        while let Some((parent, _)) = folder.rsplit_once('/') {
            self.folders.insert(parent.to_owned());
            folder = parent;
        }
        self.files.insert(path.to_owned(), text);
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (path, text) in &self.files {
            for (line, target) in targets(path, text) {
                faults.extend(self.fault(path, &target).map(|why| format!("{path}:{line}: {why}")));
            }
        }
        let reached = self.reached();
        let pages = self.files.keys().filter(|path| path.starts_with("docs/") && path.ends_with(".md"));
        let lost = pages.filter(|page| !reached.contains(*page));
        faults.extend(lost.map(|page| format!("{page}: no page leads here from {FRONT}")));
        faults
    }

    /// What is wrong with a link of a file, if anything is.
    fn fault(&self, from: &str, target: &str) -> Option<String> {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = resolved(from, path);
        if !self.files.contains_key(&to) && !self.folders.contains(&to) {
            return Some(format!("{target:?}: there is no {to}"));
        }
        let known = self.anchors.get(&to).is_none_or(|anchors| anchors.contains(anchor));
        (!anchor.is_empty() && !known).then(|| format!("{target:?}: {to} has no heading for #{anchor}"))
    }

    /// The documents that links lead to from the front page of `docs/`.
    fn reached(&self) -> BTreeSet<String> {
        let mut reached = BTreeSet::from([FRONT.to_owned()]);
        let mut next = vec![FRONT.to_owned()];
        while let Some(page) = next.pop() {
            let Some(text) = self.files.get(&page) else { continue };
            for (_, target) in targets(&page, text) {
                let to = resolved(&page, target.split('#').next().unwrap_or_default());
                if to.starts_with("docs/") && reached.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        reached
    }
}

/// The links of a document, or the citations of a source file, with their lines. A citation is a path from the root of the
/// repository, so it begins with `/` here.
fn targets(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if path.ends_with(".rs") {
            found.extend(cited(line).into_iter().map(|target| (number, format!("/{target}"))));
            continue;
        }
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            found.extend(linked(line).into_iter().map(|target| (number, target)));
        }
    }
    found
}

/// `[text](target)` and `src="target"`, but for those that lead out of the repository.
fn linked(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let attribute = ["src=\"", "srcset=\"", "href=\""];
    let of_html = attribute.into_iter().flat_map(|name| line.split(name).skip(1));
    let of_html = of_html.filter_map(|rest| rest.split('"').next());
    let is_ours = |target: &&str| !target.contains("://") && !target.starts_with("mailto:");
    inline.chain(of_html).filter(is_ours).map(str::to_owned).collect()
}

/// Paths such as `docs/formats/mag.md#checksum` in a comment.
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

/// Where a link leads, as a path from the root.
fn resolved(from: &str, target: &str) -> String {
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

/// The anchors that GitHub gives the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = slug(heading.trim());
        let twins = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(twins).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

/// Lower case, spaces as hyphens, and of punctuation only `-` and `_`.
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
        assert_eq!(tree(&good).faults(), Vec::<String>::new());
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
            let faults = tree(&files).faults();
            assert!(faults.iter().any(|found| found == fault), "{fault}: {faults:?}");
        }
    }
}
