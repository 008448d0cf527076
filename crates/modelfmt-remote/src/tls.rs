//! TLS and RSA with graviola. It needs no C compiler, but a processor of the last ten years.

use hyper_util::client::legacy::connect::HttpConnector;
use object_store::client::Signer;

use crate::resolve::Resolver;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use with_graviola::{Connector, connector, rsa_key};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use without::{Connector, connector, rsa_key};

/// Returns the reason, if this processor cannot do TLS.
#[cfg(target_arch = "x86_64")]
fn missing() -> Option<&'static str> {
    let has_all = std::arch::is_x86_feature_detected!("adx")
        && std::arch::is_x86_feature_detected!("aes")
        && std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("pclmulqdq");
    (!has_all).then_some("the processor lacks one of ADX, AES, AVX2, BMI and PCLMULQDQ")
}

/// Returns the reason, if this processor cannot do TLS.
#[cfg(target_arch = "aarch64")]
fn missing() -> Option<&'static str> {
    let has_all = std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("neon")
        && std::arch::is_aarch64_feature_detected!("pmull")
        && std::arch::is_aarch64_feature_detected!("sha2");
    (!has_all).then_some("the processor lacks one of AES, NEON, PMULL and SHA2")
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod with_graviola {
    use graviola::signing::rsa::SigningKey;
    use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject as _;

    use super::{HttpConnector, Resolver, Signer};
    use crate::error::Fault;

    /// The connector for HTTPS.
    pub(crate) type Connector = HttpsConnector<HttpConnector<Resolver>>;

    /// Makes a connector with the certificates that the system trusts.
    pub(crate) fn connector(http: HttpConnector<Resolver>) -> Result<Connector, Fault> {
        if let Some(why) = super::missing() {
            return Err(Fault::Tls(why.into()));
        }
        let builder = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls_graviola::default_provider())
            .map_err(|error| Fault::Tls(error.to_string().into()))?;
        Ok(builder.https_only().enable_http1().wrap_connector(http))
    }

    /// Reads the RSA key of a service account.
    pub(crate) fn rsa_key(pem: &[u8]) -> Result<Box<dyn Signer>, &'static str> {
        if let Some(why) = super::missing() {
            return Err(why);
        }
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "the private key is no PEM")?;
        let key = match &key {
            PrivateKeyDer::Pkcs1(der) => SigningKey::from_pkcs1_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => SigningKey::from_pkcs8_der(der.secret_pkcs8_der()),
            _ => return Err("the private key is no RSA key"),
        };
        Ok(Box::new(Key(key.map_err(|_| "the private key is no valid RSA key")?)))
    }

    struct Key(SigningKey);

    impl Signer for Key {
        fn sign(&self, text: &[u8]) -> object_store::Result<Vec<u8>> {
            let mut buffer = vec![0; self.0.modulus_len_bytes()];
            let signed = self.0.sign_pkcs1_sha256(&mut buffer, text);
            signed
                .map(<[u8]>::to_vec)
                .map_err(|_| object_store::Error::NotSupported { source: "RSA failed".into() })
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod without {
    use super::{HttpConnector, Resolver, Signer};
    use crate::error::Fault;

    const WHY: &str = "its cryptography is for x86-64 and 64-bit ARM only";

    /// A placeholder for the HTTPS connector, which is never made.
    pub(crate) type Connector = HttpConnector<Resolver>;

    pub(crate) fn connector(_: HttpConnector<Resolver>) -> Result<Connector, Fault> {
        Err(Fault::Tls(WHY.into()))
    }

    pub(crate) fn rsa_key(_: &[u8]) -> Result<Box<dyn Signer>, &'static str> {
        Err(WHY)
    }
}
