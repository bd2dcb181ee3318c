//! What holds over any sequence of changes, allowed or not, by clocks that do not agree.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::events::body::ContentBlock;
use crate::ids::{AgentId, EnvironmentId, SessionId, VideoId};
use crate::store::records::{AgentModel, AgentRecord, Mode, Origin, Part, PendingKind, UsageShare};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap()
}

fn session(state: SessionState) -> SessionRecord {
    let agent = AgentRecord {
        id: AgentId::built_in_agent(),
        version: 1,
        name: String::new(),
        description: None,
        model: AgentModel { id: String::new(), speed: None, effort: None },
        system: None,
        tools: Vec::new(),
        metadata: Metadata::new(),
        endpoint: None,
        created_at: at(0),
        updated_at: at(0),
        archived_at: None,
    };
    SessionRecord {
        id: SessionId::generate(),
        state,
        title: None,
        metadata: Metadata::new(),
        agent,
        mode: Mode::Agent,
        environment_id: EnvironmentId::built_in(),
        video_id: VideoId::of_hash("0123456789abcdef").unwrap(),
        max_turns: 1,
        sandbox: SandboxRecord { backend: "inprocess".to_owned(), status: "ready".to_owned(), id: None },
        usage: UsageTotals::default(),
        active_micros: 0,
        run_began_at: None,
        fence: 0,
        interrupted_fence: 0,
        last_seq: 0,
        run_start_seq: 0,
        read_seq: 0,
        message_count: 0,
        pending_actions: Vec::new(),
        last_event_at: at(0),
        created_at: at(0),
        updated_at: at(0),
        archived_at: None,
    }
}

fn said(text: &str) -> EventBody {
    EventBody::AgentMessage { content: vec![ContentBlock::text(text)] }
}

fn waiting_call() -> PendingAction {
    PendingAction {
        event_id: EventId::generate(),
        call_id: "call".to_owned(),
        name: "lookup".to_owned(),
        input: serde_json::Map::new(),
        kind: PendingKind::CustomResult,
        answer: None,
    }
}

/// A try to change a session, before it is known how the session stands then.
#[derive(Clone, Debug)]
struct Try {
    guard: u8,
    to: u8,
    events: usize,
    messages: usize,
    calls: Option<usize>,
    extras: Vec<Extra>,
    now: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Extra {
    AnswerFirst,
    AnswerStranger,
    Interrupt,
    Archive,
}

fn extra() -> impl Strategy<Value = Extra> {
    prop_oneof![
        6 => Just(Extra::AnswerFirst),
        6 => Just(Extra::Interrupt),
        1 => Just(Extra::AnswerStranger),
        1 => Just(Extra::Archive),
    ]
}

prop_compose! {
    fn a_try()(
        (guard, to, events, messages) in (0..9_u8, 0..7_u8, 0..4_usize, 0..3_usize),
        calls in proptest::option::weighted(0.2, 0..3_usize),
        extras in vec(extra(), 0..2),
        now in -50..1000_i64,
    ) -> Try {
        Try { guard, to, events, messages, calls, extras, now }
    }
}

impl Try {
    fn change(&self, session: &SessionRecord) -> SessionChange {
        let own = match &session.state {
            SessionState::Running { run, fence } => Guard::Run { run: run.clone(), fence: *fence },
            _ => Guard::Run { run: RunId::generate(), fence: session.fence },
        };
        let mut change = SessionChange::new(match self.guard {
            0 | 1 => Guard::Always,
            2 => Guard::Open,
            3 => Guard::Ready,
            4 => Guard::Pending,
            5 => own,
            6 => Guard::Run { run: RunId::generate(), fence: session.fence },
            7 => Guard::NotRunning,
            _ => Guard::Running,
        });
        change.to = match self.to {
            0..=2 => None,
            3 => Some(Move::Run(RunId::generate())),
            4 => Some(Move::RunOnceAnswered(RunId::generate())),
            5 => Some(Move::Idle),
            _ => Some(Move::Terminated("broken".to_owned())),
        };
        for n in 0..self.events {
            change.event(said(&n.to_string()));
        }
        change.messages = (0..self.messages).map(|n| MessageBody::System { text: n.to_string() }).collect();
        change.pending_actions = self.calls.map(|count| (0..count).map(|_| waiting_call()).collect());
        let wants = |extra| self.extras.contains(&extra);
        if wants(Extra::AnswerFirst)
            && let Some(action) = session.pending_actions.first()
        {
            change.answers.push((action.event_id.clone(), ActionAnswer::Allowed));
        }
        if wants(Extra::AnswerStranger) {
            change.answers.push((EventId::generate(), ActionAnswer::Allowed));
        }
        (change.interrupt, change.archive) = (wants(Extra::Interrupt), wants(Extra::Archive));
        change
    }
}

/// What has to be true of a session between a change and the one before it.
fn check_step(before: &SessionRecord, wanted: &SessionChange, changed: &Changed) -> Result<(), TestCaseError> {
    let after = &changed.session;
    let numbers: Vec<u64> = changed.events.iter().map(|event| event.seq).collect();
    prop_assert_eq!(numbers, (before.last_seq + 1..=after.last_seq).collect::<Vec<_>>());
    let indexes: Vec<u64> = changed.messages.iter().map(|message| message.index).collect();
    prop_assert_eq!(indexes, (before.message_count..after.message_count).collect::<Vec<_>>());
    let ids: Vec<&EventId> = changed.events.iter().map(|event| &event.id).collect();
    prop_assert_eq!(ids, wanted.events.iter().map(|event| &event.id).collect::<Vec<_>>());
    prop_assert!(changed.events.iter().all(|event| event.at >= before.last_event_at && event.session_id == before.id));

    prop_assert!(after.last_event_at >= before.last_event_at);
    prop_assert!(after.updated_at >= before.updated_at);
    prop_assert!(after.active_micros >= before.active_micros);
    prop_assert!(after.interrupted_fence <= after.fence);
    prop_assert!(before.archived_at.is_none() || after.archived_at == before.archived_at);
    prop_assert_eq!(after.run_began_at.is_some(), matches!(after.state, SessionState::Running { .. }));

    if after.state == before.state {
        prop_assert_eq!((after.fence, after.run_start_seq), (before.fence, before.run_start_seq));
    } else {
        prop_assert!(before.state.may_become(&after.state), "{:?} became {:?}", before.state, after.state);
    }
    if let SessionState::Running { fence, .. } = &after.state
        && after.state != before.state
    {
        prop_assert_eq!((*fence, after.fence), (before.fence + 1, before.fence + 1));
        prop_assert_eq!(after.run_start_seq, before.last_seq + 1);
        prop_assert_eq!(after.usage.runs, before.usage.runs + 1);
    }
    let parts = |record: &SessionRecord| {
        (record.id.clone(), record.created_at, record.agent.clone(), record.read_seq, record.video_id.clone())
    };
    prop_assert_eq!(parts(after), parts(before));
    Ok(())
}

proptest! {
    #[test]
    fn any_sequence_of_changes_keeps_the_log_whole(boots in any::<bool>(), tries in vec(a_try(), 1..60)) {
        let start = if boots { SessionState::Pending { since: at(0) } } else { SessionState::Idle };
        let mut standing = session(start);
        let mut log: Vec<EventRecord> = Vec::new();
        let mut messages: Vec<MessageRecord> = Vec::new();
        for wanted in &tries {
            let change = wanted.change(&standing);
            match apply(standing.clone(), change.clone(), at(wanted.now)) {
                Err(refused) => prop_assert_eq!(&*refused, &standing),
                Ok(changed) => {
                    check_step(&standing, &change, &changed)?;
                    log.extend(changed.events);
                    messages.extend(changed.messages);
                    standing = changed.session;
                }
            }
        }
        let numbers: Vec<u64> = log.iter().map(|event| event.seq).collect();
        prop_assert_eq!(numbers, (1..=standing.last_seq).collect::<Vec<_>>());
        prop_assert!(log.is_sorted_by_key(|event| event.at));
        let indexes: Vec<u64> = messages.iter().map(|message| message.index).collect();
        prop_assert_eq!(indexes, (0..standing.message_count).collect::<Vec<_>>());
    }

    /// However the tries come, a session that is over takes no move and no run.
    #[test]
    fn nothing_moves_a_terminated_session(tries in vec(a_try(), 1..30)) {
        let mut standing = session(SessionState::Terminated { error: "over".to_owned() });
        for wanted in &tries {
            let change = wanted.change(&standing);
            if let Ok(changed) = apply(standing.clone(), change, at(wanted.now)) {
                standing = changed.session;
            }
            prop_assert_eq!(&standing.state, &SessionState::Terminated { error: "over".to_owned() });
        }
    }

    #[test]
    fn no_nul_gets_through(text in "[a\0\\\\u0ü\"]{0,12}") {
        let mut change = SessionChange::new(Guard::Always);
        change.event(said(&text));
        let input = serde_json::Map::from_iter([(text.clone(), serde_json::Value::from(text.clone()))]);
        change.event(EventBody::AgentCustomToolUse { name: "lookup".to_owned(), input });
        change.messages =
            vec![MessageBody::User { origin: Origin::User, parts: vec![Part::Text { text: text.clone() }] }];
        let changed = apply(session(SessionState::Idle), change, at(1)).unwrap();
        let clean = text.replace('\0', "\u{fffd}");
        prop_assert_eq!(&changed.events[0].body, &said(&clean));
        let input = serde_json::Map::from_iter([(clean.clone(), serde_json::Value::from(clean.clone()))]);
        prop_assert_eq!(&changed.events[1].body, &EventBody::AgentCustomToolUse { name: "lookup".to_owned(), input });
        let expected = MessageBody::User { origin: Origin::User, parts: vec![Part::Text { text: clean }] };
        prop_assert_eq!(&changed.messages[0].body, &expected);
    }
}

#[test]
fn a_guard_lets_its_states_through_and_no_other() {
    let run = RunId::generate();
    let states = [
        SessionState::Pending { since: at(0) },
        SessionState::Idle,
        SessionState::Running { run: run.clone(), fence: 3 },
        SessionState::Terminated { error: "x".to_owned() },
    ];
    let check = |guard: Guard, open: [bool; 4], archived: [bool; 4]| {
        for (n, state) in states.iter().enumerate() {
            let mut standing = session(state.clone());
            assert_eq!(holds(&standing, &guard), open[n], "{guard:?} on {state:?}");
            standing.archived_at = Some(at(1));
            assert_eq!(holds(&standing, &guard), archived[n], "{guard:?} on an archived {state:?}");
        }
    };
    check(Guard::Always, [true; 4], [true; 4]);
    check(Guard::Open, [true, true, true, false], [false; 4]);
    check(Guard::Ready, [true, true, false, false], [false; 4]);
    check(Guard::Pending, [true, false, false, false], [true, false, false, false]);
    check(Guard::NotRunning, [true, true, false, true], [true, true, false, true]);
    check(Guard::Running, [false, false, true, false], [false, false, true, false]);
    check(Guard::Run { run: run.clone(), fence: 3 }, [false, false, true, false], [false, false, true, false]);
    check(Guard::Run { run, fence: 2 }, [false; 4], [false; 4]);
    check(Guard::Run { run: RunId::generate(), fence: 3 }, [false; 4], [false; 4]);
}

#[test]
fn a_run_counts_its_time_and_its_number() {
    let mut start = SessionChange::new(Guard::Ready);
    start.to = Some(Move::Run(RunId::generate()));
    start.event(said("go"));
    let running = apply(session(SessionState::Idle), start, at(100)).unwrap().session;
    assert_eq!((running.fence, running.run_start_seq, running.run_began_at), (1, 1, Some(at(100))));

    let mut end = SessionChange::new(Guard::Running);
    end.to = Some(Move::Idle);
    // The clock of the engine that ends it is behind: no time is taken away.
    let idle = apply(running.clone(), end.clone(), at(40)).unwrap().session;
    assert_eq!((idle.active_micros, idle.run_began_at), (0, None));
    let idle = apply(running, end, at(350)).unwrap().session;
    assert_eq!((idle.active_micros, idle.fence, idle.usage.runs), (250, 1, 1));
}

#[test]
fn a_run_waits_until_the_last_call_is_answered() {
    let mut standing = session(SessionState::Idle);
    standing.pending_actions = vec![waiting_call(), waiting_call()];
    let answer = |session: &SessionRecord, n: usize| {
        let mut change = SessionChange::new(Guard::Ready);
        change.to = Some(Move::RunOnceAnswered(RunId::generate()));
        change.answers.push((session.pending_actions[n].event_id.clone(), ActionAnswer::Allowed));
        change
    };
    let change = answer(&standing, 1);
    let half = apply(standing, change, at(1)).unwrap().session;
    assert_eq!(half.state, SessionState::Idle);
    assert_eq!(half.pending_actions[1].answer, Some(ActionAnswer::Allowed));
    let twice = answer(&half, 1);
    assert_eq!(*apply(half.clone(), twice, at(2)).unwrap_err(), half, "an answer is given once");
    let last = answer(&half, 0);
    let running = apply(half, last, at(3)).unwrap().session;
    assert!(matches!(running.state, SessionState::Running { fence: 1, .. }));
}

#[test]
fn an_interrupt_names_the_run_under_way() {
    let mut standing = session(SessionState::Running { run: RunId::generate(), fence: 7 });
    (standing.fence, standing.run_began_at) = (7, Some(at(0)));
    let mut change = SessionChange::new(Guard::Running);
    change.interrupt = true;
    assert_eq!(apply(standing, change, at(1)).unwrap().session.interrupted_fence, 7);
}

#[test]
fn usage_adds_up_by_source_and_model() {
    let share = UsageShare { input_tokens: 1, output_tokens: 2, cost: 0.5, requests: 1 };
    let mut total = UsageTotals::default();
    for source in ["agent", "tool:focus_clip", "agent"] {
        let mut more =
            UsageTotals { input_tokens: 1, output_tokens: 2, cost: 0.5, requests: 1, ..UsageTotals::default() };
        more.by_source.insert(source.to_owned(), share.clone());
        more.by_model.insert("m".to_owned(), share.clone());
        total.add(&more);
    }
    assert_eq!((total.input_tokens, total.output_tokens, total.requests), (3, 6, 3));
    assert_eq!((total.by_source["agent"].requests, total.by_source["tool:focus_clip"].requests), (2, 1));
    assert_eq!((total.by_model["m"].requests, total.by_model["m"].input_tokens), (3, 3));
}
