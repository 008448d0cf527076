//! Reads keys and passphrases, which come from files and never from the command line. No error contains a
//! byte of them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use modelfmt::OpenOptions;
use modelfmt::apr2::seal::{
    Access, Identity, Passphrase, RawKey, Recipient, SealOptions, SigningKey, VerifyingKey,
};
use modelfmt_keys::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::args::{ConvertOptionArgs, OpenArgs, SealingArgs};
use crate::failure::{Failure, Result};
use crate::stdio::{self, is_dash};
use crate::{keys, policy};

/// The maximum length of a key or passphrase, in bytes.
const LONGEST: u64 = 64 << 10;

impl OpenArgs {
    /// Returns the options for opening a model with the library. Reads keys and passphrases from their files.
    pub(crate) fn options(&self) -> Result<OpenOptions> {
        let options = policy::open_options();
        let options = match self.pin {
            Some(pin) => options.pin(pin),
            None => options,
        };
        let options = match &self.root {
            Some(root) => options.root(root),
            None => options,
        };
        Ok(match access(self)? {
            Some(access) => options.access(access),
            None => options,
        })
    }
}

/// Returns the requirements for a sealed file and the keys that open it, if any are given.
fn access(args: &OpenArgs) -> Result<Option<Access>> {
    one_from_stdin(
        args.unlock.identity.iter().chain(&args.unlock.passphrase_file).chain(&args.unlock.key_file),
    )?;
    let mut access = Access::new().allow_unencrypted(args.allow_unencrypted);
    for path in &args.signers.key {
        access = access.trust(verifying_key(path)?);
    }
    for path in &args.unlock.identity {
        access = access.open_with(identity(path)?);
    }
    for path in &args.unlock.passphrase_file {
        access = access.open_with(passphrase(path)?);
    }
    for path in &args.unlock.key_file {
        access = access.open_with(raw_key(path)?);
    }
    if let Some(threshold) = args.signers.threshold {
        access = access.threshold(threshold.into());
    }
    if let Some(revision) = args.signers.min_revision {
        access = access.min_revision(revision);
    }
    let is_given = !(args.signers.key.is_empty()
        && args.unlock.identity.is_empty()
        && args.unlock.passphrase_file.is_empty()
        && args.unlock.key_file.is_empty());
    Ok(is_given.then_some(access))
}

/// Returns who can open the output and who signs it, if anybody is given.
pub(crate) fn seal(encrypts: bool, how: &ConvertOptionArgs) -> Result<Option<SealOptions>> {
    let ConvertOptionArgs { sealing, open, .. } = how;
    one_from_stdin(files(how).iter())?;
    if !encrypts {
        let old = sealing.old_passphrase_file.iter().chain(&sealing.old_key_file);
        if !sealing.to_recipient.is_empty()
            || !sealing.key_id.is_empty()
            || sealing.hide_index
            || old.count() > 0
        {
            let why = "these options need --seal, which encrypts OUT; without it, --passphrase-file and --key-file open IN";
            return Err(Failure::Usage(format!(
                "--to-recipient, --key-id, --hide-index, --old-passphrase-file, --old-key-file: {why}"
            )));
        }
        if sealing.sign.is_empty() && sealing.revision.is_none() {
            return Ok(None);
        }
    } else if sealing.to_recipient.is_empty()
        && open.unlock.passphrase_file.is_empty()
        && open.unlock.key_file.is_empty()
    {
        let why = "nobody could open OUT: give --to-recipient, --passphrase-file or --key-file; to sign without encrypting, \
                   use `modelfmt convert --sign`";
        return Err(Failure::Usage(why.to_owned()));
    }
    if sealing.revision.is_some() && sealing.sign.is_empty() {
        return Err(Failure::Usage(
            "--revision: the revision is part of a signature; give --sign too".to_owned(),
        ));
    }
    let mut options = SealOptions::new().hide_index(sealing.hide_index);
    for path in &sealing.sign {
        options = options.sign(signing_key(path)?);
    }
    if let Some(revision) = sealing.revision {
        options = options.revision(revision);
    }
    if encrypts { openers(options, sealing, open).map(Some) } else { Ok(Some(options)) }
}

/// Adds everybody who can open the output.
fn openers(mut options: SealOptions, sealing: &SealingArgs, open: &OpenArgs) -> Result<SealOptions> {
    for path in &sealing.to_recipient {
        options = options.recipient(recipient(path)?);
    }
    for path in &open.unlock.passphrase_file {
        options = options.passphrase(passphrase(path)?);
    }
    let (keys, ids) = (&open.unlock.key_file, &sealing.key_id);
    if !ids.is_empty() && ids.len() != keys.len() {
        let why = format!("{} for {} --key-file; give one for each, in their order", ids.len(), keys.len());
        return Err(Failure::Usage(format!("--key-id: {why}")));
    }
    let ids = ids.iter().map(String::as_str).chain(std::iter::repeat(""));
    for (path, id) in keys.iter().zip(ids) {
        options = options.raw_key(raw_key(path)?, id);
    }
    Ok(options)
}

/// Returns the files by which models are opened, which no output may replace.
pub(crate) fn files_of(open: &OpenArgs) -> Vec<PathBuf> {
    let lists =
        [&open.unlock.identity, &open.unlock.passphrase_file, &open.unlock.key_file, &open.signers.key];
    lists.into_iter().flatten().cloned().collect()
}

/// Returns the files that hold keys and passphrases, which no output may replace.
pub(crate) fn files(how: &ConvertOptionArgs) -> Vec<PathBuf> {
    let ConvertOptionArgs { sealing, open, .. } = how;
    let lists = [&sealing.to_recipient, &sealing.sign, &sealing.old_passphrase_file, &sealing.old_key_file];
    lists.into_iter().flatten().cloned().chain(files_of(open)).collect()
}

fn one_from_stdin<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result {
    if paths.filter(|path| is_dash(path)).count() > 1 {
        return Err(Failure::Usage(
            "-: standard input is read once, and two secrets are to come from it".to_owned(),
        ));
    }
    Ok(())
}

fn bad(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: {why}", path.display()))
}

/// Reads a trusted public key.
fn verifying_key(path: &Path) -> Result<VerifyingKey> {
    let key = PublicKey::read(path).map_err(|error| keys::failed(&error))?;
    modelfmt::seal::verifying_key(&key).map_err(|error| bad(path, error))
}

/// Reads a private key for signing.
pub(crate) fn signing_key(path: &Path) -> Result<SigningKey> {
    let key = PrivateKey::read(path).map_err(|error| keys::failed(&error))?;
    modelfmt::seal::signing_key(&key).map_err(|error| bad(path, error))
}

/// Reads the public key of somebody who can open the output.
fn recipient(path: &Path) -> Result<Recipient> {
    let key = PublicKey::read(path).map_err(|error| keys::failed(&error))?;
    modelfmt::seal::recipient(&key).map_err(|error| bad(path, error))
}

fn identity(path: &Path) -> Result<Identity> {
    let pem = text(path)?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| bad(path, error))?;
    modelfmt::seal::identity(&key).map_err(|error| bad(path, error))
}

fn passphrase(path: &Path) -> Result<Passphrase> {
    let text = text(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Passphrase::from_bytes(line.as_bytes()).map_err(|error| bad(path, error))
}

fn raw_key(path: &Path) -> Result<RawKey> {
    RawKey::from_file_content(&bytes(path)?).map_err(|error| bad(path, error))
}

fn text(path: &Path) -> Result<Zeroizing<String>> {
    let bytes = bytes(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| bad(path, "is not UTF-8 text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Reads a small file into memory that is wiped afterwards. Standard input is read once and kept, for
/// commands that open several models.
fn bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    if !is_dash(path) {
        return read(File::open(path), path);
    }
    let mut kept = STDIN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = kept.as_ref() {
        return Ok(bytes.clone());
    }
    stdio::has_secret();
    let bytes = read(Ok(io::stdin().lock()), path)?;
    *kept = Some(bytes.clone());
    Ok(bytes)
}

/// The secret that was read from standard input.
static STDIN: Mutex<Option<Zeroizing<Vec<u8>>>> = Mutex::new(None);

fn read(file: io::Result<impl Read>, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    // The buffer has room for the whole secret, because a growing buffer would leave copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(LONGEST + 1).unwrap_or(1 << 16)));
    let read = file.and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes));
    read.map_err(|error| bad(path, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(bad(path, "is too long to be a key or a passphrase"));
    }
    Ok(bytes)
}
