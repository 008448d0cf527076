//! `cargo xtask site`: builds the documents as a web site below `target/site`, which needs no server.
//!
//! Every document that can be reached from the README becomes a page at its own path, so that links stay as
//! they are. The sidebar lists what `docs/README.md` leads to, in the same order.

mod markdown;
mod template;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::links::{self, Tree};
use crate::run::{Result, step};
use crate::workspace;

use self::markdown::Document;

/// The first page.
const FRONT: &str = "README.md";
/// The page whose headings and links become the sidebar.
const CONTENTS: &str = "docs/README.md";

/// Files that every page uses.
const ASSETS: [(&str, &str); 2] =
    [("site.css", include_str!("site.css")), ("site.js", include_str!("site.js"))];

/// Builds the site, and checks the links in it.
pub(crate) fn build() -> Result {
    step("site: the documents as pages");
    let out = workspace::target_dir().join("site");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    let tree = Tree::of_repository()?;
    let paths = tree.reached(FRONT, "");
    let documents: BTreeMap<&str, Document> = paths
        .iter()
        .map(|path| (path.as_str(), Document::read(&tree, &paths, path, tree.text(path).unwrap_or_default())))
        .collect();
    let contents =
        template::Contents::of(documents.get(CONTENTS).ok_or("docs/README.md is missing")?, &documents);
    for (path, document) in &documents {
        write(&out, &page_of(path), &template::page(path, document, &contents))?;
        for file in &document.files {
            let to = place(&out, file)?;
            fs::copy(workspace::root().join(file), to)?;
        }
    }
    for (name, text) in ASSETS {
        write(&out, name, text)?;
    }
    write(&out, "search-index.js", &template::search_index(&documents))?;
    links::check_site(&out)?;
    println!("{} pages: file://{}", documents.len(), out.join("index.html").display());
    Ok(())
}

/// Returns the page that a document becomes.
fn page_of(document: &str) -> String {
    match document.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.html"),
        None => format!("{}.html", document.trim_end_matches(".md")),
    }
}

fn write(out: &Path, path: &str, text: &str) -> Result {
    Ok(fs::write(place(out, path)?, text)?)
}

/// Returns the path of a file of the site, and makes its folder.
fn place(out: &Path, path: &str) -> Result<PathBuf> {
    let place = out.join(path);
    fs::create_dir_all(place.parent().unwrap_or(out))?;
    Ok(place)
}
