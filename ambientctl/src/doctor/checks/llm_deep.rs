//! Asks a model short questions, to see what it takes: tools, an image, a video.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::llm::{Asked, Role, falls_back, no_tools, request};
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::chain;

/// Two seconds of video, and a small picture: what they show does not matter.
const VIDEO: &[u8] = include_bytes!("../sample.mp4");
const IMAGE: &[u8] = include_bytes!("../sample.png");
/// How long an answer may be, in tokens.
const MOST_TOKENS: u32 = 16;
/// How long a model may take; each answer is a word.
const ANSWER_LIMIT: std::time::Duration = std::time::Duration::from_mins(1);
/// How much of a refusal is shown.
const SHOWN_CHARACTERS: usize = 200;

/// How a question went.
enum Answer {
    Taken,
    /// The server refused it for what it is.
    Refused(String),
    /// Something else was in the way.
    Unclear(String),
}

pub(super) async fn look(context: &Context, asked: &Asked, sink: &Sink) {
    let role = asked.role;
    match role {
        Role::Agent => match ask(context, asked, json!("Answer with the word ok."), true).await {
            Answer::Taken => {
                sink.put(Finding::ok("llm.tools", format!("the agent model `{}` takes tools", asked.model)));
            }
            Answer::Refused(told) => sink.put(no_tools(&context.target, asked, &told)),
            Answer::Unclear(told) => sink.put(unclear(context, asked, &told)),
        },
        Role::Video => {
            let (image, video) = futures::join!(
                ask(context, asked, content("image_url", "image/png", IMAGE), false),
                ask(context, asked, content("video_url", "video/mp4", VIDEO), false),
            );
            seeing(context, asked, image, video, sink);
        }
    }
}

fn seeing(context: &Context, asked: &Asked, image: Answer, video: Answer, sink: &Sink) {
    match (image, video) {
        (_, Answer::Taken) => {
            sink.put(Finding::ok("llm.video", format!("the video model `{}` takes videos", asked.model)));
        }
        (Answer::Taken, Answer::Refused(_)) => sink.put(falls_back(asked)),
        (Answer::Refused(told), Answer::Refused(_)) => sink.put(Finding::failure(
            "llm.image",
            format!("the video model `{}` takes neither videos nor images: {told}", asked.model),
            "it cannot see anything of a clip",
            Remedy::run(context.target.command(&format!("config set {}", asked.role.model_setting()))),
        )),
        (Answer::Unclear(told), _) | (_, Answer::Unclear(told)) => sink.put(unclear(context, asked, &told)),
    }
}

fn unclear(context: &Context, asked: &Asked, told: &str) -> Finding {
    Finding::failure(
        "llm.answer",
        format!("the {} `{}` did not answer: {told}", asked.role.name(), asked.model),
        "runs ask it in the same way, and fail too",
        Remedy::run(context.target.doctor("--deep --only llm")),
    )
}

/// A question with a picture or a video in it, as the engine puts it.
fn content(kind: &str, media_type: &str, bytes: &[u8]) -> Value {
    let url = format!("data:{media_type};base64,{}", STANDARD.encode(bytes));
    json!([{ "type": "text", "text": "Answer with the word ok." }, { "type": kind, kind: { "url": url } }])
}

async fn ask(context: &Context, asked: &Asked, content: Value, with_tools: bool) -> Answer {
    let answer = send(context, asked, &content, with_tools, "max_tokens").await;
    match answer {
        // Newer models of one maker want the limit under another name.
        Answer::Refused(told) if told.contains("max_completion_tokens") => {
            send(context, asked, &content, with_tools, "max_completion_tokens").await
        }
        answer => answer,
    }
}

async fn send(context: &Context, asked: &Asked, content: &Value, with_tools: bool, limit: &str) -> Answer {
    let mut body = json!({
        "model": asked.model,
        "messages": [{ "role": "user", "content": content }],
        limit: MOST_TOKENS,
        "stream": false,
    });
    if with_tools {
        body["tools"] = json!([{
            "type": "function",
            "function": {
                "name": "look",
                "description": "Looks at a moment of the video.",
                "parameters": { "type": "object", "properties": { "seconds": { "type": "number" } } },
            },
        }]);
    }
    let request = request(context, asked, reqwest::Method::POST, "chat/completions").timeout(ANSWER_LIMIT);
    let answer = match request.json(&body).send().await {
        Ok(answer) => answer,
        Err(error) => return Answer::Unclear(chain(&error.without_url())),
    };
    let status = answer.status();
    let body = answer.json::<Value>().await.unwrap_or(Value::Null);
    // Some servers answer 200 with an error in the body.
    let message = body.pointer("/error/message").or_else(|| body.get("message")).and_then(Value::as_str);
    if status.is_success() && body.get("error").is_none_or(Value::is_null) {
        return Answer::Taken;
    }
    let shown: String = message.unwrap_or_default().chars().take(SHOWN_CHARACTERS).collect();
    let told = format!("{} {shown}", status.as_u16()).trim().to_owned();
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::UNPROCESSABLE_ENTITY
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::NOT_IMPLEMENTED
        | StatusCode::OK => Answer::Refused(told),
        _ => Answer::Unclear(told),
    }
}
