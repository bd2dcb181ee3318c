//! Secrets of clients, sealed before they reach the database.
//!
//! An agent may bring a model endpoint with a key of its own. The store keeps that key only as AES-256-GCM ciphertext
//! under a key that HKDF derives from `SECRETS_KEY`, else from `API_KEY`, so that neither a dump of the database nor a
//! backup gives it away. Each secret is bound to the address it belongs to: moved to another one, it does not open.

use std::fmt;
use std::sync::Arc;

use ambient_settings::Settings;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::{ExposeSecret, SecretString};

/// Of sealed text of this form; another form would get another mark.
const MARK: &str = "sealed1:";

/// Why a secret could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The cipher failed, which only broken hardware or an empty random source does.
    #[error("a secret could not be sealed")]
    Seal,
    /// It was sealed under another key, for another address, or is no sealed text.
    #[error(
        "a stored secret cannot be opened: `SECRETS_KEY` (or, where that is not set, `API_KEY`) has changed since; set it back, or set the secret anew"
    )]
    Open,
}

/// Seals and opens. Cheap to clone.
#[derive(Clone)]
pub struct Secrets(Arc<RandomizedNonceKey>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// With the key that the settings give.
    ///
    /// # Errors
    /// When no key can be derived, which only a broken cipher library does.
    pub fn new(settings: &Settings) -> Result<Self, SecretsError> {
        Self::from_key(settings.server.secrets_key.as_ref().unwrap_or(&settings.server.api_key))
    }

    fn from_key(key: &SecretString) -> Result<Self, SecretsError> {
        let mut derived = [0; 32];
        Salt::new(HKDF_SHA256, b"ambient")
            .extract(key.expose_secret().as_bytes())
            .expand(&[b"secrets of agents, AES-256-GCM"], &AES_256_GCM)
            .and_then(|key| key.fill(&mut derived))
            .and_then(|()| RandomizedNonceKey::new(&AES_256_GCM, &derived))
            .map(|key| Self(Arc::new(key)))
            .map_err(|_unspecified| SecretsError::Seal)
    }

    /// Seals a secret that belongs to `owner`, an address for one. Two sealings of one secret differ.
    ///
    /// # Errors
    /// When the cipher fails.
    pub fn seal(&self, secret: &SecretString, owner: &str) -> Result<String, SecretsError> {
        let mut bytes = secret.expose_secret().as_bytes().to_vec();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(owner.as_bytes()), &mut bytes)
            .map_err(|_unspecified| SecretsError::Seal)?;
        Ok(format!("{MARK}{}", STANDARD_NO_PAD.encode([nonce.as_ref().as_slice(), &bytes].concat())))
    }

    /// Opens what [`Self::seal`] sealed for the same owner.
    ///
    /// # Errors
    /// When it was sealed under another key or for another owner.
    pub fn open(&self, sealed: &str, owner: &str) -> Result<SecretString, SecretsError> {
        let bytes = sealed.strip_prefix(MARK).and_then(|text| STANDARD_NO_PAD.decode(text).ok());
        let mut bytes = bytes.filter(|bytes| bytes.len() > NONCE_LEN).ok_or(SecretsError::Open)?;
        let mut ciphertext = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).map_err(|_length| SecretsError::Open)?;
        let plain = self
            .0
            .open_in_place(nonce, Aad::from(owner.as_bytes()), &mut ciphertext)
            .map_err(|_unspecified| SecretsError::Open)?;
        String::from_utf8(plain.to_vec()).map(SecretString::from).map_err(|_no_text| SecretsError::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(key: &str) -> Secrets {
        Secrets::from_key(&key.into()).unwrap()
    }

    #[test]
    fn a_secret_opens_under_its_key_and_for_its_owner_alone() {
        for text in ["sk-a", "", "klíč"] {
            let sealed = secrets("one").seal(&text.into(), "https://a.test/v1").unwrap();
            assert!(text.is_empty() || !sealed.contains(text));
            assert_eq!(secrets("one").open(&sealed, "https://a.test/v1").unwrap().expose_secret(), text);
            assert!(secrets("two").open(&sealed, "https://a.test/v1").is_err());
            assert!(secrets("one").open(&sealed, "https://b.test/v1").is_err());
        }
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let secrets = secrets("one");
        let sealed = secrets.seal(&"sk-a".into(), "a").unwrap();
        for bad in ["", "sealed1:", "sealed1:AAAA", "sk-a", &sealed[..sealed.len() - 2]] {
            assert!(secrets.open(bad, "a").is_err(), "{bad}");
        }
        assert_ne!(sealed, secrets.seal(&"sk-a".into(), "a").unwrap());
    }
}
