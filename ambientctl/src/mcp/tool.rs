//! The tool `analyze_video`: what it is told, and what it says.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the tool is called.
pub(super) const NAME: &str = "analyze_video";

const DESCRIPTION: &str = "Answers a question about a video, with the times that the answer rests on. An agent cuts clips \
    and frames and looks at them, so an answer may take minutes. Name the video once, by `video_path` or `video_id`; for \
    further questions about it give the `session_id` of the first answer, and the agent remembers what was said.";

/// What a call is given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    pub(super) question: String,
    #[serde(default)]
    pub(super) video_id: Option<String>,
    #[serde(default)]
    pub(super) video_path: Option<String>,
    #[serde(default)]
    pub(super) session_id: Option<String>,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A video of this machine, or of YouTube.
    Path(String),
    /// A video that the engine has.
    Video(String),
    /// A session, and the video that it must be about if one is named.
    Session { id: String, video_id: Option<String> },
}

impl Arguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// What is wrong with them, in words for the model that wrote them.
    pub(super) fn read(arguments: Option<JsonObject>) -> Result<Self, String> {
        let mut read: Self = serde_json::from_value(Value::Object(arguments.unwrap_or_default()))
            .map_err(|error| format!("the arguments do not fit: {error}"))?;
        if read.question.trim().is_empty() {
            return Err("`question` is empty".to_owned());
        }
        // Models fill in what they do not need.
        for given in [&mut read.video_id, &mut read.video_path, &mut read.session_id] {
            given.take_if(|text| text.trim().is_empty());
        }
        Ok(read)
    }

    /// What the call is about.
    ///
    /// # Errors
    /// When that is not clear.
    pub(super) fn subject(&self) -> Result<Subject, String> {
        match (self.session_id.clone(), self.video_id.clone(), self.video_path.clone()) {
            (Some(_), _, Some(_)) => {
                Err("a session keeps its video: give `session_id` without `video_path`, or leave \
                 `session_id` out to ask about another video"
                    .to_owned())
            }
            (Some(id), video_id, None) => Ok(Subject::Session { id, video_id }),
            (None, Some(_), Some(_)) => Err("give `video_id` or `video_path`, not both".to_owned()),
            (None, Some(id), None) => Ok(Subject::Video(id)),
            (None, None, Some(path)) => Ok(Subject::Path(path)),
            (None, None, None) => {
                Err("which video? give `video_path`, `video_id`, or the `session_id` of an earlier answer".to_owned())
            }
        }
    }
}

/// The tool as clients see it.
pub(super) fn tool() -> Tool {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let input = json!({
        "type": "object",
        "properties": {
            "question": text("What is to be answered."),
            "video_id": text("The id of a video that was asked about before, `vid_` and 16 hex digits."),
            "video_path": text("The path of a video on the machine where this server runs, or the address of a video on YouTube."),
            "session_id": text("The session of an earlier answer, to ask a further question in it."),
        },
        "required": ["question"],
        "additionalProperties": false,
    });
    let output = json!({
        "type": "object",
        "properties": {
            "answer": text("The answer."),
            "session_id": text("For further questions."),
            "video_id": text("The video."),
        },
        "required": ["answer", "session_id", "video_id"],
    });
    Tool::new(NAME, DESCRIPTION, object(input))
        .with_title("Ask about a video")
        .with_raw_output_schema(object(output))
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(true))
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(schema) => Arc::new(schema),
        other => unreachable!("a schema of ours is an object, not {other}"),
    }
}

/// An answer, with what a further question needs: once for models, once for programs.
pub(super) fn answered(answer: &str, session_id: &str, video_id: &str) -> CallToolResult {
    let content = vec![ContentBlock::text(answer), ContentBlock::text(ids(session_id, video_id))];
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(json!({ "answer": answer, "session_id": session_id, "video_id": video_id }));
    result
}

/// No answer, and why; with the session where there is one, since another question in it may go better.
pub(super) fn not_answered(why: &str, session: Option<(&str, &str)>) -> CallToolResult {
    let mut content = vec![ContentBlock::text(why)];
    content.extend(session.map(|(session_id, video_id)| ContentBlock::text(ids(session_id, video_id))));
    CallToolResult::error(content)
}

fn ids(session_id: &str, video_id: &str) -> String {
    format!("session_id: {session_id}\nvideo_id: {video_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(arguments: Value) -> Result<Subject, String> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        Arguments::read(Some(arguments))?.subject()
    }

    #[test]
    fn a_call_is_about_one_thing() {
        let session =
            |video_id: Option<&str>| Subject::Session { id: "ses_1".to_owned(), video_id: video_id.map(str::to_owned) };
        for (arguments, expected) in [
            (json!({"question": "q", "video_path": "/a.mp4"}), Subject::Path("/a.mp4".to_owned())),
            (json!({"question": "q", "video_id": "vid_1", "session_id": " "}), Subject::Video("vid_1".to_owned())),
            (json!({"question": "q", "session_id": "ses_1", "video_path": null}), session(None)),
            (json!({"question": "q", "session_id": "ses_1", "video_id": "vid_1"}), session(Some("vid_1"))),
        ] {
            assert_eq!(subject(arguments.clone()), Ok(expected), "for {arguments}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_call_is_said() {
        for (arguments, expected) in [
            (json!({"question": " ", "video_path": "/a.mp4"}), "`question` is empty"),
            (json!({"video_path": "/a.mp4"}), "missing field `question`"),
            (json!({"question": "q"}), "which video?"),
            (json!({"question": "q", "video_id": "vid_1", "video_path": "/a"}), "not both"),
            (json!({"question": "q", "session_id": "ses_1", "video_path": "/a"}), "keeps its video"),
            (json!({"question": "q", "video": "/a"}), "unknown field `video`"),
            (json!({"question": 5, "video_id": "vid_1"}), "invalid type"),
        ] {
            let told = subject(arguments.clone()).unwrap_err();
            assert!(told.contains(expected), "for {arguments}: {told}");
        }
    }

    #[test]
    fn the_schemas_hold_what_is_read_and_said() {
        let tool = tool();
        let names: Vec<&String> = tool.input_schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["question", "video_id", "video_path", "session_id"]);
        let said = answered("a door", "ses_1", "vid_1").structured_content.unwrap();
        for name in tool.output_schema.unwrap()["required"].as_array().unwrap() {
            assert!(said[name.as_str().unwrap()].is_string(), "{name}");
        }
    }
}
