//! What failures of sandboxes mean: for the model and the client in words, and for the operator with what mends them.

use ambient_e2b::{Error, ErrorKind};

use super::super::BackendError;
use crate::store::chain;

/// What tools say that need a sandbox where there is none. The beginning is searched for by operators, word for word.
pub(crate) fn no_sandbox(reason: &str) -> BackendError {
    BackendError::NoSandbox(format!("sandbox_backend='e2b' but no media sandbox is active for this call; {reason}"))
}

/// What tools say of a sandbox that is gone. The beginning is fixed.
pub(crate) fn lost(reason: &str) -> BackendError {
    BackendError::NoSandbox(format!("Sandbox not created or killed: {reason}"))
}

/// Why no sandbox could be made, with the remedy.
pub(crate) fn boot_failure(error: &Error, template: &str) -> BackendError {
    let words = chain(error);
    let remedy = match error.kind() {
        ErrorKind::KeyMissing => "set `E2B_API_KEY` in the engine's environment or its `.env`".to_owned(),
        ErrorKind::KeyRefused => {
            "check `E2B_API_KEY`: it must be a key of the E2B service that `E2B_DOMAIN` or `E2B_API_URL` names".to_owned()
        }
        ErrorKind::TemplateUnknown | ErrorKind::NotFound => format!(
            "build it in the team that owns the key with `ambientctl template build`, or set `E2B_TEMPLATE` (now `{template}`) to the \
             name it was built under, such as `video-analysis-v1` or `video-analysis-v1-dev`"
        ),
        ErrorKind::TemplateOfAnotherTeam => format!(
            "set `E2B_API_KEY` to a key of the team that built `{template}`, or build it in your own with `ambientctl template build`"
        ),
        ErrorKind::RateLimited => "too many sandboxes were asked for at once; make the session again in a moment".to_owned(),
        ErrorKind::QuotaReached => "end sandboxes that are not needed, or get a larger E2B plan".to_owned(),
        ErrorKind::Unavailable | ErrorKind::AnswerLost => {
            "E2B does not answer now; make the session again in a moment, and see that `E2B_API_URL` or `E2B_DOMAIN` is right if that stays so".to_owned()
        }
        _ => "docs/sandbox-setup.md, Troubleshooting, tells the usual reasons".to_owned(),
    };
    BackendError::NoSandbox(format!("no sandbox could be made: {words}; {remedy}"))
}

/// Whether the same question may have a better answer in a moment.
pub(crate) fn may_pass(error: &Error) -> bool {
    match error {
        Error::Api { status, .. } => *status >= 500,
        other => matches!(other.kind(), ErrorKind::RateLimited | ErrorKind::AnswerLost | ErrorKind::Unavailable),
    }
}

/// What a failed command means. The operator's part goes to the log.
pub(crate) fn command_failure(error: &Error, sandbox: &str) -> BackendError {
    match error.kind() {
        ErrorKind::SandboxLost => lost(&format!(
            "the sandbox is gone (it timed out, was ended or broke down), and files that commands had left in it with it: {error}"
        )),
        ErrorKind::CommandTimedOut => BackendError::Media(format!("the command took too long and was ended: {error}")),
        _ => {
            tracing::warn!(sandbox.id = sandbox, error = %chain(error), "a command in a sandbox failed");
            BackendError::Media(format!("the sandbox did not run the command: {error}; try again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_words_come_first() {
        assert!(
            no_sandbox("x")
                .to_string()
                .starts_with("sandbox_backend='e2b' but no media sandbox is active for this call; x")
        );
        let gone = Error::SandboxNotFound { sandbox_id: "i1".to_owned() };
        assert!(command_failure(&gone, "i1").to_string().starts_with("Sandbox not created or killed"));
    }

    #[test]
    fn a_boot_that_failed_says_what_mends_it() {
        let unknown = Error::TemplateUnknown { template: "films".to_owned(), message: "not found".to_owned() };
        let told = boot_failure(&unknown, "films").to_string();
        assert!(
            told.contains("`films`") && told.contains("ambientctl template build") && told.contains("E2B_TEMPLATE"),
            "{told}"
        );
        let missing = boot_failure(&Error::KeyMissing, "films").to_string();
        assert!(missing.contains("E2B_API_KEY"), "{missing}");
    }
}
