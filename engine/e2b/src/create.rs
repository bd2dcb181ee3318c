//! Making a sandbox, so that none is left that nobody knows of.
//!
//! A create that was sent and whose answer got lost may have made a sandbox. It is never sent again: with an identity given the client looks for the sandbox
//! and takes it over, without one it says that it does not know.

use std::time::Duration;

use reqwest::Method;

use crate::api_error::Subject;
use crate::client::{Client, debug_instance, parse};
use crate::error::Error;
use crate::list::ListFilter;
use crate::new_sandbox::NewSandbox;
use crate::protocol::SandboxInstance;
use crate::sandbox::Sandbox;
use crate::transport::{ApiRequest, segment};
use crate::version::EnvdVersion;

/// How often a lost sandbox is looked for. A create takes a second or two, and it may have been cut at its beginning.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// What a sandbox lives for when nothing is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

impl Client {
    /// Makes a sandbox. When this returns it takes commands.
    ///
    /// # Errors
    /// [`Error::TemplateUnknown`], [`Error::TemplateOfAnotherTeam`], [`Error::RateLimited`], [`Error::QuotaReached`], [`Error::Unavailable`] as the service says;
    /// [`Error::AnswerLost`] when it is not known whether one was made.
    pub async fn create(&self, new: &NewSandbox) -> Result<Sandbox, Error> {
        if self.config().debug {
            return Ok(Sandbox::new(self, debug_instance()));
        }
        let (now, of_old) = (new.body_now(), new.body_of_old());
        let request = |path: &str, body| {
            let mut request = ApiRequest::new(Method::POST, path).body(body)?.if_refused_only();
            request.idempotency_key.clone_from(&new.idempotency_key);
            Ok(request)
        };
        let answer = self.now_or_of_old(|| request("/v2/sandboxes", &now), || request("/sandboxes", &of_old)).await;
        let answer = match answer {
            Err(lost @ Error::AnswerLost { .. }) => return self.take_over(new, lost).await,
            answer => answer?,
        };
        let template = &new.body.template_id;
        let instance = match parse::<SandboxInstance>(&answer, Subject::Template(template), "a new sandbox") {
            Err(error @ (Error::TemplateUnknown { .. } | Error::InvalidArgument { .. })) => {
                return Err(self.sharper(template, error).await);
            }
            // It was made, and its id cannot be read.
            Err(error @ Error::Protocol { .. }) if answer.is_success() => return self.take_over(new, error).await,
            instance => instance?,
        };
        if EnvdVersion::parse(&instance.envd_version) < EnvdVersion::OLDEST {
            // What cannot be driven is not left running; that it could not be ended is the smaller news.
            let _ = self.kill(&instance.sandbox_id).await;
            let message = format!("its agent {} is too old; build it anew", instance.envd_version);
            return Err(Error::TemplateUnknown { template: template.clone(), message });
        }
        Ok(Sandbox::new(self, instance))
    }

    /// Looks for the sandbox that a lost answer told of.
    async fn take_over(&self, new: &NewSandbox, lost: Error) -> Result<Sandbox, Error> {
        let Some(metadata) = new.identity_pair() else { return Err(lost) };
        let filter = ListFilter { metadata, ..ListFilter::default() };
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(BETWEEN_LOOKS * look).await;
            }
            // Failing to look is no reason to stop looking: the service may be coming back.
            let Ok(found) = self.list(&filter).await else { continue };
            let Some((newest, strays)) = found.split_first() else { continue };
            for stray in strays {
                let _ = self.kill(&stray.sandbox_id).await;
            }
            let timeout = new.body.timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
            return self.connect(&newest.sandbox_id, timeout).await;
        }
        Err(lost)
    }

    /// Finds out whose a template is that create did not find: the service says the same of one that is not there and one of another team.
    async fn sharper(&self, template: &str, error: Error) -> Error {
        let names_a_team = template.contains('/');
        if matches!(error, Error::InvalidArgument { .. }) && !names_a_team {
            return error;
        }
        let request = ApiRequest::new(Method::GET, format!("/templates/aliases/{}", segment(template)));
        let Ok(answer) = self.api(&request).await else { return error };
        let (Error::TemplateUnknown { message, .. } | Error::InvalidArgument { message }) = &error else {
            return error;
        };
        match answer.status {
            403 => Error::TemplateOfAnotherTeam { template: template.to_owned(), message: message.clone() },
            400 if names_a_team => {
                Error::TemplateOfAnotherTeam { template: template.to_owned(), message: message.clone() }
            }
            _ => error,
        }
    }
}
