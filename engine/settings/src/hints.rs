//! Names that are no settings: slips of known ones, names that other parts read, and names that earlier engines had.

use std::fmt;

use strsim::damerau_levenshtein;

use crate::catalogue::{catalogue, find};

/// What can be said about a name that is no setting. The text follows the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// It is a slip of this setting.
    DidYouMean(&'static str),
    /// It begins like our settings, but nothing reads it.
    NothingReadsIt,
    /// It meant something once or elsewhere; the note says what to do instead.
    Note(&'static str),
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DidYouMean(name) => write!(f, "is no setting, so nothing reads it; did you mean `{name}`?"),
            Self::NothingReadsIt => {
                f.write_str("is no setting, so nothing reads it; the settings are in `docs/configuration.md`")
            }
            Self::Note(note) => f.write_str(note),
        }
    }
}

/// Names with a note of their own.
const NOTES: &[(&str, &str)] = &[
    ("SQLITE_DB_PATH", "is gone; a SQLite file is chosen by `DATABASE_URL=sqlite:///FOLDER/FILE`"),
    ("SERVER_DB_PATH", "is gone; a SQLite file is chosen by `DATABASE_URL=sqlite:///FOLDER/FILE`"),
    ("SQLITE_COLLECTION_NAME", "is gone; nothing replaces it"),
    ("EMBEDDING_SERVICE_KEY", "is gone; there are no embeddings any more"),
    ("EMBEDDING_API_KEY", "is gone; there are no embeddings any more"),
    ("EMBEDDING_BASE_URL", "is gone; there are no embeddings any more"),
    ("EMBEDDING_MODEL", "is gone; there are no embeddings any more"),
    ("EMBEDDING_DIMENSION", "is gone; there are no embeddings any more"),
    ("EMBEDDING_CLIENT", "is gone; there are no embeddings any more"),
    ("VIDEO_CLIP_DURATION", "is gone; the agent chooses the length of a clip"),
    ("VIDEO_CLIP_FPS", "is gone; set `ANALYSIS_FPS`"),
    ("VIDEO_CLIP_MAX_DIMENTIONS", "is gone; set `ANALYSIS_MAX_DIM`"),
    ("EXTERNAL_VIDEO_BOX_ROOTS", "is gone; on the host, set `EXTERNAL_VIDEO_ALLOWED_ROOTS`"),
    ("DECORD_MAX_DURATION_SECS", "is gone; frames are read with ffmpeg, whatever the length"),
    ("AMBIENT_API_KEY", "is read by clients; the engine's own key is `API_KEY`"),
    ("AMBIENT_AGENT_MODEL", "is no setting of the engine; set `AGENT_MODEL`"),
    (
        "OPENROUTER_API_KEY",
        "is not read by the engine; set `LLM_API_KEY`, and `LLM_BASE_URL=https://openrouter.ai/api/v1`",
    ),
    ("OPENAI_API_KEY", "is not read by the engine; set `LLM_API_KEY`, and `LLM_BASE_URL=https://api.openai.com/v1`"),
    ("S3_REGION", "is no setting; set `AWS_REGION`"),
    ("S3_ENDPOINT_URL", "is no setting; set `S3_ENDPOINT`"),
    ("AWS_ENDPOINT_URL", "is no setting; set `S3_ENDPOINT`"),
    ("S3_ACCESS_KEY_ID", "is no setting; set `AWS_ACCESS_KEY_ID`"),
    ("S3_SECRET_ACCESS_KEY", "is no setting; set `AWS_SECRET_ACCESS_KEY`"),
    ("AWS_ACCESS_KEY", "is no setting; set `AWS_ACCESS_KEY_ID`"),
    ("AWS_SECRET_KEY", "is no setting; set `AWS_SECRET_ACCESS_KEY`"),
];

/// Names of neighbours that begin like ours: the installer, its compose file, and E2B's own tools.
const NEIGHBOURS: &[&str] = &[
    "AMBIENT_BASE_URL",
    "AMBIENT_BIND",
    "AMBIENT_DIR",
    "AMBIENT_DOWNLOAD_BASE",
    "AMBIENT_ENGINE_IMAGE",
    "AMBIENT_ENGINE_PORT",
    "AMBIENT_LLM_BASE_URL",
    "AMBIENT_LLM_KEY",
    "AMBIENT_MODEL",
    "AMBIENT_PROJECT",
    "AMBIENT_SKIP_PULL",
    "AMBIENT_STUDIO_IMAGE",
    "AMBIENT_STUDIO_PORT",
    "AMBIENT_VERSION",
    "AMBIENT_VIDEO_MODEL",
    "AUTH_SECRET",
    "AWS_PROFILE",
    "COMPOSE_FILE",
    "COMPOSE_PROFILES",
    "COMPOSE_PROJECT_NAME",
    "E2B_ACCESS_TOKEN",
    "E2B_TEAM_ID",
    "E2B_VALIDATE_API_KEY",
    "ENGINE_API_KEY",
    "POSTGRES_DB",
    "POSTGRES_PASSWORD",
    "POSTGRES_USER",
];

/// Beginnings that only our settings have.
const OUR_BEGINNINGS: &[&str] = &[
    "AGENT_",
    "AMBIENT_",
    "ANALYSIS_",
    "ARTIFACT_",
    "BASH_",
    "BOX_",
    "DESCRIPTION_",
    "E2B_",
    "FAST_",
    "FIRST_TURN_",
    "INGEST_",
    "LLM_",
    "MEDIA_",
    "S3_",
    "SANDBOX_",
    "SERVER_",
    "SESSION_",
    "STREAM_",
    "TILE_",
    "TILING_",
    "YOUTUBE_",
];

/// From this length on two slips still point at one setting.
const LONG_NAME: usize = 10;

/// From this length on a name of the process environment, where everybody's names are, may be a slip of ours.
const TELLING_NAME: usize = 8;

/// What can be said about a name in a `.env` file or on the command line; `None` for a setting and for a stranger.
pub fn unknown_name(name: &str) -> Option<UnknownName> {
    let capitals = name.to_ascii_uppercase();
    if find(&capitals).is_some() || NEIGHBOURS.contains(&capitals.as_str()) {
        return None;
    }
    if let Some((_, note)) = NOTES.iter().find(|(noted, _)| *noted == capitals) {
        return Some(UnknownName::Note(note));
    }
    let slips = if capitals.len() >= LONG_NAME { 2 } else { 1 };
    if let Some(nearest) = nearest(&capitals, slips) {
        return Some(UnknownName::DidYouMean(nearest));
    }
    OUR_BEGINNINGS.iter().any(|beginning| capitals.starts_with(beginning)).then_some(UnknownName::NothingReadsIt)
}

/// What can be said about a name in the process environment: only what is one slip away, and long enough to be ours.
pub(crate) fn unknown_in_environment(name: &str) -> Option<UnknownName> {
    if name.len() < TELLING_NAME {
        return None;
    }
    match unknown_name(name)? {
        UnknownName::DidYouMean(meant) if damerau_levenshtein(name, meant) == 1 => Some(UnknownName::DidYouMean(meant)),
        UnknownName::DidYouMean(_) | UnknownName::NothingReadsIt | UnknownName::Note(_) => None,
    }
}

/// The setting that is at most `slips` letters away and nearer than all others. A missing or extra `_` is no slip of its
/// own kind, but `S3BUCKET` is one letter away all the same.
fn nearest(capitals: &str, slips: usize) -> Option<&'static str> {
    catalogue()
        .map(|setting| (damerau_levenshtein(capitals, setting.name), setting.name))
        .filter(|(distance, _)| *distance <= slips)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<UnknownName>) {
        assert_eq!(unknown_name(name), expected, "{name}");
    }

    #[test]
    fn a_slip_points_at_the_setting_that_was_meant() {
        for (name, meant) in [
            ("SANDBOX_BACKENT", "SANDBOX_BACKEND"),
            ("SANBOX_BACKEND", "SANDBOX_BACKEND"),
            ("S3BUCKET", "S3_BUCKET"),
            ("E2B_APIKEY", "E2B_API_KEY"),
            ("llm_base_ulr", "LLM_BASE_URL"),
            ("AWS_SECRET_ACCES_KEY", "AWS_SECRET_ACCESS_KEY"),
            ("AMBIENT_HOMW", "AMBIENT_HOME"),
        ] {
            check(name, Some(UnknownName::DidYouMean(meant)));
        }
    }

    #[test]
    fn a_name_with_our_beginning_is_read_by_nothing() {
        check("SANDBOX_COLOUR", Some(UnknownName::NothingReadsIt));
        check("INGEST_WORKERS_PER_NODE", Some(UnknownName::NothingReadsIt));
    }

    #[test]
    fn retired_names_get_a_note_instead_of_a_guess() {
        for name in ["SQLITE_DB_PATH", "EMBEDDING_MODEL", "VIDEO_CLIP_FPS", "OPENROUTER_API_KEY", "aws_secret_key"] {
            assert!(matches!(unknown_name(name), Some(UnknownName::Note(_))), "{name}");
        }
    }

    #[test]
    fn settings_neighbours_and_strangers_are_left_alone() {
        for name in ["SERVER_PORT", "server_port", "POSTGRES_PASSWORD", "AMBIENT_BIND", "PATH", "EDITOR", "HTTP_PROXY"]
        {
            check(name, None);
        }
    }

    #[test]
    fn notes_and_neighbours_are_no_settings() {
        for name in NOTES.iter().map(|(name, _)| name).chain(NEIGHBOURS) {
            assert!(find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn notes_name_only_settings_that_exist() {
        for (name, note) in NOTES {
            for quoted in note.split('`').skip(1).step_by(2) {
                let setting = quoted.split('=').next().unwrap_or_default();
                assert!(find(setting).is_some(), "{name}: {setting}");
            }
        }
    }

    #[test]
    fn the_process_environment_is_judged_more_mildly() {
        assert_eq!(unknown_in_environment("SANDBOX_BACKENT"), Some(UnknownName::DidYouMean("SANDBOX_BACKEND")));
        for name in ["API_KEYS", "SANBOX_BACKENT", "SANDBOX_COLOUR", "OPENAI_API_KEY", "API_KAY", "LOG_FORMATS_ALL"] {
            let expected = (name == "API_KEYS").then_some(UnknownName::DidYouMean("API_KEY"));
            assert_eq!(unknown_in_environment(name), expected, "{name}");
        }
    }
}
