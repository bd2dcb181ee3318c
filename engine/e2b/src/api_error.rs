//! What a failed answer of the control plane means.

use crate::error::Error;
use crate::protocol::ErrorBody;
use crate::retry::asked_wait;
use crate::transport::Answer;

/// What a call was about, which decides what its 404 means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// One sandbox.
    Sandbox(&'a str),
    /// One template, by the name that was given.
    Template(&'a str),
    /// Nothing in particular.
    Nothing,
}

/// Words in a 429 that speak of how many there are rather than how often is asked.
const QUOTA_WORDS: [&str; 4] = ["concurrent", "maximum number", "quota", "limit of"];

/// Words of a router that does not know the path.
const ROUTE_WORDS: [&str; 4] = ["no matching operation", "method not allowed", "route not found", "page not found"];

/// The error of an answer that is no success.
pub(crate) fn api_error(answer: &Answer, subject: Subject<'_>) -> Error {
    let body = serde_json::from_slice::<ErrorBody>(&answer.body).ok();
    let is_json = body.is_some();
    let status = answer.status;
    let error_code = body.as_ref().and_then(|body| body.error_code.clone());
    let message = match body {
        Some(body) => body.message,
        None => format!("status {status} without the body of an error"),
    };
    match (status, subject) {
        (401, _) => Error::KeyRefused { message },
        (403, Subject::Template(template)) => Error::TemplateOfAnotherTeam { template: template.to_owned(), message },
        (403, _) => Error::PermissionDenied { message },
        (404, Subject::Sandbox(sandbox_id)) => Error::SandboxNotFound { sandbox_id: sandbox_id.to_owned() },
        (404, Subject::Template(template)) => Error::TemplateUnknown { template: template.to_owned(), message },
        (404, Subject::Nothing) => Error::NotFound { message },
        (409, _) => Error::Conflict { message },
        (429, _) if speaks_of_quota(&message) => Error::QuotaReached { message },
        (429, _) => Error::RateLimited { message, retry_after: asked_wait(&answer.headers) },
        (502..=504, _) => Error::Unavailable { status, message },
        (400, Subject::Template(template)) if is_json && speaks_of_namespace(&message) => {
            Error::TemplateOfAnotherTeam { template: template.to_owned(), message }
        }
        (400 | 422, _) if is_json => Error::InvalidArgument { message },
        _ if is_json => Error::Api { status, message, error_code },
        _ => Error::Protocol { message },
    }
}

fn speaks_of_quota(message: &str) -> bool {
    let folded = message.to_lowercase();
    QUOTA_WORDS.iter().any(|word| folded.contains(word))
}

/// A name such as `team/template` with another team in front is a bad request to the service.
fn speaks_of_namespace(message: &str) -> bool {
    message.to_lowercase().contains("namespace")
}

/// Whether an answer is about the path itself, so that the server is of before `/v2`: 405, or a 404 or 400 that no handler wrote.
pub(crate) fn is_about_route(answer: &Answer) -> bool {
    match answer.status {
        405 => true,
        400 | 404 => match serde_json::from_slice::<ErrorBody>(&answer.body) {
            Ok(body) => {
                let folded = body.message.to_lowercase();
                ROUTE_WORDS.iter().any(|word| folded.contains(word))
            }
            Err(_no_error_body) => true,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::{Subject, api_error, is_about_route};
    use crate::error::ErrorKind;
    use crate::transport::Answer;

    fn answer(status: u16, body: &str) -> Answer {
        let headers = HeaderMap::from_iter([("retry-after".parse().unwrap(), HeaderValue::from_static("3"))]);
        Answer { status, headers, body: body.to_owned().into(), follows_a_loss: false }
    }

    #[test]
    fn answers_are_told_apart() {
        let (template, sandbox) = (Subject::Template("t"), Subject::Sandbox("i1"));
        for (status, body, subject, kind) in [
            (401, r#"{"code":401,"message":"Invalid API key"}"#, template, ErrorKind::KeyRefused),
            (404, r#"{"code":404,"message":"template 't' not found"}"#, template, ErrorKind::TemplateUnknown),
            (403, r#"{"code":403,"message":"no access"}"#, template, ErrorKind::TemplateOfAnotherTeam),
            (
                400,
                r#"{"code":400,"message":"namespace 'others' must match your team 'ours'"}"#,
                template,
                ErrorKind::TemplateOfAnotherTeam,
            ),
            (404, r#"{"code":404,"message":"x"}"#, sandbox, ErrorKind::SandboxLost),
            (429, r#"{"code":429,"message":"Rate limit exceeded"}"#, template, ErrorKind::RateLimited),
            (
                429,
                r#"{"code":429,"message":"you have reached the maximum number of concurrent E2B sandboxes (20)"}"#,
                template,
                ErrorKind::QuotaReached,
            ),
            (503, r#"{"code":503,"message":"no capacity"}"#, template, ErrorKind::Unavailable),
            (502, "<html>Bad Gateway</html>", template, ErrorKind::Unavailable),
            (400, r#"{"code":400,"message":"Timeout must be greater than 0"}"#, template, ErrorKind::InvalidArgument),
            (418, "<html>", template, ErrorKind::Protocol),
            (500, r#"{"code":500,"message":"x","error_code":"sandbox_create_failed"}"#, template, ErrorKind::Other),
        ] {
            assert_eq!(api_error(&answer(status, body), subject).kind(), kind, "{status} {body}");
        }
    }

    #[test]
    fn a_page_is_never_quoted() {
        assert!(!api_error(&answer(500, "<html>secret</html>"), Subject::Nothing).to_string().contains("secret"));
    }

    #[test]
    fn only_the_router_speaks_of_routes() {
        for (status, body, about_route) in [
            (405, "", true),
            (404, "404 page not found", true),
            (400, r#"{"code":400,"message":"no matching operation was found"}"#, true),
            (404, r#"{"code":404,"message":"template 'base' not found"}"#, false),
            (400, r#"{"code":400,"message":"Invalid sandbox ID"}"#, false),
            (500, "", false),
        ] {
            assert_eq!(is_about_route(&answer(status, body)), about_route, "{status} {body}");
        }
    }
}
