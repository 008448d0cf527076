//! The caller's demands on a sealed file, and the keys to open it.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use apr2::Flags;

use crate::error::SealFault;
use crate::seal::keys::Opener;
use crate::seal::passphrase_limits::Argon2Caps;
use crate::seal::signatures::VerifyingKey;

/// What you require of a sealed file (signatures by trusted keys, a revision), and the keys and passphrases
/// to decrypt it.
///
/// ```
/// use apr2_seal::seal::{Access, VerifyingKey};
/// use apr2_seal::{OpenOptions, Reader};
///
/// # let path = "../../testdata/seal/signed.apr";
/// # let public = [0x54, 0x0d, 0xab, 0xed, 0x50, 0x55, 0x6d, 0x76, 0x97, 0xae, 0xdd, 0x7c, 0x3f, 0x97, 0x6c, 0x49, 0xe4,
/// #     0xd0, 0xf0, 0x64, 0x2b, 0x76, 0x74, 0xc4, 0x82, 0x79, 0x96, 0xea, 0x61, 0x85, 0x93, 0x1d];
/// let alice = VerifyingKey::from_bytes(&public)?; // from somewhere that you trust, never from the file
/// let model = OpenOptions::new().with_extension(Access::new().trust(alice)).open(path)?;
/// assert_eq!(model.index().seal().unwrap().revision(), 7);
/// assert!(model.tensor("a.weight").is_ok()); // checked against what alice has signed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub(crate) signers: Vec<VerifyingKey>,
    pub(crate) threshold: usize,
    pub(crate) min_revision: Option<u64>,
    pub(crate) statement: Option<[u8; 32]>,
    pub(crate) openers: Vec<Opener>,
    pub(crate) argon2: Argon2Caps,
    pub(crate) allow_unencrypted: bool,
}

impl Access {
    /// Creates an `Access` without demands or keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires a signature by this key. If you call this with several keys, [`threshold`](Self::threshold)
    /// says how many of them must have signed.
    #[must_use]
    pub fn trust(mut self, key: VerifyingKey) -> Self {
        self.signers.push(key);
        self
    }

    /// Sets how many different trusted keys must have signed; 1 by default.
    #[must_use]
    pub const fn threshold(mut self, keys: usize) -> Self {
        self.threshold = keys;
        self
    }

    /// Refuses a file whose revision is below this one.
    #[must_use]
    pub const fn min_revision(mut self, revision: u64) -> Self {
        self.min_revision = Some(revision);
        self
    }

    /// Requires the file or set that has exactly this statement, the hash of its signed content.
    #[must_use]
    pub const fn statement(mut self, statement: [u8; 32]) -> Self {
        self.statement = Some(statement);
        self
    }

    /// Adds a key or a passphrase that may open the file. All keys and passphrases that you add are tried.
    #[must_use]
    pub fn open_with(mut self, opener: impl Into<Opener>) -> Self {
        self.openers.push(opener.into());
        self
    }

    /// Sets whether to accept a file that is not encrypted although you have given keys. Use this to open
    /// several files of which only some are encrypted. By default such a file is refused, because an attacker
    /// might have put it in the place of the encrypted one.
    #[must_use]
    pub const fn allow_unencrypted(mut self, allow: bool) -> Self {
        self.allow_unencrypted = allow;
        self
    }

    /// Replaces the keys and passphrases, the limits on their cost, and whether unencrypted files are
    /// accepted, by those of `other`, but takes none of its demands on signatures.
    #[must_use]
    pub fn openers_of(mut self, other: &Self) -> Self {
        self.openers.clone_from(&other.openers);
        (self.argon2, self.allow_unencrypted) = (other.argon2, other.allow_unencrypted);
        self
    }

    /// Sets the limits on the cost of a passphrase.
    #[must_use]
    pub const fn argon2_caps(mut self, caps: Argon2Caps) -> Self {
        self.argon2 = caps;
        self
    }

    /// Returns whether there are any demands. If so, a file that is not sealed is refused.
    #[must_use]
    pub fn demands(&self) -> bool {
        !self.signers.is_empty()
            || (!self.openers.is_empty() && !self.allow_unencrypted)
            || self.threshold > 0
            || self.min_revision.is_some()
            || self.statement.is_some()
    }

    /// Returns whether the content must be exactly what a signature or pin vouches for, even against an
    /// attacker who can decrypt it.
    #[must_use]
    pub fn binds_content(&self) -> bool {
        !self.signers.is_empty() || self.statement.is_some()
    }

    /// Refuses a file whose flags do not even claim what is required.
    pub(crate) fn check_flags(&self, flags: Flags) -> Result<(), SealFault> {
        let is_signed = flags.contains(Flags::SIGNED);
        let is_encrypted = flags.contains(Flags::ENCRYPTED);
        if (!self.signers.is_empty() || self.threshold > 0) && !is_signed {
            return Err(SealFault::Missing("a signature is required, and the file has none"));
        }
        if !self.openers.is_empty() && !is_encrypted && !self.allow_unencrypted {
            return Err(SealFault::Missing("a key to decrypt the file was given, and it is not encrypted"));
        }
        if self.demands() && !is_signed && !is_encrypted {
            return Err(SealFault::Missing("a sealed file is demanded, and this one is not"));
        }
        Ok(())
    }

    /// Returns the demands on one file of a checked set: the file must have the statement in the set's list.
    pub(crate) fn of_shard(&self, statement: [u8; 32]) -> Self {
        Self {
            signers: Vec::new(),
            threshold: 0,
            min_revision: None,
            statement: Some(statement),
            openers: self.openers.clone(),
            argon2: self.argon2,
            allow_unencrypted: self.allow_unencrypted,
        }
    }
}
