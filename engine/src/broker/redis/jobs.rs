//! The job queue: a sorted set of what waits, a stream of what is being done.
//!
//! A job waits in `<stream>:waiting`, by the time it is due, once, however often it is added. Who has a free hand moves the
//! first due one into the stream and reads it through the consumer group, so the stream is as long as the work under way
//! (and still takes entries that others add). A holder that falls silent loses its entry by age; the group counts how
//! often an entry was given. Entries that are done leave the stream.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::streams::StreamReadReply;
use redis::{RedisError, Script};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::broker::{BrokerError, BrokerOptions, Job, TakenJob};

/// The field of an entry.
const FIELD: &str = "job";

/// While it waits, an engine looks at least so often for jobs of silent engines, and for those whose wake-up was lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A consumer that did nothing for so long and holds nothing was an engine that is gone.
const CONSUMER_IDLE: Duration = Duration::from_hours(1);

/// The dead are looked for once in so many takes.
const TAKES_BETWEEN_CLEANUPS: u64 = 500;

/// `KEYS`: waiting. `ARGV`: job, delay in milliseconds, wake channel. The earlier time wins.
static ENQUEUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local time = redis.call('TIME')
        local due = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000 + tonumber(ARGV[2])
        local stands = redis.call('ZSCORE', KEYS[1], ARGV[1])
        if not stands or tonumber(stands) > due then
            redis.call('ZADD', KEYS[1], string.format('%.3f', due), ARGV[1])
        end
        redis.call('PUBLISH', ARGV[3], '')
        ",
    )
});

/// `KEYS`: waiting, stream. `ARGV`: field. Gives 0 when it moved a job, else the milliseconds until one is due, or -1.
static PROMOTE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
        if not first[1] then return -1 end
        local time = redis.call('TIME')
        local wait = tonumber(first[2]) - tonumber(time[1]) * 1000 - tonumber(time[2]) / 1000
        if wait > 0 then return math.ceil(wait) end
        redis.call('ZREM', KEYS[1], first[1])
        redis.call('XADD', KEYS[2], '*', ARGV[1], first[1])
        return 0
        ",
    )
});

/// `KEYS`: stream. `ARGV`: group, consumer, silence in milliseconds, field. Takes the first entry whose holder was silent
/// for that long; gives its id, how often it was given, and the job. Entries that were trimmed away are dropped.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        while true do
            local silent = redis.pcall('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', 1)
            if silent['err'] then return silent end
            if not silent[1] then return {} end
            local id, given = silent[1][1], silent[1][4]
            local entry = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], id)[1]
            if entry then
                local job = ''
                for at = 1, #entry[2], 2 do
                    if entry[2][at] == ARGV[4] then job = entry[2][at + 1] end
                end
                return {id, tostring(given + 1), job}
            end
            redis.call('XACK', KEYS[1], ARGV[1], id)
        end
        ",
    )
});

/// Whether the entry `ARGV[3]` is still with this consumer (`ARGV[2]`) by the delivery `ARGV[4]`.
macro_rules! if_still_held {
    ($then:literal) => {
        concat!(
            r"
            local held = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)
            if held['err'] or not held[1] then return 0 end
            if held[1][2] ~= ARGV[2] or held[1][4] ~= tonumber(ARGV[4]) then return 0 end
            ",
            $then,
            " return 1"
        )
    };
}

/// `JUSTID`, so that it does not count as given once more.
static KEEP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(if_still_held!("redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')"))
});

static FINISH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(if_still_held!("redis.call('XACK', KEYS[1], ARGV[1], ARGV[3]) redis.call('XDEL', KEYS[1], ARGV[3])"))
});

/// `KEYS`: stream. `ARGV`: group, this consumer, idle time in milliseconds. In one step with the look, since a consumer
/// takes its pending entries with it.
static CLEAN_UP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
        if consumers['err'] then return 0 end
        local gone = 0
        for _, facts in ipairs(consumers) do
            local of = {}
            for at = 1, #facts, 2 do of[facts[at]] = facts[at + 1] end
            if of['pending'] == 0 and of['idle'] > tonumber(ARGV[3]) and of['name'] ~= ARGV[2] then
                redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], of['name'])
                gone = gone + 1
            end
        end
        return gone
        ",
    )
});

pub(super) struct Jobs {
    stream: String,
    group: String,
    consumer: String,
    /// Something may have become due; told by the listener.
    woken: Arc<Notify>,
    takes: AtomicU64,
}

impl Jobs {
    pub(super) fn new(options: &BrokerOptions, consumer: String, woken: Arc<Notify>) -> Self {
        Self { stream: options.stream.clone(), group: options.group.clone(), consumer, woken, takes: AtomicU64::new(0) }
    }

    pub(super) fn wake_channel(&self) -> String {
        format!("{}:wake", self.stream)
    }

    fn waiting(&self) -> String {
        format!("{}:waiting", self.stream)
    }

    pub(super) async fn enqueue(
        &self,
        redis: &mut ConnectionManager,
        job: &Job,
        delay: Duration,
    ) -> Result<(), BrokerError> {
        let text = serde_json::to_string(job).expect("a job is always JSON");
        let mut call = ENQUEUE.key(self.waiting());
        call.arg(text).arg(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)).arg(self.wake_channel());
        call.invoke_async(redis).await.map_err(BrokerError::Unavailable)
    }

    pub(super) async fn take(
        &self,
        redis: &mut ConnectionManager,
        patience: Duration,
        lease: Duration,
    ) -> Result<Option<TakenJob>, BrokerError> {
        let until = Instant::now() + patience;
        if self.takes.fetch_add(1, Ordering::Relaxed).is_multiple_of(TAKES_BETWEEN_CLEANUPS) {
            self.clean_up(redis).await.map_err(BrokerError::Unavailable)?;
        }
        loop {
            // Listened to before the look, so that a job that comes in between is not slept over.
            let mut woken = std::pin::pin!(self.woken.notified());
            woken.as_mut().enable();
            let wait = match self.look(redis, lease).await {
                Ok(Look::Taken(taken)) => return Ok(Some(taken)),
                Ok(Look::Again) => continue,
                Ok(Look::Nothing { due_in }) => due_in,
                // Redis lost its data, or nobody was here before.
                Err(error) if error.code() == Some("NOGROUP") => {
                    self.make_group(redis).await.map_err(BrokerError::Unavailable)?;
                    continue;
                }
                Err(error) => return Err(BrokerError::Unavailable(error)),
            };
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            let pause = [wait.unwrap_or(LOOK_EVERY), LOOK_EVERY, lease / 2].into_iter().min().unwrap_or(LOOK_EVERY);
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(until.min(now + pause)) => {}
            }
        }
    }

    /// One round: what a silent engine left, else the next that is due.
    async fn look(&self, redis: &mut ConnectionManager, lease: Duration) -> Result<Look, RedisError> {
        let mut claim = CLAIM.key(&self.stream);
        claim.arg(&self.group).arg(&self.consumer).arg(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)).arg(FIELD);
        let claimed: Vec<String> = claim.invoke_async(redis).await?;
        if let [id, attempt, text] = claimed.as_slice() {
            return self.taken(redis, id, attempt.parse().unwrap_or(u32::MAX), text).await;
        }
        let mut promote = PROMOTE.key(self.waiting());
        let due: i64 = promote.key(&self.stream).arg(FIELD).invoke_async(redis).await?;
        let reply: Option<StreamReadReply> = redis::cmd("XREADGROUP")
            .arg(&["GROUP", &self.group, &self.consumer, "COUNT", "1", "STREAMS", &self.stream, ">"])
            .query_async(redis)
            .await?;
        if let Some(entry) = reply.and_then(|reply| reply.keys.into_iter().next()?.ids.into_iter().next()) {
            let text: String = entry.get(FIELD).unwrap_or_default();
            return self.taken(redis, &entry.id, 1, &text).await;
        }
        Ok(match u64::try_from(due) {
            Ok(0) => Look::Again,
            Ok(millis) => Look::Nothing { due_in: Some(Duration::from_millis(millis)) },
            Err(_none) => Look::Nothing { due_in: None },
        })
    }

    /// An entry that is no job (it was not an engine that added it) is thrown away, or it would come again for ever.
    async fn taken(
        &self,
        redis: &mut ConnectionManager,
        id: &str,
        attempt: u32,
        text: &str,
    ) -> Result<Look, RedisError> {
        let receipt = format!("{id}/{attempt}");
        match serde_json::from_str::<Job>(text) {
            Ok(job) => Ok(Look::Taken(TakenJob { job, attempt, receipt })),
            Err(error) => {
                tracing::warn!(entry = id, error = %error, "an entry of the job stream is no job");
                self.if_held(&FINISH, redis, &receipt).await?;
                Ok(Look::Again)
            }
        }
    }

    pub(super) async fn keep(&self, redis: &mut ConnectionManager, job: &TakenJob) -> Result<bool, BrokerError> {
        self.if_held(&KEEP, redis, &job.receipt).await.map_err(BrokerError::Unavailable)
    }

    pub(super) async fn finish(&self, redis: &mut ConnectionManager, job: &TakenJob) -> Result<(), BrokerError> {
        self.if_held(&FINISH, redis, &job.receipt).await.map(drop).map_err(BrokerError::Unavailable)
    }

    async fn if_held(&self, script: &Script, redis: &mut ConnectionManager, receipt: &str) -> Result<bool, RedisError> {
        let (id, attempt) = receipt.split_once('/').unwrap_or((receipt, "0"));
        let mut call = script.key(&self.stream);
        call.arg(&self.group).arg(&self.consumer).arg(id).arg(attempt);
        call.invoke_async(redis).await
    }

    /// From the beginning of the stream: what was added before there was a group counts.
    async fn make_group(&self, redis: &mut ConnectionManager) -> Result<(), RedisError> {
        let made: Result<(), RedisError> =
            redis::cmd("XGROUP").arg(&["CREATE", &self.stream, &self.group, "0", "MKSTREAM"]).query_async(redis).await;
        made.or_else(|error| if error.code() == Some("BUSYGROUP") { Ok(()) } else { Err(error) })
    }

    async fn clean_up(&self, redis: &mut ConnectionManager) -> Result<(), RedisError> {
        let mut call = CLEAN_UP.key(&self.stream);
        let idle = u64::try_from(CONSUMER_IDLE.as_millis()).unwrap_or(u64::MAX);
        let gone: u64 = call.arg(&self.group).arg(&self.consumer).arg(idle).invoke_async(redis).await?;
        if gone > 0 {
            tracing::debug!(consumers = gone, "consumers of engines that are gone were removed");
        }
        Ok(())
    }
}

enum Look {
    Taken(TakenJob),
    /// Something moved: look once more at once.
    Again,
    Nothing {
        /// When the next job is due, if one waits.
        due_in: Option<Duration>,
    },
}
