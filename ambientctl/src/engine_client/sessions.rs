//! Sessions: making them, speaking into them, ending them.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ANSWER_LIMIT, EngineClient, EngineError, Event, EventStream};

/// The agent that plans and calls tools.
const AGENT: &str = "ambient_v1";
/// The agent that looks once and answers.
const FAST_AGENT: &str = "ambient_fast";
/// The environment that is always there.
const ENVIRONMENT: &str = "default";

/// A session to make.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The video that it is about.
    pub video_id: String,
    /// One look at the whole video and one answer, instead of an agent with tools.
    pub fast: bool,
    /// The model that answers; `None` takes the engine's.
    pub model: Option<String>,
    /// How often the agent may call tools in a run, 1 to 1000; `None` takes the engine's.
    pub max_turns: Option<u32>,
    /// What people call it.
    pub title: Option<String>,
}

impl NewSession {
    /// A session over a video, with everything else as the engine has it.
    pub fn over(video_id: &str) -> Self {
        Self { video_id: video_id.to_owned(), fast: false, model: None, max_turns: None, title: None }
    }

    fn body(&self) -> Value {
        let id = if self.fast { FAST_AGENT } else { AGENT };
        let agent = match &self.model {
            None => json!(id),
            Some(model) => json!({ "type": "agent_with_overrides", "id": id, "model": model }),
        };
        let mut metadata = BTreeMap::from([("video_id", self.video_id.clone())]);
        if let Some(turns) = self.max_turns {
            metadata.insert("max_turns_per_run", turns.to_string());
        }
        json!({ "agent": agent, "environment_id": ENVIRONMENT, "title": self.title, "metadata": metadata })
    }
}

/// A session as the engine shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Session {
    /// `ses_` and 16 hex digits.
    pub id: String,
    /// `pending`, `idle`, `running`, `rescheduling` or `terminated`.
    pub status: String,
    /// The agent as it was when the session was made.
    pub agent: AgentSnapshot,
    /// The pairs that it was made with; `video_id` is among them.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Where its media work is done, as the engine says it: `backend`, `status`, `id` and more.
    #[serde(default)]
    pub sandbox: Value,
}

/// The agent of a session.
#[derive(Clone, Debug, Deserialize)]
pub struct AgentSnapshot {
    /// Its id.
    pub id: String,
    /// Its model.
    pub model: Model,
}

/// A model.
#[derive(Clone, Debug, Deserialize)]
pub struct Model {
    /// Its id at the model's server.
    pub id: String,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Message {
    /// What it says.
    pub content: Vec<Block>,
    /// A JSON schema that the answer has to fit.
    pub output_structure: Option<Value>,
}

/// A block of a message.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

impl Message {
    /// A message of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::Text { text: text.into() }], output_structure: None }
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Event>,
    #[serde(default)]
    next_page: Option<String>,
}

#[derive(Deserialize)]
struct Sent {
    data: Vec<SentEvent>,
}

#[derive(Deserialize)]
struct SentEvent {
    id: String,
}

impl EngineClient {
    /// Makes a session with one of the engine's built-in agents.
    ///
    /// # Errors
    /// When nobody answers, or the engine refuses: there is no such video.
    pub async fn create_session(&self, wish: &NewSession) -> Result<Session, EngineError> {
        self.json(self.request(Method::POST, &["v1", "sessions"]).json(&wish.body())).await
    }

    /// A session as it is now.
    ///
    /// # Errors
    /// When nobody answers, or there is no such session.
    pub async fn session(&self, id: &str) -> Result<Session, EngineError> {
        self.json(self.request(Method::GET, &["v1", "sessions", id])).await
    }

    /// Sends a message, which begins a run. Gives the id of the stored event: a stream that begins behind it
    /// ([`Self::events`]) has this run and nothing else.
    ///
    /// # Errors
    /// When nobody answers, or the engine refuses: a run is under way (status 409), or the session is over.
    pub async fn send(&self, session: &str, message: &Message) -> Result<String, EngineError> {
        let mut body = json!({ "events": [{ "type": "user.message", "content": message.content }] });
        if let Some(schema) = &message.output_structure {
            body["output_structure"] = schema.clone();
        }
        let sent: Sent =
            self.json(self.request(Method::POST, &["v1", "sessions", session, "events"]).json(&body)).await?;
        let stored = sent.data.into_iter().next();
        stored.map(|event| event.id).ok_or_else(|| EngineError::Stranger { url: self.base().to_owned() })
    }

    /// What happens in a session, right behind the event `after`; without one, from the run under way on, or from what
    /// comes next. Messages come in pieces too. It opens with its first [`EventStream::next`] and stays open over many runs.
    pub fn events(&self, session: &str, after: Option<String>) -> EventStream {
        EventStream::new(self.clone(), session.to_owned(), after)
    }

    /// What happened in a session so far, oldest first: events of these types, or all when none is named.
    ///
    /// # Errors
    /// When nobody answers, or there is no such session.
    pub async fn past_events(&self, session: &str, types: &[&str]) -> Result<Vec<Event>, EngineError> {
        let mut events = Vec::new();
        let mut page: Option<String> = None;
        loop {
            let mut query: Vec<(&str, &str)> = types.iter().map(|name| ("types[]", *name)).collect();
            query.extend(page.as_deref().map(|token| ("page", token)));
            let path = ["v1", "sessions", session, "events"];
            let listed: Listed = self.json(self.unlimited(Method::GET, &path, &query).timeout(ANSWER_LIMIT)).await?;
            events.extend(listed.data);
            match listed.next_page {
                Some(next) => page = Some(next),
                None => return Ok(events),
            }
        }
    }

    /// Stops the run under way, down to the command that a tool has started. With nothing running it changes nothing.
    ///
    /// # Errors
    /// When nobody answers, or there is no such session.
    pub async fn interrupt(&self, session: &str) -> Result<(), EngineError> {
        let body = json!({ "events": [{ "type": "user.interrupt" }] });
        self.answer(self.request(Method::POST, &["v1", "sessions", session, "events"]).json(&body)).await.map(drop)
    }

    /// Ends a session and takes its events away; its sandbox, if it has one, goes at once.
    ///
    /// # Errors
    /// When nobody answers, or there is no such session.
    pub async fn delete_session(&self, session: &str) -> Result<(), EngineError> {
        self.answer(self.request(Method::DELETE, &["v1", "sessions", session])).await.map(drop)
    }
}
