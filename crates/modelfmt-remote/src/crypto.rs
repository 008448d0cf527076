//! The cryptography that [`object_store`] needs for signatures.

use hmac::{HmacReset, KeyInit as _, Mac as _};
use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, Signer, SigningAlgorithm,
};
use sha2::{Digest as _, Sha256};

/// SHA-256 and HMAC-SHA-256 on all targets; RSA for Google's service accounts where [`crate::tls`] has it.
#[derive(Debug)]
pub(crate) struct Crypto;

fn refused(why: &'static str) -> object_store::Error {
    object_store::Error::NotSupported { source: why.into() }
}

impl CryptoProvider for Crypto {
    fn digest(&self, algorithm: DigestAlgorithm) -> object_store::Result<Box<dyn DigestContext>> {
        match algorithm {
            DigestAlgorithm::Sha256 => Ok(Box::new(Hash { state: Sha256::new(), done: [0; 32] })),
            _ => Err(refused("only SHA-256 is known")),
        }
    }

    fn hmac(&self, algorithm: DigestAlgorithm, secret: &[u8]) -> object_store::Result<Box<dyn HmacContext>> {
        let keyed = HmacReset::<Sha256>::new_from_slice(secret)
            .map_err(|_| refused("the key has a length that HMAC does not take"))?;
        match algorithm {
            DigestAlgorithm::Sha256 => Ok(Box::new(Keyed { state: keyed, done: [0; 32] })),
            _ => Err(refused("only SHA-256 is known")),
        }
    }

    fn sign(&self, algorithm: SigningAlgorithm, pem: &[u8]) -> object_store::Result<Box<dyn Signer>> {
        match algorithm {
            SigningAlgorithm::RS256 => crate::tls::rsa_key(pem).map_err(refused),
            _ => Err(refused("only RS256 is known")),
        }
    }
}

struct Hash {
    state: Sha256,
    done: [u8; 32],
}

impl DigestContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    fn finish(&mut self) -> object_store::Result<&[u8]> {
        self.done = self.state.finalize_reset().into();
        Ok(&self.done)
    }
}

struct Keyed {
    state: HmacReset<Sha256>,
    done: [u8; 32],
}

impl HmacContext for Keyed {
    fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    fn finish(&mut self) -> object_store::Result<&[u8]> {
        self.done = self.state.finalize_reset().into_bytes().into();
        Ok(&self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_their_documents() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut hash = Crypto.digest(DigestAlgorithm::Sha256).unwrap();
        hash.update(b"a");
        hash.update(b"bc");
        assert_eq!(
            hex(hash.finish().unwrap()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4, "abc"
        );
        let mut keyed = Crypto.hmac(DigestAlgorithm::Sha256, b"Jefe").unwrap();
        keyed.update(b"what do ya want for nothing?");
        assert_eq!(
            hex(keyed.finish().unwrap()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" // RFC 4231, test case 2
        );
    }
}
