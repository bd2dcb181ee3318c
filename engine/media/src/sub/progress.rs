//! How far a long command is, for standard error.

use std::fmt;

use serde::Serialize;

use crate::tiles::TilesDone;
use crate::youtube::YoutubeProgress;

/// A sign of life of a command. Its text is one line that programs can read: `AMBIENT_PROGRESS` and a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Progress {
    /// A download from YouTube.
    Youtube(YoutubeProgress),
    /// Tiles of a video.
    Tiles(TilesDone),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_no_json| fmt::Error)?;
        write!(f, "AMBIENT_PROGRESS {json}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::youtube::YoutubePhase;

    #[test]
    fn progress_is_a_line() {
        let progress = YoutubeProgress { phase: YoutubePhase::Downloading, done_bytes: 5, total_bytes: None };
        insta::assert_snapshot!(
            Progress::Youtube(progress),
            @r#"AMBIENT_PROGRESS {"phase":"downloading","done_bytes":5,"total_bytes":null}"#
        );
        let progress = Progress::Tiles(TilesDone { done_tiles: 3, total_tiles: 14 });
        insta::assert_snapshot!(progress, @r#"AMBIENT_PROGRESS {"done_tiles":3,"total_tiles":14}"#);
    }
}
