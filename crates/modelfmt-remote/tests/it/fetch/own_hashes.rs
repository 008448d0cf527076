//! Files with their own hashes, which find and prove damaged parts.

use std::fs;
use std::path::Path;

use modelfmt::convert::ConvertOptions;
use modelfmt::{Conversion, Format, Model};
use modelfmt_remote::fetch::{CheckedBy, FetchError, FetchOptions};

use super::{asked, fetch_from, files, names};

/// Writes a safetensors file with tensors that differ.
fn safetensors(path: &Path, count: u64, len: u64) {
    let tensors: Vec<String> = (0..count)
        .map(|n| {
            format!(
                "\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[{len}],\"data_offsets\":[{},{}]}}",
                n * len,
                (n + 1) * len
            )
        })
        .collect();
    let mut json = format!("{{{}}}", tensors.join(","));
    while !json.len().is_multiple_of(8) {
        json.push(' ');
    }
    let bytes = super::content((count * len) as usize);
    fs::write(path, [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &bytes].concat()).unwrap();
}

/// Returns the same values as AERO with hashes of tensors, or as APR.
fn model(folder: &Path, name: &str) -> Vec<u8> {
    let (from, to) = (folder.join("from.safetensors"), folder.join(name));
    safetensors(&from, 12, 300_000);
    let mut options = ConvertOptions::default();
    (options.metadata.model_name, options.metadata.architecture) =
        (Some("m".to_owned()), Some("a".to_owned()));
    options.metadata.model_type = Some("t".to_owned());
    let format = if name.ends_with("aero") { Format::Aero } else { Format::Apr2 };
    options.aero.tensor_hashes = format == Format::Aero;
    Conversion::new(&Model::open(&from).unwrap(), &to).to(format).options(&options).write().unwrap();
    fs::read(to).unwrap()
}

#[test]
fn damaged_tensors_are_fetched_and_the_rest_is_kept() {
    let made = tempfile::tempdir().unwrap();
    let good = model(made.path(), "m.aero");
    let server = files(vec![("m.aero", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.aero");
    let at = good.len() - 1_000_000;
    for (name, damage) in [("a byte", 1), ("a hole", 250_000), ("the header too", 2)] {
        let mut bad = good.clone();
        bad[at..at + damage].fill(0);
        bad[at] = good[at] ^ 1;
        if damage == 2 {
            bad[9] ^= 1;
        }
        fs::write(&out, &bad).unwrap();
        server.forget();
        let done = fetch_from(&server, &[server.url("m.aero")], &out, &FetchOptions::new()).unwrap();
        assert!(fs::read(&out).unwrap() == good, "{name}");
        assert_eq!(done.checked_by, Some(CheckedBy::Own), "{name}");
        assert!(done.kept > good.len() as u64 - 1_400_000 && done.bad >= 1, "{name}: {done:?}");
        assert!(asked(&server, "m.aero", good.len()).1 < 1_800_000, "{name}");
        assert_eq!(names(folder.path()), ["m.aero"], "{name}");
    }
    let done = fetch_from(&server, &[server.url("m.aero")], &out, &FetchOptions::new()).unwrap();
    assert_eq!(done.bad, 0);
}

#[test]
fn a_new_file_is_checked_by_its_own_hashes() {
    let made = tempfile::tempdir().unwrap();
    let good = model(made.path(), "m.aero");
    let server = files(vec![("m.aero", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.aero");
    let done = fetch_from(&server, &[server.url("m.aero")], &out, &FetchOptions::new()).unwrap();
    assert_eq!(done.checked_by, Some(CheckedBy::Own));
    assert!(fs::read(&out).unwrap() == good);
    // A server with a damaged file is named, and the next server has the correct one.
    fs::remove_file(&out).unwrap();
    let at = good.len() - 1_000_000;
    for (name, len, at) in [("values", good.len(), at), ("header", good.len(), 9), ("end", good.len() - 1, 0)]
    {
        let mut wrong = good.clone();
        wrong[at] ^= u8::from(at > 0);
        wrong.truncate(len);
        let lying = files(vec![("m.aero", wrong)]);
        let urls = [lying.url("m.aero"), server.url("m.aero")];
        let done = fetch_from(&server, &urls, &out, &FetchOptions::new()).unwrap();
        assert!(fs::read(&out).unwrap() == good, "{name}");
        let is_named = |note: &String| note.starts_with(&lying.url("m.aero").to_string());
        assert!(done.notes.iter().any(is_named), "{name}: {:?}", done.notes);
        fs::remove_file(&out).unwrap();
        let error = fetch_from(&lying, &[lying.url("m.aero")], &out, &FetchOptions::new()).unwrap_err();
        assert!(matches!(error, FetchError::Wrong { .. }), "{name}: {error}");
        assert!(names(folder.path()).is_empty(), "{name}");
    }
}

#[test]
fn a_file_that_lacks_its_end_is_damaged() {
    let made = tempfile::tempdir().unwrap();
    let apr2 = model(made.path(), "m.apr");
    let data = |name: &str| fs::read(testkit::testdata(name)).unwrap();
    // The footer of APR may be missing as a whole.
    for (name, bytes, lacks) in [
        ("a.aero", data("reference/one-shard.aero"), 1),
        ("b.apr", apr2, 1),
        ("c.apr", data("apr/dtypes.apr"), 5000),
        ("d.npz", data("npy/stored.npz"), 1),
        ("e.pt", data("pytorch/views.pt"), 1),
    ] {
        let server = files(vec![(name, bytes[..bytes.len() - lacks].to_vec())]);
        let folder = tempfile::tempdir().unwrap();
        let done = fetch_from(&server, &[server.url(name)], folder.path(), &FetchOptions::new());
        let error = done.map(|done| format!("{name}: {done:?}")).unwrap_err();
        assert!(matches!(error, FetchError::Wrong { .. }), "{name}: {error}");
        assert!(error.to_string().contains("--pin b3:HEX"), "{name}: {error}");
        assert!(names(folder.path()).is_empty(), "{name}");
    }
}

/// The file may still be what the user wants: it is of a newer version of the format.
#[test]
fn a_file_that_only_cannot_be_read_here_is_not_damaged() {
    let made = tempfile::tempdir().unwrap();
    let mut newer = model(made.path(), "m.aero");
    newer[4] ^= 2; // the version
    assert!(Model::from_source("m.aero", newer.clone()).is_err());
    let server = files(vec![("m.aero", newer.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let done = fetch_from(&server, &[server.url("m.aero")], folder.path(), &FetchOptions::new()).unwrap();
    assert_eq!(done.checked_by, Some(CheckedBy::Etag));
    assert!(fs::read(folder.path().join("m.aero")).unwrap() == newer);
}

#[test]
fn what_no_hash_covers_is_not_repaired() {
    let made = tempfile::tempdir().unwrap();
    let from = made.path().join("m.safetensors");
    safetensors(&from, 3, 1000);
    let good = fs::read(&from).unwrap();
    let server = files(vec![("m.safetensors", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.safetensors");
    let mut bad = good;
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&out, &bad).unwrap();
    let error = fetch_from(&server, &[server.url("m.safetensors")], &out, &FetchOptions::new()).unwrap_err();
    assert!(error.to_string().contains("--pin"), "{error}");
    assert!(fs::read(&out).unwrap() == bad);
}

#[test]
fn another_file_is_no_damaged_copy() {
    let made = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let values = super::content(4_000_000);
    for (name, file) in [("m.aero", "one-shard.aero"), ("m.aero", "m.aero"), ("m.apr", "m.apr")] {
        // A reference file has zeros in its padding, which are correct wherever a file ends too early.
        let good = match file == name {
            true => model(made.path(), name),
            false => fs::read(testkit::testdata("reference").join(file)).unwrap(),
        };
        let server = files(vec![(name, good.clone())]);
        let out = folder.path().join("out");
        let mut other = good.clone();
        let half = good.len() / 4;
        other.iter_mut().skip(half).zip(&values).for_each(|(byte, other)| *byte = other | 1);
        for theirs in [b"something else".to_vec(), values.clone(), other] {
            fs::write(&out, &theirs).unwrap();
            let error = fetch_from(&server, &[server.url(name)], &out, &FetchOptions::new()).unwrap_err();
            assert!(error.to_string().contains("not a damaged copy"), "{file}: {error}");
            assert!(fs::read(&out).unwrap() == theirs, "{file}");
        }
        fetch_from(&server, &[server.url(name)], &out, &FetchOptions::new().force(true)).unwrap();
        assert!(fs::read(&out).unwrap() == good, "{file}");
        // The beginning of the file, from a stopped download, with or without room for all of it, which some
        // programs reserve first.
        for len in [half, good.len()] {
            let mut stopped = good.get(..half).unwrap().to_vec();
            stopped.resize(len, 0);
            fs::write(&out, &stopped).unwrap();
            fetch_from(&server, &[server.url(name)], &out, &FetchOptions::new()).unwrap();
            assert!(fs::read(&out).unwrap() == good, "{file}");
        }
    }
}

/// The offset of bytes in an npz that no CRC covers: the time in the header of its first record.
const TIME: usize = 10;

#[test]
fn what_no_hash_covers_stays_where_nothing_proves_it_wrong() {
    let good = fs::read(testkit::testdata("npy/stored.npz")).unwrap();
    let server = files(vec![("m.npz", good.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.npz");
    let get = || fetch_from(&server, &[server.url("m.npz")], &out, &FetchOptions::new()).unwrap();
    let mut edited = good.clone();
    edited[TIME] ^= 1;
    fs::write(&out, &edited).unwrap();
    let done = get();
    assert!(fs::read(&out).unwrap() == edited);
    let says = |notes: &[String], text: &str| notes.iter().any(|note| note.contains(text));
    assert!(
        says(&done.notes, "1 byte that no hash covers") && says(&done.notes, "--force"),
        "{:?}",
        done.notes
    );
    // The same if something else is repaired too.
    let values = good.windows(6).position(|six| six == b"\x93NUMPY").unwrap() + 130;
    let mut damaged = edited.clone();
    damaged[values] ^= 1;
    fs::write(&out, &damaged).unwrap();
    let done = get();
    assert!(fs::read(&out).unwrap() == edited, "{done:?}");
    assert!(done.bad == 1 && says(&done.notes, "so they stay"), "{done:?}");
    // If the file cannot be read with these bytes, it gets the server's bytes.
    let end = good.len() - 22;
    edited[end] ^= 1;
    fs::write(&out, &edited).unwrap();
    let done = get();
    assert!(fs::read(&out).unwrap() == good);
    assert!(
        says(&done.notes, "2 bytes that no hash covers") && says(&done.notes, "replaced"),
        "{:?}",
        done.notes
    );
    // Bytes after the end are not cut off silently.
    let longer = [&good[..], b"mine"].concat();
    fs::write(&out, longer).unwrap();
    let done = get();
    assert!(
        fs::read(&out).unwrap() == good && says(&done.notes, "4 bytes behind the end"),
        "{:?}",
        done.notes
    );
    assert!(get().notes.is_empty());
}

#[test]
fn another_version_of_the_file_is_no_damaged_copy() {
    let made = tempfile::tempdir().unwrap();
    let good = model(made.path(), "m.aero");
    let server = files(vec![("m.aero", good)]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("m.aero");
    let mut options = ConvertOptions::default();
    options.metadata.architecture = Some("a".to_owned());
    options.aero.tensor_hashes = true;
    let from = made.path().join("from.safetensors");
    let values = fs::read(&from).unwrap();
    for (name, at) in [("n", values.len() - 1), ("n".repeat(9000).as_str(), values.len())] {
        let mut values = values.clone();
        if let Some(last) = values.get_mut(at) {
            *last ^= 1;
        }
        fs::write(&from, values).unwrap();
        options.metadata.model_name = Some(name.to_owned());
        let mine = Model::open(&from).unwrap();
        fs::remove_file(&out).ok();
        Conversion::new(&mine, &out).to(Format::Aero).options(&options).write().unwrap();
        let mine = fs::read(&out).unwrap();
        let got = fetch_from(&server, &[server.url("m.aero")], &out, &FetchOptions::new());
        let error = got.unwrap_err();
        assert!(
            matches!(error, FetchError::Refused { .. }) && error.to_string().contains("--force"),
            "{error}"
        );
        assert!(fs::read(&out).unwrap() == mine);
    }
}
