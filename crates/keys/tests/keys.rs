//! Reads keys and signatures of OpenSSL, and checks that this crate writes the same.

#![cfg(all(feature = "ed25519", feature = "x25519", feature = "nist", feature = "random"))]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use modelfmt_keys::{Error, KeyType, MAX_LEN, PrivateKey, PublicKey, write_pair};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/keys")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn private(name: &str) -> PrivateKey {
    PrivateKey::read(&path(name)).unwrap()
}

#[test]
fn openssls_keys_are_read_and_written_as_it_writes_them() {
    for key_type in KeyType::ALL {
        let (pem, public) = (text(&format!("{key_type}.pem")), text(&format!("{key_type}.pub")));
        let key = PrivateKey::from_pem(&pem).unwrap();
        assert_eq!(key.key_type(), key_type);
        assert_eq!(*key.to_pem().unwrap(), pem, "{key_type}");
        assert_eq!(key.public().to_pem(), public, "{key_type}");
        assert_eq!(PublicKey::from_pem(&public).unwrap(), *key.public(), "{key_type}");
        if key_type.is_nist() {
            let sec1 = private(&format!("{key_type}.sec1.pem"));
            assert_eq!(sec1.public(), key.public(), "{key_type}");
        }
    }
    let compressed = PublicKey::read(&path("p256.compressed.pub")).unwrap();
    assert_eq!(compressed, PublicKey::read(&path("p256.pub")).unwrap());
    let crlf = text("p256.pub").replace('\n', "\r\n");
    assert_eq!(PublicKey::from_pem(&crlf).unwrap(), compressed);
}

#[test]
fn openssls_signatures_hold_and_ours_are_of_the_same_form() {
    let message = fs::read(path("p256.pub")).unwrap();
    for key_type in KeyType::ALL.into_iter().filter(|key_type| key_type.signs()) {
        let key = private(&format!("{key_type}.pem"));
        let theirs = fs::read(path(&format!("{key_type}.sig"))).unwrap();
        for signature in [theirs, key.sign(&message).unwrap()] {
            key.public().verify(&message, &signature).unwrap();
            let mut other = message.clone();
            other[100] ^= 1;
            assert!(matches!(key.public().verify(&other, &signature), Err(Error::BadSignature)));
            // Fewer positions for the larger curves, which are slow.
            let step = if matches!(key_type, KeyType::P384 | KeyType::P521) { 7 } else { 1 };
            for at in (0..signature.len()).step_by(step) {
                let mut damaged = signature.clone();
                damaged[at] ^= 4;
                assert!(key.public().verify(&message, &damaged).is_err(), "{key_type}: byte {at}");
                assert!(key.public().verify(&message, &signature[..at]).is_err(), "{key_type}: {at} bytes");
            }
            let stranger = PrivateKey::generate(key_type).unwrap();
            assert!(stranger.public().verify(&message, &signature).is_err());
        }
    }
}

#[test]
fn ids_are_those_of_the_formats() {
    // `sha256sum p256.pub`, and BLAKE3 of "APR2-SEAL-1 ed25519 key\0" and the key's bytes.
    use sha2::Digest as _;
    let p256 = PublicKey::read(&path("p256.pub")).unwrap();
    let sha256: [u8; 32] = sha2::Sha256::digest(text("p256.pub")).into();
    assert_eq!(p256.id().0, sha256);
    for (name, label) in [("ed25519", "APR2-SEAL-1 ed25519 key\0"), ("x25519", "APR2-SEAL-1 x25519 key\0")] {
        let key = PublicKey::read(&path(&format!("{name}.pub"))).unwrap();
        let hash = blake3::hash(&[label.as_bytes(), key.as_bytes()].concat());
        assert_eq!(key.id().to_string(), hash.to_hex().to_string());
    }
}

#[test]
fn both_sides_agree() {
    let (ours, theirs) = (private("x25519.pem"), PublicKey::read(&path("x25519.peer.pub")).unwrap());
    assert_eq!(ours.agree(&theirs).unwrap().to_vec(), fs::read(path("x25519.shared")).unwrap());
    let (one, two) = (PrivateKey::generate(KeyType::X25519).unwrap(), private("x25519.pem"));
    assert_eq!(*one.agree(two.public()).unwrap(), *two.agree(one.public()).unwrap());
    let signing = private("ed25519.pem");
    assert!(matches!(one.agree(signing.public()), Err(Error::WrongUse { key_type: KeyType::Ed25519, .. })));
    assert!(matches!(signing.agree(one.public()), Err(Error::WrongUse { .. })));
    assert!(matches!(one.sign(b"x"), Err(Error::WrongUse { .. })));
    assert!(matches!(one.public().verify(b"x", b"y"), Err(Error::WrongUse { .. })));
}

#[test]
fn generated_keys_are_new_and_survive_their_pem() {
    for key_type in KeyType::ALL {
        let (one, two) = (PrivateKey::generate(key_type).unwrap(), PrivateKey::generate(key_type).unwrap());
        assert_ne!(one.public(), two.public());
        let again = PrivateKey::from_pem(&one.to_pem().unwrap()).unwrap();
        assert_eq!(again.public(), one.public());
    }
}

#[test]
fn weak_keys_are_refused() {
    let zero = [0; 32];
    let one = {
        let mut one = zero;
        one[0] = 1;
        one
    };
    for bytes in [zero, one] {
        assert!(matches!(PublicKey::from_bytes(KeyType::X25519, &bytes), Err(Error::Weak { .. })));
        assert!(matches!(PublicKey::from_bytes(KeyType::Ed25519, &bytes), Err(Error::Weak { .. })));
    }
    // The field's prime plus 3: a second encoding of the point 3.
    let mut second = [0xff; 32];
    second[0] = 0xed + 3;
    second[31] = 0x7f;
    assert!(matches!(PublicKey::from_bytes(KeyType::Ed25519, &second), Err(Error::Malformed { .. })));
    for key_type in KeyType::ALL.into_iter().filter(|key_type| key_type.is_nist()) {
        for byte in [0, 0xff] {
            let secret = vec![byte; key_type.secret_len()];
            assert!(matches!(PrivateKey::from_bytes(key_type, &secret), Err(Error::Malformed { .. })));
        }
        assert!(PrivateKey::from_bytes(key_type, &[1; 31]).is_err());
        assert!(PublicKey::from_bytes(key_type, &[4; 65]).is_err());
        assert!(PublicKey::from_bytes(key_type, &[0]).is_err(), "the point at infinity");
    }
}

#[test]
fn what_is_no_such_key_is_named() {
    let error = |read: Result<PublicKey, Error>| read.unwrap_err().to_string();
    assert!(error(PublicKey::from_pem(&text("p256.pem"))).contains("private key; name the public"));
    assert!(error(PublicKey::from_pem(&text("p256.sec1.pem"))).contains("private key; name the public"));
    assert!(
        error(PublicKey::from_pem(&text("rsa.pub")))
            .contains("1.2.840.113549.1.1.1, which is none of ed25519")
    );
    assert!(error(PublicKey::from_pem("ssh-ed25519 AAAA")).contains("no key in PEM"));
    assert!(error(PublicKey::from_pem("-----BEGIN CERTIFICATE-----\n")).contains("neither"));
    let error = |read: Result<PrivateKey, Error>| read.unwrap_err().to_string();
    assert!(error(PrivateKey::from_pem(&text("p256.pub"))).contains("public key; name the private"));
    assert!(error(PrivateKey::from_pem(&text("encrypted.pem"))).contains("passphrase"));
    assert!(error(PrivateKey::read(&path("absent.pem"))).contains("absent.pem: cannot be read"));
    assert!(error(PrivateKey::read(&path("rsa.pub"))).contains("rsa.pub: is a public key"));

    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("long");
    fs::write(&long, vec![b'-'; usize::try_from(MAX_LEN).unwrap() + 1]).unwrap();
    assert!(error(PrivateKey::read(&long)).contains("has more than"));
    fs::write(&long, [0xff, 0xfe]).unwrap();
    assert!(error(PrivateKey::read(&long)).contains("no key in PEM"));
}

#[test]
fn every_damage_is_an_error_or_another_key_and_never_shows_the_key() {
    for key_type in KeyType::ALL {
        for name in [format!("{key_type}.pem"), format!("{key_type}.pub")] {
            let good = text(&name);
            let body: Vec<&str> = good.lines().filter(|line| !line.starts_with('-')).collect();
            for at in 0..good.len() {
                let mut bytes = good.clone().into_bytes();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                let damaged = String::from_utf8(bytes).unwrap();
                for said in [
                    PrivateKey::from_pem(&damaged).map(|key| format!("{key:?}")),
                    PublicKey::from_pem(&damaged).map(|key| format!("{key:?}")),
                    PrivateKey::from_pem(&good[..at]).map(|key| format!("{key:?}")),
                ] {
                    let said = said.unwrap_or_else(|error| format!("{error} {error:?}"));
                    assert!(body.iter().all(|line| !said.contains(&line[..line.len().min(12)])), "{said}");
                }
            }
        }
    }
}

#[test]
fn debug_shows_nothing_secret() {
    let secret = [0xa7; 32];
    let key = PrivateKey::from_bytes(KeyType::Ed25519, &secret).unwrap();
    let shown = format!("{key:?} {key:#?}");
    assert!(shown.contains("Ed25519") && shown.contains(&key.public().id().to_string()));
    assert!(!shown.contains("167") && !shown.contains("a7a7"), "{shown}");
}

#[test]
fn pairs_are_written_whole_or_not_at_all_and_replace_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let key = PrivateKey::generate(KeyType::P256).unwrap();
    let public = write_pair(&path, &key).unwrap();
    assert_eq!(public, folder.path().join("key.pem.pub"));
    assert_eq!(PrivateKey::read(&path).unwrap().public(), key.public());
    assert_eq!(PublicKey::read(&public).unwrap(), *key.public());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(matches!(write_pair(&path, &key), Err(Error::Exists { path }) if path == public));
    fs::remove_file(&public).unwrap();
    assert!(matches!(write_pair(&path, &key), Err(Error::Exists { path: found }) if found == path));
    assert!(!public.exists(), "the half that was written is gone again");
    fs::remove_file(&path).unwrap();
    fs::write(&public, "mine").unwrap();
    assert!(write_pair(&path, &key).is_err());
    assert!(!path.exists() && fs::read_to_string(&public).unwrap() == "mine");
    let nowhere = folder.path().join("absent/key");
    assert!(matches!(write_pair(&nowhere, &key), Err(Error::Write { .. })));
}
