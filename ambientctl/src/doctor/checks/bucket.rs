//! Whether the bucket answers, and what its key may do there: each right alone, by name.
//!
//! What is stored for it is always the same two small objects under `.ambient-doctor/`, and they are removed again where the key
//! may remove.

use std::time::{Duration, SystemTime};

use ambient_media::objects::{About, ObjectError, ObjectKey, ObjectStore, ObjectStoreConfig, Operation};
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use url::Url;

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{Target, chain, is_loopback};

/// What the probe object says to whoever finds it.
const WORDS: &str = "ambientctl doctor stored this to see whether it may; it can be removed\n";
/// From this difference of the clocks on it is worth a word.
const CLOCK_WARNING: Duration = Duration::from_mins(1);
/// From this difference on S3 refuses every signature.
const CLOCK_FAILURE: Duration = Duration::from_mins(15);
/// How long the presigned link of the probe lives.
const LINK_LIFE: Duration = Duration::from_mins(5);
/// The piece of the probe object that is asked for alone.
const RANGE: std::ops::Range<u64> = 4..12;
/// Why it matters on e2b.
const NEEDED: &str = "sandboxes read videos from the bucket and hand clips back through it, so sessions cannot work";
/// Why it matters on the host.
const WANTED: &str = "copies of videos, and exported files, go to the bucket, and do not get there";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let Some(config) = ObjectStoreConfig::from_settings(&target.settings) else {
        sink.put(no_bucket(target));
        return;
    };
    let probe = Probe { context, sink, why: if target.is_on_e2b() { NEEDED } else { WANTED } };
    if config.credentials.is_none() {
        probe.no_credentials();
        return;
    }
    let store = ObjectStore::new(ObjectStoreConfig { stall_limit: context.request_limit(), ..config.clone() });
    if !probe.reach(&store, config.endpoint.as_deref()).await {
        return;
    }
    Box::pin(probe.rights(&store, &config.region)).await;
    store.settle().await;
}

fn no_bucket(target: &Target) -> Finding {
    if !target.is_on_e2b() {
        return Finding::skipped("bucket.none", "`S3_BUCKET` is not set; without E2B it is not needed");
    }
    let in_file = target.is_install() && target.in_dotenv("S3_BUCKET").is_some();
    let seen = if in_file {
        "`S3_BUCKET` is in `.env`, and no compose file passes it on to the engine"
    } else {
        "`SANDBOX_BACKEND` is `e2b`, and `S3_BUCKET` is not set"
    };
    let remedy = if in_file {
        Remedy::run(target.doctor("--fix --only override"))
    } else {
        target.set("S3_BUCKET", "ambient-videos")
    };
    Finding::failure("bucket.unset", seen, NEEDED, remedy)
}

/// The parts of one look.
struct Probe<'a> {
    context: &'a Context,
    sink: &'a Sink,
    why: &'static str,
}

impl Probe<'_> {
    fn target(&self) -> &Target {
        &self.context.target
    }

    fn no_credentials(&self) {
        let target = self.target();
        let name =
            if target.settings.s3.access_key_id.is_none() { "AWS_ACCESS_KEY_ID" } else { "AWS_SECRET_ACCESS_KEY" };
        self.sink.put(Finding::failure(
            "bucket.credentials",
            format!("`{name}` is not set, so requests to the bucket cannot be signed"),
            self.why,
            target.set_secret(name),
        ));
    }

    /// Whether somebody answers there, over TLS, by the same clock.
    async fn reach(&self, store: &ObjectStore, endpoint: Option<&str>) -> bool {
        let shown = store.endpoint();
        let address = match endpoint {
            Some(endpoint) => endpoint.to_owned(),
            None if shown.contains("://") => shown.clone(),
            None => format!("https://s3.{}.amazonaws.com", self.target().settings.s3.region),
        };
        self.sink.step(format!("the bucket's server {shown}"));
        let request = self.context.http.get(&address).timeout(self.context.request_limit());
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                self.sink.put(self.unreachable(&address, &error));
                return false;
            }
        };
        self.plain(&address);
        self.clock(&shown, answer.headers().get(reqwest::header::DATE).and_then(|value| value.to_str().ok()))
    }

    fn unreachable(&self, address: &str, error: &reqwest::Error) -> Finding {
        let told = chain(error).replace(&format!(" for url ({address}/)"), "");
        let is_tls = ["certificate", "tls", "handshake", "InvalidContentType", "corrupt message"]
            .iter()
            .any(|word| told.to_lowercase().contains(&word.to_lowercase()));
        if is_tls {
            let other = match address.strip_prefix("https://") {
                Some(rest) if Url::parse(address).is_ok_and(|url| url.port().is_some()) => format!("http://{rest}"),
                _ => address.to_owned(),
            };
            return Finding::failure(
                "bucket.tls",
                format!("`S3_ENDPOINT` `{address}` does not speak TLS that this machine trusts: {told}"),
                self.why,
                self.target().set("S3_ENDPOINT", &other),
            );
        }
        let what = if error.is_timeout() { "does not answer".to_owned() } else { format!("cannot be reached: {told}") };
        Finding::failure(
            "bucket.unreachable",
            format!("the bucket's server `{address}` {what}"),
            self.why,
            Remedy::run(format!("curl -sS -o /dev/null -w '%{{http_code}}\\n' {address}")),
        )
    }

    /// Keys and videos over a line that others can read.
    fn plain(&self, address: &str) {
        let Some(url) = Url::parse(address).ok().filter(|url| url.scheme() == "http") else { return };
        let host = url.host_str().unwrap_or_default();
        if !is_loopback(host) && host.contains('.') {
            self.sink.put(Finding::warning(
                "bucket.plain",
                format!("`S3_ENDPOINT` is `{address}`, without TLS"),
                "videos and links to them can be read on the way",
                self.target().set("S3_ENDPOINT", &address.replacen("http://", "https://", 1)),
            ));
        }
    }

    fn clock(&self, shown: &str, date: Option<&str>) -> bool {
        let Some(theirs) = date.and_then(|text| rfc2822::DateTimeParser::new().parse_timestamp(text).ok()) else {
            return true;
        };
        let ours = Timestamp::try_from(SystemTime::now()).unwrap_or(theirs);
        let difference = Duration::from_secs(theirs.as_second().abs_diff(ours.as_second()));
        if difference < CLOCK_WARNING {
            return true;
        }
        let side = if ours > theirs { "ahead of" } else { "behind" };
        let seen = format!("this machine's clock is {} s {side} that of {shown}", difference.as_secs());
        let remedy = Remedy::run("sudo timedatectl set-ntp true");
        if difference < CLOCK_FAILURE {
            let why =
                "S3 refuses every signature when the clocks differ by 15 minutes, and links end early or begin late";
            self.sink.put(Finding::warning("bucket.clock", seen, why, remedy));
            return true;
        }
        self.sink.put(Finding::failure(
            "bucket.clock",
            seen,
            "S3 refuses every signature of a clock that is 15 minutes off, whatever the credentials are",
            remedy,
        ));
        false
    }

    async fn rights(&self, store: &ObjectStore, region: &str) {
        let key = ObjectKey::probe("probe.txt");
        self.sink.step(format!("whether the key may store `{key}`"));
        let put = store.put_bytes(&key, Bytes::from_static(WORDS.as_bytes()), &about()).await;
        if let Err(error) = &put
            && let Some(finding) = self.of_the_whole(store, error)
        {
            self.sink.put(finding);
            return;
        }
        self.sink.put(Finding::ok(
            "bucket.region",
            format!("bucket `{}` answers, in region `{region}`, with {} addresses", store.bucket(), self.style()),
        ));
        let is_stored = put.is_ok();
        self.right("bucket.put", Operation::Put, store, put.as_ref().map(drop));
        self.sink.step("whether the key may read and list".to_owned());
        let (list, get, parts) = futures::join!(store.list(".ambient-doctor/"), read(store, &key), async {
            if is_stored {
                Some(
                    store
                        .put_as_one_part(&ObjectKey::probe("parts.txt"), Bytes::from_static(WORDS.as_bytes()), &about())
                        .await,
                )
            } else {
                None
            }
        },);
        self.right("bucket.list", Operation::List, store, list.as_ref().map(drop));
        let is_readable = self.reading(store, is_stored, list.is_ok(), get);
        if let Some(parts) = parts {
            self.parts(store, parts.as_ref());
        }
        if is_stored && is_readable {
            self.sink.step("a presigned link, and a piece of the object".to_owned());
            futures::join!(self.link(store, &key), self.piece(store, &key), self.is_public(store, &key));
        }
        if is_stored {
            self.clean_up(store, &key).await;
        }
    }

    fn style(&self) -> &'static str {
        if self.target().settings.s3.endpoint.is_some() { "path-style" } else { "virtual-host" }
    }

    /// What is wrong with everything, not with one right.
    fn of_the_whole(&self, store: &ObjectStore, error: &ObjectError) -> Option<Finding> {
        let target = self.target();
        let seen = chain(error);
        let why = self.why;
        Some(match error {
            ObjectError::NoSuchBucket { bucket, .. } => Finding::failure(
                "bucket.missing",
                format!("there is no bucket `{bucket}` at {}", store.endpoint()),
                why,
                match &target.settings.s3.endpoint {
                    Some(endpoint) => Remedy::run(format!("aws --endpoint-url {endpoint} s3 mb s3://{bucket}")),
                    None => Remedy::run(format!("aws s3 mb s3://{bucket}")),
                },
            ),
            ObjectError::Credentials { code, .. } => {
                let name = if code.contains("Signature") { "AWS_SECRET_ACCESS_KEY" } else { "AWS_ACCESS_KEY_ID" };
                Finding::failure("bucket.credentials", seen, why, target.set_secret(name))
            }
            ObjectError::Region { expected, .. } => {
                let expected = expected.as_deref().unwrap_or("auto");
                Finding::failure("bucket.region", seen, why, target.set("AWS_REGION", expected))
            }
            ObjectError::Clock { .. } => {
                Finding::failure("bucket.clock", seen, why, Remedy::run("sudo timedatectl set-ntp true"))
            }
            ObjectError::Unreachable { .. } | ObjectError::Stalled { .. } | ObjectError::BadAnswer { .. } => {
                Finding::failure("bucket.unreachable", seen, why, Remedy::run(target.doctor("--only bucket")))
            }
            ObjectError::Refused { status, .. } if *status != 403 => {
                Finding::failure("bucket.refused", seen, why, Remedy::run(target.doctor("--only bucket")))
            }
            _ => return None,
        })
    }

    /// What a right's own request says.
    fn right(&self, id: &'static str, operation: Operation, store: &ObjectStore, answer: Result<(), &ObjectError>) {
        let permission = operation.permission();
        match answer {
            Ok(()) => self.sink.put(Finding::ok(id, format!("the key has `{permission}`"))),
            Err(ObjectError::Forbidden { .. }) => self.sink.put(Self::lacks(id, permission, store)),
            Err(error) => self.sink.put(Finding::failure(
                id,
                format!("whether the key has `{permission}` is not known: {}", chain(error)),
                self.why,
                Remedy::run(self.target().doctor("--only bucket")),
            )),
        }
    }

    fn lacks(id: &'static str, permission: &str, store: &ObjectStore) -> Finding {
        let why = match permission {
            "s3:ListBucket" => {
                "without it a missing object looks like a forbidden one, and what is there cannot be found"
            }
            "s3:PutObject" => "videos, clips and frames cannot be stored: uploads log `R2 upload failed`",
            _ => "videos cannot be read back: sandboxes cannot find their source",
        };
        let bucket = store.bucket();
        let resource = if permission == "s3:ListBucket" {
            format!("arn:aws:s3:::{bucket}")
        } else {
            format!("arn:aws:s3:::{bucket}/*")
        };
        Finding::failure(
            id,
            format!("the key lacks `{permission}` on bucket `{bucket}`"),
            why,
            Remedy::paste(
                "add this statement to the policy of the key; on R2, give the token `Object Read & Write`",
                format!(r#"{{"Effect":"Allow","Action":"{permission}","Resource":"{resource}"}}"#),
            ),
        )
    }

    /// Whether the key may read, as far as the answer tells.
    fn reading(&self, store: &ObjectStore, is_stored: bool, may_list: bool, get: Result<Bytes, ObjectError>) -> bool {
        let id = "bucket.get";
        let permission = Operation::Get.permission();
        match get {
            Ok(bytes) if bytes == WORDS.as_bytes() => {
                self.sink.put(Finding::ok(id, format!("the key has `{permission}`")));
                true
            }
            Ok(_) => {
                self.sink.put(Finding::failure(
                    id,
                    "the bucket gives back other bytes than were stored",
                    self.why,
                    Remedy::run(self.target().doctor("--only bucket")),
                ));
                false
            }
            // Who may list is told the truth about an object that is not there.
            Err(ObjectError::NotFound { .. }) => {
                self.sink.put(Finding::ok(id, format!("the key has `{permission}`")));
                false
            }
            Err(ObjectError::Forbidden { .. }) if !is_stored && !may_list => {
                self.sink.put(Finding::skipped(
                    id,
                    format!("whether the key has `{permission}` shows only with `s3:PutObject` or `s3:ListBucket`"),
                ));
                false
            }
            Err(error) => {
                self.right(id, Operation::Get, store, Err(&error));
                false
            }
        }
    }

    fn parts(&self, store: &ObjectStore, answer: Result<&(), &ObjectError>) {
        match answer {
            Ok(()) => self.sink.put(Finding::ok("bucket.parts", "uploads in parts work")),
            Err(ObjectError::Forbidden { .. }) => {
                self.sink.put(Self::lacks("bucket.parts", Operation::Put.permission(), store));
            }
            Err(error) => self.sink.put(Finding::failure(
                "bucket.parts",
                format!("an upload in parts does not work: {}", chain(error)),
                "every video of more than 8 MiB goes up in parts",
                Remedy::run(self.target().doctor("--only bucket")),
            )),
        }
    }

    /// A link as a model's server follows it: without a header of ours.
    async fn link(&self, store: &ObjectStore, key: &ObjectKey) {
        let signed = match store.presign_get(key, LINK_LIFE).await {
            Ok(signed) => signed,
            Err(error) => {
                self.right("bucket.link", Operation::Get, store, Err(&error));
                return;
            }
        };
        let answer = self.context.http.get(signed.as_str()).timeout(self.context.request_limit()).send().await;
        let problem = match answer {
            Ok(answer) if answer.status() == StatusCode::OK => None,
            Ok(answer) => Some(format!("status {}", answer.status().as_u16())),
            Err(error) => Some(chain(&error.without_url())),
        };
        match problem {
            None => self.sink.put(Finding::ok("bucket.link", "a presigned link works without headers")),
            Some(problem) => self.sink.put(Finding::failure(
                "bucket.link",
                format!("a presigned link does not work without headers: {problem}"),
                "models and sandboxes fetch clips and sources by such links",
                Remedy::run(self.target().doctor("--only bucket")),
            )),
        }
    }

    async fn piece(&self, store: &ObjectStore, key: &ObjectKey) {
        let asked = async {
            let reader = store.get_range(key, RANGE).await?;
            let range = reader.range.clone();
            Ok::<_, ObjectError>((range, reader.into_bytes(WORDS.len() as u64).await?))
        };
        let wanted = &WORDS.as_bytes()[4..12];
        match asked.await {
            Ok((range, bytes)) if range == RANGE && bytes == wanted => {
                self.sink.put(Finding::ok("bucket.range", "range reads work"));
            }
            Ok(_) => self.sink.put(Finding::warning(
                "bucket.range",
                "the bucket's server ignores range reads and sends whole objects",
                "large videos are read by ranges, and become slow and dear otherwise",
                self.target().set("STREAM_SOURCE_VIDEO", "false"),
            )),
            Err(error) => self.right("bucket.range", Operation::Get, store, Err(&error)),
        }
    }

    /// Whether anybody can read the object.
    async fn is_public(&self, store: &ObjectStore, key: &ObjectKey) {
        let Ok(signed) = store.presign_get(key, LINK_LIFE).await else { return };
        let Some(plain) = signed.as_str().split('?').next() else { return };
        let answer = self.context.http.get(plain).timeout(self.context.request_limit()).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            let bucket = store.bucket();
            let at = self.target().settings.s3.endpoint.as_ref();
            let at = at.map(|endpoint| format!(" --endpoint-url {endpoint}")).unwrap_or_default();
            self.sink.put(Finding::warning(
                "bucket.public",
                format!("anybody can read what is in bucket `{bucket}`, without a key"),
                "videos of your users lie there; everything that has to be seen is served by the engine or by presigned links",
                Remedy::run(format!(
                    "aws{at} s3api put-public-access-block --bucket {bucket} --public-access-block-configuration \
                     BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
                )),
            ));
        }
    }

    async fn clean_up(&self, store: &ObjectStore, key: &ObjectKey) {
        let parts = ObjectKey::probe("parts.txt");
        let (one, other) = futures::join!(store.delete(key), store.delete(&parts));
        if one.is_err() || other.is_err() {
            self.sink.put(Finding::ok(
                "bucket.left",
                format!("`{key}` and `{parts}` stay in the bucket: the key may not remove them, and need not"),
            ));
        }
    }
}

fn about() -> About {
    About::new("text/plain", "doctor")
}

async fn read(store: &ObjectStore, key: &ObjectKey) -> Result<Bytes, ObjectError> {
    store.get(key).await?.into_bytes(64 << 10).await
}
