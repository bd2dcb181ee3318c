//! Whether the model servers answer, take their keys and know the models; with `--deep`, what the models take.

use std::collections::BTreeSet;

use ambient_settings::Endpoint;
use reqwest::StatusCode;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use strsim::damerau_levenshtein;
use url::Url;

use super::llm_deep;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{Target, chain};

/// The most letters in which a model's name may differ from one that is there to count as a slip of it.
const SLIPS: usize = 3;
/// A host that lists its models without a key, and has another address that wants it.
const LISTS_FOR_ALL: &str = "openrouter.ai";
/// The name by which containers reach the machine that they run on.
const HOST_FROM_INSIDE: &str = "host.docker.internal";

/// What a model is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Plans, calls tools and answers.
    Agent,
    /// Watches clips.
    Video,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent model",
            Self::Video => "video model",
        }
    }

    fn url_setting(self) -> &'static str {
        match self {
            Self::Agent => "AGENT_BASE_URL",
            Self::Video => "LLM_BASE_URL",
        }
    }

    fn key_setting(self) -> &'static str {
        match self {
            Self::Agent => "AGENT_API_KEY",
            Self::Video => "LLM_API_KEY",
        }
    }

    pub(super) fn model_setting(self) -> &'static str {
        match self {
            Self::Agent => "AGENT_MODEL",
            Self::Video => "LLM_MODEL",
        }
    }
}

/// A model, and where it is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) role: Role,
    pub(super) model: String,
    pub(super) endpoint: Endpoint,
}

pub(super) async fn look(context: &Context, sink: &Sink) {
    let settings = &context.target.settings;
    let video = settings.llm.endpoint.clone().map(|endpoint| Asked {
        role: Role::Video,
        model: settings.llm.model.clone(),
        endpoint,
    });
    let agent = settings.agent.endpoint.clone().map(|endpoint| Asked {
        role: Role::Agent,
        model: settings.agent.model.clone(),
        endpoint,
    });
    if video.is_none() {
        sink.put(unset(&context.target));
    }
    sink.step("the model servers".to_owned());
    let asked: Vec<Asked> = [agent, video].into_iter().flatten().collect();
    futures::future::join_all(asked.iter().map(|asked| one(context, asked, sink))).await;
}

fn unset(target: &Target) -> Finding {
    let in_file = target.is_install() && target.in_dotenv("LLM_BASE_URL").is_some_and(|(value, _)| !value.is_empty());
    if in_file {
        return Finding::failure(
            "llm.unset",
            "`LLM_BASE_URL` is in `.env`, and no compose file passes it on to the engine",
            "without a model server nothing can be asked",
            Remedy::run(target.doctor("--fix --only override")),
        );
    }
    Finding::failure(
        "llm.unset",
        "`LLM_BASE_URL` is not set",
        "without a model server nothing can be asked",
        target.set("LLM_BASE_URL", "https://openrouter.ai/api/v1"),
    )
}

async fn one(context: &Context, asked: &Asked, sink: &Sink) {
    let target = &context.target;
    let base = asked.endpoint.base_url.as_url();
    if let Some(service) = inside(target, base) {
        sink.put(Finding::skipped(
            "llm.inside",
            format!(
                "the {} is asked at the service `{service}`, which only the stack's containers reach; \
                 `{}` asks from there",
                asked.role.name(),
                from_inside(target, "llm")
            ),
        ));
        return;
    }
    let list = match list(context, asked).await {
        Ok(list) => list,
        Err(finding) => {
            sink.put(*finding);
            return;
        }
    };
    known(target, asked, list.as_deref(), sink);
    if context.wishes.deep {
        sink.step(format!("an answer of `{}`", asked.model));
        llm_deep::look(context, asked, sink).await;
    }
}

/// The address as this machine reaches it, and not a container of it.
pub(super) fn outside(url: &Url) -> Url {
    let mut url = url.clone();
    if url.host_str() == Some(HOST_FROM_INSIDE) {
        // A host that was a name can be another.
        let _is_set = url.set_host(Some("127.0.0.1"));
    }
    url
}

/// The service of the stack that an address names.
pub(super) fn inside<'a>(target: &'a Target, url: &Url) -> Option<&'a str> {
    let stack = target.stack.as_ref().filter(|_| target.is_install())?;
    let wanted = stack.wanted.as_ref().ok()?;
    wanted.service(url.host_str()?).map(|service| service.name.as_str())
}

/// The command that runs a check in the engine's container.
pub(super) fn from_inside(target: &Target, check: &str) -> String {
    let engine = target.stack.as_ref().and_then(crate::doctor::target::Stack::engine);
    let container = engine.map_or("ambient-engine-1", |service| service.container.as_str());
    format!("docker exec {container} ambientctl doctor --only {check}")
}

/// A request with the endpoint's key.
pub(super) fn request(
    context: &Context,
    asked: &Asked,
    method: reqwest::Method,
    path: &str,
) -> reqwest::RequestBuilder {
    let request = context.http.request(method, outside(&asked.endpoint.base_url.at(path)));
    match &asked.endpoint.api_key {
        Some(key) => request.bearer_auth(key.expose_secret()),
        None => request,
    }
}

/// The server's models; `None` when it lists none.
async fn list(context: &Context, asked: &Asked) -> Result<Option<Vec<Value>>, Box<Finding>> {
    let base = asked.endpoint.base_url.as_url();
    let get = |path: &str| request(context, asked, reqwest::Method::GET, path).timeout(context.request_limit()).send();
    let lists_for_all = base.host_str().is_some_and(|host| host.ends_with(LISTS_FOR_ALL));
    let answer = if lists_for_all {
        let (key, models) = futures::join!(get("key"), get("models"));
        if key.as_ref().is_ok_and(|answer| is_refusal(answer.status())) {
            return Err(Box::new(refused(&context.target, asked, StatusCode::UNAUTHORIZED)));
        }
        models
    } else {
        get("models").await
    };
    let answer = answer.map_err(|error| Box::new(unreachable(&context.target, asked, error)))?;
    let status = answer.status();
    if is_refusal(status) {
        return Err(Box::new(refused(&context.target, asked, status)));
    }
    if status.is_server_error() {
        let seen = format!("`{}` answered {}", asked.endpoint.base_url, status.as_u16());
        return Err(Box::new(Finding::failure(
            "llm.reach",
            seen,
            "questions are answered there, and cannot be now",
            Remedy::run(context.target.doctor("--only llm")),
        )));
    }
    let Ok(body) = answer.json::<Value>().await else { return Ok(None) };
    Ok(body.get("data").or_else(|| body.get("models")).and_then(Value::as_array).cloned())
}

fn is_refusal(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn unreachable(target: &Target, asked: &Asked, error: reqwest::Error) -> Finding {
    let what = if error.is_timeout() {
        "does not answer".to_owned()
    } else {
        format!("cannot be reached: {}", chain(&error.without_url()))
    };
    let url = &asked.endpoint.base_url;
    let (name, _) = settings_of(target, asked);
    Finding::failure(
        "llm.reach",
        format!("the server of the {}, `{url}` (`{name}`), {what}", asked.role.name()),
        "questions are answered there, and cannot be now",
        Remedy::run(format!("curl -sS -o /dev/null -w '%{{http_code}}\\n' {}", url.at("models"))),
    )
}

/// The settings that an endpoint comes from: the agent's fall back to those of the video model.
fn settings_of(target: &Target, asked: &Asked) -> (&'static str, &'static str) {
    let written = |name: &str| target.written(name).is_some_and(|value| !value.trim().is_empty());
    let pick = |own: &'static str, usual: &'static str| if written(own) { own } else { usual };
    match asked.role {
        Role::Video => (Role::Video.url_setting(), Role::Video.key_setting()),
        Role::Agent => (
            pick(Role::Agent.url_setting(), Role::Video.url_setting()),
            pick(Role::Agent.key_setting(), Role::Video.key_setting()),
        ),
    }
}

fn refused(target: &Target, asked: &Asked, status: StatusCode) -> Finding {
    let (_, name) = settings_of(target, asked);
    let url = &asked.endpoint.base_url;
    let seen = match &asked.endpoint.api_key {
        None => format!("`{url}` wants a key ({}), and `{name}` is not set", status.as_u16()),
        Some(key) if Target::is_placeholder(key.expose_secret()) => {
            format!("`{name}` ends in `...`, as examples do, and `{url}` does not take it")
        }
        Some(_) => format!("`{url}` does not take `{name}` ({})", status.as_u16()),
    };
    Finding::failure(
        "llm.key",
        seen,
        "no question can be answered without a key that the server takes",
        target.set_secret(name),
    )
}

fn known(target: &Target, asked: &Asked, list: Option<&[Value]>, sink: &Sink) {
    let role = asked.role.name();
    let setting = asked.role.model_setting();
    let url = &asked.endpoint.base_url;
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        sink.put(Finding::ok(
            "llm.reach",
            format!("`{url}` answers and lists no models; `--deep` asks whether it has the {role} `{}`", asked.model),
        ));
        return;
    };
    let ids: BTreeSet<&str> = list.iter().filter_map(id).collect();
    let Some(entry) = list.iter().find(|entry| id(entry) == Some(asked.model.as_str())) else {
        let close = close(&ids, &asked.model);
        let hint = close.map(|close| format!("; did you mean `{close}`?")).unwrap_or_default();
        let remedy = match close.or_else(|| ids.first().copied()) {
            Some(other) => target.set(setting, other),
            None => Remedy::run(target.doctor("--only llm")),
        };
        sink.put(Finding::failure(
            "llm.model",
            format!("`{url}` has no model `{}` (`{setting}`) among its {}{hint}", asked.model, ids.len()),
            format!("the {role} is asked by that name, and every run fails"),
            remedy,
        ));
        return;
    };
    sink.put(Finding::ok("llm.model", format!("`{url}` takes the key and has the {role} `{}`", asked.model)));
    says(target, asked, entry, sink);
}

fn id(entry: &Value) -> Option<&str> {
    entry.get("id").or_else(|| entry.get("name")).and_then(Value::as_str)
}

/// The model that somebody meant: the same name with or without its maker, else the closest.
fn close<'a>(ids: &BTreeSet<&'a str>, model: &str) -> Option<&'a str> {
    let bare = |name: &str| name.rsplit('/').next().unwrap_or(name).to_lowercase();
    if let Some(same) = ids.iter().find(|id| bare(id) == bare(model)) {
        return Some(same);
    }
    let slips = ids.iter().map(|id| (damerau_levenshtein(&bare(id), &bare(model)), *id));
    slips.filter(|(slips, _)| *slips <= SLIPS).min().map(|(_, id)| id)
}

/// What the list itself says about a model, where it says anything.
fn says(target: &Target, asked: &Asked, entry: &Value, sink: &Sink) {
    let words = |pointer: &str| {
        let list = entry.pointer(pointer).and_then(Value::as_array)?;
        Some(list.iter().filter_map(Value::as_str).collect::<Vec<_>>())
    };
    let setting = asked.role.model_setting();
    if asked.role == Role::Agent && words("/supported_parameters").is_some_and(|words| !words.contains(&"tools")) {
        sink.put(no_tools(target, asked, "its server says that it takes none"));
    }
    let Some(inputs) = words("/architecture/input_modalities").filter(|_| asked.role == Role::Video) else { return };
    let (image, video) = (inputs.contains(&"image"), inputs.contains(&"video"));
    if !image && !video {
        sink.put(Finding::failure(
            "llm.image",
            format!("the video model `{}` takes neither videos nor images", asked.model),
            "it cannot see anything of a clip",
            Remedy::run(target.command(&format!("config set {setting}"))),
        ));
    } else if !video {
        sink.put(falls_back(asked));
    }
}

pub(super) fn no_tools(target: &Target, asked: &Asked, told: &str) -> Finding {
    Finding::failure(
        "llm.tools",
        format!("the agent model `{}` takes no tools: {told}", asked.model),
        "the agent looks at a video through tools, and cannot work without",
        Remedy::run(target.command(&format!("config set {}", asked.role.model_setting()))),
    )
}

pub(super) fn falls_back(asked: &Asked) -> Finding {
    Finding::ok(
        "llm.video",
        format!("the video model `{}` takes images and no videos: it is shown frames of each clip", asked.model),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_that_somebody_meant_is_found() {
        let ids = BTreeSet::from(["google/gemini-2.5-flash", "openai/gpt-5", "qwen3-vl:8b"]);
        assert_eq!(close(&ids, "gemini-2.5-flash"), Some("google/gemini-2.5-flash"));
        assert_eq!(close(&ids, "google/gemini-2.5-flahs"), Some("google/gemini-2.5-flash"));
        assert_eq!(close(&ids, "qwen3-vl:7b"), Some("qwen3-vl:8b"));
        assert_eq!(close(&ids, "claude"), None);
    }
}
