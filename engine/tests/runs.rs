//! Runs, from the message that begins them to the idle that ends them, in every way they can end.

mod support {
    pub(crate) mod backend;
    #[expect(dead_code, reason = "runs are told from what the store has, not from streams")]
    pub(crate) mod world;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ambient_engine::agent::{RunContext, RunOutcome};
use ambient_engine::broker::{Heard, Signal};
use ambient_engine::events::body::{
    Confirmation, ContentBlock, EventBody, FailureKind, Permission, RetryStatus, SessionFailure, StopReason,
};
use ambient_engine::ids::EventId;
use ambient_engine::sessions::state::SessionState;
use ambient_engine::sessions::supervise::Runner;
use ambient_engine::sessions::wishes::SessionError;
use ambient_engine::sessions::writer::RunWriteError;
use ambient_engine::store::records::{ActionAnswer, EventRecord, MessageBody, PendingAction, PendingKind, ToolCall};
use serde_json::Map;
use support::world::{PATIENCE, World, answer, assemble, message, types, world};
use tokio::sync::{Barrier, Semaphore};

async fn answers(context: RunContext) -> Result<RunOutcome, RunWriteError> {
    context.writer.event(answer("here it is")).await?;
    Ok(RunOutcome::Answered)
}

/// Announces a call and waits in it until it is told to stop.
async fn hangs_in_a_call(context: RunContext) -> Result<RunOutcome, RunWriteError> {
    call(&context, "slow").await?;
    context.stop.cancelled().await;
    Ok(RunOutcome::Interrupted)
}

/// Stores an assistant message with one call, and its event.
async fn call(context: &RunContext, name: &str) -> Result<EventId, RunWriteError> {
    let mut change = context.writer.begin();
    let event = change.event(EventBody::AgentToolUse {
        name: name.to_owned(),
        input: Map::new(),
        evaluated_permission: Permission::Allow,
    });
    change.messages.push(MessageBody::Assistant {
        text: None,
        reasoning: None,
        calls: vec![ToolCall {
            call_id: "call_1".to_owned(),
            event_id: event.clone(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
        }],
    });
    context.writer.commit(change).await?;
    Ok(event)
}

fn stop_reason(events: &[EventRecord]) -> Option<&StopReason> {
    events.iter().rev().find_map(|event| match &event.body {
        EventBody::StatusIdle { stop_reason, .. } => Some(stop_reason),
        _ => None,
    })
}

fn failures(events: &[EventRecord]) -> Vec<&SessionFailure> {
    events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SessionError { error } => Some(error),
            _ => None,
        })
        .collect()
}

/// Every announced call has exactly one result behind it, in events and in history.
async fn assert_no_open_call(world: &World, id: &ambient_engine::ids::SessionId) {
    let events = world.events(id).await.expect("the session is there");
    for (place, event) in events.iter().enumerate() {
        if matches!(event.body, EventBody::AgentToolUse { .. }) {
            let results = events[place..]
                .iter()
                .filter(|later| matches!(&later.body, EventBody::AgentToolResult { tool_use_id, .. } if *tool_use_id == event.id))
                .count();
            assert_eq!(results, 1, "results of {}", event.id);
        }
    }
    let history = world.store.messages(id, 0).await.expect("the session is there");
    let calls: usize = history
        .iter()
        .map(|message| match &message.body {
            MessageBody::Assistant { calls, .. } => calls.len(),
            _ => 0,
        })
        .sum();
    let results = history.iter().filter(|message| matches!(message.body, MessageBody::Tool { .. })).count();
    assert_eq!(calls, results);
}

#[tokio::test]
async fn an_answer_ends_with_idle() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let sent = world.send(&id, vec![message("what is it?")]).await.unwrap();
    assert_eq!(types(&sent), ["user.message"]);
    let session = world.settled(&id).await.unwrap();
    assert_eq!(session.state, SessionState::Idle);
    let events = world.events(&id).await.unwrap();
    assert_eq!(
        types(&events),
        ["user.message", "session.status_running", "agent.message", "session.usage", "session.status_idle"]
    );
    assert_eq!(events[0].id, sent[0].id);
    assert_eq!(stop_reason(&events), Some(&StopReason::EndTurn));
}

#[tokio::test]
async fn of_eight_messages_at_once_one_begins_a_run() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let world = Arc::new(
        world(move |context| {
            let gate = Arc::clone(&waits);
            async move {
                let _permit = gate.acquire().await;
                answers(context).await
            }
        })
        .await
        .unwrap(),
    );
    let id = world.session().await.unwrap();
    let start = Arc::new(Barrier::new(8));
    let mut sends = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (world, id, start) = (Arc::clone(&world), id.clone(), Arc::clone(&start));
        sends.spawn(async move {
            start.wait().await;
            world.send(&id, vec![message(&format!("number {number}"))]).await
        });
    }
    let results = sends.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, SessionError::RunInFlight), "{error}");
    }
    gate.add_permits(8);
    world.settled(&id).await.unwrap();
    let events = world.events(&id).await.unwrap();
    assert_eq!(events.iter().filter(|event| matches!(event.body, EventBody::UserMessage { .. })).count(), 1);
}

#[tokio::test]
async fn the_next_message_may_follow_the_idle_event_at_once() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    for turn in 0..25 {
        world.send(&id, vec![message("again")]).await.unwrap_or_else(|error| panic!("turn {turn}: {error}"));
        world.settled(&id).await.unwrap();
    }
}

#[tokio::test]
async fn who_is_told_of_the_idle_event_finds_the_lease_given_back() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    for _ in 0..10 {
        let mut signals = world.broker.subscribe(&id).await.unwrap();
        world.send(&id, vec![message("again")]).await.unwrap();
        let told = async {
            loop {
                let Heard::Signal(signal) = signals.next().await else { panic!("a signal is missing") };
                if let Signal::Events(events) = signal.as_ref()
                    && stop_reason(events).is_some()
                {
                    return world.broker.is_held(&format!("session:{id}:owner")).await.unwrap();
                }
            }
        };
        assert!(!tokio::time::timeout(PATIENCE, told).await.unwrap());
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_run_and_answers_its_open_call() {
    let world = world(hangs_in_a_call).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await.unwrap();
    assert_eq!(world.settled(&id).await.unwrap().state, SessionState::Idle);
    let events = world.events(&id).await.unwrap();
    assert_eq!(stop_reason(&events), Some(&StopReason::EndTurn));
    assert!(types(&events).contains(&"user.interrupt"));
    assert!(failures(&events).is_empty());
    assert_no_open_call(&world, &id).await;
}

#[tokio::test]
async fn an_interrupt_of_nothing_is_noted_and_changes_nothing() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let sent = world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await.unwrap();
    assert_eq!(types(&sent), ["user.interrupt"]);
    assert_eq!(world.sessions.session(&id).await.unwrap().state, SessionState::Idle);
    // It must not hit the next run either.
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    assert!(types(&world.events(&id).await.unwrap()).contains(&"agent.message"));
}

#[tokio::test]
async fn an_interrupt_with_a_message_redirects_the_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let world = world(move |context| {
        let number = runs.fetch_add(1, Ordering::SeqCst);
        async move { if number == 0 { hangs_in_a_call(context).await } else { answers(context).await } }
    })
    .await
    .unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    let sent =
        world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }, message("no, this")]).await.unwrap();
    assert_eq!(types(&sent), ["user.interrupt", "user.message"]);
    world.settled(&id).await.unwrap();
    let events = world.events(&id).await.unwrap();
    assert_eq!(events.iter().filter(|event| matches!(event.body, EventBody::StatusIdle { .. })).count(), 2);
    assert!(types(&events).contains(&"agent.message"));
    assert_no_open_call(&world, &id).await;
}

#[tokio::test]
async fn a_failed_run_tells_why_and_leaves_the_session_usable() {
    let runs = Arc::new(AtomicUsize::new(0));
    let world = world(move |context| {
        let number = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            if number > 0 {
                return answers(context).await;
            }
            call(&context, "any").await?;
            Ok(RunOutcome::Failed(SessionFailure {
                kind: FailureKind::ModelRequestFailedError,
                message: "the model said no".to_owned(),
                retry_status: RetryStatus::Exhausted,
            }))
        }
    })
    .await
    .unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    let events = world.events(&id).await.unwrap();
    assert_eq!(failures(&events)[0].message, "the model said no");
    assert_eq!(stop_reason(&events), Some(&StopReason::RetriesExhausted));
    assert_no_open_call(&world, &id).await;
    world.send(&id, vec![message("again")]).await.unwrap();
    world.settled(&id).await.unwrap();
    assert!(types(&world.events(&id).await.unwrap()).contains(&"agent.message"));
}

#[tokio::test]
async fn a_turn_that_was_cut_off_stands_apart_from_the_next_one() {
    let world = world(|context: RunContext| async move {
        context.stop.cancelled().await;
        Ok(RunOutcome::Interrupted)
    })
    .await
    .unwrap();
    let id = world.session().await.unwrap();
    for text in ["one", "two"] {
        world.send(&id, vec![message(text)]).await.unwrap();
        world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await.unwrap();
        world.settled(&id).await.unwrap();
    }
    let history = world.store.messages(&id, 0).await.unwrap();
    let roles: Vec<bool> = history.iter().map(|message| matches!(message.body, MessageBody::User { .. })).collect();
    assert_eq!(roles, [true, false, true, false]);
}

#[tokio::test]
async fn a_panic_fails_the_run_alone() {
    let world = world(|context| async move {
        call(&context, "any").await?;
        panic!("a bug of the test's run");
    })
    .await
    .unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    assert_eq!(world.settled(&id).await.unwrap().state, SessionState::Idle);
    let events = world.events(&id).await.unwrap();
    assert_eq!(failures(&events).len(), 1);
    assert_eq!(stop_reason(&events), Some(&StopReason::RetriesExhausted));
    assert_no_open_call(&world, &id).await;
}

#[tokio::test]
async fn a_shutdown_ends_the_run_with_its_terminal_event() {
    let world = world(hangs_in_a_call).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    assert!(world.lifecycle.shut_down(Duration::from_millis(50)).await, "a task outlived the engine");
    assert_eq!(world.sessions.session(&id).await.unwrap().state, SessionState::Idle);
    let events = world.events(&id).await.unwrap();
    assert_eq!(failures(&events).len(), 1);
    assert_no_open_call(&world, &id).await;
    let refused = world.send(&id, vec![message("more")]).await.unwrap_err();
    assert!(matches!(refused, SessionError::ShuttingDown), "{refused}");
}

#[tokio::test]
async fn a_run_that_lost_its_lease_is_silent_and_cannot_write() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let world = world(move |context| {
        let gate = Arc::clone(&waits);
        async move {
            let _permit = gate.acquire().await;
            answers(context).await
        }
    })
    .await
    .unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    // Somebody else ends the run, as the recovery of another engine would.
    let session = world.sessions.session(&id).await.unwrap();
    let SessionState::Running { run, fence } = session.state else { panic!("no run") };
    let mut change =
        ambient_engine::sessions::change::SessionChange::new(ambient_engine::sessions::change::Guard::Run {
            run,
            fence,
        });
    change.event(EventBody::StatusIdle { stop_reason: StopReason::EndTurn, stop_details: None });
    change.to = Some(ambient_engine::sessions::change::Move::Idle);
    world.store.change_session(&id, change, ambient_engine::clock::Clock::system().now()).await.unwrap();
    gate.add_permits(1);
    assert!(world.lifecycle.shut_down(Duration::from_secs(5)).await);
    assert_eq!(
        types(&world.events(&id).await.unwrap()),
        ["user.message", "session.status_running", "session.status_idle"]
    );
}

#[tokio::test]
async fn a_run_that_a_crash_cut_off_gets_its_end_at_the_next_start() {
    let first = world(hangs_in_a_call).await.unwrap();
    let id = first.session().await.unwrap();
    let mut signals = first.broker.subscribe(&id).await.unwrap();
    first.send(&id, vec![message("go")]).await.unwrap();
    while !types(&first.events(&id).await.unwrap()).contains(&"agent.tool_use") {
        signals.next().await;
    }
    // Another engine over the same store, with a broker that knows no lease: the first one is dead to it.
    let broker = support::world::broker().await.unwrap();
    let second = assemble(
        Arc::clone(&first.store),
        broker,
        ambient_engine::clock::Clock::system(),
        ambient_engine::lifecycle::Lifecycle::new(),
        Runner::new(answers),
        tempfile::tempdir().unwrap(),
    );
    second.sessions.recover_once().await.unwrap();
    let session = second.sessions.session(&id).await.unwrap();
    assert_eq!(session.state, SessionState::Idle);
    let events = second.events(&id).await.unwrap();
    assert_eq!(failures(&events).len(), 1);
    assert_eq!(stop_reason(&events), Some(&StopReason::RetriesExhausted));
    assert_no_open_call(&second, &id).await;
    second.sessions.recover_once().await.unwrap();
    assert_eq!(second.events(&id).await.unwrap().len(), events.len(), "it ended twice");
}

#[tokio::test]
async fn a_living_run_is_not_recovered() {
    let world = world(hangs_in_a_call).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.sessions.recover_once().await.unwrap();
    assert!(matches!(world.sessions.session(&id).await.unwrap().state, SessionState::Running { .. }));
}

/// Asks for two answers of the client, then goes on.
async fn asks_the_client(context: RunContext) -> Result<RunOutcome, RunWriteError> {
    if context.session.pending_actions.is_empty() {
        let mut change = context.writer.begin();
        let custom = change.event(EventBody::AgentCustomToolUse { name: "lookup".to_owned(), input: Map::new() });
        let asked = change.event(EventBody::AgentToolUse {
            name: "bash".to_owned(),
            input: Map::new(),
            evaluated_permission: Permission::Ask,
        });
        context.writer.commit(change).await?;
        let action = |event_id, kind| PendingAction {
            event_id,
            call_id: "call".to_owned(),
            name: "any".to_owned(),
            input: Map::new(),
            kind,
            answer: None,
        };
        return Ok(RunOutcome::RequiresAction(vec![
            action(custom, PendingKind::CustomResult),
            action(asked, PendingKind::Confirmation),
        ]));
    }
    let told: Vec<String> =
        context.session.pending_actions.iter().map(|action| format!("{:?}", action.answer)).collect();
    let mut change = context.writer.begin();
    change.pending_actions = Some(Vec::new());
    change.event(answer(&told.join(" and ")));
    context.writer.commit(change).await?;
    Ok(RunOutcome::Answered)
}

fn asked_for(events: &[EventRecord]) -> Vec<EventId> {
    match stop_reason(events) {
        Some(StopReason::RequiresAction { event_ids }) => event_ids.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_run_goes_on_once_every_waiting_call_is_answered() {
    let world = world(asks_the_client).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    let ids = asked_for(&world.events(&id).await.unwrap());
    let result = EventBody::UserCustomToolResult {
        custom_tool_use_id: ids[0].clone(),
        content: Some(vec![ContentBlock::text("found")]),
        is_error: false,
    };
    let confirmation = EventBody::UserToolConfirmation {
        tool_use_id: ids[1].clone(),
        result: Confirmation::Allow,
        deny_message: None,
    };
    // A confirmation of a custom call is none, and neither is one of nothing.
    for wrong in [
        EventBody::UserToolConfirmation {
            tool_use_id: ids[0].clone(),
            result: Confirmation::Allow,
            deny_message: None,
        },
        EventBody::UserToolConfirmation {
            tool_use_id: EventId::generate(),
            result: Confirmation::Allow,
            deny_message: None,
        },
    ] {
        let refused = world.send(&id, vec![wrong]).await.unwrap_err();
        assert!(matches!(refused, SessionError::NothingPending(_)), "{refused}");
    }
    world.send(&id, vec![result.clone()]).await.unwrap();
    assert_eq!(world.sessions.session(&id).await.unwrap().state, SessionState::Idle, "one answer is missing");
    assert!(world.send(&id, vec![result]).await.is_err(), "answered twice");
    world.send(&id, vec![confirmation]).await.unwrap();
    let session = world.settled(&id).await.unwrap();
    assert!(session.pending_actions.is_empty());
    let events = world.events(&id).await.unwrap();
    assert_eq!(stop_reason(&events), Some(&StopReason::EndTurn));
    let said = format!("{:?}", events.iter().rev().find(|event| event.body.type_name() == "agent.message"));
    assert!(said.contains("found") && said.contains("Allowed"), "{said}");
}

#[tokio::test]
async fn two_answers_at_once_are_both_kept() {
    let world = Arc::new(world(asks_the_client).await.unwrap());
    for _ in 0..10 {
        let id = world.session().await.unwrap();
        world.send(&id, vec![message("go")]).await.unwrap();
        world.settled(&id).await.unwrap();
        let ids = asked_for(&world.events(&id).await.unwrap());
        let result =
            EventBody::UserCustomToolResult { custom_tool_use_id: ids[0].clone(), content: None, is_error: false };
        let confirmation = EventBody::UserToolConfirmation {
            tool_use_id: ids[1].clone(),
            result: Confirmation::Deny,
            deny_message: Some("not here".to_owned()),
        };
        let (one, two) = tokio::join!(world.send(&id, vec![result]), world.send(&id, vec![confirmation]));
        one.unwrap();
        two.unwrap();
        world.settled(&id).await.unwrap();
        assert_eq!(stop_reason(&world.events(&id).await.unwrap()), Some(&StopReason::EndTurn));
    }
}

#[tokio::test]
async fn a_message_instead_of_an_answer_closes_the_waiting_calls() {
    let world = world(asks_the_client).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    world.send(&id, vec![message("never mind")]).await.unwrap();
    let session = world.settled(&id).await.unwrap();
    assert!(session.pending_actions.is_empty());
    let said = format!("{:?}", world.events(&id).await.unwrap());
    assert!(said.contains("instead of answering"), "{said}");
    assert!(!matches!(session.pending_actions.first().map(|action| &action.answer), Some(Some(ActionAnswer::Allowed))));
}

#[tokio::test]
async fn an_archived_session_takes_nothing_and_a_running_one_is_not_archived() {
    let world = world(hangs_in_a_call).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    assert!(matches!(world.sessions.archive(&id).await, Err(SessionError::Invalid(_))));
    world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await.unwrap();
    world.settled(&id).await.unwrap();
    let first = world.sessions.archive(&id).await.unwrap();
    assert_eq!(world.sessions.archive(&id).await.unwrap().archived_at, first.archived_at);
    let before = world.events(&id).await.unwrap().len();
    assert!(matches!(world.send(&id, vec![message("more")]).await, Err(SessionError::Invalid(_))));
    assert_eq!(world.events(&id).await.unwrap().len(), before);
}

#[tokio::test]
async fn deleting_interrupts_the_run_and_leaves_nothing() {
    let world = world(hangs_in_a_call).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.sessions.delete(&id).await.unwrap();
    assert!(matches!(world.sessions.session(&id).await, Err(SessionError::NotFound(_))));
    assert!(world.events(&id).await.unwrap().is_empty());
    assert!(world.store.messages(&id, 0).await.unwrap().is_empty());
    assert!(matches!(world.sessions.delete(&id).await, Err(SessionError::NotFound(_))));
}
