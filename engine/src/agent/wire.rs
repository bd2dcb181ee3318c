//! A chat-completions request as the engine thinks of it, and its one rendering into JSON.
//!
//! The rendering borrows: a data URL of megabytes is written once into the body and copied nowhere else. What servers
//! disagree on (an assistant message without text, reasoning sent back, instructions in the middle) is decided by
//! [`Known`] at this point and nowhere before.

use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::quirks::{EmptyContent, Known, ReasoningBack};
use crate::store::records::Reasoning;

/// A message of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatMessage {
    /// An instruction.
    System(String),
    /// What the user's side says, in order.
    User(Vec<Piece>),
    /// What the model said before.
    Assistant {
        /// Its words.
        text: Option<String>,
        /// Its calls; every one is answered by a [`Self::Tool`] right behind.
        calls: Vec<ChatCall>,
        /// How it came to them.
        reasoning: Option<Reasoning>,
        /// It belongs to the run under way.
        current: bool,
    },
    /// The result of a call.
    Tool {
        /// Of which.
        call_id: String,
        /// For the model.
        text: String,
    },
}

/// A piece of a user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// A picture, by link or data URL.
    Image(Arc<str>),
    /// A video, by link or data URL.
    Video(Arc<str>),
}

/// A call that the model made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatCall {
    /// Unique in the request.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON text of an object.
    pub arguments: String,
}

/// How the model may use tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// Not at all: the tools are only listed because the conversation holds calls of them.
    None,
}

/// How much the model is to think.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// As the server does by itself, with the given effort if there is one.
    Enabled {
        /// `low`, `medium` or `high`.
        effort: Option<String>,
    },
    /// Not, where a server can be told.
    Disabled,
}

/// A request to a model.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    /// The conversation.
    pub messages: Vec<ChatMessage>,
    /// Tool definitions in the wire's shape; empty for none.
    pub tools: Arc<[Value]>,
    /// How they may be used.
    pub tool_choice: ToolChoice,
    /// Limit of the answer.
    pub max_tokens: u32,
    /// The shape that the answer has to have.
    pub response_format: Option<Value>,
    /// How much to think.
    pub thinking: Thinking,
    /// The provider that OpenRouter is to use.
    pub provider: Option<String>,
}

/// Which optional or disputed things a body holds: what an error can be about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of independent yes-or-no facts")]
pub struct Sent {
    pub stream_options: bool,
    pub usage_include: bool,
    pub reasoning: bool,
    pub reasoning_effort: bool,
    pub provider: bool,
    pub tool_choice: bool,
    pub response_format: bool,
    pub template_kwargs: bool,
    /// An assistant message without words of its own.
    pub empty_content: bool,
    /// Reasoning of earlier answers.
    pub reasoning_back: bool,
    /// Reasoning was there to send, sent or not.
    pub reasoning_known: bool,
    /// An instruction that is not the first message.
    pub inline_system: bool,
    pub videos: usize,
    pub images: usize,
    /// Characters of the longest address of a medium.
    pub longest_url: usize,
    /// Characters of all addresses of media.
    pub media_chars: usize,
    /// Bytes of the whole body.
    pub body_bytes: usize,
}

/// Room for everything of a usual request but its media.
const TEXT_BYTES: usize = 32 * 1024;

/// Renders a request.
///
/// # Panics
/// Never: every part serialises.
pub(crate) fn body(
    request: &ChatRequest,
    model: &str,
    open_router: bool,
    stream: bool,
    known: &Known,
) -> (Vec<u8>, Sent) {
    let (shape, mut sent) = Body { request, model, open_router, stream, known }.plan(survey(request, known));
    // Media make nearly all of a large body; growing towards it would copy them again and again.
    let mut bytes = Vec::with_capacity(sent.media_chars + TEXT_BYTES);
    serde_json::to_writer(&mut bytes, &shape).expect("strings, numbers and JSON values serialise");
    sent.body_bytes = bytes.len();
    (bytes, sent)
}

fn survey(request: &ChatRequest, known: &Known) -> Sent {
    let mut sent = Sent::default();
    for (index, message) in request.messages.iter().enumerate() {
        match message {
            ChatMessage::System(_) => sent.inline_system |= index > 0 && !known.leading_system_only,
            ChatMessage::User(pieces) => {
                for piece in pieces {
                    let url = match piece {
                        Piece::Text(_) => continue,
                        Piece::Image(url) => {
                            sent.images += 1;
                            url
                        }
                        Piece::Video(url) => {
                            sent.videos += 1;
                            url
                        }
                    };
                    sent.longest_url = sent.longest_url.max(url.len());
                    sent.media_chars += url.len();
                }
            }
            ChatMessage::Assistant { text, calls, reasoning, current } => {
                sent.empty_content |= text.is_none() && !calls.is_empty();
                if reasoning.is_some() && !calls.is_empty() {
                    sent.reasoning_known = true;
                    sent.reasoning_back |= known.reasoning_back.applies(*current);
                }
            }
            ChatMessage::Tool { .. } => {}
        }
    }
    sent
}

struct Body<'a> {
    request: &'a ChatRequest,
    model: &'a str,
    open_router: bool,
    stream: bool,
    known: &'a Known,
}

#[derive(Serialize)]
struct Shape<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a [Value]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_kwargs: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a Value>,
}

impl<'a> Body<'a> {
    /// Decides which optional fields go, and notes them.
    fn plan(self, mut sent: Sent) -> (Shape<'a>, Sent) {
        let Self { request, model, open_router, stream, known } = self;
        let refused = &known.refused;
        let has_tools = !request.tools.is_empty();
        let effort = match &request.thinking {
            Thinking::Enabled { effort } => effort.as_deref(),
            Thinking::Disabled => None,
        };
        sent.stream_options = stream && !refused.stream_options;
        sent.usage_include = open_router && !refused.usage_include;
        sent.reasoning = open_router && !refused.reasoning && request.thinking != Thinking::Disabled;
        sent.reasoning_effort = !open_router && effort.is_some() && !refused.reasoning_effort;
        sent.template_kwargs = request.thinking == Thinking::Disabled && !refused.template_kwargs;
        sent.response_format = request.response_format.is_some() && !refused.response_format;
        sent.tool_choice = has_tools && !refused.tool_choice;
        let mut provider = serde_json::Map::new();
        if open_router && !refused.provider {
            if let Some(name) = &request.provider {
                provider.insert("only".to_owned(), serde_json::json!([name]));
            }
            if sent.response_format {
                provider.insert("require_parameters".to_owned(), Value::Bool(true));
            }
        }
        sent.provider = !provider.is_empty();
        let shape = Shape {
            model,
            max_tokens: (!known.completion_tokens_field).then_some(request.max_tokens),
            max_completion_tokens: known.completion_tokens_field.then_some(request.max_tokens),
            messages: Messages { messages: &request.messages, known },
            stream,
            stream_options: sent.stream_options.then(|| serde_json::json!({"include_usage": true})),
            usage: sent.usage_include.then(|| serde_json::json!({"include": true})),
            tools: has_tools.then_some(&*request.tools),
            tool_choice: sent.tool_choice.then_some(match request.tool_choice {
                ToolChoice::Auto => "auto",
                ToolChoice::None => "none",
            }),
            reasoning: sent.reasoning.then(|| match effort {
                Some(effort) => serde_json::json!({"enabled": true, "effort": effort}),
                None => serde_json::json!({"enabled": true}),
            }),
            reasoning_effort: effort.filter(|_| sent.reasoning_effort),
            chat_template_kwargs: sent.template_kwargs.then(|| serde_json::json!({"enable_thinking": false})),
            provider: sent.provider.then_some(Value::Object(provider)),
            response_format: request.response_format.as_ref().filter(|_| sent.response_format),
        };
        (shape, sent)
    }
}

struct Messages<'a> {
    messages: &'a [ChatMessage],
    known: &'a Known,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut messages = self.messages;
        if self.known.leading_system_only {
            // Templates that allow one instruction, at the front, get all of them there.
            let all: Vec<&str> = messages
                .iter()
                .filter_map(|message| match message {
                    ChatMessage::System(text) => Some(text.as_str()),
                    ChatMessage::User(_) | ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } => None,
                })
                .collect();
            if !all.is_empty() {
                list.serialize_element(&serde_json::json!({"role": "system", "content": all.join("\n\n")}))?;
            }
        }
        while let Some((message, rest)) = messages.split_first() {
            messages = rest;
            if self.known.leading_system_only && matches!(message, ChatMessage::System(_)) {
                continue;
            }
            list.serialize_element(&Rendered { message, known: self.known })?;
        }
        list.end()
    }
}

struct Rendered<'a> {
    message: &'a ChatMessage,
    known: &'a Known,
}

impl Serialize for Rendered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.message {
            ChatMessage::System(text) => {
                map.serialize_entry("role", "system")?;
                map.serialize_entry("content", text)?;
            }
            ChatMessage::User(pieces) => {
                map.serialize_entry("role", "user")?;
                if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) {
                    map.serialize_entry("content", &joined(pieces))?;
                } else {
                    map.serialize_entry("content", &Pieces(pieces))?;
                }
            }
            ChatMessage::Assistant { text, calls, reasoning, current } => {
                map.serialize_entry("role", "assistant")?;
                match (text, self.known.empty_content) {
                    (Some(text), _) => map.serialize_entry("content", text)?,
                    (None, _) if calls.is_empty() => map.serialize_entry("content", "")?,
                    (None, EmptyContent::LeftOut) => {}
                    (None, EmptyContent::EmptyText) => map.serialize_entry("content", "")?,
                    (None, EmptyContent::Null) => map.serialize_entry("content", &Value::Null)?,
                }
                if let Some(reasoning) = reasoning
                    && !calls.is_empty()
                    && self.known.reasoning_back.applies(*current)
                {
                    match &reasoning.details {
                        Some(details) => map.serialize_entry("reasoning_details", details)?,
                        None => map.serialize_entry(&reasoning.key, &reasoning.text)?,
                    }
                }
                if !calls.is_empty() {
                    map.serialize_entry("tool_calls", &Calls(calls))?;
                }
            }
            ChatMessage::Tool { call_id, text } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", call_id)?;
                map.serialize_entry("content", text)?;
            }
        }
        map.end()
    }
}

fn joined(pieces: &[Piece]) -> String {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Image(_) | Piece::Video(_) => None,
        })
        .collect();
    texts.join("\n\n")
}

struct Pieces<'a>(&'a [Piece]);

impl Serialize for Pieces<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Url<'a> {
            url: &'a str,
        }
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Block<'a> {
            Text { text: &'a str },
            ImageUrl { image_url: Url<'a> },
            VideoUrl { video_url: Url<'a> },
        }
        serializer.collect_seq(self.0.iter().map(|piece| match piece {
            Piece::Text(text) => Block::Text { text },
            Piece::Image(url) => Block::ImageUrl { image_url: Url { url } },
            Piece::Video(url) => Block::VideoUrl { video_url: Url { url } },
        }))
    }
}

struct Calls<'a>(&'a [ChatCall]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
        }
        serializer.collect_seq(self.0.iter().map(|call| Call {
            id: &call.id,
            kind: "function",
            function: Function { name: &call.name, arguments: &call.arguments },
        }))
    }
}

impl ReasoningBack {
    /// Whether the reasoning of an answer goes back, that of the run under way or of an earlier one.
    fn applies(self, current: bool) -> bool {
        match self {
            Self::CurrentRun => current,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: Vec<ChatMessage>) -> ChatRequest {
        ChatRequest {
            messages,
            tools: Arc::from([]),
            tool_choice: ToolChoice::Auto,
            max_tokens: 5,
            response_format: None,
            thinking: Thinking::Enabled { effort: None },
            provider: Some("alibaba".into()),
        }
    }

    fn rendered(request: &ChatRequest, open_router: bool, known: &Known) -> (Value, Sent) {
        let (bytes, sent) = body(request, "m", open_router, true, known);
        (serde_json::from_slice(&bytes).unwrap(), sent)
    }

    #[test]
    fn a_strict_server_gets_no_field_of_a_router() {
        let (json, _) =
            rendered(&request(vec![ChatMessage::User(vec![Piece::Text("hi".into())])]), false, &Known::default());
        assert_eq!(
            json,
            json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], "stream": true,
                   "stream_options": {"include_usage": true}})
        );
        let (json, sent) = rendered(&request(vec![]), true, &Known::default());
        assert_eq!(json["usage"], json!({"include": true}));
        assert_eq!(json["reasoning"], json!({"enabled": true}));
        assert_eq!(json["provider"], json!({"only": ["alibaba"]}));
        assert!(sent.provider && sent.reasoning && sent.usage_include);
    }

    #[test]
    fn an_answer_without_words_is_rendered_as_the_server_wants_it() {
        let call = ChatCall { id: "c".into(), name: "t".into(), arguments: "{}".into() };
        let messages = vec![ChatMessage::Assistant { text: None, calls: vec![call], reasoning: None, current: true }];
        for (style, wanted) in [
            (EmptyContent::LeftOut, None),
            (EmptyContent::EmptyText, Some(json!(""))),
            (EmptyContent::Null, Some(Value::Null)),
        ] {
            let known = Known { empty_content: style, ..Known::default() };
            let (json, sent) = rendered(&request(messages.clone()), false, &known);
            assert_eq!(json["messages"][0].get("content"), wanted.as_ref());
            assert!(sent.empty_content);
        }
    }

    #[test]
    fn reasoning_goes_back_in_the_form_it_came() {
        let call = ChatCall { id: "c".into(), name: "t".into(), arguments: "{}".into() };
        let with = |key: &str, details: Option<Value>, current| {
            vec![ChatMessage::Assistant {
                text: None,
                calls: vec![call.clone()],
                reasoning: Some(Reasoning { text: "why".into(), key: key.into(), details }),
                current,
            }]
        };
        let known = Known::default();
        let (json, _) = rendered(&request(with("reasoning_content", None, true)), false, &known);
        assert_eq!(json["messages"][0]["reasoning_content"], "why");
        let details = json!([{"type": "reasoning.text", "text": "why", "signature": "s"}]);
        let (json, _) = rendered(&request(with("reasoning_details", Some(details.clone()), true)), false, &known);
        assert_eq!(json["messages"][0]["reasoning_details"], details);
        assert!(json["messages"][0].get("reasoning").is_none());
        let (json, sent) = rendered(&request(with("reasoning", None, false)), false, &known);
        assert!(json["messages"][0].get("reasoning").is_none());
        assert!(sent.reasoning_known && !sent.reasoning_back);
    }

    #[test]
    fn all_instructions_go_to_the_front_where_only_one_is_allowed() {
        let messages = vec![
            ChatMessage::System("a".into()),
            ChatMessage::User(vec![Piece::Text("u".into()), Piece::Image("data:x".into())]),
            ChatMessage::System("b".into()),
        ];
        let (json, sent) = rendered(&request(messages.clone()), false, &Known::default());
        assert_eq!(json["messages"][2], json!({"role": "system", "content": "b"}));
        assert!(sent.inline_system);
        let known = Known { leading_system_only: true, ..Known::default() };
        let (json, sent) = rendered(&request(messages), false, &known);
        assert_eq!(json["messages"][0]["content"], "a\n\nb");
        assert_eq!(json["messages"].as_array().unwrap().len(), 2);
        assert_eq!(json["messages"][1]["content"][1], json!({"type": "image_url", "image_url": {"url": "data:x"}}));
        assert!(!sent.inline_system);
        assert_eq!((sent.images, sent.longest_url), (1, 6));
    }
}
