//! A small model in a folder, keys, and bundles that no signer would write.

#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "this is test code"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64ct::{Base64, Encoding as _};
use modelfmt_core::Execution;
use modelfmt_keys::PrivateKey;
use modelfmt_oms::{Result, SignOptions, Verified, VerifyOptions, sign, verify};
use sha2::{Digest as _, Sha256};

pub(crate) fn testdata(path: &str) -> PathBuf {
    testkit::testdata(path)
}

pub(crate) fn key() -> PrivateKey {
    PrivateKey::read(&testdata("keys/p256.pem")).unwrap()
}

pub(crate) fn other_key() -> PrivateKey {
    PrivateKey::from_bytes(modelfmt_keys::KeyType::P256, &[3; 32]).unwrap()
}

/// A temporary folder with some files.
pub(crate) struct Model(tempfile::TempDir);

impl Model {
    pub(crate) fn new() -> Self {
        let model = Self(tempfile::tempdir().unwrap());
        model.write("big.bin", &vec![7; 3_000_000]);
        model.write("config.json", b"{\"a\": 1}");
        model.write("sub/a.bin", b"1234");
        model.write("sub/deep/empty", b"");
        model.write("sub.bin", b"12345");
        model
    }

    pub(crate) fn signed() -> Self {
        let model = Self::new();
        sign(model.path(), &key(), &SignOptions::new(), &Execution::default()).unwrap();
        model
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Sets the time of every file to the same past hour.
    pub(crate) fn make_old(&self) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for name in ["big.bin", "config.json", "sub/a.bin", "sub/deep/empty", "sub.bin"] {
            let file = fs::File::options().write(true).open(self.path().join(name)).unwrap();
            file.set_modified(time).unwrap();
        }
    }

    pub(crate) fn verify(&self, key: &PrivateKey) -> Result<Verified> {
        verify(self.path(), &[key.public().clone()], &VerifyOptions::new(), &Execution::default())
    }

    pub(crate) fn is_ok(&self, key: &PrivateKey) {
        let verified = self.verify(key).unwrap();
        assert!(verified.is_ok(), "{:?}", verified.findings());
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// Signs any payload as the specification says, with code that shares nothing with the crate's.
pub(crate) fn bundle(payload: &str, key: &PrivateKey) -> String {
    let head = format!("DSSEv1 28 application/vnd.in-toto+json {} {payload}", payload.len());
    let signature = Base64::encode_string(&key.sign(head.as_bytes()).unwrap());
    let payload = Base64::encode_string(payload.as_bytes());
    let hint = hex(&sha256(key.public().to_pem().as_bytes()));
    format!(
        r#"{{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
             "verificationMaterial": {{"publicKey": {{"hint": "{hint}"}}, "tlogEntries": []}},
             "dsseEnvelope": {{"payload": "{payload}", "payloadType": "application/vnd.in-toto+json",
             "signatures": [{{"sig": "{signature}", "keyid": null}}]}}}}"#
    )
}

/// Makes a statement over these resources: name, algorithm, digest.
pub(crate) fn statement(how: &str, resources: &[(&str, &str, Vec<u8>)]) -> String {
    let root = hex(&sha256(&resources.iter().flat_map(|(_, _, digest)| digest.clone()).collect::<Vec<u8>>()));
    let resource = |(name, algorithm, digest): &(&str, &str, Vec<u8>)| {
        format!(r#"{{"name": "{name}", "algorithm": "{algorithm}", "digest": "{}"}}"#, hex(digest))
    };
    let resources: Vec<String> = resources.iter().map(resource).collect();
    format!(
        r#"{{"_type": "https://in-toto.io/Statement/v1", "subject": [{{"name": "m", "digest": {{"sha256": "{root}"}}}}],
            "predicateType": "https://model_signing/signature/v1.0",
            "predicate": {{"serialization": {{{how}}}, "resources": [{}]}}}}"#,
        resources.join(", ")
    )
}
