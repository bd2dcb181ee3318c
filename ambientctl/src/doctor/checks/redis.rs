//! Whether Redis answers, is new enough, has streams and messages, and keeps what is queued over a restart.

use futures::StreamExt as _;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, Client, RedisError};
use secrecy::ExposeSecret as _;
use url::Url;

use super::llm::{from_inside, inside, outside};
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::chain;

/// The oldest Redis that the engine works with.
const OLDEST: (u32, u32) = (6, 2);
/// Why it matters.
const WHY: &str = "engines agree there on who runs which session, and jobs wait there";
/// How long the probe stream lives should this program be cut off, in seconds.
const PROBE_LIFE: i64 = 60;

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let Some(url) = &target.settings.store.redis_url else {
        sink.put(Finding::skipped(
            "redis.unused",
            "`REDIS_URL` is not set: one engine works alone, with its own queue",
        ));
        return;
    };
    let Ok(url) = Url::parse(url.expose_secret()) else {
        let remedy = target.set_secret("REDIS_URL");
        sink.put(Finding::failure("redis.url", "`REDIS_URL` is no URL", WHY, remedy));
        return;
    };
    if let Some(service) = inside(target, &url) {
        sink.put(Finding::skipped(
            "redis.inside",
            format!(
                "Redis is the stack's service `{service}`; `docker` tells its health, and `{}` asks it",
                from_inside(target, "redis")
            ),
        ));
        return;
    }
    let url = outside(&url);
    let place = format!("{}:{}", url.host_str().unwrap_or("localhost"), url.port().unwrap_or(6379));
    sink.step(format!("Redis at {place}"));
    let limit = context.request_limit();
    let opened = tokio::time::timeout(limit, async {
        let client = Client::open(url.as_str())?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok::<_, RedisError>((client, connection))
    });
    let (client, connection) = match opened.await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            sink.put(refused(context, &place, &url, &error));
            return;
        }
        Err(_elapsed) => {
            let remedy = Remedy::run(cli(&url, "ping"));
            sink.put(Finding::failure("redis.reach", format!("Redis at {place} does not answer"), WHY, remedy));
            return;
        }
    };
    let (version, streams, messages, persistence) = futures::join!(
        version(connection.clone(), &place, context),
        streams(connection.clone()),
        messages(&client, connection.clone()),
        persistence(connection.clone(), &place, &url),
    );
    sink.put(version);
    sink.put(told("redis.streams", "streams", &place, &url, streams));
    sink.put(told("redis.messages", "publishing and subscribing", &place, &url, messages));
    sink.put(persistence);
}

/// `redis-cli` for this server; the password, where there is one, is asked for.
fn cli(url: &Url, words: &str) -> String {
    let ask = if url.password().is_some() { " --askpass" } else { "" };
    let tls = if url.scheme() == "rediss" { " --tls" } else { "" };
    let host = url.host_str().unwrap_or("localhost");
    format!("redis-cli -h {host} -p {}{tls}{ask} {words}", url.port().unwrap_or(6379))
}

fn refused(context: &Context, place: &str, url: &Url, error: &RedisError) -> Finding {
    let is_password = matches!(error.kind(), redis::ErrorKind::AuthenticationFailed)
        || ["NOAUTH", "WRONGPASS", "AuthenticationFailed"].iter().any(|word| error.to_string().contains(word))
        || error.code().is_some_and(|code| ["NOAUTH", "WRONGPASS"].contains(&code));
    if is_password {
        return Finding::failure(
            "redis.password",
            format!("Redis at {place} does not take the password of `REDIS_URL`"),
            WHY,
            context.target.set_secret("REDIS_URL"),
        );
    }
    Finding::failure(
        "redis.reach",
        format!("Redis at {place} cannot be reached: {}", chain(error)),
        WHY,
        Remedy::run(cli(url, "ping")),
    )
}

async fn version(mut connection: MultiplexedConnection, place: &str, context: &Context) -> Finding {
    let info: Result<String, RedisError> = redis::cmd("INFO").arg("server").query_async(&mut connection).await;
    let Some(version) = info.ok().and_then(|info| field(&info, "redis_version")) else {
        return Finding::ok("redis.answers", format!("Redis answers at {place}, and does not tell its version"));
    };
    let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        return Finding::failure(
            "redis.version",
            format!("Redis at {place} is {version}; it has to be {}.{} or newer", OLDEST.0, OLDEST.1),
            WHY,
            context.target.set_secret("REDIS_URL"),
        );
    }
    Finding::ok("redis.answers", format!("Redis {version} answers at {place}"))
}

fn told(id: &'static str, what: &str, place: &str, url: &Url, answer: Result<(), String>) -> Finding {
    match answer {
        Ok(()) => Finding::ok(id, format!("{what} work")),
        Err(problem) => Finding::failure(
            id,
            format!("{what} do not work at {place}: {problem}"),
            WHY,
            Remedy::run(cli(url, "acl whoami")),
        ),
    }
}

/// Appends to a stream of our own, reads it back and removes it.
async fn streams(mut connection: MultiplexedConnection) -> Result<(), String> {
    let key = format!("ambient:doctor:{:016x}", rand::random::<u64>());
    let words = |error: RedisError| chain(&error);
    let id: String =
        redis::cmd("XADD").arg(&key).arg("*").arg("a").arg("1").query_async(&mut connection).await.map_err(words)?;
    let _life: bool = connection.expire(&key, PROBE_LIFE).await.map_err(words)?;
    let length: u64 = redis::cmd("XLEN").arg(&key).query_async(&mut connection).await.map_err(words)?;
    let _removed: u64 = connection.del(&key).await.map_err(words)?;
    if length == 1 { Ok(()) } else { Err(format!("the entry {id} was not there afterwards")) }
}

/// Says something to ourselves.
async fn messages(client: &Client, mut connection: MultiplexedConnection) -> Result<(), String> {
    let channel = format!("ambient:doctor:{:016x}", rand::random::<u64>());
    let words = |error: RedisError| chain(&error);
    let mut listener = client.get_async_pubsub().await.map_err(words)?;
    listener.subscribe(&channel).await.map_err(words)?;
    let heard_by: u64 = connection.publish(&channel, "1").await.map_err(words)?;
    if heard_by == 0 {
        return Err("nobody got the message".to_owned());
    }
    match listener.on_message().next().await {
        Some(_message) => Ok(()),
        None => Err("the subscription ended".to_owned()),
    }
}

/// Whether what is queued survives a restart of the server.
async fn persistence(mut connection: MultiplexedConnection, place: &str, url: &Url) -> Finding {
    let info: Result<String, RedisError> = redis::cmd("INFO").arg("persistence").query_async(&mut connection).await;
    let is_appended = info.ok().and_then(|info| field(&info, "aof_enabled")).is_some_and(|value| value == "1");
    if is_appended {
        return Finding::ok("redis.persistence", "what is queued survives a restart of Redis");
    }
    let saves: Result<Vec<String>, RedisError> =
        redis::cmd("CONFIG").arg("GET").arg("save").query_async(&mut connection).await;
    match saves {
        Err(_not_allowed) => Finding::skipped(
            "redis.persistence",
            "Redis does not tell whether it keeps snapshots; hosted ones usually do",
        ),
        Ok(pair) if pair.get(1).is_some_and(|rule| !rule.trim().is_empty()) => {
            Finding::ok("redis.persistence", "Redis keeps snapshots: the last minutes may be lost at a crash")
        }
        Ok(_) => Finding::warning(
            "redis.persistence",
            format!("Redis at {place} keeps nothing over a restart: `appendonly` is off, and there are no snapshots"),
            "jobs that wait, such as descriptions of uploaded videos, are lost then",
            Remedy::run(cli(url, "config set appendonly yes")),
        ),
    }
}

/// A field of `INFO`.
fn field(info: &str, name: &str) -> Option<String> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned())
}
