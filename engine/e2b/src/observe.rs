//! What sandboxes use and say: metrics and logs.

use jiff::Timestamp;
use reqwest::Method;

use crate::api_error::{Subject, is_about_route};
use crate::client::{Client, checked_id, parse};
use crate::error::Error;
use crate::protocol::{LogDirection, LogEntry, LogLevel, SandboxLogs, SandboxLogsPage, SandboxMetric};
use crate::transport::ApiRequest;

/// Which log lines are asked for; by default the service's choice.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// Lines from then on, or up to then when they run backward.
    pub cursor: Option<Timestamp>,
    /// How many, at most 1000.
    pub limit: Option<u32>,
    /// Which way they run.
    pub direction: Option<LogDirection>,
    /// How grave they are at least.
    pub level: Option<LogLevel>,
    /// A text that they hold.
    pub search: Option<String>,
}

impl Client {
    /// What a sandbox used between two moments, or what it uses now.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn metrics(
        &self,
        sandbox_id: &str,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Result<Vec<SandboxMetric>, Error> {
        if self.config().debug {
            return Ok(Vec::new());
        }
        let id = checked_id(sandbox_id)?;
        let request = ApiRequest::new(Method::GET, format!("/sandboxes/{id}/metrics"))
            .query("start", start.map(Timestamp::as_second))
            .query("end", end.map(Timestamp::as_second));
        parse(&self.api(&request).await?, Subject::Sandbox(id), "metrics")
    }

    /// Log lines of a sandbox.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn logs(&self, sandbox_id: &str, query: &LogQuery) -> Result<Vec<LogEntry>, Error> {
        let id = checked_id(sandbox_id)?;
        let millis = query.cursor.map(Timestamp::as_millisecond);
        let request = ApiRequest::new(Method::GET, format!("/v2/sandboxes/{id}/logs"))
            .query("cursor", millis)
            .query("limit", query.limit)
            .query("direction", query.direction.map(LogDirection::as_str))
            .query("level", query.level.map(LogLevel::as_str))
            .query("search", query.search.as_ref());
        let answer = self.api(&request).await?;
        if !is_about_route(&answer) {
            let page: SandboxLogsPage = parse(&answer, Subject::Sandbox(id), "logs")?;
            return Ok(page.logs);
        }
        let of_old = ApiRequest::new(Method::GET, format!("/sandboxes/{id}/logs"))
            .query("start", millis)
            .query("limit", query.limit);
        let logs: SandboxLogs = parse(&self.api(&of_old).await?, Subject::Sandbox(id), "logs")?;
        Ok(logs.log_entries)
    }
}
