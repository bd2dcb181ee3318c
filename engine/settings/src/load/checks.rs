//! What single values cannot tell: settings that contradict each other (faults), and settings that work but probably not
//! as meant (warnings).

use secrecy::ExposeSecret;

use super::sources::{Found, Sources};
use crate::catalogue::catalogue;
use crate::report::{Fault, Origin, Warning};
use crate::settings::{SandboxBackend, Settings};

/// The key of an engine that nobody gave one.
const DEV_TOKEN: &str = "dev-token";

/// What stands for the rest of a key in examples.
const PLACEHOLDER: &str = "...";

/// The words for the host that need no warning.
const HOST_WORDS: [&str; 2] = ["inprocess", "host"];

/// Contradictions that stop the start.
pub(super) fn faults(settings: &Settings) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |name: &'static str, reason: String, accepted: &str| {
        faults.push(Fault::Setting { name, origin: settings.origin(name), reason, accepted: accepted.to_owned() });
    };
    let server = &settings.server;
    let is_dev_token = server.api_key.expose_secret() == DEV_TOKEN;
    if is_dev_token && !server.is_loopback() && !server.allow_dev_token {
        fault(
            "API_KEY",
            format!(
                "the default key is known to everybody, and `SERVER_HOST` `{}` is reachable from other machines",
                server.host
            ),
            "set `API_KEY` to a long random text, or `SERVER_HOST=127.0.0.1`; `ALLOW_DEV_TOKEN=true` where something else keeps strangers out",
        );
    }
    faults
}

/// What works, but perhaps not as meant.
pub(super) fn warnings(settings: &Settings, sources: &Sources) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |name: &str, message: String| {
        warnings.push(Warning { name: name.to_owned(), origin: settings.origin(name), message });
    };
    placeholders(sources, &mut warn);
    backend(settings, sources, &mut warn);
    models(settings, &mut warn);
    bucket(settings, sources, &mut warn);
    warnings
}

type Warn<'a> = &'a mut dyn FnMut(&str, String);

/// Keys that were copied from a page with the dots in them, such as `e2b_...`.
fn placeholders(sources: &Sources, warn: Warn<'_>) {
    for setting in catalogue().filter(|setting| setting.is_secret()) {
        if text(sources, setting.name).is_some_and(|written| written.trim_end().ends_with(PLACEHOLDER)) {
            warn(setting.name, format!("ends in `{PLACEHOLDER}`, as examples do; put the real value there"));
        }
    }
}

fn backend(settings: &Settings, sources: &Sources, warn: Warn<'_>) {
    let on_e2b = settings.sandbox.backend == SandboxBackend::E2b;
    let written = text(sources, "SANDBOX_BACKEND").filter(|word| !word.trim().is_empty());
    if let Some(word) = written.filter(|word| !on_e2b && !HOST_WORDS.contains(&word.as_str())) {
        warn(
            "SANDBOX_BACKEND",
            format!(
                "is `{}`, which is no backend, so media work and shell commands run on this host; did you mean `e2b`? \
                 (only exactly that selects E2B; `inprocess` says the host without this warning)",
                word.escape_debug()
            ),
        );
    }
    if on_e2b && settings.e2b.api_key.is_none() && !settings.e2b.debug {
        warn(
            "E2B_API_KEY",
            "is not set, so no sandbox can boot and sessions will fail; set the key of your E2B team".to_owned(),
        );
    }
    if on_e2b && settings.s3.bucket.is_none() {
        warn(
            "S3_BUCKET",
            "is not set, but `e2b` sandboxes fetch videos from the bucket and return clips through it".to_owned(),
        );
    }
    if !on_e2b && settings.bash.enabled && !settings.server.is_loopback() {
        warn(
            "ENABLE_BASH_TOOL",
            format!(
                "is on: the agent's shell runs on this host with soft limits only, and `SERVER_HOST` `{}` is reachable from other machines; \
                 set `ENABLE_BASH_TOOL=false` or `SANDBOX_BACKEND=e2b` if you do not trust everybody with the API key",
                settings.server.host
            ),
        );
    }
    let (tiles, clips) = (&settings.tiles, &settings.clips);
    #[expect(clippy::float_cmp, reason = "two settings are compared as written, nothing was computed")]
    let fits = tiles.fps == clips.fps && tiles.max_dimension == clips.max_dimension;
    if on_e2b && tiles.enabled && !fits {
        warn(
            "TILE_FPS",
            "does not fit: tiles are cut in another quality than clips, so they cannot be used; set `TILE_FPS` and `TILE_MAX_DIM` like `ANALYSIS_FPS` and `ANALYSIS_MAX_DIM`, or `TILING_ENABLED=false`".to_owned(),
        );
    }
}

fn models(settings: &Settings, warn: Warn<'_>) {
    let is_set = |name| settings.origin(name) != Origin::Default;
    if is_set("LLM_API_KEY") && settings.llm.endpoint.is_none() {
        warn("LLM_BASE_URL", "is not set though `LLM_API_KEY` is; set the address of the model server, such as `https://openrouter.ai/api/v1`".to_owned());
    }
    let other_server = match (&settings.agent.endpoint, &settings.llm.endpoint) {
        (Some(agent), Some(llm)) => agent.base_url.as_url().origin() != llm.base_url.as_url().origin(),
        (Some(_), None) => true,
        (None, _) => false,
    };
    if other_server && is_set("LLM_API_KEY") && !is_set("AGENT_API_KEY") {
        warn(
            "AGENT_BASE_URL",
            "is another server than `LLM_BASE_URL`, and `AGENT_API_KEY` is not set, so `LLM_API_KEY` is sent to it"
                .to_owned(),
        );
    }
}

fn bucket(settings: &Settings, sources: &Sources, warn: Warn<'_>) {
    if text(sources, "S3_ENDPOINT").is_some_and(|written| written.trim_end().ends_with('/')) {
        warn("S3_ENDPOINT", "ends in a slash, which is left out, since signatures would not match with it".to_owned());
    }
    if settings.s3.bucket.is_none() && settings.s3.endpoint.is_some() {
        warn("S3_BUCKET", "is not set though `S3_ENDPOINT` is, so there is no bucket".to_owned());
    }
    // No fault: an operator who sets one after the other has, for a while, only one of them.
    match (&settings.s3.access_key_id, &settings.s3.secret_access_key) {
        (None, Some(_)) => warn(
            "AWS_ACCESS_KEY_ID",
            "is not set though `AWS_SECRET_ACCESS_KEY` is, so requests to the bucket cannot be signed".to_owned(),
        ),
        (Some(_), None) => warn(
            "AWS_SECRET_ACCESS_KEY",
            "is not set though `AWS_ACCESS_KEY_ID` is, so requests to the bucket cannot be signed".to_owned(),
        ),
        (None, None) if settings.s3.bucket.is_some() => {
            warn("AWS_ACCESS_KEY_ID", "is not set, so requests to the bucket cannot be signed".to_owned());
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn text(sources: &Sources, name: &str) -> Option<String> {
    match sources.find(name) {
        Some((Found::Text(text), _)) => Some(text),
        Some((Found::NotUtf8, _)) | None => None,
    }
}
