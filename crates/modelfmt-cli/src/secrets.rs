//! Keys and passphrases, which come from files and never from the command line. What an error says has no byte of them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use modelfmt::apr2::seal::{Access, Identity, Passphrase, RawKey, VerifyingKey};
use modelfmt_keys::{KeyType, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::args::OpenArgs;
use crate::failure::{Failure, Result};
use crate::streams::is_dash;

/// No key or passphrase is longer.
const LONGEST: u64 = 64 << 10;

/// What is demanded of a sealed file and what opens it, if anything was given.
pub(crate) fn access(args: &OpenArgs) -> Result<Option<Access>> {
    let all = args.identity.iter().chain(&args.passphrase_file).chain(&args.key_file);
    if all.filter(|path| is_dash(path)).count() > 1 {
        return Err(Failure::Usage(
            "-: standard input is read once, and two secrets are to come from it".to_owned(),
        ));
    }
    let mut access = Access::new();
    for path in &args.key {
        access = access.trust(verifying_key(path)?);
    }
    for path in &args.identity {
        access = access.open_with(identity(path)?);
    }
    for path in &args.passphrase_file {
        access = access.open_with(passphrase(path)?);
    }
    for path in &args.key_file {
        access = access.open_with(raw_key(path)?);
    }
    if let Some(threshold) = args.threshold {
        access = access.threshold(threshold.into());
    }
    if let Some(revision) = args.min_revision {
        access = access.min_revision(revision);
    }
    let is_given = !(args.key.is_empty()
        && args.identity.is_empty()
        && args.passphrase_file.is_empty()
        && args.key_file.is_empty());
    Ok(is_given.then_some(access))
}

fn bad(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: {why}", path.display()))
}

/// A public key that is trusted.
fn verifying_key(path: &Path) -> Result<VerifyingKey> {
    let key = PublicKey::read(path).map_err(|error| bad(path, error))?;
    let bytes = key.as_bytes().try_into().ok().filter(|_| key.key_type() == KeyType::Ed25519);
    let bytes =
        bytes.ok_or_else(|| bad(path, "APR2 files are signed with Ed25519 keys, and this is another"))?;
    VerifyingKey::from_bytes(bytes).map_err(|error| bad(path, error))
}

fn identity(path: &Path) -> Result<Identity> {
    let pem = text(path)?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| bad(path, error))?;
    let bytes = key.secret().try_into().ok().filter(|_| key.key_type() == KeyType::X25519);
    let bytes = bytes.ok_or_else(|| bad(path, "files are opened with X25519 keys, and this is another"))?;
    Ok(Identity::from_bytes(bytes))
}

fn passphrase(path: &Path) -> Result<Passphrase> {
    let text = text(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Passphrase::from_bytes(line.as_bytes()).map_err(|error| bad(path, error))
}

fn raw_key(path: &Path) -> Result<RawKey> {
    let bytes = bytes(path)?;
    if let Ok(key) = bytes.as_slice().try_into() {
        return Ok(RawKey::from_bytes(key));
    }
    let wrong = || bad(path, "a key is 32 bytes, or 64 hex digits and perhaps a newline");
    let digits = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let (pairs, rest) = digits.as_chunks::<2>();
    let mut key = Zeroizing::new([0; 32]);
    if pairs.len() != key.len() || !rest.is_empty() {
        return Err(wrong());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        let value = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
        *byte = value.and_then(|value| u8::try_from(value).ok()).ok_or_else(wrong)?;
    }
    Ok(RawKey::from_bytes(&key))
}

fn text(path: &Path) -> Result<Zeroizing<String>> {
    let bytes = bytes(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| bad(path, "is not UTF-8 text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// All bytes of a small file, wiped afterwards.
fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    // Room for all of it, so that no copy is left behind when it grows.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(LONGEST + 1).unwrap_or(1 << 16)));
    let read = match is_dash(path) {
        true => io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| bad(path, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(bad(path, "is too long to be a key or a passphrase"));
    }
    Ok(bytes)
}
