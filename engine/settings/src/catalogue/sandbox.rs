//! Rows: where media work runs, and how E2B is reached.

use super::{LONGEST, Preset, Section, setting};
use crate::kind::Kind;

pub(super) const SANDBOX: Section = Section {
    title: "Sandboxes",
    intro: "Media work and shell commands run on the engine's host, or in an E2B sandbox for each session.",
    rows: &[
        setting(
            "SANDBOX_BACKEND",
            Kind::Open(&["inprocess", "e2b"]),
            Preset::Is("inprocess"),
            "Where media work runs. Only the exact value `e2b` selects E2B; everything else runs on the host, with a warning at start when it is neither `inprocess` nor `host`.",
        )
        .advice("Set `e2b` for an engine that several people share. It needs a bucket, `E2B_API_KEY` and the template."),
        setting(
            "SANDBOX_WALL_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("1800"),
            "How long a sandbox lives after its last command.",
        )
        .advice("Raise it when people pause longer than half an hour; lower it to save money. E2B's own plans have an upper limit."),
        setting(
            "SANDBOX_RECREATE",
            Kind::Switch,
            Preset::Is("true"),
            "Gives a session whose sandbox is gone a new one with its next message. Off, such a session can run no media tools any more.",
        ),
        setting(
            "SANDBOX_CPU_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("600"),
            "How much processor time one media or shell command may use in-process.",
        )
        .advice("Raise it when long videos fail with a limit on a slow machine."),
        setting(
            "SANDBOX_MEMORY_MB",
            Kind::Whole { least: 256, most: 1_048_576 },
            Preset::Is("4096"),
            "How much memory one media or shell command may use in-process, in MiB.",
        ),
        setting(
            "BOX_VIDEO_FOLDER",
            Kind::Path,
            Preset::Is("/tmp/videos/"),
            "The folder of videos inside a sandbox.",
        ),
    ],
};

pub(super) const E2B: Section = Section {
    title: "E2B",
    intro: "The E2B account and template for `SANDBOX_BACKEND=e2b`.",
    rows: &[
        setting("E2B_API_KEY", Kind::Word, Preset::Unset, "The key of your E2B team, from e2b.dev.").secret(),
        setting(
            "E2B_TEMPLATE",
            Kind::Word,
            Preset::Is("video-analysis-v1"),
            "The sandbox template: the name under which `ambientctl template build` built it in the team that owns the key.",
        ),
        setting("E2B_DOMAIN", Kind::Word, Preset::Is("e2b.app"), "The domain of the E2B service.")
            .advice("Set it for a self-hosted E2B."),
        setting(
            "E2B_API_URL",
            Kind::HTTP,
            Preset::Computed("`https://api.<E2B_DOMAIN>`"),
            "The address of E2B's control plane, such as that of a local `ambientctl sandboxd`.",
        ),
        setting(
            "E2B_SANDBOX_URL",
            Kind::HTTP,
            Preset::Computed("a host for each sandbox under `E2B_DOMAIN`"),
            "One address for all sandboxes instead of a host name for each; the headers say which sandbox is meant.",
        ),
        setting(
            "E2B_DEBUG",
            Kind::Switch,
            Preset::Is("false"),
            "Talks to E2B parts on this machine: `http://localhost:3000` and sandboxes on `localhost`.",
        ),
    ],
};
