//! Names of the headers, in the case in which E2B's own clients write them.
//!
//! Header names compare without regard to case: a server must take any.

/// Control plane: the key that decides the team.
pub const API_KEY: &str = "X-API-KEY";
/// Control plane, on create: 1 to 255 of `a-z 0-9 -`, so that a repeated request makes no second sandbox.
pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Answers of lists: the token of the next page; absent on the last.
pub const NEXT_TOKEN: &str = "X-Next-Token";
/// Answers of sandbox lists: how many run.
pub const TOTAL_RUNNING: &str = "X-Total-Running";
/// Answers: `true` asks the client to repeat the request, any other value forbids it.
pub const SHOULD_RETRY: &str = "Should-Retry";
/// Answers of status 429 and 503: whole seconds to wait.
pub const RETRY_AFTER: &str = "Retry-After";

/// Data plane: which sandbox is meant.
pub const SANDBOX_ID: &str = "E2b-Sandbox-Id";
/// Data plane: which port in the sandbox is meant; [`ENVD_PORT`](super::ENVD_PORT) is the agent's.
pub const SANDBOX_PORT: &str = "E2b-Sandbox-Port";
/// Data plane: the token that create or connect returned.
pub const ACCESS_TOKEN: &str = "X-Access-Token";
/// Data plane: the token for the ports of a sandbox without public traffic.
pub const TRAFFIC_ACCESS_TOKEN: &str = "e2b-traffic-access-token";
/// Uploads: `X-Metadata-<key>` becomes an attribute of the file.
pub const METADATA_PREFIX: &str = "X-Metadata-";

/// RPC: always `1`.
pub const CONNECT_PROTOCOL_VERSION: &str = "Connect-Protocol-Version";
/// RPC: whole milliseconds until the server ends the call, at least 1.
pub const CONNECT_TIMEOUT_MS: &str = "Connect-Timeout-Ms";
/// Long streams: whole seconds after which a silent stream gets a `keepalive` event.
pub const KEEPALIVE_PING_INTERVAL: &str = "Keepalive-Ping-Interval";

/// Content type of a unary RPC.
pub const UNARY_CONTENT_TYPE: &str = "application/json";
/// Content type of a streamed RPC: messages in frames.
pub const STREAM_CONTENT_TYPE: &str = "application/connect+json";
