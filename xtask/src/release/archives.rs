//! Reproducible archives: sorted, without owners, with one time for all files.

use std::fs::{self, File};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, Header};

use crate::run::Result;
use crate::workspace;

/// Packs the files of a folder as `NAME/…`. A file is executable for everybody if it is for its owner.
pub(super) fn pack(folder: &Path, name: &str, time: u64, to: &Path) -> Result {
    // This gzip header has neither a time nor a name.
    let gzip = GzBuilder::new().write(File::create(to)?, Compression::best());
    let mut tar = Builder::new(gzip);
    for file in workspace::files(folder)? {
        let path = folder.join(&file);
        let bytes = fs::read(&path)?;
        let mut header = Header::new_gnu();
        header.set_size(u64::try_from(bytes.len())?);
        header.set_mode(if is_executable(&path)? { 0o755 } else { 0o644 });
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, format!("{name}/{file}"), &*bytes)?;
    }
    tar.into_inner()?.finish()?.sync_all()?;
    Ok(())
}

#[cfg(unix)]
pub(super) fn is_executable(path: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::metadata(path)?.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_executable(path: &Path) -> Result<bool> {
    Ok(path.extension().is_some_and(|extension| extension == "exe"))
}

/// Sets the usual permissions for everything below a folder, which are the same on every machine, whatever
/// the umask.
#[cfg(unix)]
pub(super) fn usual_permissions(folder: &Path) -> Result {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_open = path.is_dir() || is_executable(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(if is_open { 0o755 } else { 0o644 }))?;
        if path.is_dir() {
            usual_permissions(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_order_of_files_leave_no_trace() {
        let [first, second] = [&["a", "b"], &["b", "a"]].map(|names| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                fs::write(folder.path().join(name), name).unwrap();
            }
            File::open(folder.path().join("a")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            let to = folder.path().with_extension("tar.gz");
            pack(folder.path(), "x-1", 1_700_000_000, &to).unwrap();
            fs::read(to).unwrap()
        });
        assert!(first == second && first.starts_with(&[0x1f, 0x8b]));
    }
}
