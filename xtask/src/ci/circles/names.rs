//! Finds the names of other modules in a source file: imports and paths anywhere in it, except in its tests.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::run::Result;

/// The segments of a path from the root of the crate. Empty for the root itself.
pub(super) type Path = Vec<String>;

/// The names in a file.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Every path into this crate.
    pub(super) paths: BTreeSet<Path>,
    /// The names that the file imports, and the path that each comes from. Other modules can import them from
    /// here.
    pub(super) imports: BTreeMap<String, Path>,
    /// Modules that are compiled only for tests.
    pub(super) tests: BTreeSet<Path>,
}

/// Reads the names in `text`, the file that defines `module`.
pub(super) fn read(module: &[String], text: &str) -> Result<Names> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("{}: {error}", module.join("::")))?;
    let mut names = Names::default();
    walk(&trees(tokens), module, &mut names);
    Ok(names)
}

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

/// Reads the names in the tokens of the module `here`, which may be an inline module.
fn walk(mut rest: &[TokenTree], here: &[String], names: &mut Names) {
    while let Some((first, after)) = rest.split_first() {
        rest = match (first, after) {
            (_, [TokenTree::Punct(mark), TokenTree::Group(group), ..])
                if is(first, "#") && mark.as_char() == '!' && is_test(group) =>
            {
                return;
            }
            (_, [TokenTree::Group(group), item @ ..]) if is(first, "#") && is_test(group) => {
                test_item(item, here, names)
            }
            (_, [TokenTree::Ident(name), TokenTree::Group(body), next @ ..]) if is(first, "mod") => {
                walk(&trees(body.stream()), &joined(here, &[name.to_string()]), names);
                next
            }
            _ if is(first, "use") => imports(after, here, names),
            (TokenTree::Ident(_), _) => {
                let (path, next) = path(rest);
                names.paths.extend(absolute(&path, here).filter(|path| !path.is_empty()));
                next
            }
            (TokenTree::Group(group), _) => {
                walk(&trees(group.stream()), here, names);
                after
            }
            _ => after,
        };
    }
}

/// Checks whether an attribute is `cfg(test)` or `cfg(all(test, …))`.
fn is_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Skips a test-only item, and returns the tokens after it. Anything else with such an attribute, such as a
/// field, is not skipped.
fn test_item<'a>(item: &'a [TokenTree], here: &[String], names: &mut Names) -> &'a [TokenTree] {
    const ITEMS: &[&str] = &[
        "async", "const", "enum", "extern", "fn", "impl", "mod", "static", "struct", "trait", "type",
        "unsafe", "use",
    ];
    let mut rest = item;
    loop {
        rest = match rest {
            [mark, TokenTree::Group(_), next @ ..] if is(mark, "#") => next,
            [public, TokenTree::Group(group), next @ ..]
                if is(public, "pub") && group.delimiter() == Delimiter::Parenthesis =>
            {
                next
            }
            [public, next @ ..] if is(public, "pub") => next,
            _ => break,
        };
    }
    let Some(keyword) = ITEMS.iter().find(|keyword| rest.first().is_some_and(|first| is(first, keyword)))
    else {
        return item;
    };
    if let [_, TokenTree::Ident(name), end, ..] = rest
        && *keyword == "mod"
        && is(end, ";")
    {
        names.tests.insert(joined(here, &[name.to_string()]));
    }
    // A body in braces ends an item, except in constants, statics, type aliases and imports.
    let has_body = !["const", "static", "type", "use"].contains(keyword);
    let ends = |tree: &TokenTree| {
        is(tree, ";")
            || has_body && matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
    };
    let end = rest.iter().position(ends).map_or(rest.len(), |at| at + 1);
    rest.get(end..).unwrap_or_default()
}

/// Reads the imports of a `use`, and returns the tokens from its semicolon on.
fn imports<'a>(tokens: &'a [TokenTree], here: &[String], names: &mut Names) -> &'a [TokenTree] {
    let end = tokens.iter().position(|tree| is(tree, ";")).unwrap_or(tokens.len());
    let (tree, rest) = tokens.split_at(end);
    import(tree, &[], here, names);
    rest
}

/// Reads one import tree below the path `above`: `a::b as c`, `a::*`, `a::{b, c::d}`.
fn import(tree: &[TokenTree], above: &[String], here: &[String], names: &mut Names) {
    let (below, rest) = path(tree);
    let mut full = joined(above, &below);
    if let Some(TokenTree::Group(group)) = rest.first() {
        let members = trees(group.stream());
        members.split(|tree| is(tree, ",")).for_each(|member| import(member, &full, here, names));
        return;
    }
    if full.last().is_some_and(|last| last == "self") && full.len() > 1 {
        full.pop();
    }
    let name = match rest {
        [word, TokenTree::Ident(alias), ..] if is(word, "as") => Some(alias.to_string()),
        [star, ..] if is(star, "*") => None,
        _ => full.last().cloned(),
    };
    // Any other path may begin with a child of this module. If it begins with another crate, it leads to no
    // module.
    let path = absolute(&full, here).unwrap_or_else(|| joined(here, &full));
    if let Some(name) = name {
        names.imports.insert(name, path.clone());
    }
    if !path.is_empty() {
        names.paths.insert(path);
    }
}

/// Splits off the path that the tokens begin with. Returns it and the remaining tokens.
fn path(mut rest: &[TokenTree]) -> (Path, &[TokenTree]) {
    let mut path = Path::new();
    loop {
        match rest {
            [TokenTree::Ident(name), first, second, next @ ..] if is(first, ":") && is(second, ":") => {
                path.push(name.to_string());
                rest = next;
            }
            [TokenTree::Ident(name), next @ ..] => {
                path.push(name.to_string());
                return (path, next);
            }
            [first, second, next @ ..] if path.is_empty() && is(first, ":") && is(second, ":") => rest = next,
            _ => return (path, rest),
        }
    }
}

/// Resolves a path that begins with `crate`, `self` or `super` to a path from the root. `None` for any other
/// path.
fn absolute(path: &[String], here: &[String]) -> Option<Path> {
    let up = path.iter().take_while(|part| *part == "super").count();
    let (base, below) = match path.first()?.as_str() {
        "crate" => (&[][..], path.get(1..)?),
        "self" => {
            let up = path.iter().skip(1).take_while(|part| *part == "super").count();
            (here.get(..here.len().checked_sub(up)?)?, path.get(1 + up..)?)
        }
        "super" => (here.get(..here.len().checked_sub(up)?)?, path.get(up..)?),
        _ => return None,
    };
    Some(joined(base, below))
}

fn joined(above: &[String], below: &[String]) -> Path {
    [above, below].concat()
}

fn is(tree: &TokenTree, text: &str) -> bool {
    match tree {
        TokenTree::Ident(name) => *name == text,
        TokenTree::Punct(mark) => text.len() == 1 && text.starts_with(mark.as_char()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Names {
        read(&["a".to_owned(), "b".to_owned()], text).unwrap()
    }

    fn paths(text: &str) -> Vec<String> {
        names(text).paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn a_path_is_found_wherever_it_stands() {
        assert_eq!(
            paths("fn f() -> crate::x::Y { super::z::g(&[self::own::H]) }"),
            ["a::b::own::H", "a::z::g", "x::Y"]
        );
        assert_eq!(paths("forward! { Model => crate::x::Y, $crate::z }"), ["x::Y", "z"]);
        assert_eq!(paths("#[derive(A)] struct S { x: Vec<crate::x::Y> }"), ["x::Y"]);
        assert_eq!(paths("// crate::x\n/// crate::y\nconst Z: &str = \"crate::z\";"), Vec::<String>::new());
        assert_eq!(paths("pub(crate) fn f(other: my_crate::x, y: std::fmt::Z) {}"), [""; 0]);
    }

    #[test]
    fn imports_are_trees() {
        let found = names("pub(crate) use crate::x::{self, Y as Z, w::*}; use super::{v, u::{s, t}};");
        let listed: Vec<_> = found.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(listed, ["a::u::s", "a::u::t", "a::v", "x", "x::Y", "x::w"]);
        let of = |name: &str| found.imports.get(name).map(|path| path.join("::"));
        assert_eq!(
            (of("Z"), of("x"), of("t")),
            (Some("x::Y".into()), Some("x".into()), Some("a::u::t".into()))
        );
        assert_eq!(of("Y"), None);
    }

    #[test]
    fn tests_are_left_out_and_nothing_else() {
        let text = "use crate::x; #[cfg(test)] mod tests { use crate::t; } pub use crate::y; mod inner { use super::z; }";
        assert_eq!(paths(text), ["a::b::z", "x", "y"]);
        assert_eq!(paths("#[cfg(test)]\n#[path = \"t.rs\"]\npub(crate) mod t; use crate::x;"), ["x"]);
        assert_eq!(paths("#[cfg(test)] use crate::{t, u}; use crate::x;"), ["x"]);
        assert_eq!(paths("#[cfg(all(test, unix))] impl A { fn f() { crate::t() } } crate::x!();"), ["x"]);
        assert_eq!(
            paths("#[cfg(not(test))] fn f() { crate::x() } S { #[cfg(test)] a: 1, b: crate::y() }"),
            ["x", "y"]
        );
        assert_eq!(paths("#![cfg(test)]\nuse crate::t;"), [""; 0]);
        assert_eq!(names("#[cfg(test)] mod t;").tests.len(), 1);
    }
}
