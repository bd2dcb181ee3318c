//! What a sandbox shall be.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::protocol::{AutoResume, CreateSandbox, Network, OnTimeout, Token};

/// A sandbox to be made.
#[derive(Clone, Debug)]
pub struct NewSandbox {
    pub(crate) body: CreateSandbox,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) identity: Option<String>,
}

impl NewSandbox {
    /// A sandbox of this template: id, alias, `alias:tag` or `team/alias:tag`.
    pub fn new(template: impl Into<String>) -> Self {
        let body = CreateSandbox { template_id: template.into(), ..CreateSandbox::default() };
        Self { body, idempotency_key: None, identity: None }
    }

    /// How long it lives unless that is changed; parts of a second count as a whole one. The service's default is 300 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.body.timeout = Some(whole_seconds(timeout));
        self
    }

    /// What its end does; the service's default is to kill it.
    #[must_use]
    pub fn on_timeout(mut self, on_timeout: OnTimeout) -> Self {
        self.body.auto_pause = Some(on_timeout == OnTimeout::Pause);
        self
    }

    /// Whether traffic wakes it once it is paused.
    #[must_use]
    pub fn auto_resume(mut self, enabled: bool) -> Self {
        self.body.auto_resume = Some(AutoResume { enabled });
        self
    }

    /// A word about it, by which it can be found in the list.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.body.metadata.insert(key.into(), value.into());
        self
    }

    /// A variable that every command in it gets.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.body.env_vars.insert(name.into(), Token::new(value));
        self
    }

    /// Variables that every command in it gets.
    #[must_use]
    pub fn envs<N: Into<String>, V: Into<String>>(mut self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        self.body.env_vars.extend(pairs.into_iter().map(|(name, value)| (name.into(), Token::new(value))));
        self
    }

    /// Whether its agent asks for a token. Servers of today always do; on those of before `/v2`, this decides. The client asks for it unless told otherwise.
    #[must_use]
    pub fn secure(mut self, secure: bool) -> Self {
        self.body.secure = Some(secure);
        self
    }

    /// Whether it may reach the internet; the service's default is yes.
    #[must_use]
    pub fn internet_access(mut self, allowed: bool) -> Self {
        self.body.allow_internet_access = Some(allowed);
        self
    }

    /// Its network rules.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.body.network = Some(network);
        self
    }

    /// A key of 1 to 255 `a-z 0-9 -` under which a server that knows such keys makes one sandbox only, however often it is asked.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Metadata that no other sandbox has. When the answer to create gets lost, the client looks for a sandbox with it and takes that one over, so that none
    /// is left that nobody knows of. Without it such a create fails with [`Error::AnswerLost`](crate::Error::AnswerLost).
    #[must_use]
    pub fn identified_by(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let key = key.into();
        self.body.metadata.insert(key.clone(), value.into());
        self.identity = Some(key);
        self
    }

    /// The pair that tells it from all others.
    pub(crate) fn identity_pair(&self) -> Option<BTreeMap<String, String>> {
        let key = self.identity.as_ref()?;
        let value = self.body.metadata.get(key)?;
        Some(BTreeMap::from([(key.clone(), value.clone())]))
    }

    /// The body for servers of today, which give a token without being asked.
    pub(crate) fn body_now(&self) -> CreateSandbox {
        CreateSandbox { secure: None, ..self.body.clone() }
    }

    /// The body for servers of before `/v2`, whose defaults are others.
    pub(crate) fn body_of_old(&self) -> CreateSandbox {
        let secure = Some(self.body.secure.unwrap_or(true));
        let timeout = Some(self.body.timeout.unwrap_or(300));
        CreateSandbox { timeout, secure, ..self.body.clone() }
    }
}

/// A duration as whole seconds, never less than it was.
pub(crate) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NewSandbox, whole_seconds};

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }

    #[test]
    fn old_servers_are_told_what_new_ones_know() {
        let new = NewSandbox::new("base").env("KEY", "s3cret").timeout(Duration::ZERO);
        assert_eq!((new.body_now().secure, new.body_now().timeout), (None, Some(0)));
        assert_eq!((new.body_of_old().secure, new.body_of_old().timeout), (Some(true), Some(0)));
        assert_eq!(NewSandbox::new("base").body_of_old().timeout, Some(300));
        assert!(!format!("{new:?}").contains("s3cret"));
    }
}
