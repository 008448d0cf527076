//! AES-256-GCM of one segment, by RustCrypto's `aes-gcm`, or by AWS-LC with the feature `aws-lc-rs`. The
//! bytes are the same.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use super::derive::Secret;

#[cfg(all(feature = "aws-lc-rs", not(target_family = "wasm")))]
pub(crate) use aws_lc::Aes256Gcm;
#[cfg(not(all(feature = "aws-lc-rs", not(target_family = "wasm"))))]
pub(crate) use rust_crypto::Aes256Gcm;

/// The length of a tag in bytes.
pub(crate) const TAG_LEN: usize = 16;

/// The nonce and the associated data of an AES-256-GCM message.
pub(crate) struct Given {
    pub(crate) nonce: [u8; 12],
    pub(crate) aad: [u8; 32],
}

/// The tag does not match the text, or a length is wrong.
#[derive(Debug)]
pub(crate) struct Refused;

#[cfg(any(test, not(all(feature = "aws-lc-rs", not(target_family = "wasm")))))]
mod rust_crypto {
    use aes_gcm::aead::AeadInOut as _;
    use aes_gcm::aead::inout::InOutBuf;
    use aes_gcm::{KeyInit as _, Nonce, Tag};

    use super::{Given, Refused, Secret, TAG_LEN};

    /// A key, and everything that is computed once from it.
    pub(crate) struct Aes256Gcm(aes_gcm::Aes256Gcm);

    impl Aes256Gcm {
        pub(crate) fn new(key: &Secret) -> Self {
            Self(aes_gcm::Aes256Gcm::new((&**key).into()))
        }

        /// Encrypts `text` in place, and returns the tag.
        pub(crate) fn seal(&self, given: &Given, text: &mut [u8]) -> Result<[u8; TAG_LEN], Refused> {
            let made =
                self.0.encrypt_inout_detached(&Nonce::from(given.nonce), &given.aad, InOutBuf::from(text));
            Ok(made.map_err(|_| Refused)?.into())
        }

        /// Decrypts `sealed` (text and tag) into `out`, which has the length of the text.
        pub(crate) fn open(&self, given: &Given, sealed: &[u8], out: &mut [u8]) -> Result<(), Refused> {
            let (text, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(Refused)?;
            self.decrypt(given, InOutBuf::new(text, out).map_err(|_| Refused)?, *tag)
        }

        /// Decrypts text and tag in place, and returns the text.
        pub(crate) fn open_in_place<'b>(
            &self,
            given: &Given,
            sealed: &'b mut [u8],
        ) -> Result<&'b mut [u8], Refused> {
            let (text, tag) = sealed.split_last_chunk_mut::<TAG_LEN>().ok_or(Refused)?;
            self.decrypt(given, InOutBuf::from(&mut *text), *tag)?;
            Ok(text)
        }

        fn decrypt(
            &self,
            given: &Given,
            text: InOutBuf<'_, '_, u8>,
            tag: [u8; TAG_LEN],
        ) -> Result<(), Refused> {
            let (nonce, tag) = (Nonce::from(given.nonce), Tag::from(tag));
            self.0.decrypt_inout_detached(&nonce, &given.aad, text, &tag).map_err(|_| Refused)
        }
    }
}

#[cfg(all(feature = "aws-lc-rs", not(target_family = "wasm")))]
mod aws_lc {
    use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use super::{Given, Refused, Secret, TAG_LEN};

    /// A key, and everything that is computed once from it. AWS-LC wipes both when they are dropped. `None`
    /// if AWS-LC refuses the key, which it never does for 32 bytes.
    pub(crate) struct Aes256Gcm(Option<LessSafeKey>);

    impl Aes256Gcm {
        pub(crate) fn new(key: &Secret) -> Self {
            Self(UnboundKey::new(&AES_256_GCM, &**key).ok().map(LessSafeKey::new))
        }

        /// Encrypts `text` in place, and returns the tag.
        pub(crate) fn seal(&self, given: &Given, text: &mut [u8]) -> Result<[u8; TAG_LEN], Refused> {
            let nonce = Nonce::assume_unique_for_key(given.nonce);
            let made =
                self.0.as_ref().ok_or(Refused)?.seal_in_place_separate_tag(nonce, Aad::from(given.aad), text);
            made.map_err(|_| Refused)?.as_ref().try_into().map_err(|_| Refused)
        }

        /// Decrypts `sealed` (text and tag) into `out`, which has the length of the text.
        pub(crate) fn open(&self, given: &Given, sealed: &[u8], out: &mut [u8]) -> Result<(), Refused> {
            let (text, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(Refused)?;
            let nonce = Nonce::assume_unique_for_key(given.nonce);
            if text.len() != out.len() {
                return Err(Refused);
            }
            let key = self.0.as_ref().ok_or(Refused)?;
            key.open_separate_gather(nonce, Aad::from(given.aad), text, tag, out).map_err(|_| Refused)
        }

        /// Decrypts text and tag in place, and returns the text.
        pub(crate) fn open_in_place<'b>(
            &self,
            given: &Given,
            sealed: &'b mut [u8],
        ) -> Result<&'b mut [u8], Refused> {
            let nonce = Nonce::assume_unique_for_key(given.nonce);
            self.0
                .as_ref()
                .ok_or(Refused)?
                .open_in_place(nonce, Aad::from(given.aad), sealed)
                .map_err(|_| Refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::rust_crypto::Aes256Gcm as Reference;
    use super::*;

    proptest! {
        /// With the feature `aws-lc-rs` these are two different implementations.
        #[test]
        fn both_make_the_same_bytes_and_refuse_the_same(
            key: [u8; 32],
            nonce: [u8; 12],
            aad: [u8; 32],
            text in proptest::collection::vec(any::<u8>(), 0..3000),
            damaged: proptest::sample::Index,
        ) {
            let key = Secret::new(key);
            let (ours, reference) = (Aes256Gcm::new(&key), Reference::new(&key));
            let given = Given { nonce, aad };
            let mut sealed = text.clone();
            let tag = reference.seal(&given, &mut sealed).unwrap();
            let mut same = text.clone();
            prop_assert_eq!(ours.seal(&given, &mut same).unwrap(), tag);
            prop_assert_eq!(&same, &sealed);
            sealed.extend(tag);

            // A macro, because the two ciphers have no common trait.
            macro_rules! opens {
                ($cipher:ident) => {
                    let mut out = vec![0; text.len()];
                    $cipher.open(&given, &sealed, &mut out).unwrap();
                    prop_assert_eq!(&out, &text);
                    let mut in_place = sealed.clone();
                    prop_assert_eq!(&*$cipher.open_in_place(&given, &mut in_place).unwrap(), &*text);

                    let mut longer = vec![0; text.len() + 1];
                    prop_assert!($cipher.open(&given, &sealed, &mut longer).is_err());
                    prop_assert!($cipher.open(&given, &sealed[..TAG_LEN - 1], &mut []).is_err());
                    prop_assert!($cipher.open_in_place(&given, &mut sealed.clone()[..TAG_LEN - 1]).is_err());
                    let other = Given { nonce, aad: aad.map(|byte| !byte) };
                    prop_assert!($cipher.open(&other, &sealed, &mut out).is_err());
                    let mut changed = sealed.clone();
                    changed[damaged.index(sealed.len())] ^= 1;
                    prop_assert!($cipher.open(&given, &changed, &mut out).is_err());
                    prop_assert!($cipher.open_in_place(&given, &mut changed).is_err());
                };
            }
            opens!(ours);
            opens!(reference);
        }
    }
}
