//! Reads the chunks of a chat-completions answer, leniently, into one [`Completion`].
//!
//! Servers leave out, repeat and reorder what the protocol promises. The rules for tool calls: an id that is known goes
//! on with its call, a new id opens a call, an index without an id goes to that index's call, and a piece with neither
//! goes to the call that is open. No content is ever guessed: what cannot be read is counted, and an answer with a hole
//! in it is a broken answer.

use serde_json::Value;

use super::error::ModelError;
use crate::store::records::Reasoning;

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// Its words.
    pub text: String,
    /// How the model came to it.
    pub reasoning: Option<Reasoning>,
    /// The calls, in order.
    pub calls: Vec<RawCall>,
    /// Why it ended, as sent.
    pub finish: Option<String>,
    /// Token counts, as sent.
    pub usage: Option<Value>,
    /// The model refused in so many words.
    pub refused: bool,
}

/// A call as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawCall {
    /// The server's id, if it gave one.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// Text that should be JSON.
    pub arguments: String,
}

/// What one chunk added that a reader may see at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Words.
    pub text: String,
    /// Some reasoning came.
    pub thought: bool,
}

/// An answer that is still coming.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    host: String,
    completion: Completion,
    open: Vec<OpenCall>,
    reasoning_key: Option<&'static str>,
    reasoning_text: String,
    details: Vec<Value>,
    unreadable: usize,
    done: bool,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    call: RawCall,
}

impl Assembly {
    pub(crate) fn new(host: String) -> Self {
        Self { host, ..Self::default() }
    }

    /// Whether the server said that this was all.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Characters that came so far, for an estimate of what a cut answer cost.
    pub(crate) fn characters(&self) -> usize {
        let calls: usize = self.open.iter().map(|open| open.call.name.len() + open.call.arguments.len()).sum();
        self.completion.text.len() + self.reasoning_text.len() + calls
    }

    /// Takes the data of one event.
    ///
    /// # Errors
    /// When the server says in it that it failed.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Added, ModelError> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Added::default());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(Added::default());
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            self.unreadable += 1;
            return Ok(Added::default());
        };
        self.take(&chunk)
    }

    /// Takes a chunk, or a whole answer: servers that do not stream send one with `message` in the place of `delta`.
    pub(crate) fn take(&mut self, chunk: &Value) -> Result<Added, ModelError> {
        if let Some(error) = chunk.get("error").filter(|error| !is_nothing(error)) {
            return Err(ModelError::in_band(&self.host, error));
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.completion.usage = Some(usage.clone());
        }
        let mut added = Added::default();
        let choice = chunk.get("choices").and_then(Value::as_array).and_then(|choices| choices.first());
        let Some(choice) = choice else { return Ok(added) };
        if let Some(error) = choice.get("error").filter(|error| !is_nothing(error)) {
            return Err(ModelError::in_band(&self.host, error));
        }
        let delta = choice.get("delta").filter(|delta| delta.is_object()).or_else(|| choice.get("message"));
        if let Some(delta) = delta {
            self.take_delta(delta, &mut added);
        }
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str).filter(|finish| !finish.is_empty()) {
            if finish == "error" {
                let reason = serde_json::json!({"message": "the server ended the answer with `error`"});
                return Err(ModelError::in_band(&self.host, &reason));
            }
            self.completion.finish = Some(finish.to_owned());
        }
        Ok(added)
    }

    fn take_delta(&mut self, delta: &Value, added: &mut Added) {
        // One delta may hold all three at once.
        added.thought = self.take_reasoning(delta);
        let text = text_of(delta.get("content"));
        if !text.is_empty() {
            self.completion.text.push_str(&text);
            added.text = text;
        }
        let refusal = text_of(delta.get("refusal"));
        if !refusal.is_empty() {
            self.completion.refused = true;
            self.completion.text.push_str(&refusal);
            added.text.push_str(&refusal);
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.take_call(piece);
        }
    }

    /// Reasoning comes under three names, sometimes under two of them at once with the same words.
    fn take_reasoning(&mut self, delta: &Value) -> bool {
        let mut came = false;
        let details = delta.get("reasoning_details").and_then(Value::as_array).filter(|details| !details.is_empty());
        if let Some(details) = details {
            came = true;
            for detail in details {
                self.take_detail(detail);
            }
        }
        let named = ["reasoning_content", "reasoning"].into_iter().find_map(|key| {
            let text = delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())?;
            Some((key, text))
        });
        if let Some((key, text)) = named {
            came = true;
            self.reasoning_key.get_or_insert(key);
            self.reasoning_text.push_str(text);
        } else if let Some(details) = details {
            for detail in details {
                let text = ["text", "summary"].into_iter().find_map(|key| detail.get(key).and_then(Value::as_str));
                self.reasoning_text.push_str(text.unwrap_or_default());
            }
        }
        came
    }

    /// Details of one index belong together: texts are joined, the rest is the last that came.
    fn take_detail(&mut self, detail: &Value) {
        let same = |known: &Value| {
            detail.get("index").is_some_and(|index| !index.is_null())
                && known.get("index") == detail.get("index")
                && known.get("type") == detail.get("type")
        };
        let Some(known) = self.details.iter_mut().find(|known| same(known)).and_then(Value::as_object_mut) else {
            self.details.push(detail.clone());
            return;
        };
        for (key, value) in detail.as_object().into_iter().flatten() {
            match (known.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if matches!(key.as_str(), "text" | "summary" | "data") =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                (_, value) => {
                    known.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn take_call(&mut self, piece: &Value) {
        let id = match piece.get("id") {
            Some(Value::String(id)) if !id.is_empty() => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            Some(_) | None => None,
        };
        let index = piece.get("index").and_then(Value::as_u64);
        let function = piece.get("function").unwrap_or(piece);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let says_more = !matches!(function.get("arguments"), None | Some(Value::Null)) && function["arguments"] != "";
        let at = self.place(id.as_deref(), index, name, says_more);
        let at = at.unwrap_or_else(|| {
            self.open.push(OpenCall { index, call: RawCall { id: id.clone(), ..RawCall::default() } });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        if open.call.id.is_none() {
            open.call.id = id;
        }
        if open.index.is_none() {
            open.index = index;
        }
        if open.call.name != name && open.call.arguments.is_empty() {
            open.call.name.push_str(name);
        }
        match function.get("arguments") {
            Some(Value::String(text)) => open.call.arguments.push_str(text),
            // Some servers send the object itself, at once.
            Some(object @ (Value::Object(_) | Value::Array(_))) => open.call.arguments = object.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => {}
        }
    }

    /// Which open call a piece goes to; `None` opens a new one.
    fn place(&self, id: Option<&str>, index: Option<u64>, name: &str, says_more: bool) -> Option<usize> {
        // A piece that names its tool when the call before it is whole begins another call.
        let begins_anew = |open: &OpenCall| {
            !name.is_empty()
                && !open.call.name.is_empty()
                && (says_more || name != open.call.name)
                && is_whole(&open.call.arguments)
        };
        if let Some(id) = id {
            let at = self.open.iter().rposition(|open| open.call.id.as_deref() == Some(id));
            if let Some(at) = at {
                // Some servers give every call the same id: only the index tells them apart.
                let other_index = index.is_some() && self.open[at].index.is_some() && index != self.open[at].index;
                let is_another = other_index && !name.is_empty() && is_whole(&self.open[at].call.arguments);
                return (!is_another).then_some(at);
            }
            // The id may come after the first piece of its call.
            return self.open.iter().rposition(|open| {
                open.call.id.is_none() && open.index.is_some() && open.index == index && !begins_anew(open)
            });
        }
        if let Some(index) = index {
            let at = self.open.iter().rposition(|open| open.index == Some(index));
            if let Some(at) = at {
                return (!begins_anew(&self.open[at])).then_some(at);
            }
            if !name.is_empty() {
                return None;
            }
        }
        let last = self.open.len().checked_sub(1)?;
        (!begins_anew(&self.open[last])).then_some(last)
    }

    /// The whole answer, once no more comes.
    ///
    /// # Errors
    /// When it broke off, or holds nothing.
    pub(crate) fn finish(mut self) -> Result<Completion, ModelError> {
        let broken = |reason: &str| ModelError::Broken { host: self.host.clone(), reason: reason.to_owned() };
        self.open.retain(|open| !open.call.name.is_empty());
        let holds_something = !self.completion.text.trim().is_empty() || !self.open.is_empty();
        if self.unreadable > 0 && (self.completion.finish.is_none() || !holds_something) {
            return Err(broken("a piece of it was no JSON"));
        }
        if self.completion.finish.is_none() && !(self.done && holds_something) {
            return Err(broken("it ended without a finish reason"));
        }
        if !holds_something && self.completion.finish.as_deref() != Some("content_filter") {
            let finish = self.completion.finish.unwrap_or_else(|| "none".to_owned());
            return Err(ModelError::Empty { host: self.host, finish });
        }
        let details = (!self.details.is_empty()).then_some(Value::Array(self.details));
        if details.is_some() || !self.reasoning_text.is_empty() {
            let key = if details.is_some() { "reasoning_details" } else { self.reasoning_key.unwrap_or("reasoning") };
            self.completion.reasoning = Some(Reasoning { text: self.reasoning_text, key: key.to_owned(), details });
        }
        self.completion.calls = self.open.into_iter().map(|open| open.call).collect();
        Ok(self.completion)
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// Text as a string, or as a list of text parts.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

/// A call's arguments as an object: an empty text and `null` are an object without fields, and an object that was
/// quoted once too often is unwrapped.
///
/// # Errors
/// What is wrong with them, for the model.
pub fn parse_arguments(text: &str) -> Result<serde_json::Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(serde_json::Map::new());
    }
    let value = serde_json::from_str::<Value>(text).map_err(|fault| fault.to_string())?;
    let value = match value {
        Value::String(inner) => serde_json::from_str(&inner).unwrap_or(Value::String(inner)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value,
    };
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(serde_json::Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("the arguments have to be a JSON object".to_owned())
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
