//! What failures of media work mean for the model; what only the operator can use goes to the log.

use ambient_media::MediaError;

use super::InProcess;
use crate::backend::{BackendError, mirror};
use crate::store::chain;

/// Characters of a program's last words that a model is shown.
const WORDS_SHOWN: usize = 400;

impl InProcess {
    /// What a media error means for the model. What only the operator can use goes to the log.
    pub(super) fn told(&self, error: &MediaError) -> BackendError {
        let short = |text: &str| {
            let text = text.replace(self.config.video_folder.as_str(), "…");
            let skipped = text.chars().count().saturating_sub(WORDS_SHOWN);
            text.chars().skip(skipped).collect::<String>()
        };
        let words = match error {
            MediaError::Cancelled => return BackendError::Cancelled,
            MediaError::Refused { refusal, .. } => format!("the file cannot be used: {refusal}"),
            MediaError::Start { program, .. } => format!(
                "`{}` could not be started on this engine; its operator can find the reason with `ambientctl doctor`",
                program.file_name().unwrap_or_default()
            ),
            MediaError::Exit { program, stderr_tail, .. } => {
                format!("`{}` failed: {}", program.file_name().unwrap_or_default(), short(stderr_tail))
            }
            MediaError::TimedOut { limit, .. } => {
                format!("the media work took longer than {limit:?} and was ended; ask for a shorter window")
            }
            MediaError::Undecodable { at, stderr_tail } => {
                format!("no picture could be decoded at {at} s: {}", short(stderr_tail))
            }
            MediaError::File { action, source } => format!("could not {action}: {}", source.kind()),
            MediaError::Bucket(error) => {
                return match mirror::told(error) {
                    BackendError::Media(words) => BackendError::Media(format!("the video could not be read: {words}")),
                    other => other,
                };
            }
            MediaError::BadPicture { reason, .. } => format!("could not read the picture: {}", short(reason)),
            // These speak of times and sizes alone; a kind that is added later is kept free of paths all the same.
            _ => short(&error.to_string()),
        };
        if matches!(
            error,
            MediaError::Start { .. } | MediaError::Exit { .. } | MediaError::File { .. } | MediaError::TimedOut { .. }
        ) {
            tracing::warn!(error = %chain(error), "media work failed");
        }
        BackendError::Media(words)
    }
}
