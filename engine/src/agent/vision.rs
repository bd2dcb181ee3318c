//! A single question with media to the video model, for tools and descriptions.

use std::time::Duration;

use rand::RngExt as _;
use tokio_util::sync::CancellationToken;

use super::catalogue::{Catalogue, Modalities};
use super::client::ModelClient;
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::plan::{self, Plan, Step};
use super::quirks::Known;
use super::resolve::{Resolver, address_limit};
use super::stream::Completion;
use super::usage::Measured;
use super::wire::{ChatMessage, ChatRequest, Piece, Thinking, ToolChoice};
use crate::backend::MediaBackend;
use crate::store::records::{Part, UsageTotals};
use std::sync::Arc;

/// Tries of a question that fails for a moment.
const TRIES: u32 = 2;
/// Between two tries: from this, to three times as long.
const PAUSE: Duration = Duration::from_secs(2);
/// Limits of the server that are learned within one question.
const FITTINGS: u32 = 4;

/// Asks the video model. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Vision {
    client: ModelClient,
    endpoint: Option<Endpoint>,
    catalogue: Arc<Catalogue>,
    resolver: Resolver,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct VisionQuestion<'a> {
    /// Who asks, for the usage: `tool:search_clip`, `description`.
    pub source: &'a str,
    /// The instruction.
    pub system: &'a str,
    /// What is asked about what.
    pub parts: &'a [Part],
    /// Limit of the answer.
    pub max_tokens: u32,
    /// Limit of the whole question, tries included.
    pub timeout: Duration,
}

/// An answer, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionAnswer {
    /// The model's words.
    pub text: String,
    /// For the session.
    pub usage: UsageTotals,
}

impl Vision {
    /// Asks at this endpoint; `None` answers every question with [`ModelError::NoEndpoint`].
    pub fn new(client: ModelClient, endpoint: Option<Endpoint>, catalogue: Arc<Catalogue>, resolver: Resolver) -> Self {
        Self { client, endpoint, catalogue, resolver }
    }

    /// The same, with media from another backend.
    #[must_use]
    pub fn with_backend(&self, backend: Arc<dyn MediaBackend>, session: crate::ids::SessionId) -> Self {
        Self { resolver: self.resolver.for_run(backend, session), ..self.clone() }
    }

    /// The same, asking another model.
    #[must_use]
    pub fn with_model(&self, model: &str) -> Self {
        Self { endpoint: self.endpoint.as_ref().map(|endpoint| endpoint.with_model(model)), ..self.clone() }
    }

    /// The model that is asked.
    pub fn model(&self) -> Option<&str> {
        self.endpoint.as_ref().map(|endpoint| endpoint.model.as_str())
    }

    /// Whether windows of the video should be sent as clips. `false` for models that take none, for routes that do
    /// better with frames, and for a server once it has refused a video.
    pub fn takes_video(&self) -> bool {
        self.plan(Step::Clip) == Plan::Video
    }

    /// Whether frames can be sent.
    pub fn takes_images(&self) -> bool {
        self.accepted().is_some_and(|takes| takes.image)
    }

    /// The form that media for this step takes.
    pub fn plan(&self, step: Step) -> Plan {
        match &self.endpoint {
            Some(endpoint) => plan::plan(step, endpoint, &self.catalogue, &self.client.known(endpoint)),
            None => Plan::Nothing,
        }
    }

    fn accepted(&self) -> Option<Modalities> {
        let endpoint = self.endpoint.as_ref()?;
        Some(plan::accepted(endpoint, &self.catalogue, &self.client.known(endpoint)))
    }

    /// Asks.
    ///
    /// # Errors
    /// Every [`ModelError`]. When the server refused the video, [`Self::takes_video`] is `false` from then on: ask again
    /// with frames.
    pub async fn ask(
        &self,
        question: &VisionQuestion<'_>,
        stop: &CancellationToken,
    ) -> Result<VisionAnswer, ModelError> {
        let endpoint = self.endpoint.as_ref().ok_or(ModelError::NoEndpoint)?;
        match tokio::time::timeout(question.timeout, self.ask_patiently(endpoint, question, stop)).await {
            Ok(answer) => answer,
            Err(_) => Err(ModelError::Silent { host: endpoint.host(), limit: question.timeout }),
        }
    }

    async fn ask_patiently(
        &self,
        endpoint: &Endpoint,
        question: &VisionQuestion<'_>,
        stop: &CancellationToken,
    ) -> Result<VisionAnswer, ModelError> {
        let (mut tries, mut fittings) = (1, 0);
        let at_first = self.client.known(endpoint);
        loop {
            let before = self.client.known(endpoint);
            let count = question.parts.iter().filter(|part| !matches!(part, Part::Text { .. })).count();
            let pieces = self.resolver.pieces(question.parts, address_limit(&before, count)).await;
            let prompt_chars = question.system.len() + text_chars(&pieces);
            let request = self.request(endpoint, question, pieces);
            let error = match self.client.complete(endpoint, &request, stop).await {
                Ok(completion) => return Ok(self.answer(endpoint, question, completion, prompt_chars)),
                Err(error) => error,
            };
            let after = self.client.known(endpoint);
            let learned_a_limit = (after.url_limit, after.body_limit) != (before.url_limit, before.body_limit);
            if learned_a_limit && fittings < FITTINGS {
                fittings += 1;
                continue;
            }
            if !error.is_retryable() || tries >= TRIES {
                if fittings > 0 {
                    // Smaller media were refused as well, so their size was not the reason.
                    let (url_limit, body_limit) = (at_first.url_limit, at_first.body_limit);
                    self.client.note(endpoint, Known { url_limit, body_limit, ..after });
                }
                return Err(error);
            }
            tries += 1;
            let jitter = rand::rng().random_range(1.0..3.0);
            let pause = error.retry_after().unwrap_or(PAUSE.mul_f64(jitter));
            tokio::select! {
                () = stop.cancelled() => return Err(ModelError::Cancelled),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn request(&self, endpoint: &Endpoint, question: &VisionQuestion<'_>, pieces: Vec<Piece>) -> ChatRequest {
        ChatRequest {
            messages: vec![ChatMessage::System(question.system.to_owned()), ChatMessage::User(pieces)],
            tools: Arc::from([]),
            tool_choice: ToolChoice::Auto,
            max_tokens: question.max_tokens,
            response_format: None,
            thinking: Thinking::Enabled { effort: None },
            provider: self.catalogue.route(&endpoint.model).provider,
        }
    }

    fn answer(
        &self,
        endpoint: &Endpoint,
        question: &VisionQuestion<'_>,
        completion: Completion,
        prompt_chars: usize,
    ) -> VisionAnswer {
        let pricing = self.catalogue.pricing(&endpoint.model);
        let measured = Measured::new(completion.usage.as_ref(), pricing.as_ref(), prompt_chars, completion.text.len());
        VisionAnswer { usage: measured.totals(question.source, &endpoint.model, 0), text: completion.text }
    }
}

fn text_chars(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Image(_) | Piece::Video(_) => 0,
        })
        .sum()
}
