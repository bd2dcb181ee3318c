//! Scrubbing secrets from any text before it is logged, stored or shown.
//!
//! Types keep secrets out of our own messages; this is for texts that others write: error bodies of a model server, the
//! standard error of a tool, a database's complaint with its URL in it.

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::settings::Settings;
use crate::urls::DatabaseUrl;

/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter secrets are left alone: replacing every `a` of a text would tell the secret and ruin the text.
const SHORTEST: usize = 4;

/// Replaces known secrets, and the credentials of every URL, by `[redacted]`.
#[derive(Clone, Debug)]
pub struct Redactor {
    /// Longest first, so that a secret that begins with another one disappears whole.
    secrets: Vec<SecretString>,
}

impl Redactor {
    /// Knows all secrets among the settings. The default `dev-token` is none.
    pub fn new(settings: &Settings) -> Self {
        let mut secrets: Vec<SecretString> = [
            Some(&settings.server.api_key).filter(|key| key.expose_secret() != "dev-token"),
            settings.llm.endpoint.as_ref().and_then(|endpoint| endpoint.api_key.as_ref()),
            settings.agent.endpoint.as_ref().and_then(|endpoint| endpoint.api_key.as_ref()),
            settings.s3.access_key_id.as_ref(),
            settings.s3.secret_access_key.as_ref(),
            settings.e2b.api_key.as_ref(),
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
        let database = match &settings.store.database {
            DatabaseUrl::Postgres(url) => Some(url),
            DatabaseUrl::Sqlite(_) => None,
        };
        for url in database.into_iter().chain(&settings.store.redis_url) {
            secrets.extend(password(url.expose_secret()).map(SecretString::from));
        }
        let web_urls = [
            settings.llm.endpoint.as_ref().map(|endpoint| &endpoint.base_url),
            settings.agent.endpoint.as_ref().map(|endpoint| &endpoint.base_url),
            settings.llm.catalogue_url.as_ref(),
            Some(&settings.e2b.api_url),
            settings.e2b.sandbox_url.as_ref(),
        ];
        for url in web_urls.into_iter().flatten() {
            secrets.extend(password(url.as_url().as_str()).map(SecretString::from));
        }
        Self::of(secrets)
    }

    /// Knows exactly these secrets; ones of fewer than four characters are left out.
    pub fn of(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut secrets: Vec<SecretString> =
            secrets.into_iter().filter(|secret| secret.expose_secret().chars().count() >= SHORTEST).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets }
    }

    /// The text without secrets and without credentials in URLs.
    pub fn scrub(&self, text: &str) -> String {
        let mut scrubbed = without_credentials(text);
        for secret in &self.secrets {
            if scrubbed.contains(secret.expose_secret()) {
                scrubbed = scrubbed.replace(secret.expose_secret(), REDACTED);
            }
        }
        scrubbed
    }
}

/// A URL's password, as written in it.
fn password(url: &str) -> Option<String> {
    Url::parse(url).ok()?.password().map(str::to_owned)
}

/// Replaces what stands between `://` and the last `@` of the authority. The host stays, since it says what failed.
fn without_credentials(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        result.push_str(before);
        let end =
            after.find(|letter: char| letter.is_whitespace() || "/?#\"'`<>\\".contains(letter)).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(sign) => {
                result.push_str(REDACTED);
                &after[sign..]
            }
            None => after,
        };
    }
    result.push_str(rest);
    result
}
