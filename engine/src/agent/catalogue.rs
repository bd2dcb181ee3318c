//! What is known of models before they are asked: what they take in, and what they cost.
//!
//! The list has the shape of OpenRouter's, so that their list, or an operator's extract of it, can be used as it is.
//! A small one is built in; a refresh in the background may replace it, and may fail without anybody noticing but the log.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a model takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the four modalities that there are")]
pub struct Modalities {
    pub text: bool,
    pub image: bool,
    pub video: bool,
    pub audio: bool,
}

impl Modalities {
    /// Words alone.
    pub const TEXT: Self = Self { text: true, image: false, video: false, audio: false };
    /// What a model that nobody knows is taken for, until it refuses something.
    pub const UNKNOWN: Self = Self { text: true, image: true, video: true, audio: false };

    /// Whether it sees at all.
    pub fn sees(self) -> bool {
        self.image || self.video
    }
}

/// US dollars a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pricing {
    pub prompt: f64,
    pub completion: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// How OpenRouter is to route a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProviderRoute {
    /// The one provider to use.
    #[serde(default)]
    pub provider: Option<String>,
    /// Pictures that a request may hold.
    #[serde(default = "default_image_cap")]
    pub image_cap: usize,
    /// Whether that provider takes whole videos by link.
    #[serde(default)]
    pub video: bool,
}

fn default_image_cap() -> usize {
    100
}

impl Default for ProviderRoute {
    fn default() -> Self {
        Self { provider: None, image_cap: default_image_cap(), video: false }
    }
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// It cannot be read.
    #[error("the model list `{path}` could not be read")]
    Read {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("the model list `{path}` is not in the form of `https://openrouter.ai/api/v1/models`")]
    Form {
        /// Which.
        path: Utf8PathBuf,
        /// Where.
        #[source]
        source: serde_json::Error,
    },
}

const BUILT_IN_MODELS: &str = include_str!("models.json");
const BUILT_IN_PROVIDERS: &str = include_str!("providers.json");
/// How often the list is fetched again.
const REFRESH_EVERY: Duration = Duration::from_hours(24);
/// How long to wait after a fetch that failed.
const REFRESH_RETRY: Duration = Duration::from_mins(15);
const FETCH_LIMIT: Duration = Duration::from_secs(10);
/// A list larger than this is not one.
const LIST_LIMIT: usize = 16 * 1024 * 1024;

/// The models that are known. Shared by everybody; what a refresh brings is seen at once.
#[derive(Debug)]
pub struct Catalogue {
    models: RwLock<Arc<Vec<Model>>>,
    providers: IndexMap<String, ProviderRoute>,
}

#[derive(Clone, Debug)]
struct Model {
    id: String,
    slug: Option<String>,
    core: String,
    modalities: Modalities,
    pricing: Option<Pricing>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    canonical_slug: Option<String>,
    #[serde(default)]
    architecture: Architecture,
    #[serde(default)]
    pricing: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Architecture {
    #[serde(default)]
    input_modalities: Vec<String>,
}

impl Catalogue {
    /// The built-in list, each part replaced by a file where one is given.
    ///
    /// # Errors
    /// When a given list of models cannot be used. A bad list of providers is only logged: then OpenRouter chooses.
    ///
    /// # Panics
    /// Never: the built-in lists are read by a test.
    pub fn load(models: Option<&Utf8Path>, providers: Option<&Utf8Path>) -> Result<Self, CatalogueError> {
        let known = match models {
            None => parse(BUILT_IN_MODELS).expect("the built-in list is valid: a test reads it"),
            Some(path) => {
                let text = fs_err::read_to_string(path)
                    .map_err(|source| CatalogueError::Read { path: path.to_owned(), source })?;
                parse(&text).map_err(|source| CatalogueError::Form { path: path.to_owned(), source })?
            }
        };
        let routes = match providers {
            None => parse_providers(BUILT_IN_PROVIDERS).expect("the built-in table is valid: a test reads it"),
            Some(path) => fs_err::read_to_string(path)
                .map_err(|fault| fault.to_string())
                .and_then(|text| parse_providers(&text).map_err(|fault| fault.to_string()))
                .unwrap_or_else(|reason| {
                    tracing::warn!(%path, reason, "the provider table cannot be used; the router chooses by itself");
                    IndexMap::new()
                }),
        };
        Ok(Self { models: RwLock::new(Arc::new(known)), providers: routes })
    }

    /// The built-in list.
    ///
    /// # Panics
    /// Never: the built-in lists are read by a test.
    pub fn built_in() -> Self {
        Self::load(None, None).expect("nothing outside the program is read")
    }

    /// What a model takes in; `None` for one that is not known.
    pub fn modalities(&self, model: &str) -> Option<Modalities> {
        let core = core_key(model);
        let models = self.snapshot();
        models.iter().find(|known| known.id == model || known.core == core).map(|known| known.modalities)
    }

    /// What a model costs. Only its own entry counts: a cousin's price would be a wrong bill.
    pub fn pricing(&self, model: &str) -> Option<Pricing> {
        let models = self.snapshot();
        let exact = models.iter().find(|known| known.id == model);
        exact.or_else(|| models.iter().find(|known| known.slug.as_deref() == Some(model)))?.pricing
    }

    /// How OpenRouter is to route a model: by its id, else by the longest name that it contains.
    pub fn route(&self, model: &str) -> ProviderRoute {
        if let Some(route) = self.providers.get(model) {
            return route.clone();
        }
        let lower = model.to_lowercase();
        let family = self
            .providers
            .iter()
            .filter(|(name, _)| !name.starts_with('_') && lower.contains(&name.to_lowercase()))
            .max_by_key(|(name, _)| name.len());
        family.map(|(_, route)| route).or_else(|| self.providers.get("_default")).cloned().unwrap_or_default()
    }

    fn snapshot(&self) -> Arc<Vec<Model>> {
        Arc::clone(&self.models.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fetches the list now and then until stopped. Failures are logged and change nothing.
    pub async fn refresh(&self, url: &str, stop: CancellationToken) {
        let work = async {
            loop {
                let pause = match fetch(url).await {
                    Ok(models) => {
                        tracing::debug!(models = models.len(), "the model list was refreshed");
                        self.replace(models);
                        REFRESH_EVERY
                    }
                    Err(reason) => {
                        tracing::debug!(reason, "the model list could not be refreshed");
                        REFRESH_RETRY
                    }
                };
                tokio::time::sleep(pause).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// New entries win; those that only the old list has stay behind them.
    fn replace(&self, mut models: Vec<Model>) {
        let old = self.snapshot();
        let kept = old.iter().filter(|known| !models.iter().any(|new| new.id == known.id)).cloned().collect::<Vec<_>>();
        models.extend(kept);
        *self.models.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(models);
    }
}

async fn fetch(url: &str) -> Result<Vec<Model>, String> {
    let client = reqwest::Client::builder().user_agent("ambient").timeout(FETCH_LIMIT).build();
    let response = client.map_err(|fault| fault.to_string())?.get(url).send().await;
    let mut response = response.and_then(reqwest::Response::error_for_status).map_err(|fault| fault.to_string())?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|fault| fault.to_string())? {
        body.extend_from_slice(&chunk);
        if body.len() > LIST_LIMIT {
            return Err("the list is too large".to_owned());
        }
    }
    let models = parse(&String::from_utf8_lossy(&body)).map_err(|fault| fault.to_string())?;
    if models.is_empty() { Err("the list is empty".to_owned()) } else { Ok(models) }
}

fn parse(text: &str) -> Result<Vec<Model>, serde_json::Error> {
    let list: List = serde_json::from_str(text)?;
    let models = list.data.into_iter().map(|entry| {
        let takes = |name: &str| entry.architecture.input_modalities.iter().any(|known| known == name);
        Model {
            core: core_key(&entry.id),
            modalities: Modalities {
                text: takes("text"),
                image: takes("image"),
                video: takes("video"),
                audio: takes("audio"),
            },
            pricing: entry.pricing.as_ref().and_then(pricing),
            id: entry.id,
            slug: entry.canonical_slug,
        }
    });
    Ok(models.collect())
}

/// Prices are decimal texts; some lists hold numbers. A negative one says that the price varies.
fn pricing(value: &Value) -> Option<Pricing> {
    let price = |name: &str| {
        let value = value.get(name)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
        (number >= 0.0).then_some(number)
    };
    let prompt = price("prompt")?;
    Some(Pricing {
        prompt,
        completion: price("completion")?,
        cache_read: price("input_cache_read").unwrap_or(prompt),
        cache_write: price("input_cache_write").unwrap_or(0.0),
    })
}

fn parse_providers(text: &str) -> Result<IndexMap<String, ProviderRoute>, serde_json::Error> {
    let rows: IndexMap<String, Value> = serde_json::from_str(text)?;
    rows.into_iter()
        .filter(|(name, _)| !name.starts_with('_') || name == "_default")
        .map(|(name, row)| Ok((name, serde_json::from_value(row)?)))
        .collect()
}

/// Words that name a model's tier, never its packing: they stay.
const TIERS: &[&str] = &[
    "pro", "mini", "nano", "micro", "turbo", "flash", "lite", "max", "plus", "air", "preview", "thinking", "instruct",
    "chat", "base", "vl", "vision", "coder", "reasoner",
];

/// A model's name without its vendor, its variant, and how its weights are packed: what two listings of it share.
pub(crate) fn core_key(model: &str) -> String {
    let lower = model.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    let name = name.split(':').next().unwrap_or_default();
    let mut core = name;
    while let Some((head, tail)) = core.rsplit_once('-') {
        if head.is_empty() || TIERS.contains(&tail) || !is_packing(tail) {
            break;
        }
        core = head;
    }
    core.to_owned()
}

fn is_packing(tag: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if matches!(tag, "awq" | "gptq" | "gguf" | "ggml" | "mlx" | "bnb" | "onnx" | "bf16") {
        return true;
    }
    if ["nvfp", "mxfp", "fp", "int", "exl"].iter().any(|kind| tag.strip_prefix(kind).is_some_and(digits)) {
        return true;
    }
    if tag.strip_suffix("bit").is_some_and(digits) {
        return true;
    }
    // w4a16, w8a8 …
    if let Some((weights, activations)) = tag.strip_prefix('w').and_then(|rest| rest.split_once('a'))
        && digits(weights)
        && digits(activations)
    {
        return true;
    }
    // q4, q4_k_m, q5_0 …
    let mut parts = tag.split('_');
    parts.next().and_then(|first| first.strip_prefix('q')).is_some_and(digits)
        && parts
            .all(|part| !part.is_empty() && part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_lists_can_be_read() {
        let catalogue = Catalogue::built_in();
        let gemini = catalogue.modalities("google/gemini-3.1-pro-preview").unwrap();
        assert!(gemini.video && gemini.image && gemini.text);
        assert!(catalogue.pricing("google/gemini-3.1-pro-preview").unwrap().prompt > 0.0);
        assert!(catalogue.modalities("qwen/qwen3.5-27b").unwrap().image);
        assert_eq!(catalogue.modalities("deepseek/deepseek-v3.2"), Some(Modalities::TEXT));
        assert_eq!(catalogue.modalities("nobody/knows-this"), None);
    }

    #[test]
    fn packing_does_not_tell_models_apart_but_tiers_do() {
        for (name, core) in [
            ("Qwen/Qwen3.5-27B-FP8", "qwen3.5-27b"),
            ("qwen3.5-27b-awq-4bit", "qwen3.5-27b"),
            ("x/qwen3.5-27b-q4_k_m", "qwen3.5-27b"),
            ("qwen3.5-27b-w4a16", "qwen3.5-27b"),
            ("qwen3.5-27b-nvfp4:free", "qwen3.5-27b"),
            ("gemini-3-flash", "gemini-3-flash"),
            ("gpt-5-mini", "gpt-5-mini"),
            ("qwen3-vl", "qwen3-vl"),
            ("fp8", "fp8"),
            ("-fp8", "-fp8"),
        ] {
            assert_eq!(core_key(name), core, "{name}");
        }
        let catalogue = Catalogue::built_in();
        assert_eq!(catalogue.modalities("QuantTrio/Qwen3.5-27B-AWQ"), catalogue.modalities("qwen/qwen3.5-27b"));
    }

    #[test]
    fn a_price_is_that_of_the_very_model() {
        let catalogue = Catalogue::built_in();
        assert_eq!(catalogue.pricing("qwen/qwen3.5-27b-awq"), None);
        assert_eq!(catalogue.pricing("gemini-3.1-pro"), None);
    }

    #[test]
    fn routes_go_by_id_then_by_the_longest_family() {
        let catalogue = Catalogue::built_in();
        let gemini = catalogue.route("google/gemini-3.1-pro-preview");
        assert_eq!((gemini.provider.as_deref(), gemini.image_cap, gemini.video), (Some("google-ai-studio"), 200, true));
        assert_eq!(catalogue.route("qwen/qwen3.8-27b").provider.as_deref(), Some("alibaba"));
        assert_eq!(catalogue.route("nobody/knows-this"), ProviderRoute::default());
    }

    #[test]
    fn a_refresh_adds_and_replaces_and_loses_nothing() {
        let catalogue = Catalogue::built_in();
        let text = r#"{"data":[{"id":"new/model","architecture":{"input_modalities":["text","image","smell"]},
            "pricing":{"prompt":"0.000001","completion":"-1"}},
            {"id":"qwen/qwen3.5-27b","architecture":{"input_modalities":["text"]}}]}"#;
        catalogue.replace(parse(text).unwrap());
        assert!(catalogue.modalities("new/model").unwrap().image);
        assert_eq!(catalogue.pricing("new/model"), None);
        assert_eq!(catalogue.modalities("qwen/qwen3.5-27b"), Some(Modalities::TEXT));
        assert!(catalogue.modalities("google/gemini-3.1-pro-preview").is_some());
    }

    #[test]
    fn a_given_list_that_cannot_be_used_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("models.json")).unwrap();
        assert!(matches!(Catalogue::load(Some(&path), None), Err(CatalogueError::Read { .. })));
        fs_err::write(&path, "[]").unwrap();
        assert!(matches!(Catalogue::load(Some(&path), None), Err(CatalogueError::Form { .. })));
    }
}
