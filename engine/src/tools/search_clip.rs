//! `search_clip`: a question about a window, answered by the video model.

use serde_json::json;

use super::call::{Call, Failure};
use super::citations::rewrite;
use super::input::Input;
use super::toolbox::Spec;
use super::watch::{self, Look, between, not_empty};
use super::window::LONGEST_WINDOW;
use super::{Arguments, ToolOutput, prompts, schema};

pub(crate) const NAME: &str = "search_clip";
const SOURCE: &str = "tool:search_clip";

pub(crate) fn spec() -> Spec {
    let more =
        json!({"query": schema::text("What you want to know about the window."), "video_path": schema::video_path()});
    Spec {
        name: NAME,
        description: prompts::SEARCH_CLIP,
        parameters: schema::object(schema::window(more), &["start_time", "end_time", "query"]),
    }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let query = input.text("query");
    let (start, end) = (input.seconds("start_time"), input.seconds("end_time"));
    let path = input.optional_text("video_path");
    let (query, (start, end)) = input.finish(query.zip(start.zip(end)))?;
    let target = call.target(path);
    let window = call.window(&target, start, end, LONGEST_WINDOW)?;

    let question = format!("query: {query}");
    let look = Look { source: SOURCE, system: prompts::search, question: &question, target: &target, window: &window };
    let seen = watch::look(call, &look).await?;
    not_empty(&seen.text, &seen.usage)?;
    let text = rewrite(&found(&seen.text), seen.timeline);
    Ok(ToolOutput { text: window.noted(text), usage: seen.usage, ..ToolOutput::default() })
}

/// What was noted and what was answered, as far as the model kept them apart.
fn found(text: &str) -> String {
    let overview = between(text, "overview").filter(|overview| !overview.is_empty());
    let rest = || text.split_once("</overview>").map_or(text, |(_, rest)| rest).trim();
    let answer = between(text, "answer").unwrap_or_else(rest);
    match overview {
        Some(overview) if overview != answer => format!("Agent Reasoning: {overview}\nFinal Response: {answer}"),
        Some(_) | None => format!("Final Response: {answer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_and_answer_are_kept_apart_where_the_model_did() {
        for (said, told) in [
            ("<overview>a</overview>\n<answer>b</answer>", "Agent Reasoning: a\nFinal Response: b"),
            ("<overview>a</overview> b", "Agent Reasoning: a\nFinal Response: b"),
            ("<answer>b", "Final Response: b"),
            ("b", "Final Response: b"),
            ("<overview></overview><answer>b</answer>", "Final Response: b"),
        ] {
            assert_eq!(found(said), told, "{said}");
        }
    }
}
