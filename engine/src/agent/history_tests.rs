//! What the model gets of a conversation, whatever happened in it.

use super::*;
use crate::ids::EventId;

fn run(number: u8) -> RunId {
    format!("run_{number:016x}").parse().unwrap()
}

struct Story {
    records: Vec<MessageRecord>,
    run: RunId,
}

impl Story {
    fn new() -> Self {
        Self { records: Vec::new(), run: run(1) }
    }

    fn add(&mut self, body: MessageBody) -> &mut Self {
        self.records.push(MessageRecord { index: self.records.len() as u64, run: Some(self.run.clone()), body });
        self
    }

    fn user(&mut self, origin: Origin, parts: Vec<Part>) -> &mut Self {
        self.add(MessageBody::User { origin, parts })
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.user(Origin::User, vec![words(text)])
    }

    fn calls(&mut self, ids: &[&str]) -> &mut Self {
        let calls = ids.iter().map(|id| ToolCall {
            call_id: (*id).into(),
            event_id: EventId::generate(),
            name: "look".into(),
            arguments: "{}".into(),
        });
        self.add(MessageBody::Assistant { text: None, reasoning: None, calls: calls.collect() })
    }

    fn answers(&mut self, text: &str) -> &mut Self {
        self.add(MessageBody::Assistant { text: Some(text.into()), reasoning: None, calls: vec![] })
    }

    fn result(&mut self, id: &str, text: &str) -> &mut Self {
        let tool_use = EventId::generate();
        self.add(MessageBody::Tool {
            call_id: id.into(),
            tool_use,
            name: "look".into(),
            text: text.into(),
            is_error: false,
        })
    }

    fn turns(&self, retention: Retention) -> Vec<Turn> {
        turns(&self.records, &self.run, retention)
    }
}

const PLENTY: Retention = Retention { max_videos: 100, max_images: 1000, accepts: Modalities::UNKNOWN };

fn words(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn picture(number: usize) -> MediaRef {
    MediaRef::Link { url: format!("p{number}") }
}

fn frames(numbers: impl Iterator<Item = usize>) -> Vec<Part> {
    numbers.flat_map(|number| [words(&format!("label {number}")), Part::Image { media: picture(number) }]).collect()
}

fn clip(number: usize) -> Vec<Part> {
    vec![words(&format!("clip {number}")), Part::Video { media: MediaRef::Link { url: format!("v{number}") } }]
}

fn urls(turns: &[Turn]) -> Vec<String> {
    media(turns)
        .map(|media| match media {
            MediaRef::Link { url } => url.clone(),
            MediaRef::Local { .. } | MediaRef::Object { .. } | MediaRef::Sent { .. } => {
                unreachable!("not in these tests")
            }
        })
        .collect()
}

/// What every server needs.
fn check(turns: &[Turn]) {
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let mut last_was_user = false;
    for turn in turns {
        if let Turn::Tool { call_id, .. } = turn {
            assert!(!open.is_empty() && open.remove(0) == *call_id, "a result without its call: {turns:?}");
        } else {
            assert!(open.is_empty(), "an open call: {turns:?}");
        }
        if let Turn::Assistant { calls, text, .. } = turn {
            assert!(text.is_some() || !calls.is_empty());
            for call in calls {
                assert!(ids.insert(call.id.clone()), "an id twice");
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments).unwrap();
                open.push(call.id.clone());
            }
        }
        let is_user = matches!(turn, Turn::User(_));
        assert!(!(is_user && last_was_user), "two user messages in a row");
        last_was_user = is_user;
    }
    assert!(open.is_empty());
}

#[test]
fn results_stand_behind_their_calls_and_media_behind_them() {
    let mut story = Story::new();
    story.says("q").calls(&["a", "b"]).result("b", "rb").user(Origin::ToolMedia, frames(0..2)).result("a", "ra");
    let turns = story.turns(PLENTY);
    check(&turns);
    assert!(matches!(&turns[2], Turn::Tool { text, .. } if text == "ra"));
    assert!(matches!(&turns[3], Turn::Tool { text, .. } if text == "rb"));
    assert!(matches!(&turns[4], Turn::User(parts) if parts.len() == 4));
}

#[test]
fn a_call_without_a_result_gets_one() {
    let mut story = Story::new();
    story.says("q").calls(&["a", "b"]).result("a", "ra").says("next");
    let turns = story.turns(PLENTY);
    check(&turns);
    assert!(matches!(&turns[3], Turn::Tool { text, .. } if text == UNANSWERED));
}

#[test]
fn a_result_without_a_call_is_left_out() {
    let mut story = Story::new();
    story.says("q").result("stray", "x").answers("a");
    check(&story.turns(PLENTY));
}

#[test]
fn the_seed_and_the_context_come_first() {
    let mut story = Story::new();
    story.says("q").user(Origin::Seed, vec![words("seed")]).user(Origin::Context, frames(0..2)).answers("a").says("q2");
    let turns = story.turns(PLENTY);
    check(&turns);
    let Turn::User(first) = &turns[0] else { panic!("{turns:?}") };
    assert_eq!(first[0], words("seed"));
    assert_eq!(first.last().unwrap(), &words("q"));
}

#[test]
fn old_clips_go_with_their_labels_and_the_context_stays() {
    let mut story = Story::new();
    story.says("q").user(Origin::Context, clip(99));
    for number in 0..30 {
        let id = format!("c{number}");
        story.calls(&[&id]).result(&id, "r").user(Origin::ToolMedia, clip(number));
    }
    let turns = story.turns(Retention { max_videos: 18, ..PLENTY });
    check(&turns);
    let kept = urls(&turns);
    assert!(kept.len() <= 18 && kept.len() >= 13, "{kept:?}");
    assert_eq!(kept.first().map(String::as_str), Some("v99"));
    assert_eq!(kept.last().map(String::as_str), Some("v29"));
    let labels = turns.iter().filter(|turn| matches!(turn, Turn::User(parts) if parts.iter().any(|part| matches!(part, Part::Text { text } if text.starts_with("clip"))))).count();
    assert_eq!(labels, kept.len());
}

#[test]
fn most_turns_change_nothing_at_the_front() {
    let mut story = Story::new();
    story.says("q");
    let (mut before, mut changes, mut rounds): (Vec<String>, usize, usize) = (Vec::new(), 0, 0);
    for number in 0..100 {
        let id = format!("c{number}");
        story.calls(&[&id]).result(&id, "r").user(Origin::ToolMedia, frames(number * 10..number * 10 + 10));
        let now = urls(&story.turns(Retention { max_images: 100, ..PLENTY }));
        assert!(now.len() <= 100);
        assert_eq!(now.last(), Some(&format!("p{}", number * 10 + 9)));
        changes += usize::from(!now.starts_with(&before));
        rounds += 1;
        before = now;
    }
    assert!(changes * 2 <= rounds, "{changes} of {rounds}");
}

#[test]
fn the_image_cap_is_on_the_total() {
    let mut story = Story::new();
    story.says("q").user(Origin::Context, frames(0..80));
    story.calls(&["a"]).result("a", "r").user(Origin::ToolMedia, frames(100..150));
    let kept = urls(&story.turns(Retention { max_images: 100, ..PLENTY }));
    assert!(kept.len() <= 100);
    assert_eq!(kept.iter().filter(|url| url.len() < 4).count(), 80);
    let kept = urls(&story.turns(Retention { max_images: 50, ..PLENTY }));
    assert_eq!(kept.len(), 50);
}

#[test]
fn a_model_without_eyes_gets_no_media_and_a_word_for_the_users_own() {
    let mut story = Story::new();
    story.user(Origin::User, vec![words("look"), Part::Image { media: picture(0) }]).calls(&["a"]).result("a", "r");
    story.user(Origin::ToolMedia, [clip(1), frames(2..4)].concat());
    let turns = story.turns(Retention { accepts: Modalities::TEXT, ..PLENTY });
    check(&turns);
    assert_eq!(media(&turns).count(), 0);
    assert!(matches!(&turns[0], Turn::User(parts) if parts.len() == 2));
    assert_eq!(turns.len(), 3);
    let video_only = story.turns(Retention { accepts: Modalities { image: false, ..Modalities::UNKNOWN }, ..PLENTY });
    assert_eq!(urls(&video_only), ["v1"]);
}

#[test]
fn ids_that_a_server_repeats_are_made_unique() {
    let mut story = Story::new();
    story.says("q").calls(&["x"]).result("x", "1").calls(&["x"]).answers("done");
    check(&story.turns(PLENTY));
}

#[test]
fn a_shortened_conversation_keeps_questions_and_answers() {
    let mut story = Story::new();
    story.user(Origin::Seed, vec![words("seed")]).user(Origin::Context, frames(0..30)).says("q1").calls(&["a"]);
    story.result("a", "old result").user(Origin::ToolMedia, clip(1)).answers("a1");
    story.run = run(2);
    story.says("q2").calls(&["b"]).result("b", &"long ".repeat(1000)).user(Origin::ToolMedia, clip(2));
    assert!(can_shorten(&story.records, &run(2)));
    let long = story.turns(PLENTY);
    story.add(shortening());
    story.calls(&["c"]).result("c", "new").user(Origin::ToolMedia, clip(3));
    let short = story.turns(PLENTY);
    check(&long);
    check(&short);
    assert_eq!(urls(&short).len(), 11, "ten of thirty frames and the new clip");
    let text = format!("{short:?}");
    for kept in ["q1", "a1", "q2", "seed", "[cut]", "new", "were removed"] {
        assert!(text.contains(kept), "{kept}");
    }
    assert!(!text.contains("old result") && !text.contains("clip 2"));
    assert_eq!(short, story.turns(PLENTY));
}

#[test]
fn what_is_short_already_cannot_be_shortened() {
    let mut story = Story::new();
    story.says("q");
    assert!(!can_shorten(&story.records, &run(1)));
    story.calls(&["a"]).result("a", "short");
    assert!(!can_shorten(&story.records, &run(1)));
    story.user(Origin::ToolMedia, clip(1));
    assert!(can_shorten(&story.records, &run(1)));
    story.add(shortening());
    assert!(!can_shorten(&story.records, &run(1)));
}

proptest::proptest! {
    #[test]
    fn any_history_makes_a_request_that_servers_take(steps in proptest::collection::vec(0u8..9, 0..40), limit in 0usize..40) {
        let mut story = Story::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                0 => story.says("q"),
                1 => story.calls(&["x", "y"]),
                2 => story.result("x", "r"),
                3 => story.result("y", "r"),
                4 => story.user(Origin::ToolMedia, frames(number * 10..number * 10 + 7)),
                5 => story.answers("a"),
                6 => story.add(shortening()),
                7 => { story.run = run(u8::try_from(number).unwrap_or(0)); story.says("new run") }
                _ => story.user(Origin::Context, frames(500..520)),
            };
        }
        let turns = story.turns(Retention { max_images: limit, max_videos: limit, accepts: Modalities::UNKNOWN });
        check(&turns);
        proptest::prop_assert!(media(&turns).count() <= limit);
    }
}
