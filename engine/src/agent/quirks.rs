//! What servers of the same protocol disagree on, and what is learned from their refusals: the one place for it.
//!
//! A server's no is remembered for its address and model, so that the next request is right at once. Everything here is
//! pure: `learn` looks at an error and at what was sent, and says what to change; the client sends again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::ModelError;
use super::wire::Sent;

/// How an assistant message that only calls tools shows its missing words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyContent {
    /// `content` is left out.
    #[default]
    LeftOut,
    /// `""`.
    EmptyText,
    /// `null`.
    Null,
}

/// Which reasoning goes back to the server, always with the calls that it led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningBack {
    /// That of the run under way: what servers need to go on after a call, and no more.
    #[default]
    CurrentRun,
    /// That of earlier runs too.
    Always,
    /// None.
    Never,
}

/// Optional fields that a server has refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of independent yes-or-no facts")]
pub struct Refused {
    pub stream_options: bool,
    pub usage_include: bool,
    pub reasoning: bool,
    pub reasoning_effort: bool,
    pub provider: bool,
    pub tool_choice: bool,
    pub response_format: bool,
    pub template_kwargs: bool,
    /// Video parts, in any form.
    pub video: bool,
    /// Pictures.
    pub images: bool,
}

/// What is known of a server and model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub refused: Refused,
    pub empty_content: EmptyContent,
    pub reasoning_back: ReasoningBack,
    /// Instructions are allowed as the first message only.
    pub leading_system_only: bool,
    /// `max_completion_tokens` instead of `max_tokens`.
    pub completion_tokens_field: bool,
    /// Characters that the address of one medium may have.
    pub url_limit: Option<usize>,
    /// Bytes that a body may have.
    pub body_limit: Option<usize>,
}

/// What an error taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// The same conversation, rendered by this, may pass.
    Render(Known),
    /// The media has to change first: this is known now.
    Media(Known),
    /// Nothing.
    Nothing,
}

/// Words of a server that does not know a field.
const UNKNOWN_FIELD_WORDS: &[&str] = &[
    "unknown",
    "unrecognized",
    "unrecognised",
    "unexpected",
    "unsupported",
    "not supported",
    "does not support",
    "not permitted",
    "not allowed",
    "extra",
    "additional propert",
    "invalid",
    "no such",
    "cannot be used",
    "not available",
];

/// A body limit that was met is cut to this part of what was refused, when the server does not name its limit.
const SHRINK: usize = 3;

/// No limit is learned below these: a server that refuses so little refuses something else.
const LEAST_URL_LIMIT: usize = 4_000;
const LEAST_BODY_LIMIT: usize = 32_000;

/// Looks at a refusal.
pub(crate) fn learn(error: &ModelError, sent: &Sent, known: &Known) -> Lesson {
    let Some(status) = error.status() else { return Lesson::Nothing };
    let words = error.words();
    if error.is_overflow() {
        return Lesson::Nothing;
    }
    if let Some(lesson) = learn_size(error, status, &words, sent, known) {
        return lesson;
    }
    let is_refusal = matches!(status, 400 | 404 | 415 | 422 | 501) || (status == 500 && words.contains("video"));
    if !is_refusal {
        return Lesson::Nothing;
    }
    if let Some(next) = learn_field(&words, sent, known) {
        return Lesson::Render(next);
    }
    if let Some(next) = learn_media(&words, sent, known) {
        return Lesson::Media(next);
    }
    if let Some(next) = learn_shape(status, &words, sent, known) {
        return Lesson::Render(next);
    }
    let is_unknown_model = words.contains("model") && (words.contains("not found") || words.contains("not exist"));
    // A server that refuses a video often says so in no words that could be known beforehand.
    if sent.videos > 0 && !is_unknown_model {
        return Lesson::Media(refusing(known, |refused| refused.video = true));
    }
    Lesson::Nothing
}

fn refusing(known: &Known, change: impl FnOnce(&mut Refused)) -> Known {
    let mut next = *known;
    change(&mut next.refused);
    next
}

fn learn_size(error: &ModelError, status: u16, words: &str, sent: &Sent, known: &Known) -> Option<Lesson> {
    if !error.is_too_large() || sent.media_chars == 0 || sent.longest_url < LEAST_URL_LIMIT {
        return None;
    }
    let is_about_url = matches!(status, 400 | 404 | 414 | 422);
    // A body that is mostly words does not get small by smaller pictures.
    if !is_about_url && sent.media_chars * 2 < sent.body_bytes {
        return None;
    }
    let named = named_number(words);
    let speaks_of_url = ["url", "uri", "characters", "string"].iter().any(|word| words.contains(word));
    let mut next = *known;
    if is_about_url && speaks_of_url {
        let limit = named.filter(|limit| (LEAST_URL_LIMIT..sent.longest_url).contains(limit));
        next.url_limit = Some(limit.unwrap_or(sent.longest_url / SHRINK).max(LEAST_URL_LIMIT));
    } else {
        let limit = named.filter(|limit| (LEAST_BODY_LIMIT..sent.body_bytes).contains(limit));
        next.body_limit = Some(limit.unwrap_or(sent.body_bytes / SHRINK).max(LEAST_BODY_LIMIT));
    }
    (next != *known).then_some(Lesson::Media(next))
}

/// The largest whole number of four digits or more in a text; commas and underscores may group it.
fn named_number(words: &str) -> Option<usize> {
    words
        .split(|character: char| !(character.is_ascii_digit() || matches!(character, ',' | '_')))
        .map(|run| run.chars().filter(char::is_ascii_digit).collect::<String>())
        .filter(|digits| (4..=12).contains(&digits.len()))
        .filter_map(|digits| digits.parse().ok())
        .max()
}

fn learn_field(words: &str, sent: &Sent, known: &Known) -> Option<Known> {
    if words.contains("max_completion_tokens") && !known.completion_tokens_field {
        return Some(Known { completion_tokens_field: true, ..*known });
    }
    if !UNKNOWN_FIELD_WORDS.iter().any(|word| words.contains(word)) {
        return None;
    }
    let names = |name: &str| holds_word(words, name);
    if sent.stream_options && (names("stream_options") || names("include_usage")) {
        return Some(refusing(known, |refused| refused.stream_options = true));
    }
    if sent.response_format && (names("response_format") || names("json_schema") || names("require_parameters")) {
        return Some(refusing(known, |refused| refused.response_format = true));
    }
    if sent.tool_choice && names("tool_choice") {
        return Some(refusing(known, |refused| refused.tool_choice = true));
    }
    if sent.reasoning_effort && names("reasoning_effort") {
        return Some(refusing(known, |refused| refused.reasoning_effort = true));
    }
    if sent.template_kwargs && (names("chat_template_kwargs") || names("enable_thinking")) {
        return Some(refusing(known, |refused| refused.template_kwargs = true));
    }
    if sent.usage_include && names("usage") {
        return Some(refusing(known, |refused| refused.usage_include = true));
    }
    if sent.provider && names("provider") {
        return Some(refusing(known, |refused| refused.provider = true));
    }
    // `reasoning` is both a field of the request and one of the answers that go back.
    let of_messages = ["reasoning_content", "reasoning_details"].iter().any(|name| names(name));
    if sent.reasoning && names("reasoning") && !of_messages {
        return Some(refusing(known, |refused| refused.reasoning = true));
    }
    None
}

fn learn_media(words: &str, sent: &Sent, known: &Known) -> Option<Known> {
    let speaks_of_video = words.contains("video");
    if sent.videos > 0 && (speaks_of_video || sent.images == 0 && speaks_of_parts(words)) {
        return Some(refusing(known, |refused| refused.video = true));
    }
    let speaks_of_images = ["image", "vision", "multimodal", "modalit"].iter().any(|word| words.contains(word));
    let refuses = ["support", "not allowed", "not accept", "not a multimodal", "modalit", "no endpoints"];
    if sent.images > 0
        && !speaks_of_video
        && speaks_of_images
        && refuses.iter().any(|word| words.contains(word))
        && !is_about_one_medium(words)
    {
        return Some(refusing(known, |refused| refused.images = true));
    }
    None
}

/// Whether a server complains of the very file, not of its kind: then nothing is learned of the server.
pub(crate) fn is_about_one_medium(words: &str) -> bool {
    const ITS_FAULTS: &[&str] =
        &["decode", "corrupt", "following formats", "valid image", "too small", "too long", "resolution", "duration"];
    ITS_FAULTS.iter().any(|word| words.contains(word))
}

fn speaks_of_parts(words: &str) -> bool {
    ["content type", "content part", "part type", "unknown type", "data url", "base64", "modalit", "media"]
        .iter()
        .any(|word| words.contains(word))
}

fn learn_shape(status: u16, words: &str, sent: &Sent, known: &Known) -> Option<Known> {
    if sent.inline_system && words.contains("system") {
        return Some(Known { leading_system_only: true, ..*known });
    }
    if sent.reasoning_known && words.contains("reasoning") {
        let wants_it = ["must", "missing", "required", "passed back", "need"].iter().any(|word| words.contains(word));
        let next = match (wants_it, known.reasoning_back) {
            (true, ReasoningBack::CurrentRun | ReasoningBack::Never) => Some(ReasoningBack::Always),
            (false, ReasoningBack::CurrentRun | ReasoningBack::Always) if sent.reasoning_back => {
                Some(ReasoningBack::Never)
            }
            (true, ReasoningBack::Always) | (false, _) => None,
        };
        if let Some(reasoning_back) = next {
            return Some(Known { reasoning_back, ..*known });
        }
    }
    // Servers word this in every way, so each style is tried once before the error counts.
    if sent.empty_content && matches!(status, 400 | 422) {
        let next = match known.empty_content {
            EmptyContent::LeftOut => Some(EmptyContent::EmptyText),
            EmptyContent::EmptyText => Some(EmptyContent::Null),
            EmptyContent::Null => None,
        };
        return next.map(|empty_content| Known { empty_content, ..*known });
    }
    None
}

/// Whether `text` holds `word` with no letter, digit or underscore beside it.
fn holds_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(start, found)| {
        let before = text.get(..start).and_then(|head| head.chars().next_back());
        let after = text.get(start + found.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Servers remembered at once; an agent brings its own address, so a stranger could fill memory without this.
const REMEMBERED: usize = 1024;

/// What is known of each server. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<HashMap<String, Known>>>);

impl Memory {
    pub(crate) fn recall(&self, key: &str) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }

    pub(crate) fn note(&self, key: &str, known: Known) {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if servers.len() >= REMEMBERED && !servers.contains_key(key) {
            // Which one goes hardly matters: it is learned again by one refusal.
            if let Some(any) = servers.keys().next().cloned() {
                servers.remove(&any);
            }
        }
        servers.insert(key.to_owned(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, message: &str) -> ModelError {
        ModelError::Status { status, host: "h".into(), message: message.into(), code: None, retry_after: None }
    }

    #[test]
    fn a_field_that_a_server_does_not_know_is_left_out() {
        let sent = Sent { stream_options: true, usage_include: true, ..Sent::default() };
        let Lesson::Render(next) =
            learn(&refusal(400, "Unrecognized request argument supplied: stream_options"), &sent, &Known::default())
        else {
            panic!("nothing learned");
        };
        assert!(next.refused.stream_options && !next.refused.usage_include);
        assert_eq!(learn(&refusal(400, "fake error 400"), &sent, &Known::default()), Lesson::Nothing);
        assert_eq!(learn(&refusal(401, "unknown field stream_options"), &sent, &Known::default()), Lesson::Nothing);
    }

    #[test]
    fn max_tokens_gives_way_to_its_successor() {
        let error = refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.");
        let Lesson::Render(next) = learn(&error, &Sent::default(), &Known::default()) else {
            panic!("nothing learned")
        };
        assert!(next.completion_tokens_field);
    }

    #[test]
    fn each_style_of_missing_words_is_tried_once() {
        let sent = Sent { empty_content: true, ..Sent::default() };
        let mut known = Known::default();
        let mut styles = Vec::new();
        while let Lesson::Render(next) = learn(&refusal(400, "content is required"), &sent, &known) {
            styles.push(next.empty_content);
            known = next;
        }
        assert_eq!(styles, [EmptyContent::EmptyText, EmptyContent::Null]);
    }

    #[test]
    fn a_refused_video_is_remembered_whatever_the_words() {
        let sent = Sent { videos: 1, media_chars: 10, longest_url: 10, ..Sent::default() };
        for words in ["unknown content part type: video_url", "invalid request", "expected raw base64"] {
            let Lesson::Media(next) = learn(&refusal(400, words), &sent, &Known::default()) else {
                panic!("nothing learned from {words}");
            };
            assert!(next.refused.video && !next.refused.images, "{words}");
        }
        let Lesson::Media(next) = learn(
            &refusal(404, "No endpoints found that support image input"),
            &Sent { images: 3, ..Sent::default() },
            &Known::default(),
        ) else {
            panic!("nothing learned");
        };
        assert!(next.refused.images);
    }

    #[test]
    fn one_bad_picture_says_nothing_of_the_server() {
        let sent = Sent { images: 1, media_chars: 100, longest_url: 100, ..Sent::default() };
        for words in [
            "You uploaded an unsupported image. Please make sure your image has one of the following formats: png",
            "could not decode image",
            "invalid image data",
        ] {
            assert_eq!(learn(&refusal(400, words), &sent, &Known::default()), Lesson::Nothing, "{words}");
        }
        let sent = Sent { videos: 1, ..sent };
        assert_eq!(learn(&refusal(404, "The model `x` does not exist"), &sent, &Known::default()), Lesson::Nothing);
    }

    #[test]
    fn a_limit_is_taken_from_the_words_or_from_what_was_refused() {
        let sent =
            Sent { images: 50, media_chars: 4_900_000, longest_url: 100_000, body_bytes: 5_000_000, ..Sent::default() };
        let Lesson::Media(next) =
            learn(&refusal(400, "Invalid image URI: over 65,520 characters"), &sent, &Known::default())
        else {
            panic!("nothing learned");
        };
        assert_eq!(next.url_limit, Some(65_520));
        let Lesson::Media(next) = learn(&refusal(413, "Request Entity Too Large"), &sent, &Known::default()) else {
            panic!("nothing learned");
        };
        assert_eq!(next.body_limit, Some(1_666_666));
        let mostly_words =
            Sent { images: 1, media_chars: 50_000, longest_url: 50_000, body_bytes: 5_000_000, ..Sent::default() };
        assert_eq!(learn(&refusal(413, "Too Large"), &mostly_words, &Known::default()), Lesson::Nothing);
        let text_only = Sent { body_bytes: 5_000_000, ..Sent::default() };
        assert_eq!(learn(&refusal(413, "Too Large"), &text_only, &Known::default()), Lesson::Nothing);
    }

    #[test]
    fn reasoning_is_sent_back_to_those_that_ask_for_it() {
        let sent = Sent { reasoning_known: true, ..Sent::default() };
        let error = refusal(400, "The `reasoning_content` in the thinking mode must be passed back to the API.");
        let Lesson::Render(next) = learn(&error, &sent, &Known::default()) else { panic!("nothing learned") };
        assert_eq!(next.reasoning_back, ReasoningBack::Always);
        let sent = Sent { reasoning_known: true, reasoning_back: true, ..Sent::default() };
        let error = refusal(400, "messages.1.reasoning: extra inputs are not permitted");
        let Lesson::Render(next) = learn(&error, &sent, &Known::default()) else { panic!("nothing learned") };
        assert_eq!(next.reasoning_back, ReasoningBack::Never);
    }

    #[test]
    fn words_are_whole_words() {
        assert!(holds_word("unknown field `usage`", "usage"));
        assert!(!holds_word("unknown field include_usage", "usage"));
        assert!(!holds_word("usages", "usage"));
    }

    #[test]
    fn memory_does_not_grow_without_bound() {
        let memory = Memory::default();
        for number in 0..REMEMBERED + 10 {
            memory.note(&number.to_string(), Known::default());
        }
        assert_eq!(memory.0.lock().unwrap().len(), REMEMBERED);
    }
}
