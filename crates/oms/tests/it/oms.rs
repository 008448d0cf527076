//! Files and folders are signed and verified, and changes are found.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use crate::common::{Model, key, other_key, testdata};
use modelfmt_core::source::FileSource;
use modelfmt_core::{Execution, Source as _};
use modelfmt_keys::{PrivateKey, PublicKey};
use modelfmt_oms::{
    Bundle, Error, SignOptions, SignedFiles, Verified, VerifyOptions, sign, signature_path, verify,
    verify_to_read,
};
use modelfmt_write::Overwrite;

fn work() -> Execution<'static> {
    Execution { threads: 2, progress: None }
}

#[test]
fn the_tools_sample_holds() {
    let key = PublicKey::read(&testdata("oms/sample.pub")).unwrap();
    let folder = testdata("oms/sample");
    let verified = verify(&folder, std::slice::from_ref(&key), &VerifyOptions::new(), &work()).unwrap();
    assert!(verified.is_ok(), "{:?}", verified.findings());
    assert_eq!((verified.files, &*verified.name, verified.key_id), (4, "sample", key.id()));
    assert!(verified.ignored.is_empty());
    let bundle = Bundle::read(&signature_path(&folder)).unwrap();
    assert_eq!(bundle.hint(), Some(&*key.id().to_string()));
}

#[test]
fn every_byte_of_the_samples_signature_matters() {
    let public = PublicKey::read(&testdata("oms/sample.pub")).unwrap();
    let good = fs::read(testdata("oms/sample/model.sig")).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    let payload = text.find("\"payload\"").unwrap()..text.find("\"payloadType\"").unwrap();
    let mut held = 0;
    for at in (0..good.len()).step_by(3) {
        let mut damaged = good.clone();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let holds =
            Bundle::parse(&damaged).is_ok_and(|bundle| bundle.check(std::slice::from_ref(&public)).is_some());
        // White space between tokens, and members that are not read, may be changed.
        assert!(!holds || !payload.contains(&at), "byte {at}");
        held += usize::from(holds);
        assert!(Bundle::parse(&good[..at]).is_err());
    }
    assert!(held < 40, "{held}");
}

#[test]
fn what_is_signed_is_verified_with_every_curve() {
    for name in ["p256.pem", "p384.pem", "p521.pem", "p256.sec1.pem"] {
        let key = PrivateKey::read(&testdata("keys").join(name)).unwrap();
        let model = Model::new();
        let signed = sign(model.path(), &key, &SignOptions::new(), &work()).unwrap();
        assert_eq!(signed.path, model.path().join("model.sig"));
        assert_eq!((signed.files, signed.nbytes, signed.reused), (5, 3_000_017, 0));
        model.is_ok(&key);
        let stranger = model.verify(&other_key());
        assert!(
            matches!(stranger, Err(Error::UntrustedKey { hint, .. }) if hint == key.public().id().to_string())
        );
    }
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let model = Model::new();
    let mut bundles = Vec::new();
    for threads in [1, 2, 7] {
        let work = Execution { threads, progress: None };
        let options = SignOptions::new().overwrite(Overwrite::Replace);
        let signed = sign(model.path(), &key(), &options, &work).unwrap();
        bundles.push(fs::read(signed.path).unwrap());
    }
    assert!(bundles.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn changed_missing_and_extra_files_are_found() {
    let model = Model::signed();
    model.write("big.bin", &vec![1; 3_000_000]);
    fs::remove_file(model.path().join("config.json")).unwrap();
    model.write("sub/new.py", b"import os");
    model.write("sub/deep/empty", b"x");
    let verified = model.verify(&key()).unwrap();
    assert!(!verified.is_ok());
    assert_eq!(verified.changed, ["big.bin", "sub/deep/empty"]);
    assert_eq!(verified.missing, ["config.json"]);
    assert_eq!(verified.extra, ["sub/new.py"]);
    assert_eq!(verified.findings().len(), 4);
}

#[test]
fn git_is_left_out_and_what_else_is_left_out_is_shown() {
    let model = Model::new();
    model.write(".git/HEAD", b"x");
    model.write(".gitattributes", b"x");
    model.write("sub/.gitignore", b"signed");
    model.write("cache/a", b"x");
    let options = SignOptions::new().ignore(["cache".to_owned()]);
    sign(model.path(), &key(), &options, &work()).unwrap();
    model.write(".git/HEAD", b"y");
    model.write(".github/workflows/ci.yml", b"y");
    model.write("cache/b", b"y");
    let verified = model.verify(&key()).unwrap();
    assert!(verified.is_ok(), "{:?}", verified.findings());
    assert_eq!(verified.ignored, ["cache"]);
    model.write("sub/.gitignore", b"changed");
    assert_eq!(model.verify(&key()).unwrap().changed, ["sub/.gitignore"]);
    let outside = SignOptions::new().overwrite(Overwrite::Replace).ignore(["../x".to_owned()]);
    assert!(matches!(sign(model.path(), &key(), &outside, &work()), Err(Error::Unsignable { .. })));
}

#[test]
fn a_single_file_has_its_signature_beside_it() {
    let model = Model::new();
    let file = model.path().join("config.json");
    let signed = sign(&file, &key(), &SignOptions::new(), &work()).unwrap();
    assert_eq!(signed.path, model.path().join("config.json.sig"));
    let keys = [key().public().clone()];
    let verified = verify(&file, &keys, &VerifyOptions::new(), &work()).unwrap();
    assert!(verified.is_ok() && verified.files == 1);
    // The same file under another name is accepted; another file is not.
    let renamed = model.path().join("renamed.json");
    fs::rename(&file, &renamed).unwrap();
    let options = VerifyOptions::new().signature(&signed.path);
    assert!(verify(&renamed, &keys, &options, &work()).unwrap().is_ok());
    model.write("renamed.json", b"{\"a\": 2}");
    let verified = verify(&renamed, &keys, &options, &work()).unwrap();
    assert_eq!(verified.changed, ["."]);
    // The signature of a file is not accepted for a folder.
    fs::copy(&signed.path, model.path().join("model.sig")).unwrap();
    assert_eq!(model.verify(&key()).unwrap().missing, ["."]);
}

/// Verifies a model for reading its files.
fn to_read(model: &Path) -> (Verified, Option<SignedFiles>) {
    verify_to_read(model, &[key().public().clone()], &VerifyOptions::new(), &work()).unwrap()
}

#[test]
fn only_what_was_hashed_is_read_later() {
    let model = Model::signed();
    let file = model.path().join("big.bin");
    sign(&file, &key(), &SignOptions::new(), &work()).unwrap();
    fs::rename(signature_path(&file), model.path().join(".gitignore")).unwrap();
    let of_folder = to_read(model.path()).1.unwrap();
    fs::rename(model.path().join(".gitignore"), signature_path(&file)).unwrap();
    let of_file = to_read(&file).1.unwrap();
    assert!(of_folder.covers(&file) && of_file.covers(&file));
    assert!(!of_file.covers(&model.path().join("config.json")));
    let source = |files: &SignedFiles| files.source(&file, FileSource::open(&file).unwrap());
    for files in [&of_folder, &of_file] {
        assert!(source(files).unwrap().read(2_000_000..2_000_010).unwrap().iter().all(|&byte| byte == 7));
    }
    // To the reader, it makes no difference whether the open file is modified or replaced.
    let open = source(&of_folder).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[2_000_000] ^= 1;
    model.write("big.bin", &bytes);
    for source in [open, source(&of_folder).unwrap(), source(&of_file).unwrap()] {
        assert!(source.read(0..10).is_ok());
        let error = source.read(2_000_009..2_000_010).unwrap_err().to_string();
        assert!(error.contains(".sig signs: the file is damaged, was changed"), "{error}");
    }
    model.write("big.bin", &[&bytes[..], b"x"].concat());
    assert_eq!(source(&of_folder).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    let (verified, files) = to_read(model.path());
    assert!(!verified.is_ok() && files.is_none());
}

#[test]
fn what_is_read_must_be_covered() {
    let model = Model::new();
    model.write("scratch", b"x");
    let options = SignOptions::new().ignore(["scratch".to_owned()]);
    sign(model.path(), &key(), &options, &work()).unwrap();
    let files = to_read(model.path()).1.unwrap();
    for name in ["scratch", "model.sig", "new", "../outside", "sub/../scratch"] {
        let path = model.path().join(name);
        assert!(!files.covers(&path), "{name}");
        let error = files.source(&path, &b"x"[..]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{name}");
    }
    let (empty, sub) = (model.path().join("sub/deep/empty"), model.path().join("sub/a.bin"));
    assert_eq!(files.source(&empty, &b""[..]).unwrap().read(0..0).unwrap().len(), 0);
    assert_eq!(*files.source(&sub, &b"1234"[..]).unwrap().read(0..4).unwrap(), *b"1234");
    assert!(files.source(&sub, &b"1235"[..]).unwrap().read(0..4).is_err());
}

#[test]
fn a_signature_is_replaced_only_where_that_is_asked_for() {
    let model = Model::signed();
    assert!(matches!(sign(model.path(), &key(), &SignOptions::new(), &work()), Err(Error::Exists { .. })));
    let options = SignOptions::new().overwrite(Overwrite::Replace);
    sign(model.path(), &other_key(), &options, &work()).unwrap();
    model.is_ok(&other_key());
}

#[test]
fn keys_that_cannot_sign_so_are_refused() {
    let model = Model::signed();
    let ed25519 = PrivateKey::read(&testdata("keys/ed25519.pem")).unwrap();
    let error = sign(model.path(), &ed25519, &SignOptions::new(), &work()).unwrap_err();
    assert!(error.to_string().contains("P-256") && error.to_string().contains("ed25519"), "{error}");
    let error = model.verify(&ed25519).unwrap_err();
    assert!(matches!(error, Error::WrongKey(_)), "{error}");
    let error = verify(model.path(), &[], &VerifyOptions::new(), &work()).unwrap_err();
    assert!(error.to_string().contains("none was named"), "{error}");
    // Next to a key that can verify, other keys do no harm.
    let keys = [ed25519.public().clone(), key().public().clone()];
    assert!(verify(model.path(), &keys, &VerifyOptions::new(), &work()).unwrap().is_ok());
}

#[test]
fn what_is_missing_or_cannot_be_read_is_named() {
    let model = Model::new();
    assert!(matches!(model.verify(&key()), Err(Error::Missing { path }) if path.ends_with("model.sig")));
    let absent = Path::new("/absent/model");
    assert!(matches!(
        sign(absent, &key(), &SignOptions::new(), &work()),
        Err(Error::Write { .. } | Error::Read { .. })
    ));
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        sign(empty.path(), &key(), &SignOptions::new(), &work()),
        Err(Error::Unsignable { .. })
    ));
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_callback_stops_the_work_and_leaves_nothing() {
    let model = Model::new();
    let stop = |_| std::ops::ControlFlow::Break(());
    let work = Execution { threads: 2, progress: Some(&stop) };
    assert!(matches!(sign(model.path(), &key(), &SignOptions::new(), &work), Err(Error::Stopped)));
    assert!(!model.path().join("model.sig").exists());
    let names = fs::read_dir(model.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().contains("partial")));
}

#[cfg(unix)]
#[test]
fn links_are_followed_only_where_both_sides_allow_it() {
    use std::os::unix::fs::symlink;
    let model = Model::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("blob"), "blob").unwrap();
    symlink(outside.path().join("blob"), model.path().join("link")).unwrap();
    let refused = sign(model.path(), &key(), &SignOptions::new(), &work());
    assert!(matches!(refused, Err(Error::Unsignable { path, .. }) if path.ends_with("link")));
    let allow = SignOptions::new().allow_symlinks(true);
    assert_eq!(sign(model.path(), &key(), &allow, &work()).unwrap().files, 6);
    assert!(matches!(model.verify(&key()), Err(Error::Unsignable { .. })));
    let (keys, options) = ([key().public().clone()], VerifyOptions::new().allow_symlinks(true));
    assert!(verify(model.path(), &keys, &options, &work()).unwrap().is_ok());
    fs::write(outside.path().join("blob"), "BLOB").unwrap();
    assert_eq!(verify(model.path(), &keys, &options, &work()).unwrap().changed, ["link"]);
    // A link to a folder could lead anywhere, even in circles.
    symlink(model.path(), model.path().join("circle")).unwrap();
    assert!(matches!(verify(model.path(), &keys, &options, &work()), Err(Error::Unsignable { .. })));
}

#[cfg(unix)]
#[test]
fn pipes_and_names_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let model = Model::new();
    fs::write(model.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "x").unwrap();
    let refused = sign(model.path(), &key(), &SignOptions::new(), &work()).unwrap_err();
    assert!(refused.to_string().contains("no UTF-8"), "{refused}");
    let socket = Model::new();
    let _listener = std::os::unix::net::UnixListener::bind(socket.path().join("socket")).unwrap();
    let refused = sign(socket.path(), &key(), &SignOptions::new(), &work()).unwrap_err();
    assert!(refused.to_string().contains("neither file nor folder"), "{refused}");
}

#[test]
fn times_are_trusted_only_where_that_is_asked_for() {
    let model = Model::new();
    model.make_old();
    let trust = SignOptions::new().trust_mtime(true);
    let sign = |options: &SignOptions| sign(model.path(), &key(), options, &work()).unwrap();
    assert_eq!(sign(&trust).reused, 0, "there is nothing to go by yet");
    let second = sign(&trust);
    assert_eq!((second.files, second.reused), (5, 5));
    model.is_ok(&key());
    // A different length or time is noticed, and so is a new file. A file with the same length and time is
    // not read.
    model.write("config.json", b"{\"a\": 22}");
    model.write("new", b"new");
    let third = sign(&trust);
    assert_eq!((third.files, third.reused), (6, 4));
    model.is_ok(&key());
    assert_eq!(sign(&trust).reused, 4, "what has just been written could change within the same tick");
    model.write("big.bin", &vec![9; 3_000_000]);
    model.make_old();
    sign(&trust);
    assert_eq!(model.verify(&key()).unwrap().changed, ["big.bin"]);
    // Without the option, every file is read, and no times are noted.
    sign(&SignOptions::new().overwrite(Overwrite::Replace));
    model.is_ok(&key());
    assert_eq!(sign(&trust).reused, 0);
}

#[test]
fn anothers_signature_stays_and_its_digests_are_not_taken() {
    let model = Model::new();
    model.make_old();
    let trust = SignOptions::new().trust_mtime(true);
    let sign = |key: &PrivateKey, options: &SignOptions| sign(model.path(), key, options, &work());
    sign(&other_key(), &trust).unwrap();
    let path = model.path().join("model.sig");
    let bytes = fs::read(&path).unwrap();
    for existing in [&bytes[..], b"damaged"] {
        fs::write(&path, existing).unwrap();
        assert!(matches!(sign(&key(), &trust), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), existing);
        let replace = trust.clone().overwrite(Overwrite::Replace);
        assert_eq!(sign(&key(), &replace).unwrap().reused, 0);
        model.is_ok(&key());
    }
}
