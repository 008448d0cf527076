//! `keygen`, `sign` and `verify --key`.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{command, program};

/// The program in its own folder, which contains a model.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path().join("m")).unwrap();
        let golden = testkit::testdata("mag/dtypes-crc32.mag");
        fs::copy(golden, place.path().join("m/model.mag")).unwrap();
        fs::write(place.path().join("m/config.json"), "{}").unwrap();
        place
    }

    fn with_key() -> Self {
        let place = Self::new();
        for name in ["k", "other"] {
            place.ok(&["keygen", "--type", "p256", "-o", name]);
        }
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        command(program()).current_dir(self.path()).args(args).output().unwrap()
    }

    /// Returns the standard output of a successful run.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns both streams of a run that ends with this status.
    fn fails(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        said
    }
}

#[test]
fn a_key_is_made_once_and_only_for_its_owner() {
    let place = Place::new();
    for key_type in ["ed25519", "x25519", "p256", "p384", "p521"] {
        let id = place.ok(&["keygen", "--type", key_type, "-o", key_type]);
        assert!(id.len() == 65 && id.trim_end().bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
        let private = fs::read_to_string(place.path().join(key_type)).unwrap();
        assert!(private.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        let public = fs::read_to_string(place.path().join(format!("{key_type}.pub"))).unwrap();
        assert!(public.starts_with("-----BEGIN PUBLIC KEY-----\n"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(place.path().join(key_type)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
    assert!(place.fails(1, &["keygen", "--type", "p256", "-o", "p256"]).contains("p256.pub: exists"));
    fs::remove_file(place.path().join("p256.pub")).unwrap();
    assert!(place.fails(1, &["keygen", "--type", "p256", "-o", "p256"]).contains("p256: exists"));
    assert!(!place.path().join("p256.pub").exists());
    assert!(place.fails(2, &["keygen", "--type", "rsa", "-o", "rsa"]).contains("ed25519, x25519, p256"));
}

#[test]
fn folders_are_signed_and_verified() {
    let place = Place::with_key();
    let said = place.fails(0, &["sign", "m", "--key", "k"]);
    assert!(said.contains("m/model.sig: 2 files"), "{said}");
    let said = place.ok(&["verify", "m", "--key", "k.pub", "--key", "other.pub"]);
    assert!(said.contains("ok m (folder: signature, digests)"), "{said}");
    assert!(place.ok(&["verify", "-r", "m", "--key", "k.pub"]).contains("2 files: 2 ok"));
    let said = place.fails(1, &["verify", "m", "--key", "other.pub"]);
    assert!(said.contains("not one of the named keys"), "{said}");
    assert!(place.fails(1, &["sign", "m", "--key", "other"]).contains("--force replaces it"));
    place.ok(&["sign", "m", "--key", "other", "--force", "-q"]);
    place.ok(&["verify", "m", "--key", "other.pub"]);

    fs::write(place.path().join("m/config.json"), "[]").unwrap();
    fs::write(place.path().join("m/extra.py"), "").unwrap();
    let said = place.fails(1, &["verify", "m", "--key", "other.pub"]);
    assert!(said.contains("FAILED m (folder: signature, digests!)"), "{said}");
    assert!(
        said.contains("\"config.json\" is not what was signed") && said.contains("\"extra.py\" is there"),
        "{said}"
    );
    let json = place.fails(1, &["verify", "--json", "m", "--key", "other.pub"]);
    assert!(json.contains(r#""name":"signature","status":"ok""#) && json.contains(r#""ok":false"#), "{json}");
}

#[test]
fn files_are_signed_and_verified_beside_their_formats_checks() {
    let place = Place::with_key();
    assert!(place.fails(1, &["verify", "m/model.mag", "--key", "k.pub"]).contains("there is no signature"));
    place.ok(&["sign", "m/model.mag", "--key", "k"]);
    let said = place.ok(&["verify", "m/model.mag", "--key", "k.pub"]);
    assert!(said.contains("(mag: structure") && said.contains("signature, digests)"), "{said}");
    place.ok(&["sign", "m/config.json", "--key", "k"]);
    let said = place.ok(&["verify", "m/config.json", "--key", "k.pub"]);
    assert!(said.contains("(unknown format: signature, digests)"), "a file of any kind: {said}");
    let mut bytes = fs::read(place.path().join("m/model.mag")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(place.path().join("m/model.mag"), bytes).unwrap();
    assert!(
        place
            .fails(1, &["verify", "m/model.mag", "--key", "k.pub"])
            .contains("  the file is not what was signed")
    );
}

#[test]
fn the_index_of_a_set_is_signed_by_its_folder() {
    let place = Place::with_key();
    let sharded = testkit::testdata("safetensors");
    let index = fs::read_dir(&sharded).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|path| path.to_string_lossy().ends_with(".index.json")).unwrap();
    let copy = place.path().join("x.safetensors.index.json");
    fs::copy(index, &copy).unwrap();
    let said = place.fails(1, &["sign", "x.safetensors.index.json", "--key", "k"]);
    assert!(said.contains("sign the folder"), "{said}");
    fs::write(place.path().join("x.safetensors.index.json.sig"), "{}").unwrap();
    let said = place.fails(1, &["verify", "x.safetensors.index.json", "--key", "k.pub"]);
    assert!(said.contains("which its own signature does not cover"), "{said}");
}

#[test]
fn inspect_shows_who_signed_and_trusts_only_a_named_key() {
    let place = Place::with_key();
    assert!(!place.ok(&["inspect", "m/model.mag"]).contains("signature"));
    assert!(place.fails(1, &["inspect", "m/model.mag", "--key", "k.pub"]).contains("no signature beside it"));
    place.ok(&["sign", "m", "--key", "k"]);
    let id = place.ok(&["keygen", "--type", "p384", "-o", "third"]);
    for path in ["m", "m/model.mag"] {
        let said = place.ok(&["inspect", path]);
        assert!(said.contains("claims to be by the key") && said.contains("not checked"), "{said}");
        assert!(!said.contains("trusted"), "{said}");
        let json = place.ok(&["inspect", "--json", path]);
        assert!(json.contains("\"trusted\": null") && !json.contains(id.trim_end()), "{json}");
        assert!(place.ok(&["inspect", "--json", path, "--key", "k.pub"]).contains("\"trusted\": true"));
        let said = place.ok(&["inspect", path, "--key", "k.pub"]);
        assert!(said.contains("which you trust"), "{said}");
        assert!(
            place.fails(1, &["inspect", path, "--key", "third.pub"]).contains("not one of the named keys")
        );
    }
    fs::write(place.path().join("m/config.json"), "[]").unwrap();
    assert!(place.fails(1, &["inspect", "m", "--key", "k.pub"]).contains("is not what was signed"));
}

#[test]
fn signing_again_reads_only_what_changed_where_that_is_asked_for() {
    let place = Place::with_key();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for name in ["m/model.mag", "m/config.json"] {
        let file = fs::File::options().write(true).open(place.path().join(name)).unwrap();
        file.set_modified(past).unwrap();
    }
    let again = ["sign", "m", "--key", "k", "--trust-mtime"];
    assert!(!place.fails(0, &again).contains("not read again"));
    assert!(place.fails(0, &again).contains("2 not read again"));
    place.ok(&["verify", "m", "--key", "k.pub"]);
}

/// However a private key is used or mistaken for something else, none of its lines is printed.
#[test]
fn nothing_secret_is_printed() {
    let place = Place::with_key();
    for key_type in ["ed25519", "x25519", "p521"] {
        place.ok(&["keygen", "--type", key_type, "-o", key_type]);
    }
    let mut damaged = fs::read_to_string(place.path().join("k")).unwrap();
    damaged.insert(60, '!');
    fs::write(place.path().join("damaged"), damaged).unwrap();
    let mut swapped = fs::read_to_string(place.path().join("k")).unwrap().into_bytes();
    swapped.swap(70, 90);
    fs::write(place.path().join("swapped"), swapped).unwrap();
    let keys = ["k", "other", "ed25519", "x25519", "p521", "damaged", "swapped"];
    let mut secrets = Vec::new();
    for key in keys {
        let pem = fs::read_to_string(place.path().join(key)).unwrap();
        let lines = pem.lines().filter(|line| !line.starts_with('-'));
        secrets.extend(lines.map(|line| line[line.len().saturating_sub(24)..].to_owned()));
    }
    for key in ["k", "x25519", "p521", "damaged"] {
        let runs: [&[&str]; 9] = [
            &["sign", "m", "--key", key, "--force"],
            &["sign", "m", "--key", key, "--key", "k"],
            &["sign", key, "--key", key, "--force"],
            &["verify", "m", "--key", key],
            &["verify", key, "--key", "k.pub"],
            &["verify", "--json", key],
            &["inspect", "m", "--key", key],
            &["keygen", "--type", "p256", "-o", key],
            &["convert", key, "out.mag"],
        ];
        for args in runs {
            let output = place.run(args);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(!said.contains("panicked"), "{args:?}: {said}");
            assert!(
                secrets
                    .iter()
                    .filter(|secret| secret.len() > 7)
                    .all(|secret| !said.contains(secret.as_str())),
                "{args:?}: {said}"
            );
        }
    }
    // No option takes a secret directly.
    for command in ["sign", "keygen", "verify", "inspect"] {
        let help = place.ok(&[command, "--help"]);
        assert!(!help.contains("--password") && !help.contains("--passphrase "), "{command}");
    }
}

#[test]
fn a_model_that_the_signer_left_out_is_not_read() {
    let place = Place::with_key();
    fs::copy(place.path().join("m/model.mag"), place.path().join("m/scratch.mag")).unwrap();
    place.ok(&["sign", "m", "--key", "k", "--ignore", "scratch.mag"]);
    place.ok(&["inspect", "m/model.mag", "--key", "k.pub"]);
    place.ok(&["diff", "m/model.mag", "m/model.mag", "--key", "k.pub"]);
    for args in [["inspect", "m/scratch.mag"], ["show", "m/scratch.mag"]] {
        let said = place.fails(1, &[&args[..], &["--key", "k.pub"]].concat());
        assert!(said.contains("scratch.mag") && said.contains("not among the files"), "{said}");
    }
    // Not even after another file of the folder was verified in the same run.
    let said = place.fails(1, &["diff", "m/model.mag", "m/scratch.mag", "--key", "k.pub"]);
    assert!(said.contains("scratch.mag"), "{said}");
}

#[test]
fn a_key_covers_what_it_signed_and_not_the_config_beside_it() {
    let place = Place::with_key();
    fs::write(place.path().join("m/config.json"), r#"{"model_type": "bert"}"#).unwrap();
    let architecture = |args: &[&str]| {
        let said = place.fails(0, &[&["convert", "m/model.mag", "out.aero", "--force"], args].concat());
        let json = place.ok(&["inspect", "--json", "out.aero"]);
        (json.contains("\"architecture\": \"bert\""), said)
    };
    let (is_taken, said) = architecture(&[]);
    assert!(
        is_taken && said.contains("architecture is \"bert\", from the config.json beside the file"),
        "{said}"
    );
    place.ok(&["sign", "m/model.mag", "--key", "k"]);
    let hash = place.ok(&["outboard", "m/model.mag"]);
    let pin = format!("b3:{}", hash.trim_end());
    for demand in [["--key", "k.pub"], ["--pin", &pin]] {
        let (is_taken, said) = architecture(&demand);
        assert!(!is_taken && said.contains("does not cover the config.json"), "{said}");
    }
    // The signature of the folder covers config.json.
    fs::remove_file(place.path().join("m/model.mag.sig")).unwrap();
    place.ok(&["sign", "m", "--key", "k"]);
    assert!(architecture(&["--key", "k.pub"]).0);
    assert!(!architecture(&["--pin", &pin]).0);
    fs::write(place.path().join("m/config.json"), r#"{"model_type": "gpt2"}"#).unwrap();
    let said = place.fails(1, &["convert", "m/model.mag", "out.aero", "--force", "--key", "k.pub"]);
    assert!(said.contains("m: \"config.json\" is not what was signed"), "{said}");
}

/// Only APR2 files can have a signature by such a key; other files fail.
#[test]
fn a_folder_is_gone_through_with_a_key_that_signs_inside_files() {
    let place = Place::with_key();
    place.ok(&["keygen", "--type", "ed25519", "-o", "inner"]);
    fs::create_dir(place.path().join("f")).unwrap();
    for name in ["f/a.apr", "f/b.apr"] {
        place.ok(&["convert", "m/model.mag", name, "--include", "t.f32"]);
    }
    place.ok(&["sign", "f/a.apr", "--key", "inner"]);
    let said = place.fails(1, &["verify", "-r", "f", "--key", "inner.pub"]);
    assert!(said.contains("ok f/a.apr") && said.contains("FAILED f/b.apr"), "{said}");
    assert!(said.contains("SealMissing: a signature is required"), "{said}");
    assert!(!said.contains("note: signature") && said.contains("2 files: 1 ok, 1 failed"), "{said}");
    place.ok(&["sign", "f/b.apr", "--key", "inner"]);
    assert!(place.ok(&["verify", "-r", "f", "--key", "inner.pub"]).contains("2 files: 2 ok"));
    fs::copy(place.path().join("m/model.mag"), place.path().join("f/c.mag")).unwrap();
    let said = place.fails(1, &["verify", "-r", "f", "--key", "inner.pub"]);
    assert!(said.contains("FAILED f/c.mag") && said.contains("c.mag.sig: there is no signature"), "{said}");
    // A signature of the folder covers the files in it.
    place.ok(&["sign", "f", "--key", "k"]);
    let said = place.ok(&["verify", "-r", "f", "--key", "k.pub"]);
    assert!(said.contains("4 files: 4 ok") && said.contains("not checked by any key"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_signature_that_is_no_regular_file_is_refused_at_once() {
    let place = Place::with_key();
    let signature = place.path().join("m/model.mag.sig");
    let refused = || {
        for command in [&["verify"][..], &["inspect"], &["check"]] {
            let said = place.fails(1, &[command, &["m/model.mag", "--key", "k.pub"]].concat());
            assert!(said.contains("model.mag.sig: cannot be read: it is not a regular file"), "{said}");
        }
        fs::remove_file(&signature).unwrap();
    };
    assert!(Command::new("mkfifo").arg(&signature).status().unwrap().success());
    refused();
    std::os::unix::fs::symlink("/dev/zero", &signature).unwrap();
    refused();
}

/// A folder without a signature may contain signed folders and signed files. A file without either is not
/// good.
#[test]
fn below_a_folder_each_model_needs_a_signature_that_covers_it() {
    let place = Place::with_key();
    let model = place.path().join("m/model.mag");
    for folder in ["tree/a", "tree/b"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        fs::copy(&model, place.path().join(folder).join("x.mag")).unwrap();
    }
    place.ok(&["sign", "--key", "k", "tree/a"]);
    place.ok(&["sign", "--key", "k", "tree/b/x.mag"]);
    let verify = ["verify", "-r", "--key", "k.pub", "tree"];
    let good = place.ok(&verify);
    assert!(good.contains("ok tree/a (folder: signature, digests)"), "{good}");
    assert!(good.contains("ok tree/a/x.mag (") && good.contains("ok tree/b/x.mag ("), "{good}");
    let other = place.fails(1, &["verify", "-r", "--key", "other.pub", "tree"]);
    assert!(!other.contains("\nok ") && !other.starts_with("ok "), "{other}");
    // Verified by the signature of the folder, although only the file is named.
    assert!(place.ok(&["verify", "--key", "k.pub", "tree/a/x.mag"]).contains("signature, digests"));
    fs::copy(&model, place.path().join("tree/y.mag")).unwrap();
    let unsigned = place.fails(1, &verify);
    assert!(
        unsigned.contains("FAILED tree/y.mag") && unsigned.contains("there is no signature"),
        "{unsigned}"
    );
    fs::copy(&model, place.path().join("tree/a/added.mag")).unwrap();
    let added = place.fails(1, &verify);
    assert!(added.contains("FAILED tree/a/x.mag") && added.contains("FAILED tree/a/added.mag"), "{added}");
    // A signed folder need not contain a model.
    fs::create_dir(place.path().join("notes")).unwrap();
    fs::write(place.path().join("notes/a.txt"), "a").unwrap();
    place.ok(&["sign", "--key", "k", "notes"]);
    assert!(
        place
            .ok(&["verify", "-r", "--key", "k.pub", "notes"])
            .contains("ok notes (folder: signature, digests)")
    );
    fs::write(place.path().join("notes/a.txt"), "b").unwrap();
    place.fails(1, &["verify", "-r", "--key", "k.pub", "notes"]);
    // Without a key, a note says that the signature was not checked.
    let unasked = place.run(&["verify", "tree/b/x.mag"]);
    let said = String::from_utf8(unasked.stderr).unwrap();
    assert_eq!(said, "note: tree/b/x.mag.sig was not checked; --key KEY does that\n");
    // With several signatures, there is one note.
    for name in ["c", "d", "e", "f"] {
        fs::copy(place.path().join("tree/b/x.mag"), place.path().join(format!("notes/{name}.mag"))).unwrap();
        place.ok(&["sign", "--key", "k", &format!("notes/{name}.mag")]);
    }
    let unasked = place.run(&["verify", "-r", "notes"]);
    let said = String::from_utf8(unasked.stderr).unwrap();
    let named = "notes/c.mag.sig, notes/d.mag.sig, notes/e.mag.sig and 1 more were not checked";
    assert!(said.ends_with(&format!("note: {named}; --key KEY does that\n")), "{said}");
}
