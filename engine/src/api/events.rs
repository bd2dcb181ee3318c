//! `/v1/sessions/{id}/events`: sending into a session, and reading what happened in it.

use std::convert::Infallible;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::detached::detached;
use super::error::{ApiError, ErrorBody, shortened};
use super::extract::{EVENTS_BODY_BYTES, Fields, Id, Query, body_bytes};
use super::paging::{List, Page, number_of_page, number_token};
use super::retries::is_retry;
use super::send_input::{SendEvents, send_request};
use super::sessions::existing;
use super::state::App;
use crate::events::stream::StreamWish;
use crate::events::wire::event_json;
use crate::ids::SessionId;
use crate::store::records::EventRecord;
use crate::store::{EventFilter, EventWindow};

const MOST: u32 = 1000;

/// What was taken.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sent {
    /// The events as stored, with their ids.
    #[schema(value_type = Vec<Object>)]
    pub data: Vec<Value>,
}

/// Sends events, all or none. Answers as soon as they are stored; what comes of them is in the stream.
#[utoipa::path(post, path = "/v1/sessions/{id}/events", tag = "events", params(("id" = String, Path)),
    request_body = SendEvents,
    responses((status = 200, body = Sent), (status = "default", body = ErrorBody)))]
pub async fn send(State(app): State<App>, Id(id): Id<SessionId>, request: Request) -> Result<Json<Sent>, ApiError> {
    let may_be_again = is_retry(request.headers());
    let body = body_bytes(request, EVENTS_BODY_BYTES).await?;
    let key = app.retries.key(&id, &body);
    if may_be_again && let Some(answered) = app.retries.answer(&key, app.clock.now()) {
        return Ok(Json(Sent { data: answered.iter().map(event_json).collect() }));
    }
    let wish = send_request(Fields::of_body(&body)?)?;
    drop(body);
    let (sessions, retries, clock) = (app.sessions.clone(), app.retries.clone(), app.clock.clone());
    let work = async move {
        let events = sessions.send(&id, wish).await?;
        retries.keep(key, &events, clock.now());
        Ok::<Vec<EventRecord>, crate::sessions::wishes::SessionError>(events)
    };
    let events = detached(&app, "send events", work).await??;
    Ok(Json(Sent { data: events.iter().map(event_json).collect() }))
}

/// What happened, oldest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/events", tag = "events",
    params(("id" = String, Path), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000),
        ("page" = Option<String>, Query), ("order" = Option<String>, Query), ("types[]" = Option<Vec<String>>, Query),
        ("created_at[gt]" = Option<String>, Query, format = DateTime),
        ("created_at[gte]" = Option<String>, Query, format = DateTime),
        ("created_at[lt]" = Option<String>, Query, format = DateTime),
        ("created_at[lte]" = Option<String>, Query, format = DateTime)),
    responses((status = 200, body = Page<Object>), (status = "default", body = ErrorBody)))]
pub async fn list(State(app): State<App>, Id(id): Id<SessionId>, query: Query) -> Result<Json<Page<Value>>, ApiError> {
    let window = EventWindow {
        limit: query.limit(MOST, MOST)?,
        descending: !query.ascending(true)?,
        after_seq: number_of_page(&query, List::Events)?,
        filter: EventFilter { types: types(&query)?, processed: query.bounds("created_at")? },
    };
    existing(&app, &id).await?;
    let listed = app.store.events(&id, &window).await?;
    app.streams.handed_out(&id, &listed.items).await;
    let last = listed.items.last().filter(|_| listed.has_more);
    let next = last.map(|event| number_token(List::Events, event.seq));
    let first_id = listed.items.first().map(|event| event.id.to_string());
    let last_id = listed.items.last().map(|event| event.id.to_string());
    Ok(Json(Page {
        data: listed.items.iter().map(event_json).collect(),
        has_more: listed.has_more,
        first_id,
        last_id,
        next_page: next,
        prev_page: None,
    }))
}

/// Which event types are wanted. Those that this engine never stores match nothing, as newer SDKs know more types.
fn types(query: &Query) -> Result<Vec<String>, ApiError> {
    let is_type = |name: &&str| {
        let mut parts = name.split('.');
        let is_word = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        name.contains('.') && name.len() <= 128 && parts.all(is_word)
    };
    let wanted = query.all("types");
    match wanted.iter().find(|name| !is_type(name)) {
        Some(bad) => Err(ApiError::invalid(format!(
            "`types[]` must be event types such as `agent.message`, not `{}`",
            shortened(bad)
        ))),
        None => Ok(wanted.into_iter().map(str::to_owned).collect()),
    }
}

/// What happens, as it happens: server-sent events. Begins with the run under way, or with the last one if nobody has
/// read it yet, else with what comes next; with `Last-Event-ID`, right behind that event. Stays open over many turns.
#[utoipa::path(get, path = "/v1/sessions/{id}/events/stream", tag = "events",
    params(("id" = String, Path), ("event_deltas[]" = Option<Vec<String>>, Query), ("until" = Option<String>, Query),
        ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "default", body = ErrorBody)))]
pub async fn stream(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wish = stream_wish(&query, &headers)?;
    let frames = app.streams.open(&id, wish).await?;
    let mut response = HttpBody::from_stream(frames.map(Ok::<_, Infallible>)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    // A proxy that holds events back, or packs them, makes a live stream a dead one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn stream_wish(query: &Query, headers: &HeaderMap) -> Result<StreamWish, ApiError> {
    let mut wish = StreamWish {
        last_event_id: headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned),
        ..StreamWish::default()
    };
    for name in query.all("event_deltas") {
        match name {
            "agent.message" => wish.message_previews = true,
            "agent.thinking" => wish.thinking_previews = true,
            other => {
                return Err(ApiError::invalid(format!(
                    "`event_deltas[]` must be `agent.message` or `agent.thinking`, not `{}`",
                    shortened(other)
                )));
            }
        }
    }
    match query.one("until") {
        None => {}
        Some("idle") => wish.until_idle = true,
        Some(other) => return Err(ApiError::invalid(format!("`until` must be `idle`, not `{}`", shortened(other)))),
    }
    Ok(wish)
}
