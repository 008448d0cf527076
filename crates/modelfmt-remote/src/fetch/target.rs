//! The paths that files are written to: the path of a single file, and the files in a folder. Within a
//! folder, no link is followed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{FetchError, Result};
use super::names;

/// Checks whether a path names a folder: it is a folder, or ends like one.
pub(super) fn is_folder(out: &Path) -> bool {
    let text = out.as_os_str().as_encoded_bytes();
    text.last().is_some_and(|last| *last == b'/' || std::path::is_separator(char::from(*last)))
        || out.is_dir()
}

/// Returns the path of a file in the target folder, and creates the folders above it.
///
/// # Errors
/// If one of these folders is a link, or cannot be created.
pub(super) fn in_folder(folder: &Path, name: &str) -> Result<PathBuf> {
    if let Some(why) = names::fault_of(name) {
        return Err(FetchError::Name { list: "the URL".into(), name: name.into(), why });
    }
    fs::create_dir_all(folder).map_err(FetchError::local(folder))?;
    let mut path = folder.to_owned();
    let mut components = name.split('/').peekable();
    while let Some(component) = components.next() {
        path.push(component);
        if components.peek().is_none() {
            break;
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FetchError::local(&path)(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(&path).map_err(FetchError::local(&path))?;
        if !found.is_dir() {
            let why = "it is a link or a file, where a folder is needed; links in a folder that is fetched are not followed";
            return Err(FetchError::refused(&path, why));
        }
    }
    Ok(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        assert!(matches!(in_folder(&inside, "link/x"), Err(FetchError::Refused { .. })));
        assert!(matches!(in_folder(&inside, "../x"), Err(FetchError::Name { .. })));
        assert_eq!(in_folder(&inside, "a/b/c").unwrap(), inside.join("a/b/c"));
        assert!(inside.join("a/b").is_dir() && !inside.join("a/b/c").exists());
        assert!(is_folder(&inside) && is_folder(Path::new("none/")) && !is_folder(Path::new("none")));
    }
}
