//! Tests of files that appear, replace others, are protected, or remain after their writer is killed.

use super::*;
use crate::NewSet;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_appears_when_committed_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m.mag");
    let file = AtomicFile::create(&target, Overwrite::Refuse).unwrap();
    file.write_at(2, b"cd").unwrap();
    file.write_at(0, b"ab").unwrap();
    let mut back = [0; 3];
    file.read_back(1, &mut back).unwrap();
    assert_eq!(&back, b"bcd");
    let [partial] = &names(folder.path())[..] else { panic!("one file") };
    assert!(partial.starts_with(".modelfmt-") && partial.ends_with(".partial"), "{partial}");
    file.commit().unwrap();
    assert_eq!(
        (names(folder.path()), fs::read(&target).unwrap()),
        (vec!["m.mag".to_owned()], b"abcd".to_vec())
    );
}

#[test]
fn a_file_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = AtomicFile::create(folder.path().join("m"), Overwrite::Refuse).unwrap();
    file.write_at(0, b"ab").unwrap();
    let partial = folder.path().join(names(folder.path()).remove(0));
    // A running flush holds the file open like this. It has nothing more to write.
    let held = File::open(partial).unwrap();
    drop(file);
    assert!(names(folder.path()).is_empty());
    assert_eq!(held.metadata().unwrap().len(), 0);
}

#[test]
fn existing_files_are_replaced_only_when_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m");
    let late = AtomicFile::create(&target, Overwrite::Refuse).unwrap();
    fs::write(&target, "old").unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let refused = AtomicFile::create(&target, Overwrite::Refuse).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    let file = AtomicFile::create(&target, Overwrite::Replace).unwrap();
    file.write_at(0, b"new").unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"old");
    file.commit().unwrap();
    assert_eq!((names(folder.path()), fs::read(&target).unwrap()), (vec!["m".to_owned()], b"new".to_vec()));
}

/// Leaves the temporary file of a writer that was killed, and returns its path.
fn leftover(target: &Path) -> PathBuf {
    let file = AtomicFile::create(target, Overwrite::Replace).unwrap();
    let path = file.temp.path().to_owned();
    drop(file);
    fs::write(&path, "left over by a writer that was killed").unwrap();
    path
}

#[test]
fn two_writers_of_one_target_keep_apart_and_leftovers_go() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m");
    let (left, other) = (leftover(&target), leftover(&folder.path().join("n")));
    let first = AtomicFile::create(&target, Overwrite::Replace).unwrap();
    assert!(!left.exists() && other.exists());
    let second = AtomicFile::create(&target, Overwrite::Replace).unwrap_err();
    assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
    assert!(second.to_string().contains("another process"), "{second}");
    first.write_at(0, b"x").unwrap();
    first.commit().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"x");
    drop(AtomicFile::create(folder.path().join("n"), Overwrite::Replace).unwrap());
    assert_eq!(names(folder.path()), ["m"]);
}

#[test]
fn what_is_being_read_is_no_leftover() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m");
    let left = leftover(&target);
    let inputs = InputFiles::new([&left]);
    AtomicFile::create_protecting(&target, Overwrite::Replace, &inputs).unwrap().commit().unwrap();
    assert!(left.exists());
    // Files with other names are left alone, however similar the names.
    let near = [".m.partial", ".modelfmt-.partial", ".modelfmt-0000000000000000-00000000.partial"];
    let longer = left.file_name().unwrap().to_str().unwrap().replace(".partial", "0.partial");
    near.iter()
        .copied()
        .chain([longer.as_str()])
        .for_each(|name| fs::write(folder.path().join(name), "x").unwrap());
    drop(AtomicFile::create(&target, Overwrite::Replace).unwrap());
    assert_eq!(names(folder.path()).len(), 5, "{:?}", names(folder.path()));
    assert!(!left.exists());
}

#[cfg(unix)]
#[test]
fn only_the_name_of_a_leftover_goes() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m");
    let left = leftover(&target);
    fs::hard_link(&left, folder.path().join("model")).unwrap();
    drop(AtomicFile::create(&target, Overwrite::Replace).unwrap());
    assert_eq!(names(folder.path()), ["model"]);
    // A link is not a leftover.
    std::os::unix::fs::symlink("model", &left).unwrap();
    drop(AtomicFile::create(&target, Overwrite::Replace).unwrap());
    assert!(left.is_symlink());
    assert!(fs::read(folder.path().join("model")).unwrap().starts_with(b"left over"));
}

#[test]
fn an_input_is_not_replaced_under_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("m"), "old").unwrap();
    let mut aliases = vec!["m", "./m"];
    #[cfg(unix)]
    {
        fs::hard_link(path("m"), path("hard")).unwrap();
        std::os::unix::fs::symlink("hard", path("soft")).unwrap();
        aliases.extend(["hard", "soft"]);
    }
    let inputs = InputFiles::new([path("m")]);
    let new = NewFolder::new(folder.path(), Overwrite::Replace).protecting(inputs.clone());
    for name in aliases {
        let refused = AtomicFile::create_protecting(path(name), Overwrite::Replace, &inputs).unwrap_err();
        assert!(refused.to_string().contains("input"), "{refused}");
        assert!(new.check(name).is_err() && new.create(name).is_err());
    }
    // The input takes the target's name while the new file is being written.
    let late = new.create("late").unwrap();
    fs::rename(path("m"), path("late")).unwrap();
    assert!(late.remove_old().is_err() && late.commit().is_err());
    assert_eq!(fs::read(path("late")).unwrap(), b"old");
}

#[test]
fn names_as_long_as_the_system_takes_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m".repeat(255));
    AtomicFile::create(&target, Overwrite::Refuse).unwrap().commit().unwrap();
    assert!(target.exists());
    let longer = folder.path().join("m".repeat(256));
    assert!(AtomicFile::create(longer, Overwrite::Refuse).is_err());
    assert_eq!(names(folder.path()).len(), 1);
}

#[cfg(unix)]
#[test]
fn what_is_replaced_keeps_its_permissions() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("m");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    fs::write(&target, "x").unwrap();
    let usual = mode(&target);
    for (old, while_written) in [(0o600, 0o600), (0o640, 0o600), (0o444, 0o600), (0o666, 0o600)] {
        fs::set_permissions(&target, fs::Permissions::from_mode(old)).unwrap();
        let file = AtomicFile::create(&target, Overwrite::Replace).unwrap();
        assert_eq!(mode(file.temp.path()), while_written);
        file.commit().unwrap();
        assert_eq!(mode(&target), old);
    }
    // The permissions at the time of the replacement are kept.
    let file = AtomicFile::create(&target, Overwrite::Replace).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    file.commit().unwrap();
    assert_eq!(mode(&target), 0o600);
    // The same holds for the index of a set, whose old file is removed first.
    let mut file = AtomicFile::create(&target, Overwrite::Replace).unwrap();
    file.finish().unwrap();
    file.remove_old().unwrap();
    file.commit().unwrap();
    assert_eq!(mode(&target), 0o600);
    // A new file has the usual permissions of a new file.
    let new = folder.path().join("new");
    AtomicFile::create(&new, Overwrite::Replace).unwrap().commit().unwrap();
    assert_eq!(mode(&new), usual);
}

#[cfg(target_os = "linux")]
#[test]
fn the_files_of_a_set_need_no_descriptor_when_they_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let new = NewFolder::new(folder.path(), Overwrite::Refuse);
    let held = || {
        let files = fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        files.filter(|file| file.starts_with(folder.path())).count()
    };
    let parts: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let mut set = NewSet::begin::<modelfmt_core::CommonFault, _>(&new, "index", &parts).unwrap();
    let before = held();
    for part in &parts {
        let file = set.create::<modelfmt_core::CommonFault>(part).unwrap();
        file.write_at(0, part.as_bytes()).unwrap();
        set.done::<modelfmt_core::CommonFault>(part, file).unwrap();
    }
    assert_eq!(held(), before);
    assert_eq!(names(folder.path()).iter().filter(|name| !name.starts_with(".modelfmt-")).count(), 0);
    // The set's files are closed and not locked, but another writer still leaves them alone.
    let other = NewFolder::new(folder.path(), Overwrite::Refuse);
    let busy = other.create("index").unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy, "{busy}");
    set.commit::<modelfmt_core::CommonFault>(b"text").unwrap();
    assert_eq!(names(folder.path()).len(), 51);
    assert_eq!(fs::read(folder.path().join("49")).unwrap(), b"49");
    let exists = NewSet::begin::<modelfmt_core::CommonFault, _>(&other, "other", ["7"]).unwrap_err();
    assert!(exists.to_string().contains('7'), "{exists}");
    assert_eq!(names(folder.path()).len(), 51);
}

#[test]
fn a_set_does_not_begin_to_appear_where_a_file_has_come_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    for (overwrite, late) in
        [(Overwrite::Refuse, "b"), (Overwrite::Refuse, "index"), (Overwrite::Replace, "b")]
    {
        let new = NewFolder::new(folder.path(), overwrite);
        if overwrite == Overwrite::Replace {
            fs::write(folder.path().join("index"), "old").unwrap();
        }
        let mut set = NewSet::begin::<modelfmt_core::CommonFault, _>(&new, "index", ["a", "b"]).unwrap();
        for name in ["a", "b"] {
            let file = set.create::<modelfmt_core::CommonFault>(name).unwrap();
            set.done::<modelfmt_core::CommonFault>(name, file).unwrap();
        }
        match overwrite {
            Overwrite::Refuse => fs::write(folder.path().join(late), "mine").unwrap(),
            Overwrite::Replace => fs::create_dir(folder.path().join(late)).unwrap(),
        }
        let before =
            names(folder.path()).into_iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>();
        let refused = set.commit::<modelfmt_core::CommonFault>(b"text").unwrap_err();
        assert!(refused.to_string().contains(late), "{refused}");
        assert_eq!(names(folder.path()), before);
        let _ = fs::remove_file(folder.path().join(late));
    }
    assert_eq!(fs::read(folder.path().join("index")).unwrap(), b"old");
}

#[test]
fn folders_and_missing_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = AtomicFile::create(folder.path(), Overwrite::Replace).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::IsADirectory);
    let missing = AtomicFile::create(folder.path().join("no/m"), Overwrite::Replace).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let folder = NewFolder::new(folder.path(), Overwrite::Refuse);
    assert!(folder.create("../x").is_err());
}

#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_never_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (socket, link) = (folder.path().join("socket"), folder.path().join("link"));
    let late = AtomicFile::create(&socket, Overwrite::Replace).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    symlink(&socket, &link).unwrap();
    // Also without permission to replace anything, so that no one is told to give it.
    for overwrite in [Overwrite::Replace, Overwrite::Refuse] {
        for target in [&socket, &link] {
            let refused = AtomicFile::create(target, overwrite).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{}", target.display());
        }
    }
    assert_eq!(late.commit().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(folder.path()), ["link", "socket"]);
}

/// A process whose output goes to a file: `/dev/stdout` leads to that file, and must not become another.
#[cfg(target_os = "linux")]
#[test]
fn a_link_to_a_descriptor_is_never_replaced() {
    use std::os::fd::AsRawFd as _;
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("file")).unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    std::os::unix::fs::symlink(&descriptor, &first).unwrap();
    std::os::unix::fs::symlink("first", &second).unwrap();
    for target in [&descriptor, &first, &second] {
        let refused = AtomicFile::create(target, Overwrite::Replace).unwrap_err();
        assert!(refused.to_string().contains("an open file of a process"), "{refused}");
        assert!(fs::symlink_metadata(target).unwrap().is_symlink());
    }
    assert_eq!(names(folder.path()), ["file", "first", "second"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_is_replaced_and_the_file_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let new = AtomicFile::create(&link, Overwrite::Replace).unwrap();
    new.write_at(0, b"new").unwrap();
    new.commit().unwrap();
    assert_eq!((fs::read(&file).unwrap(), fs::read(&link).unwrap()), (b"old".to_vec(), b"new".to_vec()));
}

/// All files of a folder are flushed together, by two flushes, instead of two for each.
#[cfg(all(target_os = "linux", feature = "syncfs"))]
#[test]
fn many_files_are_flushed_together() {
    let folder = tempfile::tempdir().unwrap();
    let write = |files: &NewFolder, start: u32| {
        flush::COUNT.set(0);
        let mut done = Vec::new();
        for number in start..start + 50 {
            let mut file = files.create(&format!("{number:03}")).unwrap();
            file.write_at(0, &number.to_le_bytes()).unwrap();
            file.finish().unwrap();
            done.push(file);
        }
        files.flush().unwrap();
        done.into_iter().for_each(|file| file.commit().unwrap());
        files.flush_names().unwrap();
        flush::COUNT.get()
    };
    let files = NewFolder::new(folder.path(), Overwrite::Refuse);
    assert_eq!((write(&files, 0), write(&files.flushed_together(), 50)), (100, 2));
    assert_eq!(names(folder.path()), (0..100).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    assert_eq!(fs::read(folder.path().join("099")).unwrap(), 99u32.to_le_bytes());
}
