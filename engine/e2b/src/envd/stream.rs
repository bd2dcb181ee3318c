//! A stream of messages from the agent, watched for silence and bounded in time.

use std::time::Duration;

use reqwest::Response;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::agent::{Envd, Health};
use crate::error::Error;
use crate::protocol::connect::{Code, EndOfStream};
use crate::protocol::{Frame, FrameDecoder};
use crate::transport::broken;

/// No message is larger: output comes in pieces of 32 KiB.
const MESSAGE_LIMIT: usize = 16 << 20;

/// The server ends a stream at its deadline. Only when it does not, the client does, this much later.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a stream is waited for after its last message.
const FINISH: Duration = Duration::from_millis(20);

/// Messages as they come. Dropping it closes the connection and nothing else: what runs in the sandbox goes on.
#[derive(Debug)]
pub(crate) struct MessageStream {
    envd: Envd,
    response: Response,
    decoder: FrameDecoder,
    limit: Duration,
    deadline: Instant,
    heard: Instant,
    probed: bool,
}

impl MessageStream {
    pub(crate) fn new(envd: Envd, response: Response, limit: Duration, deadline: Instant) -> Self {
        let decoder = FrameDecoder::new(MESSAGE_LIMIT);
        Self { envd, response, decoder, limit, deadline, heard: Instant::now(), probed: false }
    }

    pub(crate) fn envd(&self) -> &Envd {
        &self.envd
    }

    /// Whether the client itself had to end the stream at its deadline.
    pub(crate) fn is_overdue(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The next message, `None` after a good end. May be dropped at any point and called again without losing a byte.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Error> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(Frame::Message(payload))) => return parse(&payload).map(Some),
                Ok(Some(Frame::End(payload))) => return self.end(&payload).await.map(|()| None),
                Ok(None) if self.decoder.has_ended() => return Ok(None),
                Ok(None) => {}
                Err(error) => return Err(Error::Protocol { message: error.to_string() }),
            }
            self.read().await?;
        }
    }

    /// Reads what is left after the last message that matters, if it comes at once: only a stream that was read to its end leaves its connection to the next
    /// request, and a new one costs more than this wait.
    pub(crate) async fn finish(&mut self) {
        let rest = async { while let Ok(Some(_chunk)) = self.response.chunk().await {} };
        // A server that takes longer loses the connection, and nothing else.
        let _ = tokio::time::timeout(FINISH, rest).await;
    }

    /// Waits for more bytes, and while they do not come looks whether the sandbox lives.
    async fn read(&mut self) -> Result<(), Error> {
        let config = self.envd.config();
        let (probe_after, stall_after) = (config.keepalive_interval * 2, config.stall_after);
        loop {
            let silence_ends = self.heard + if self.probed { stall_after } else { probe_after.min(stall_after) };
            let wake = silence_ends.min(self.deadline);
            match tokio::time::timeout_at(wake, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    self.decoder.push(&chunk);
                    self.heard = Instant::now();
                    self.probed = false;
                    return Ok(());
                }
                Ok(Ok(None)) => {
                    return match self.decoder.finish() {
                        Ok(()) => Ok(()),
                        Err(error) => Err(self.envd.diagnose(Error::Broken { message: error.to_string() }).await),
                    };
                }
                Ok(Err(error)) => return Err(self.envd.diagnose(broken(error)).await),
                Err(_elapsed) if Instant::now() >= self.deadline => {
                    return Err(Error::CommandTimedOut { limit: self.limit });
                }
                Err(_elapsed) => self.judge_silence().await?,
            }
        }
    }

    /// Two keepalives in a row did not come. A sandbox that is gone is told at once; one that answers gets the time in which even a server shows life that
    /// ignores the interval it was asked for.
    async fn judge_silence(&mut self) -> Result<(), Error> {
        let silence = self.heard.elapsed();
        match self.envd.health().await {
            Health::Gone(message) | Health::Silent(message) => Err(self.envd.lost(message)),
            Health::Good if silence >= self.envd.config().stall_after => {
                Err(Error::StreamStalled { sandbox_id: self.envd.sandbox_id().to_owned(), silence })
            }
            Health::Good => {
                self.probed = true;
                Ok(())
            }
        }
    }

    async fn end(&self, payload: &[u8]) -> Result<(), Error> {
        let end: EndOfStream = if payload.is_empty() { EndOfStream::default() } else { parse(payload)? };
        match end.error {
            None => Ok(()),
            Some(error) if error.code == Code::DeadlineExceeded => Err(Error::CommandTimedOut { limit: self.limit }),
            Some(error) => Err(self.envd.rpc_error(error).await),
        }
    }
}

fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(payload)
        .map_err(|error| Error::Protocol { message: format!("a message of a stream: {error}") })
}
