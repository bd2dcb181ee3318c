//! Scrubbing secrets from any text before it is logged, stored or shown.
//!
//! Types keep secrets out of our own messages; this is for texts that others write: error bodies of a model server, the
//! standard error of a tool, a database's complaint with its URL in it.

use percent_encoding::percent_decode_str;
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
            settings.server.secrets_key.as_ref(),
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
            secrets.extend(passwords(url.expose_secret()));
        }
        let web_urls = [
            settings.llm.endpoint.as_ref().map(|endpoint| &endpoint.base_url),
            settings.agent.endpoint.as_ref().map(|endpoint| &endpoint.base_url),
            settings.llm.catalogue_url.as_ref(),
            Some(&settings.e2b.api_url),
            settings.e2b.sandbox_url.as_ref(),
        ];
        for url in web_urls.into_iter().flatten() {
            secrets.extend(passwords(url.as_url().as_str()));
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

    /// Knows these secrets too, such as the key that an agent brings for its own model server.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = SecretString>) -> Self {
        Self::of(self.secrets.iter().cloned().chain(more))
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

/// A URL's password, as written in it and as the server sees it: either may turn up in a message.
fn passwords(url: &str) -> Vec<SecretString> {
    let parsed = Url::parse(url).ok();
    let Some(written) = parsed.as_ref().and_then(Url::password) else { return Vec::new() };
    let decoded = percent_decode_str(written).decode_utf8_lossy().into_owned();
    vec![SecretString::from(written), SecretString::from(decoded)]
}

/// Replaces what stands between `://` and the last `@` of the authority. The host stays, since it says what failed.
pub(crate) fn without_credentials(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalogue::{Setting, catalogue};
    use crate::kind::Kind;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::of(secrets.iter().map(|secret| SecretString::from(*secret)))
    }

    #[test]
    fn every_secret_of_the_catalogue_disappears() {
        let value = |setting: &Setting| match setting.kind {
            Kind::Url { schemes } => format!("{}://ann:canary-{}@host/x", schemes[schemes.len() - 1], setting.name),
            _ => format!("canary-{}", setting.name),
        };
        let secret = || catalogue().filter(|setting| setting.is_secret());
        let environment = secret()
            .map(|setting| (setting.name.into(), value(setting).into()))
            .chain([("HOME".into(), "/home/ann".into()), ("LLM_BASE_URL".into(), "https://models.example".into())]);
        let settings = Settings::load(environment, None).unwrap().settings;
        let redactor = Redactor::new(&settings);
        assert!(secret().count() > 5);
        for setting in secret() {
            let text = format!("server said <canary-{}>!", setting.name);
            assert_eq!(redactor.scrub(&text), "server said <[redacted]>!", "{}", setting.name);
        }
        assert!(!format!("{settings:?}{redactor:?}").contains("canary"));
    }

    #[test]
    fn passwords_in_urls_disappear_as_written_and_as_the_server_sees_them() {
        let environment = [
            ("DATABASE_URL", "postgres://ann:pass%2Fword7@db/ambient"),
            ("LLM_BASE_URL", "https://bob:proxy-word9@models.example/v1"),
            ("HOME", "/home/ann"),
        ];
        let loaded = Settings::load(environment.map(|(name, value)| (name.into(), value.into())), None).unwrap();
        let redactor = Redactor::new(&loaded.settings);
        assert_eq!(redactor.scrub("pass%2Fword7 pass/word7 proxy-word9"), "[redacted] [redacted] [redacted]");
    }

    #[test]
    fn the_default_key_is_no_secret() {
        let settings = Settings::for_tests("/tmp/home".into());
        assert_eq!(Redactor::new(&settings).scrub("key dev-token"), "key dev-token");
    }

    #[test]
    fn credentials_of_any_url_disappear_and_the_host_stays() {
        for (text, expected) in [
            ("cannot reach postgres://ann:secret@db:5432/x", "cannot reach postgres://[redacted]@db:5432/x"),
            ("redis://:p@ss@cache/0 refused", "redis://[redacted]@cache/0 refused"),
            ("see https://host/a@b and mail c@d", "see https://host/a@b and mail c@d"),
            ("two: http://a:b@c, http://d:e@f", "two: http://[redacted]@c, http://[redacted]@f"),
            ("\"http://a:b@c\"", "\"http://[redacted]@c\""),
            ("://", "://"),
        ] {
            assert_eq!(redactor(&[]).scrub(text), expected);
        }
    }

    #[test]
    fn a_secret_that_begins_with_another_one_disappears_whole() {
        assert_eq!(redactor(&["key-1", "key-1-long"]).scrub("key-1-long key-1"), "[redacted] [redacted]");
    }

    #[test]
    fn short_secrets_are_left_alone_and_more_can_be_added() {
        let redactor = redactor(&["abc"]).with([SecretString::from("agent-key")]);
        assert_eq!(redactor.scrub("abc agent-key"), "abc [redacted]");
    }

    proptest! {
        #[test]
        fn a_secret_never_survives(before in ".{0,20}", secret in "[a-zA-Z0-9_-]{12,40}", after in ".{0,20}") {
            let scrubbed = redactor(&[&secret]).scrub(&format!("{before}{secret}{after}{secret}"));
            prop_assert!(!scrubbed.contains(&secret));
        }
    }
}
