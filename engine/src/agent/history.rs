//! The stored conversation as the model gets it.
//!
//! Pure: from the records to [`Turn`]s whose media are still references. What every server needs holds here: each call
//! has exactly one result and all results stand right behind their calls, arguments are valid JSON, ids are unique, and
//! one user message follows another only as one. What stays of old media is decided here too, as a function of the whole
//! history, so that a prompt keeps its beginning from turn to turn (servers cache by it).

use std::collections::{HashMap, HashSet};

use super::catalogue::Modalities;
use super::wire::ChatCall;
use crate::ids::RunId;
use crate::store::records::{MediaRef, MessageBody, MessageRecord, Origin, Part, Reasoning, ToolCall};

/// A message of a request, its media still references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn {
    System(String),
    User(Vec<Part>),
    Assistant { text: Option<String>, calls: Vec<ChatCall>, reasoning: Option<Reasoning>, current: bool },
    Tool { call_id: String, text: String },
}

/// How much media a request may hold, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) max_videos: usize,
    pub(crate) max_images: usize,
    pub(crate) accepts: Modalities,
}

/// What the model is told in the place of a result that never came.
const UNANSWERED: &str = "this call has no result: the run ended before it was done";
/// Stands in the history from where the conversation was shortened.
const SHORTENED: &str = "[earlier media and tool results of this conversation were removed to fit the model; call a tool \
    again for what you need]";
/// Characters kept of a tool result that was shortened.
const SHORTENED_RESULT: usize = 800;
/// Of the whole video's frames, one in so many stays after shortening.
const THINNED: usize = 3;
/// Fewer context frames than this are not thinned.
const THIN_FROM: usize = 16;

/// The message that marks a shortening. Everything before it is sent in the short form from then on.
pub(crate) fn shortening() -> MessageBody {
    MessageBody::User { origin: Origin::Engine, parts: vec![Part::Text { text: SHORTENED.to_owned() }] }
}

fn is_shortening(body: &MessageBody) -> bool {
    matches!(body, MessageBody::User { origin: Origin::Engine, parts }
        if matches!(parts.as_slice(), [Part::Text { text }] if text == SHORTENED))
}

/// Whether a shortening now would remove anything.
pub(crate) fn can_shorten(history: &[MessageRecord], run: &RunId) -> bool {
    let already = history.iter().rposition(|record| is_shortening(&record.body)).map_or(0, |at| at + 1);
    let media = |parts: &[Part]| parts.iter().filter(|part| !matches!(part, Part::Text { .. })).count();
    history.iter().skip(already).any(|record| match &record.body {
        MessageBody::User { origin: Origin::ToolMedia, parts } => media(parts) > 0,
        MessageBody::User { origin: Origin::Context, parts } => media(parts) >= THIN_FROM,
        MessageBody::Tool { text, .. } => text.len() > SHORTENED_RESULT * 2 || record.run.as_ref() != Some(run),
        MessageBody::User { .. } | MessageBody::System { .. } | MessageBody::Assistant { .. } => false,
    })
}

/// Builds the messages behind the system prompt.
pub(crate) fn turns(history: &[MessageRecord], run: &RunId, retention: Retention) -> Vec<Turn> {
    let mut records: Vec<Kept> = history.iter().map(|record| Kept { record, parts: parts_of(&record.body) }).collect();
    shorten(&mut records);
    drop_unseen(&mut records, retention.accepts);
    drop_old_media(&mut records, retention);
    arrange(&records, run)
}

/// A record and what is left of its parts.
struct Kept<'a> {
    record: &'a MessageRecord,
    parts: Vec<Part>,
}

impl Kept<'_> {
    fn origin(&self) -> Option<Origin> {
        match &self.record.body {
            MessageBody::User { origin, .. } => Some(*origin),
            MessageBody::System { .. } | MessageBody::Assistant { .. } | MessageBody::Tool { .. } => None,
        }
    }
}

fn parts_of(body: &MessageBody) -> Vec<Part> {
    match body {
        MessageBody::User { parts, .. } => parts.clone(),
        MessageBody::System { .. } | MessageBody::Assistant { .. } | MessageBody::Tool { .. } => Vec::new(),
    }
}

/// Removes what a shortening removes: media of tools, most frames of the context, and the tool traffic of earlier runs,
/// whose questions and answers stay.
fn shorten(records: &mut Vec<Kept<'_>>) {
    let Some(mark) = records.iter().rposition(|kept| is_shortening(&kept.record.body)) else { return };
    let run = records[mark].record.run.clone();
    let mut index = 0;
    records.retain_mut(|kept| {
        let is_before = index < mark;
        index += 1;
        if !is_before {
            return true;
        }
        let is_earlier_run = kept.record.run != run;
        match &kept.record.body {
            MessageBody::User { origin: Origin::ToolMedia, .. } => false,
            MessageBody::User { origin: Origin::Context, .. } => {
                thin(&mut kept.parts);
                true
            }
            MessageBody::Assistant { text, calls, .. } => !is_earlier_run || calls.is_empty() || text.is_some(),
            MessageBody::Tool { .. } => !is_earlier_run,
            MessageBody::User { .. } | MessageBody::System { .. } => true,
        }
    });
}

/// Keeps each third picture, with its label.
fn thin(parts: &mut Vec<Part>) {
    let pictures = parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    if pictures < THIN_FROM {
        return;
    }
    let mut number = 0;
    remove_media(parts, |part| {
        let is_kept = number % THINNED == 0;
        number += 1;
        matches!(part, Part::Image { .. }) && !is_kept
    });
}

/// Removes media that `goes` picks, each with the text right before it, which is its label.
fn remove_media(parts: &mut Vec<Part>, mut goes: impl FnMut(&Part) -> bool) {
    let mut kept: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        let is_media = !matches!(part, Part::Text { .. });
        if is_media && goes(&part) {
            if matches!(kept.last(), Some(Part::Text { .. })) {
                kept.pop();
            }
        } else {
            kept.push(part);
        }
    }
    *parts = kept;
}

/// Puts a word in the place of media that `goes` picks: what the user wrote beside his own pictures is no label.
fn replace_media(parts: &mut [Part], mut goes: impl FnMut(&Part) -> bool, word: &str) {
    for part in parts {
        if goes(part) {
            *part = Part::Text { text: word.to_owned() };
        }
    }
}

/// Removes media of a kind that the model does not take. The user's own leave a word behind.
fn drop_unseen(records: &mut [Kept<'_>], accepts: Modalities) {
    let is_unseen = |part: &Part| match part {
        Part::Text { .. } => false,
        Part::Image { .. } => !accepts.image,
        Part::Video { .. } => !accepts.video,
    };
    for kept in records {
        if !kept.parts.iter().any(is_unseen) {
            continue;
        }
        if kept.origin() == Some(Origin::User) {
            replace_media(&mut kept.parts, is_unseen, "[a picture that this model cannot see]");
        } else {
            remove_media(&mut kept.parts, is_unseen);
        }
    }
}

/// Keeps media within the limits: first what is pinned (the context and the user's own), then the newest of the tools'.
/// Old media leave a quarter of the room at a time, so that most turns change nothing at the front of the prompt.
fn drop_old_media(records: &mut [Kept<'_>], retention: Retention) {
    for (limit, is_kind) in [
        (retention.max_videos, (|part: &Part| matches!(part, Part::Video { .. })) as fn(&Part) -> bool),
        (retention.max_images, |part: &Part| matches!(part, Part::Image { .. })),
    ] {
        let count = |kept: &Kept<'_>| kept.parts.iter().filter(|part| is_kind(part)).count();
        let of_tools = |kept: &Kept<'_>| kept.origin() == Some(Origin::ToolMedia);
        let pinned: usize = records.iter().filter(|kept| !of_tools(kept)).map(count).sum();
        // The newest pinned ones stay when even those are too many.
        let mut excess = pinned.saturating_sub(limit);
        for kept in records.iter_mut().filter(|kept| !of_tools(kept)) {
            drop_first(kept, is_kind, &mut excess);
        }
        let room = limit.saturating_sub(pinned);
        let mut evict = evicted(records.iter().filter(|kept| of_tools(kept)).map(count), room);
        for kept in records.iter_mut().filter(|kept| of_tools(kept)) {
            drop_first(kept, is_kind, &mut evict);
        }
    }
}

fn drop_first(kept: &mut Kept<'_>, is_kind: fn(&Part) -> bool, excess: &mut usize) {
    if *excess == 0 {
        return;
    }
    let goes = |part: &Part| {
        let goes = is_kind(part) && *excess > 0;
        *excess -= usize::from(goes);
        goes
    };
    if kept.origin() == Some(Origin::User) {
        replace_media(&mut kept.parts, goes, "[a picture that was removed to make room]");
    } else {
        remove_media(&mut kept.parts, goes);
    }
}

/// How many of the oldest go, when so many came with each message. Played from the beginning, so that it is the same for
/// the same history however often it is asked.
fn evicted(counts: impl Iterator<Item = usize>, room: usize) -> usize {
    let (mut total, mut gone) = (0_usize, 0_usize);
    for count in counts {
        total += count;
        if total - gone > room {
            // Three quarters stay, but never less than the newest message if there is room for it.
            let keep = (room - room / 4).max(count.min(room));
            gone = total - keep;
        }
    }
    gone
}

/// Puts seed and context to the front, results behind their calls, and neighbouring user messages together.
fn arrange(records: &[Kept<'_>], run: &RunId) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::with_capacity(records.len());
    let is_front = |kept: &Kept<'_>| matches!(kept.origin(), Some(Origin::Seed | Origin::Context));
    for kept in records.iter().filter(|kept| kept.origin() == Some(Origin::Seed)) {
        push_user(&mut turns, &kept.parts);
    }
    for kept in records.iter().filter(|kept| kept.origin() == Some(Origin::Context)) {
        push_user(&mut turns, &kept.parts);
    }
    let mark = records.iter().rposition(|kept| is_shortening(&kept.record.body));
    let mut results: HashMap<&str, (usize, &str)> = HashMap::new();
    for (index, kept) in records.iter().enumerate() {
        if let MessageBody::Tool { call_id, text, .. } = &kept.record.body {
            results.entry(call_id).or_insert((index, text));
        }
    }
    let mut seen: HashSet<String> = HashSet::new();
    for kept in records.iter().filter(|kept| !is_front(kept)) {
        match &kept.record.body {
            MessageBody::User { .. } => push_user(&mut turns, &kept.parts),
            MessageBody::System { text } => turns.push(Turn::System(text.clone())),
            MessageBody::Assistant { text, reasoning, calls } => {
                // Calls whose results were shortened away are gone with them.
                let calls: Vec<&ToolCall> =
                    if is_shortened_away(kept, records, mark) { Vec::new() } else { calls.iter().collect() };
                if calls.is_empty() && text.as_deref().is_none_or(|text| text.trim().is_empty()) {
                    continue;
                }
                let ids: Vec<String> = calls.iter().map(|call| unique(&call.call_id, &mut seen)).collect();
                turns.push(Turn::Assistant {
                    text: text.clone().filter(|text| !text.is_empty()),
                    calls: calls.iter().zip(&ids).map(|(call, id)| wire_call(call, id)).collect(),
                    reasoning: reasoning.clone(),
                    current: kept.record.run.as_ref() == Some(run),
                });
                for (call, id) in calls.into_iter().zip(ids) {
                    let (index, text) = results.get(call.call_id.as_str()).copied().unwrap_or((usize::MAX, UNANSWERED));
                    let is_cut = mark.is_some_and(|mark| index < mark);
                    turns
                        .push(Turn::Tool { call_id: id, text: if is_cut { shortened(text) } else { text.to_owned() } });
                }
            }
            // They stand behind their calls already.
            MessageBody::Tool { .. } => {}
        }
    }
    turns
}

fn is_shortened_away(kept: &Kept<'_>, records: &[Kept<'_>], mark: Option<usize>) -> bool {
    mark.is_some_and(|mark| {
        kept.record.index < records[mark].record.index && kept.record.run != records[mark].record.run
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHORTENED_RESULT) {
        Some((end, _)) => format!("{}\n[cut]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn wire_call(call: &ToolCall, id: &str) -> ChatCall {
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments).is_ok();
    ChatCall {
        id: id.to_owned(),
        name: call.name.clone(),
        arguments: if is_object { call.arguments.clone() } else { "{}".to_owned() },
    }
}

/// The id, or one made from it when an earlier call of the request has it.
fn unique(id: &str, seen: &mut HashSet<String>) -> String {
    let mut candidate = id.to_owned();
    let mut number = 2;
    while !seen.insert(candidate.clone()) {
        candidate = format!("{id}_{number}");
        number += 1;
    }
    candidate
}

fn push_user(turns: &mut Vec<Turn>, parts: &[Part]) {
    if parts.is_empty() {
        return;
    }
    match turns.last_mut() {
        Some(Turn::User(before)) => before.extend(parts.iter().cloned()),
        Some(Turn::System(_) | Turn::Assistant { .. } | Turn::Tool { .. }) | None => {
            turns.push(Turn::User(parts.to_vec()));
        }
    }
}

/// Ids of the calls of a history, so that new ones can be made to differ.
pub(crate) fn call_ids(history: &[MessageRecord]) -> HashSet<String> {
    history
        .iter()
        .filter_map(|record| match &record.body {
            MessageBody::Assistant { calls, .. } => Some(calls.iter().map(|call| call.call_id.clone())),
            MessageBody::User { .. } | MessageBody::System { .. } | MessageBody::Tool { .. } => None,
        })
        .flatten()
        .collect()
}

/// Media of some turns, for counting.
pub(crate) fn media(turns: &[Turn]) -> impl Iterator<Item = &MediaRef> {
    turns.iter().flat_map(|turn| {
        let parts = match turn {
            Turn::User(parts) => parts.as_slice(),
            Turn::System(_) | Turn::Assistant { .. } | Turn::Tool { .. } => &[],
        };
        parts.iter().filter_map(|part| match part {
            Part::Text { .. } => None,
            Part::Image { media } | Part::Video { media } => Some(media),
        })
    })
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
