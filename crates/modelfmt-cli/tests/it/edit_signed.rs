//! The program edits signed files: old signatures are removed or renewed, and never vouch for bytes that they
//! do not cover.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "this is test code")]

use std::fs;

use crate::common::Secrets;
use serde_json::Value;

/// Makes a signed APR2 file of revision 7.
fn signed(keys: &Secrets, by: &[&str], compress: &str) -> String {
    let (path, source) =
        (keys.path("m.apr"), testkit::testdata("seal").join("signed.apr").display().to_string());
    keys.ok(&[
        "convert",
        &source,
        &path,
        "--force",
        "--dequantize",
        "f32",
        "--lossy",
        "--compress",
        compress,
    ]);
    let signers: Vec<&str> = by.iter().flat_map(|key| ["--key", key]).collect();
    keys.ok(&[&["sign", &path, "--revision", "7"], &signers[..]].concat());
    path
}

fn inspected(keys: &Secrets, path: &str) -> Value {
    serde_json::from_str(&keys.ok(&["inspect", "--json", path])).unwrap()
}

/// Returns names and values, under the original names.
fn values(keys: &Secrets, path: &str) -> Vec<(String, Value)> {
    let shown: Value = serde_json::from_str(&keys.ok(&["inspect", "--json", "--hash", path])).unwrap();
    let tensors = shown["tensors"].as_array().unwrap().iter();
    let name = |tensor: &Value| tensor["name"].as_str().unwrap().trim_start_matches("new.").to_owned();
    tensors.map(|tensor| (name(tensor), tensor["blake3"].clone())).collect()
}

#[test]
fn a_signature_is_removed_or_made_anew() {
    let keys = Secrets::new();
    let (a, b) = (keys.key("ed25519", "a"), keys.key("ed25519", "b"));
    let (a_public, b_public) = (format!("{a}.pub"), format!("{b}.pub"));
    let long = format!("note={}", "x".repeat(3000));
    for compress in ["none", "lz4"] {
        for (change, how) in [("note=1", "in place"), (&long, "in a new file")] {
            let edit = ["--set", change, "--rename", "*=new.*"];
            // Reserves room for the short change.
            let path = signed(&keys, &[&a, &b], compress);
            let out = keys.path("roomy.apr");
            keys.ok(&["convert", &path, &out, "--force", "--reserve", "1000", "--compress", compress]);
            keys.ok(&["sign", &out, "--key", &a, "--key", &b, "--revision", "7"]);
            let before = values(&keys, &out);

            let copy = keys.path("copy.apr");
            fs::copy(&out, &copy).unwrap();
            let run = keys.run(&[&["edit", &out], &edit[..]].concat());
            assert!(run.status == 0 && run.stderr.contains(how), "{}", run.stderr);
            assert!(run.stderr.contains("--sign") && run.stderr.contains("are removed"), "{}", run.stderr);
            let json = inspected(&keys, &out);
            assert!(json["details"].get("signatures").is_none(), "{json}");
            assert!(!json["details"]["flags"].to_string().contains("SIGNED"), "{json}");
            keys.ok(&["verify", &out]);
            assert!(values(&keys, &out) == before);
            assert!(keys.run(&["verify", &out, "--key", &a_public]).stdout.contains("SealMissing"));

            let run = keys.run(&[&["edit", &copy, "--sign", &a], &edit[..]].concat());
            assert!(run.status == 0 && run.stderr.contains(how), "{}", run.stderr);
            assert!(
                run.stderr.contains("signature of the key") && run.stderr.contains("is removed"),
                "{}",
                run.stderr
            );
            keys.ok(&["verify", &copy, "--key", &a_public, "--min-revision", "7"]);
            assert!(
                keys.run(&["verify", &copy, "--key", &b_public]).stdout.contains("SealNoTrustedSignature")
            );
            let json = inspected(&keys, &copy);
            assert_eq!(json["details"]["signatures"].as_array().unwrap().len(), 1);
            assert_eq!(json["details"]["revision"], 7);
            assert!(values(&keys, &copy) == before);
            assert_eq!(json["metadata"]["note"].to_string().len() > 1000, change == long);
        }
    }
}

#[test]
fn what_changes_nothing_keeps_the_signatures() {
    let keys = Secrets::new();
    let a = keys.key("ed25519", "a");
    let (path, public) = (signed(&keys, &[&a], "none"), format!("{a}.pub"));
    keys.ok(&["edit", &path, "--set", "license=MIT", "--sign", &a, "--revision", "9"]);
    let bytes = fs::read(&path).unwrap();
    let run = keys.run(&["edit", &path, "--set", "license=MIT"]);
    assert!(run.status == 0 && run.stderr.contains("nothing was written"), "{}", run.stderr);
    assert!(bytes == fs::read(&path).unwrap());
    keys.ok(&["verify", &path, "--key", &public, "--min-revision", "9"]);
    // Adds another signer to the unchanged content.
    let b = keys.key("ed25519", "b");
    keys.ok(&["edit", &path, "--set", "license=MIT", "--sign", &b]);
    let both = ["--key", &public, "--key", &format!("{b}.pub"), "--threshold", "2", "--min-revision", "9"];
    keys.ok(&[&["verify", &path], &both[..]].concat());
}

#[test]
fn tensors_are_dropped_from_a_signed_file() {
    let keys = Secrets::new();
    let a = keys.key("ed25519", "a");
    let path = signed(&keys, &[&a], "none");
    let first = values(&keys, &path)[0].0.clone();
    let copy = keys.path("copy.apr");
    fs::copy(&path, &copy).unwrap();
    let run = keys.run(&["edit", &copy, "--drop", &first]);
    assert!(run.status == 0 && run.stderr.matches("note: ").count() == 1, "{}", run.stderr);
    assert!(keys.run(&["verify", &copy, "--key", &format!("{a}.pub")]).stdout.contains("SealMissing"));
    keys.ok(&["edit", &path, "--drop", &first, "--sign", &a, "-o", &copy, "--force"]);
    keys.ok(&["verify", &copy, "--key", &format!("{a}.pub"), "--min-revision", "7"]);
    assert!(values(&keys, &copy)[..] == values(&keys, &path)[1..]);
}

#[test]
fn a_dry_run_says_what_becomes_of_signatures() {
    let keys = Secrets::new();
    let a = keys.key("ed25519", "a");
    let path = signed(&keys, &[&a], "none");
    let (bytes, first) = (fs::read(&path).unwrap(), values(&keys, &path)[0].0.clone());
    for change in [["--set", "license=MIT"], ["--drop", &first]] {
        let run = keys.run(&[&["edit", &path, "--dry-run"], &change[..]].concat());
        let notes: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("note: ")).collect();
        assert!(run.status == 0 && run.stderr.contains("would edit"), "{}", run.stderr);
        assert!(notes.len() == 1 && notes[0].contains("is removed"), "{}", run.stderr);
        let run = keys.run(&[&["edit", &path, "--dry-run", "--sign", &a], &change[..]].concat());
        assert!(run.status == 0 && !run.stderr.contains("note: "), "{}", run.stderr);
    }
    assert!(bytes == fs::read(&path).unwrap());
    // The file is not signed without the dry run either.
    let place = inspected(&keys, &path)["tensors"][0]["offset"].as_u64().unwrap();
    let mut damaged = bytes;
    damaged[usize::try_from(place).unwrap()] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let error = keys.run(&["edit", &path, "--set", "license=MIT", "--sign", &a, "--dry-run"]).error();
    assert!(error.contains("not intact"), "{error}");
    assert!(damaged == fs::read(&path).unwrap());
}

#[test]
fn damage_is_not_signed_and_stays_visible() {
    let keys = Secrets::new();
    let a = keys.key("ed25519", "a");
    let path = signed(&keys, &[&a], "none");
    let first = inspected(&keys, &path)["tensors"][0].clone();
    let (place, name) = (first["offset"].as_u64().unwrap(), first["name"].as_str().unwrap().to_owned());
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(place).unwrap()] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = keys.run(&["edit", &path, "--set", "license=MIT", "--sign", &a]).error();
    assert!(error.contains("not intact"), "{error}");
    let error = keys.run(&["edit", &path, "--drop", &name, "--sign", &a]).error();
    assert!(error.contains("not intact"), "{error}");
    assert!(bytes == fs::read(&path).unwrap());
    keys.ok(&["edit", &path, "--set", "license=MIT"]);
    let report = keys.run(&["verify", &path]);
    assert!(report.status == 1 && report.stdout.contains("crc"), "{}", report.stdout);
    // A section that cannot be read is not removed silently.
    let broken = keys.path("broken.apr");
    bytes[usize::try_from(place).unwrap()] ^= 1;
    let at = bytes.len() - 60;
    bytes[at] ^= 1;
    fs::write(&broken, &bytes).unwrap();
    assert!(keys.run(&["edit", &broken, "--set", "license=MIT"]).error().contains("Seal"));
    assert!(bytes == fs::read(&broken).unwrap());
}

#[test]
fn an_encrypted_file_is_left_alone() {
    let keys = Secrets::new();
    let (a, me) = (keys.key("ed25519", "a"), keys.key("x25519", "me"));
    let (path, sealed) = (signed(&keys, &[&a], "none"), keys.path("sealed.apr"));
    keys.ok(&["seal", &path, &sealed, "--to-recipient", &format!("{me}.pub"), "--sign", &a]);
    let bytes = fs::read(&sealed).unwrap();
    for with in [&[][..], &["--sign", &a]] {
        let error = keys.run(&[&["edit", &sealed, "--set", "license=MIT"], with].concat()).error();
        assert!(error.contains("it is encrypted") && error.contains("new file"), "{error}");
    }
    assert!(bytes == fs::read(&sealed).unwrap());
    // The alternative that the error names works.
    let next = keys.path("next.apr");
    let how = ["--identity", &me, "--to-recipient", &format!("{me}.pub"), "--rename", "*=new.*"];
    keys.ok(&[&["seal", &sealed, &next], &how[..]].concat());
}

#[test]
fn a_signature_beside_a_file_is_made_anew() {
    let keys = Secrets::new();
    let (p256, ed) = (keys.key("p256", "p"), keys.key("ed25519", "e"));
    let (path, source) = (keys.path("m.safetensors"), testkit::testdata("seal").join("signed.apr"));
    keys.ok(&["convert", &source.display().to_string(), &path, "--dequantize", "f32", "--lossy"]);
    keys.ok(&["sign", &path, "--key", &p256]);
    let run = keys.run(&["edit", &path, "--set", "license=MIT"]);
    assert!(
        run.stderr.contains("m.safetensors.sig is the signature of the file as it was"),
        "{}",
        run.stderr
    );
    assert!(keys.run(&["verify", &path, "--key", &format!("{p256}.pub")]).status == 1);
    let error = keys.run(&["edit", &path, "--set", "license=BSD", "--sign", &p256]).error();
    assert!(error.contains("is not what was signed") && error.contains("sign it as it is first"), "{error}");
    keys.ok(&["sign", &path, "--key", &p256, "--force"]);
    let run = keys.run(&["edit", &path, "--set", "license=BSD", "--sign", &p256]);
    assert!(run.status == 0 && !run.stderr.contains("as it was"), "{}", run.stderr);
    keys.ok(&["verify", &path, "--key", &format!("{p256}.pub")]);
    // The signature of the folder is still the old one.
    keys.ok(&["sign", &keys.path("."), "--key", &p256]);
    let run = keys.run(&["edit", &path, "--set", "license=MIT", "--sign", &p256]);
    assert!(run.stderr.contains("model.sig is the signature of the folder"), "{}", run.stderr);
    assert!(!run.stderr.contains("of the file as it was"), "{}", run.stderr);
    let bytes = fs::read(&path).unwrap();
    let cases: &[(i32, &[&str], &str)] = &[
        (1, &["--set", "a=b", "--sign", &ed], "ed25519"),
        (2, &["--set", "a=b", "--sign", &p256, "--sign", &p256], "by one key"),
        (2, &["--set", "a=b", "--sign", &p256, "--revision", "1"], "--revision"),
        (2, &["--set", "a=b", "--revision", "1"], "--sign"),
        (2, &["--sign", &p256], "modelfmt sign"),
    ];
    for (status, args, why) in cases {
        let run = keys.run(&[&["edit", &path], *args].concat());
        assert!(run.status == *status && run.stderr.contains(why), "{args:?}: {} {}", run.status, run.stderr);
        assert!(bytes == fs::read(&path).unwrap(), "{args:?}");
    }
    let apr = signed(&keys, &[&ed], "none");
    let error = keys.run(&["edit", &apr, "--set", "a=b", "--sign", &p256]).error();
    assert!(error.contains("ed25519"), "{error}");
}

#[test]
fn a_file_that_is_not_intact_gets_no_signature_beside_it() {
    let keys = Secrets::new();
    let (p256, other) = (keys.key("p256", "p"), keys.key("p256", "other"));
    let source = testkit::testdata("seal").join("signed.apr").display().to_string();
    let damage = |path: &str| {
        let place = inspected(&keys, path)["tensors"][0]["offset"].as_u64().unwrap();
        let mut bytes = fs::read(path).unwrap();
        bytes[usize::try_from(place).unwrap()] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let refused = |path: &str, why: &str| {
        let (bytes, out) = (fs::read(path).unwrap(), keys.path("out"));
        for with in [&[][..], &["--dry-run"], &["-o", &out]] {
            let edit = ["edit", path, "--set", "license=MIT", "--sign", &p256];
            let error = keys.run(&[&edit, with].concat()).error();
            assert!(error.contains(why) && bytes == fs::read(path).unwrap(), "{error}");
            assert!(!fs::exists(&out).unwrap());
        }
    };
    let aero = keys.path("m.aero");
    keys.ok(&["convert", &source, &aero, "--dequantize", "f32", "--lossy"]);
    damage(&aero);
    refused(&aero, "not intact");
    assert!(!fs::exists(format!("{aero}.sig")).unwrap());
    // A GGUF has no checksum, but its signature says how it was.
    let gguf = keys.path("m.gguf");
    keys.ok(&["convert", &source, &gguf, "--dequantize", "f32", "--lossy", "--widen"]);
    keys.ok(&["sign", &gguf, "--key", &p256]);
    damage(&gguf);
    refused(&gguf, "is not what was signed");
    // The signature of another key proves nothing to this one.
    keys.ok(&["edit", &gguf, "--set", "license=MIT", "--sign", &other]);
    keys.ok(&["verify", &gguf, "--key", &format!("{other}.pub")]);
}

/// The checksum of a file covers all of it, and is not computed for a small part of a large file.
#[cfg(unix)]
#[test]
fn damage_in_a_large_signed_file_gets_no_new_checksum() {
    use std::os::unix::fs::FileExt as _;

    let keys = Secrets::new();
    let (a, source, path) = (keys.key("ed25519", "a"), keys.path("big.safetensors"), keys.path("big.apr"));
    let (gone, kept) = (40u64 << 20, 30u64 << 20);
    let end = gone + kept;
    let header = format!(
        r#"{{"gone":{{"dtype":"U8","shape":[{gone}],"data_offsets":[0,{gone}]}},"kept":{{"dtype":"U8","shape":[{kept}],"data_offsets":[{gone},{end}]}}}}"#
    );
    fs::write(&source, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()).unwrap();
    let file = fs::File::options().write(true).open(&source).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
    keys.ok(&["convert", &source, &path, "--compress", "none", "--sign", &a]);
    let shown = inspected(&keys, &path);
    let place = |name: &str| {
        let tensors = shown["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).unwrap()["offset"].as_u64().unwrap()
    };
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let edit = ["edit", &path, "--drop", "gone", "--set", "license=MIT"];
    file.write_all_at(&[1], place("kept") + 77).unwrap();
    let version = || file.metadata().unwrap().modified().unwrap();
    let before = version();
    for with in [&[][..], &["--dry-run"]] {
        let error = keys.run(&[&edit, with].concat()).error();
        assert!(error.contains("SealDigest"), "{error}");
    }
    assert!(version() == before && file.metadata().unwrap().len() > end);
    // Damage in what is removed does no harm.
    file.write_all_at(&[0], place("kept") + 77).unwrap();
    file.write_all_at(&[1], place("gone")).unwrap();
    keys.ok(&edit);
    keys.ok(&["verify", &path]);
}

/// Makes a set from that file, and returns its manifest.
fn signed_set(keys: &Secrets, name: &str, by: &[&str], with: &[&str]) -> String {
    let source = signed(keys, &[by[0]], "none");
    fs::create_dir(keys.path(name)).unwrap();
    let out = keys.path(&format!("{name}/m.apr"));
    keys.ok(&[&["convert", &source, &out, "--shard-size", "8KiB"], with].concat());
    let signers: Vec<&str> = by.iter().flat_map(|key| ["--key", key]).collect();
    if with.is_empty() {
        keys.ok(&[&["sign", &out, "--revision", "7"], &signers[..]].concat());
    }
    assert!(fs::read_dir(keys.path(name)).unwrap().count() > 2);
    out
}

/// Returns the bytes of all files in the folder of a manifest.
fn bytes_of(manifest: &str) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let folder = std::path::Path::new(manifest).parent().unwrap();
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn the_signatures_of_a_set_are_removed_or_made_anew() {
    let keys = Secrets::new();
    let (a, b) = (keys.key("ed25519", "a"), keys.key("ed25519", "b"));
    let (a_public, b_public) = (format!("{a}.pub"), format!("{b}.pub"));
    let long = format!("note={}", "x".repeat(9000));
    for (name, change) in [("short", "note=1"), ("long", long.as_str())] {
        let edit = ["--set", change, "--rename", "*=new.*"];
        let out = signed_set(&keys, name, &[&a, &b], &[]);
        let before = values(&keys, &out);
        let run = keys.run(&[&["edit", &out], &edit[..]].concat());
        assert!(run.status == 0 && run.stderr.contains("are removed"), "{}", run.stderr);
        let json = inspected(&keys, &out);
        assert!(json["details"].get("signatures").is_none(), "{json}");
        keys.ok(&["verify", &out]);
        assert!(values(&keys, &out) == before);
        assert!(keys.run(&["verify", &out, "--key", &a_public]).stdout.contains("SealMissing"));
        // No shard has a signature either, so another revision can be signed.
        keys.ok(&["sign", &out, "--key", &b, "--revision", "2"]);
        keys.ok(&["verify", &out, "--key", &b_public, "--min-revision", "2"]);

        let run = keys.run(&["edit", &out, "--set", "license=MIT", "--sign", &a]);
        assert!(run.status == 0 && run.stderr.contains("is removed"), "{}", run.stderr);
        keys.ok(&["verify", &out, "--key", &a_public, "--min-revision", "2"]);
        assert!(keys.run(&["verify", &out, "--key", &b_public]).stdout.contains("SealNoTrustedSignature"));
        let json = inspected(&keys, &out);
        assert_eq!(json["details"]["signatures"].as_array().unwrap().len(), 1);
        assert_eq!((&json["details"]["revision"], &json["metadata"]["license"]), (&2.into(), &"MIT".into()));
        assert!(values(&keys, &out) == before);
        // An edit that changes nothing keeps the signatures, and another can be added.
        let bytes = bytes_of(&out);
        let run = keys.run(&["edit", &out, "--set", "license=MIT"]);
        assert!(run.stderr.contains("nothing was written") && bytes == bytes_of(&out), "{}", run.stderr);
        keys.ok(&["edit", &out, "--set", "license=MIT", "--sign", &b]);
        keys.ok(&["verify", &out, "--key", &a_public, "--key", &b_public, "--threshold", "2"]);
    }
}

#[test]
fn signatures_of_shards_alone_are_removed_with_a_note() {
    let keys = Secrets::new();
    let a = keys.key("ed25519", "a");
    let out = signed_set(&keys, "alone", &[&a], &[]);
    let mut manifest: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("seal").unwrap();
    fs::write(&out, manifest.to_string()).unwrap();
    keys.ok(&["verify", &out]);
    let bytes = bytes_of(&out);
    let signature = "the signature of the key";
    let run = keys.run(&["edit", &out, "--set", "note=1", "--dry-run"]);
    assert!(run.status == 0 && run.stderr.matches(signature).count() == 1, "{}", run.stderr);
    assert!(bytes == bytes_of(&out));
    let run = keys.run(&["edit", &out, "--set", "note=1"]);
    assert!(run.status == 0 && run.stderr.matches(signature).count() == 1, "{}", run.stderr);
    keys.ok(&["verify", &out]);
    // The first shard, which has the metadata, has lost its signature. The others keep theirs until they
    // change too.
    let run = keys.run(&["edit", &out, "--set", "note=2"]);
    assert!(run.status == 0 && !run.stderr.contains(signature), "{}", run.stderr);
    let run = keys.run(&["edit", &out, "--rename", "*=new.*"]);
    assert!(run.status == 0 && run.stderr.matches(signature).count() == 1, "{}", run.stderr);
    keys.ok(&["verify", &out]);
}

#[test]
fn a_set_is_signed_while_it_is_edited() {
    let keys = Secrets::new();
    let (a, me) = (keys.key("ed25519", "a"), keys.key("x25519", "me"));
    let (public, me_public) = (format!("{a}.pub"), format!("{me}.pub"));
    // A set that was not signed, edited in place and as a new set.
    let plain = signed_set(&keys, "plain", &[&a], &["--compress", "none"]);
    keys.ok(&["edit", &plain, "--set", "license=MIT", "--sign", &a, "--revision", "3"]);
    keys.ok(&["verify", &plain, "--key", &public, "--min-revision", "3"]);
    let (out, first) = (keys.path("plain/next.apr"), values(&keys, &plain)[0].0.clone());
    keys.ok(&["edit", &plain, "--drop", &first, "--sign", &a, "-o", &out]);
    keys.ok(&["verify", &out, "--key", &public, "--min-revision", "3"]);
    assert!(values(&keys, &out)[..] == values(&keys, &plain)[1..]);
    // A damaged file is not signed.
    let damaged = signed_set(&keys, "damaged", &[&a], &[]);
    let (shard, mut content) = bytes_of(&damaged).remove(1);
    let place = content.len() / 2;
    content[place] ^= 1;
    fs::write(&shard, &content).unwrap();
    let before = bytes_of(&damaged);
    let error = keys.run(&["edit", &damaged, "--set", "license=MIT", "--sign", &a]).error();
    assert!(error.contains("not intact") && before == bytes_of(&damaged), "{error}");
    // An encrypted file is not written again.
    for (name, hide) in [("clear", &[][..]), ("hidden", &["--hide-index"])] {
        let seal = [&["--seal", "--to-recipient", &me_public, "--sign", &a], hide].concat();
        let sealed = signed_set(&keys, name, &[&a], &seal);
        let before = bytes_of(&sealed);
        for with in [&[][..], &["--sign", &a]] {
            let error = keys.run(&[&["edit", &sealed, "--set", "license=MIT"], with].concat()).error();
            assert!(error.contains("it is encrypted") && error.contains("new file"), "{error}");
        }
        assert!(before == bytes_of(&sealed));
    }
}
