//! Leases: one key each, which Redis drops when its time is over. Whoever extends or releases shows the token, in one step
//! with the look at it: a lease that was lost is never taken back from its new holder.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;
use redis::aio::ConnectionManager;

use crate::broker::{BrokerError, Lease};

/// The newest fence of all leases.
const FENCE_KEY: &str = "ambient:fence";

/// Fences are Redis' microseconds, moved on where two would be equal: they grow over a Redis that lost its data, too.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
        local time = redis.call('TIME')
        local fence = tonumber(time[1]) * 1000000 + tonumber(time[2])
        local last = tonumber(redis.call('GET', KEYS[2]) or '0')
        if fence <= last then fence = last + 1 end
        local text = string.format('%.0f', fence)
        redis.call('SET', KEYS[2], text)
        return text
        ",
    )
});

static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])
        ",
    )
});

static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])
        ",
    )
});

fn key(name: &str) -> String {
    format!("{name}:owner")
}

/// Redis refuses a time of 0.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}

pub(super) async fn acquire(
    redis: &mut ConnectionManager,
    name: &str,
    token: String,
    ttl: Duration,
) -> Result<Option<Lease>, BrokerError> {
    let mut call = ACQUIRE.key(key(name));
    let fence: u64 =
        call.key(FENCE_KEY).arg(&token).arg(millis(ttl)).invoke_async(redis).await.map_err(BrokerError::Unavailable)?;
    Ok((fence != 0).then(|| Lease { name: name.to_owned(), token, fence }))
}

pub(super) async fn extend(redis: &mut ConnectionManager, lease: &Lease, ttl: Duration) -> Result<bool, BrokerError> {
    EXTEND
        .key(key(&lease.name))
        .arg(&lease.token)
        .arg(millis(ttl))
        .invoke_async(redis)
        .await
        .map_err(BrokerError::Unavailable)
}

pub(super) async fn release(redis: &mut ConnectionManager, lease: &Lease) -> Result<(), BrokerError> {
    let _released: bool =
        RELEASE.key(key(&lease.name)).arg(&lease.token).invoke_async(redis).await.map_err(BrokerError::Unavailable)?;
    Ok(())
}

pub(super) async fn is_held(redis: &mut ConnectionManager, name: &str) -> Result<bool, BrokerError> {
    redis::cmd("EXISTS").arg(key(name)).query_async(redis).await.map_err(BrokerError::Unavailable)
}
