//! Rows: the agent loop, fast mode, sessions and the shell tool.

use super::{LONGEST, Preset, Section, setting};
use crate::kind::Kind;

pub(super) const AGENT: Section = Section {
    title: "Agent",
    intro: "How the agent works on a question.",
    rows: &[
        setting("DEFAULT_AGENT_NAME", Kind::Text, Preset::Is("Video Analyst"), "The name of the built-in agents."),
        setting(
            "DEFAULT_AGENT_SYSTEM",
            Kind::Text,
            Preset::Is("Analyze videos and answer with citations."),
            "What the built-in agents are told, before the tools' own instructions. Empty tells them nothing.",
        ),
        setting(
            "MAX_TURNS_PER_RUN",
            Kind::Whole { least: 1, most: 1000 },
            Preset::Is("20"),
            "How many times the agent may call tools and think again before it has to answer.",
        )
        .advice("Raise it for long, many-sided questions; each turn costs a model call."),
        setting(
            "EXPOSE_THINKING",
            Kind::Switch,
            Preset::Is("true"),
            "Shows the model's reasoning in the stream as events of their own.",
        ),
        setting(
            "DISABLE_SELF_VIDEO_ANALYSIS_TOOL",
            Kind::Switch,
            Preset::Is("false"),
            "Makes the agent ask the video model about clips even when the agent model could look at them itself.",
        )
        .advice("Turn it on when the agent model is costly and the video model is good enough."),
        setting(
            "MAX_CLIPS_PER_PROMPT",
            Kind::Whole { least: 1, most: 10_000 },
            Preset::Is("18"),
            "How many clips a request to the model holds; older ones are left out first, the overview of the video last.",
        ),
        setting(
            "MAX_FRAMES_PER_PROMPT",
            Kind::Whole { least: 1, most: 100_000 },
            Preset::Is("500"),
            "How many pictures a request to the model holds. A provider's own limit counts when it is lower.",
        ),
        setting(
            "FIRST_TURN_WAIT_FOR_DESCRIPTION",
            Kind::Switch,
            Preset::Is("true"),
            "Lets the first question over a new video wait for the video's description, so that the agent knows what it is about.",
        ),
        setting(
            "FIRST_TURN_DESCRIPTION_TIMEOUT_SECONDS",
            Kind::Seconds { least: 0, most: LONGEST },
            Preset::Is("300"),
            "The longest such wait; after it the agent works without a description.",
        ),
    ],
};

pub(super) const FAST: Section = Section {
    title: "Fast mode",
    intro: "One look at the whole video and one answer, without tools.",
    rows: &[
        setting(
            "FAST_MAX_TOKENS",
            Kind::Whole { least: 1, most: 10_000_000 },
            Preset::Is("64000"),
            "The most tokens of an answer in fast mode.",
        ),
        setting(
            "FAST_DISABLE_THINKING",
            Kind::Switch,
            Preset::Is("false"),
            "Asks the model to answer without reasoning first, which is faster and often a little worse.",
        ),
    ],
};

pub(super) const SESSIONS: Section = Section {
    title: "Sessions",
    intro: "What becomes of sessions that nobody ends. `0` turns a limit off.",
    rows: &[
        setting(
            "SESSION_IDLE_TTL_SECONDS",
            Kind::Seconds { least: 0, most: LONGEST },
            Preset::Is("1800"),
            "How long a session may be idle before its sandbox is shut down. The session itself stays, and gets a new sandbox with its next message.",
        ),
        setting(
            "SESSION_HARD_TTL_SECONDS",
            Kind::Seconds { least: 0, most: LONGEST },
            Preset::Is("86400"),
            "How old a session may become before it is ended for good.",
        )
        .advice("Raise it when people come back to a conversation after days."),
    ],
};

pub(super) const BASH: Section = Section {
    title: "Shell tool",
    intro: "The agent's `bash` tool. On `e2b` it runs in the session's sandbox; in-process it runs on the engine's host with soft limits only, \
            so turn it off or use `e2b` when people whom you do not trust reach your engine.",
    rows: &[
        setting("ENABLE_BASH_TOOL", Kind::Switch, Preset::Is("true"), "Offers the `bash` tool to the agent."),
        setting(
            "BASH_TIMEOUT_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("120"),
            "How long a command may run, unless the model asks for less or more.",
        ),
        setting(
            "BASH_MAX_OUTPUT_BYTES",
            Kind::Bytes { least: 1, most: 104_857_600 },
            Preset::Is("20000"),
            "How much of a command's output the model sees, for standard output and standard error each.",
        ),
        setting(
            "BASH_CWD",
            Kind::Path,
            Preset::Computed("`VIDEO_FOLDER`"),
            "Where commands work in-process: each session has a folder `sessions/ID` of its own in it.",
        ),
    ],
};
