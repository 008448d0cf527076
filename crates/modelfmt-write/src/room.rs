//! Checks the free space of a disk before writing.

use std::io;
use std::path::Path;

/// Fails if the file system of a folder has less than `nbytes` bytes free, so that the error comes before
/// hours of work. Succeeds if the free space is unknown: on Windows, without the feature `free-space`, or if
/// the folder does not exist. Other limits, such as quotas, are not checked.
///
/// # Errors
/// [`StorageFull`](io::ErrorKind::StorageFull), with the bytes needed, the bytes free, and the folder.
pub fn expect_room(folder: &Path, nbytes: u64) -> io::Result<()> {
    let Some(free) = free_space(folder).filter(|free| *free < nbytes) else { return Ok(()) };
    let why = format!(
        "it takes {nbytes} bytes or more, and there is room for {free} in {}; make room, or write to another disk",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

#[cfg(all(unix, feature = "free-space"))]
fn free_space(folder: &Path) -> Option<u64> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let disk = rustix::fs::statvfs(folder).ok()?;
    // Some file systems, such as the virtual ones of the kernel, have no blocks at all.
    (disk.f_blocks > 0).then(|| disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(all(unix, feature = "free-space")))]
const fn free_space(_: &Path) -> Option<u64> {
    None
}

#[cfg(all(test, unix, feature = "free-space"))]
mod tests {
    use super::*;

    #[test]
    fn what_no_disk_has_room_for_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(expect_room(folder.path(), 1).is_ok());
        let error = expect_room(folder.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let text = error.to_string();
        assert!(
            text.contains(&u64::MAX.to_string()) && text.contains(&folder.path().display().to_string()),
            "{text}"
        );
        assert!(
            expect_room(&folder.path().join("none"), u64::MAX).is_ok(),
            "the writer says that it is not there"
        );
        assert!(expect_room(Path::new(""), u64::MAX).is_err(), "the folder of a bare name");
        assert!(expect_room(Path::new("/proc"), 1).is_ok(), "it has no blocks");
    }
}
