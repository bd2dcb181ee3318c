//! From the client's error to ours: who refused, what is missing, and what a server's date, status and words say about the reason.

use std::error::Error;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::{DateTime, DateTimeFormat};

use super::config::ObjectStoreConfig;
use super::error::{ObjectError, Operation};

/// How far clocks may be apart before S3 refuses a signature.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(15);

/// What was attempted, for the words of an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) config: &'a ObjectStoreConfig,
    pub(super) operation: Operation,
    /// The object, or the prefix that was listed.
    pub(super) key: &'a str,
}

/// The parts of a server's refusal that say why.
#[derive(Clone, Debug, Default)]
struct Refusal {
    status: u16,
    code: String,
    message: String,
    date: Option<SystemTime>,
    region: Option<String>,
}

impl Attempt<'_> {
    pub(super) fn failed<E>(self, error: SdkError<E>) -> ObjectError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        match &error {
            SdkError::ServiceError(refused) => {
                let answer = refused.raw();
                let header = |name: &str| answer.headers().get(name).map(str::to_owned);
                let body = answer.body().bytes().map(String::from_utf8_lossy).unwrap_or_default();
                let refusal = Refusal {
                    status: answer.status().as_u16(),
                    code: refused.err().code().unwrap_or_default().to_owned(),
                    message: refused.err().message().unwrap_or_default().to_owned(),
                    date: header("date").as_deref().and_then(http_date),
                    region: header("x-amz-bucket-region").or_else(|| element(&body, "Region")),
                };
                self.refused(refusal, SystemTime::now())
            }
            SdkError::ResponseError(_) if error.raw_response().is_some_and(|raw| raw.status().is_success()) => {
                // The head of the answer came and the rest did not.
                self.unreachable(Box::new(error))
            }
            SdkError::ResponseError(strange) => {
                let reason = format!("status {} with a body that S3 does not send", strange.raw().status());
                ObjectError::BadAnswer { endpoint: self.endpoint(), reason }
            }
            SdkError::ConstructionFailure(_) => {
                ObjectError::Construction { bucket: self.config.bucket.clone(), source: Box::new(error) }
            }
            SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | _ => self.unreachable(innermost(&error)),
        }
    }

    pub(super) fn unreachable(self, source: Box<dyn Error + Send + Sync>) -> ObjectError {
        ObjectError::Unreachable { endpoint: self.endpoint(), source }
    }

    pub(super) fn stalled(self, limit: Duration) -> ObjectError {
        ObjectError::Stalled { endpoint: self.endpoint(), operation: self.operation, key: self.key.to_owned(), limit }
    }

    pub(super) fn bad_answer(self, reason: impl Into<String>) -> ObjectError {
        ObjectError::BadAnswer { endpoint: self.endpoint(), reason: reason.into() }
    }

    fn endpoint(self) -> String {
        endpoint(self.config)
    }

    fn refused(self, refusal: Refusal, now: SystemTime) -> ObjectError {
        let (bucket, key) = (self.config.bucket.clone(), self.key.to_owned());
        let Refusal { status, code, message, date, region } = refusal;
        match (status, code.as_str()) {
            (_, "NoSuchBucket") => ObjectError::NoSuchBucket { bucket, endpoint: self.endpoint() },
            (
                _,
                "PermanentRedirect"
                | "TemporaryRedirect"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
            )
            | (301 | 307, _) => ObjectError::Region { bucket, region: self.config.region.clone(), expected: region },
            (400, _) if region.as_ref().is_some_and(|expected| *expected != self.config.region) => {
                ObjectError::Region { bucket, region: self.config.region.clone(), expected: region }
            }
            (_, "RequestTimeTooSkewed") => self.clock(date, now),
            (400 | 401 | 403, _) if is_off(date, now) => self.clock(date, now),
            (
                _,
                "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "UnauthorizedAccess" | "Unauthorized",
            )
            | (401, _) => ObjectError::Credentials { endpoint: self.endpoint(), code },
            (403, _) => ObjectError::Forbidden { operation: self.operation, bucket, key, code },
            (404, _) => ObjectError::NotFound { bucket, key },
            (412, _) => ObjectError::Replaced { bucket, key },
            (_, _) => ObjectError::Refused { operation: self.operation, bucket, key, status, code, message },
        }
    }

    fn clock(self, date: Option<SystemTime>, now: SystemTime) -> ObjectError {
        let date = date.unwrap_or(now);
        let (difference, is_ahead) = match now.duration_since(date) {
            Ok(ahead) => (ahead, true),
            Err(behind) => (behind.duration(), false),
        };
        ObjectError::Clock { endpoint: self.endpoint(), difference, is_ahead }
    }
}

/// The server's name for people.
pub(super) fn endpoint(config: &ObjectStoreConfig) -> String {
    config.endpoint.as_ref().map_or_else(|| format!("AWS S3 in `{}`", config.region), |url| format!("`{url}`"))
}

/// The client wraps the network's own words several times over; the last one says what happened.
fn innermost<E>(error: &SdkError<E>) -> Box<dyn Error + Send + Sync>
where
    E: Error + Send + Sync + 'static,
{
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        words = deeper.to_string();
        cause = deeper.source();
    }
    words.into()
}

fn is_off(date: Option<SystemTime>, now: SystemTime) -> bool {
    let Some(date) = date else { return false };
    let difference = now.duration_since(date).unwrap_or_else(|behind| behind.duration());
    difference > CLOCK_TOLERANCE
}

fn http_date(text: &str) -> Option<SystemTime> {
    let date = DateTime::from_str(text, DateTimeFormat::HttpDate).ok()?;
    SystemTime::try_from(date).ok()
}

/// The text of the first `<name>…</name>`, in the flat XML of S3's errors.
fn element(body: &str, name: &str) -> Option<String> {
    let (_before, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _after) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ObjectStoreConfig {
        ObjectStoreConfig {
            bucket: "films".to_owned(),
            endpoint: Some("http://127.0.0.1:9000".to_owned()),
            region: "us-east-1".to_owned(),
            credentials: None,
            video_base_key: "videos".to_owned(),
            upload_concurrency: 8,
            part_bytes: 8 << 20,
            stall_limit: Duration::from_secs(1),
        }
    }

    fn told(operation: Operation, refusal: Refusal) -> ObjectError {
        let now = http_date("Mon, 30 Nov 2026 03:41:05 GMT").unwrap();
        Attempt { config: &config(), operation, key: "videos/a.mp4" }.refused(refusal, now)
    }

    fn refusal(status: u16, code: &str) -> Refusal {
        Refusal { status, code: code.to_owned(), ..Refusal::default() }
    }

    #[test]
    fn a_refused_look_may_also_mean_a_missing_object_and_a_refused_store_may_not() {
        let look = told(Operation::Head, refusal(403, ""));
        assert_eq!(
            look.to_string(),
            "bucket `films` refused to look at `videos/a.mp4` (403 ): the access key lacks `s3:GetObject`, or the object is missing and the key lacks `s3:ListBucket`, without which the two look the same"
        );
        let store = told(Operation::Put, refusal(403, "AccessDenied"));
        assert_eq!(
            store.to_string(),
            "bucket `films` refused to store `videos/a.mp4` (403 AccessDenied): the access key lacks `s3:PutObject`"
        );
        assert!(matches!(told(Operation::Head, refusal(404, "")), ObjectError::NotFound { .. }));
    }

    #[test]
    fn a_wrong_clock_is_not_taken_for_wrong_credentials() {
        let late = http_date("Mon, 30 Nov 2026 04:01:05 GMT");
        for (status, code) in [(403, "RequestTimeTooSkewed"), (403, ""), (403, "AccessDenied"), (400, "")] {
            let error = told(Operation::Head, Refusal { date: late, ..refusal(status, code) });
            assert_eq!(
                error.to_string(),
                "`http://127.0.0.1:9000` refused a signed request because the clocks differ: this host is 1200 s behind; set this host's clock"
            );
        }
        let near = http_date("Mon, 30 Nov 2026 03:51:05 GMT");
        let error = told(Operation::Head, Refusal { date: near, ..refusal(403, "AccessDenied") });
        assert!(matches!(error, ObjectError::Forbidden { .. }), "ten minutes are within what S3 takes: {error}");
    }

    #[test]
    fn a_wrong_region_names_the_right_one() {
        let elsewhere = Refusal { region: Some("eu-west-1".to_owned()), ..refusal(301, "") };
        assert_eq!(
            told(Operation::Head, elsewhere).to_string(),
            "bucket `films` is not in region `us-east-1` but in `eu-west-1`: set `AWS_REGION`"
        );
        let malformed = element("<Error><Code>X</Code><Region>auto</Region></Error>", "Region");
        assert_eq!(malformed.as_deref(), Some("auto"));
        let error = told(Operation::Put, Refusal { region: malformed, ..refusal(400, "AuthorizationHeaderMalformed") });
        assert!(error.to_string().contains("but in `auto`"), "{error}");
    }

    #[test]
    fn wrong_credentials_and_a_missing_bucket_have_their_own_words() {
        let check = |code: &str, status: u16, expected: &str| {
            assert_eq!(told(Operation::Get, refusal(status, code)).code(), expected, "{code}");
        };
        check("SignatureDoesNotMatch", 403, "S3Credentials");
        check("InvalidAccessKeyId", 403, "S3Credentials");
        check("NoSuchBucket", 404, "S3NoSuchBucket");
        check("NoSuchKey", 404, "S3NotFound");
        check("PreconditionFailed", 412, "S3Replaced");
        check("NotImplemented", 501, "S3Refused");
        check("SlowDown", 503, "S3Refused");
        assert!(told(Operation::Get, refusal(503, "SlowDown")).is_passing());
        assert!(!told(Operation::Get, refusal(403, "AccessDenied")).is_passing());
    }
}
