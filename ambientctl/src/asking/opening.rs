//! A session over a video: what `ask` and `chat` begin with.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::markdown::printable;
use super::{AnswerArgs, AskError, Video, subtitles};
use crate::engine_client::{Block, EngineClient, NewSession, Session};
use crate::output::{Printer, Progress};
use crate::signals::Signals;

/// What is asked about, and how it is to be answered. Its files were read.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) video: Video,
    pub(super) subtitles: Option<Block>,
    pub(super) answer: AnswerArgs,
}

impl Subject {
    pub(super) fn prepare(video: &str, subtitles: Option<&Path>, answer: &AnswerArgs) -> Result<Self, AskError> {
        let video = Video::named(video)?;
        let subtitles = subtitles.map(subtitles::read).transpose()?;
        Ok(Self { video, subtitles, answer: answer.clone() })
    }

    /// Brings the video into the engine and opens a session over it.
    pub(super) async fn open(
        &self,
        engine: &EngineClient,
        stop: &CancellationToken,
        printer: Printer,
    ) -> Result<Session, AskError> {
        let progress = Progress::new(printer);
        let name = match &self.video {
            Video::File(path) => path.display().to_string(),
            Video::Address(url) => url.clone(),
        };
        progress.say("video", &format!("opening {}", printable(&name)));
        let progress = Arc::new(progress);
        let told = Arc::clone(&progress);
        let brought = self.video.bring(engine, stop, move |how_far| told.say("video", &printable(how_far))).await;
        progress.finish();
        let video = brought?;
        let wish = NewSession {
            fast: self.answer.fast,
            model: self.answer.model.clone(),
            max_turns: self.answer.max_turns,
            ..NewSession::over(&video.id)
        };
        Ok(engine.create_session(&wish).await?)
    }
}

/// Does work until it is done. The first signal cancels `stop`, which is to end the work in good order; the second leaves
/// it as it is.
pub(super) async fn until_signal<T>(
    signals: &mut Signals,
    stop: &CancellationToken,
    note: impl Fn(&str),
    work: impl Future<Output = Result<T, AskError>>,
) -> Result<T, AskError> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            ended = &mut work => return ended,
            _name = signals.next() => {
                if stop.is_cancelled() {
                    return Err(AskError::Interrupted);
                }
                note("stopping; once more leaves at once");
                stop.cancel();
            }
        }
    }
}
