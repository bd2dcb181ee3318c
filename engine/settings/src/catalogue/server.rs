//! Rows: the process, its address, its key and its logs.

use super::{LONGEST, Preset, Section, setting};
use crate::kind::Kind;

pub(super) const SERVER: Section = Section {
    title: "Server",
    intro: "Where the engine listens, who may use it, and how much of the machine it takes.",
    rows: &[
        setting(
            "AMBIENT_HOME",
            Kind::Path,
            Preset::Computed("`~/.ambient`"),
            "The folder of everything that the engine keeps on disk, where no other setting says otherwise.",
        )
        .advice("Change it to keep the data on another disk, or to run two engines beside each other."),
        setting("SERVER_HOST", Kind::Word, Preset::Is("127.0.0.1"), "The address on which the engine listens.")
            .advice("Set `0.0.0.0` in a container or on a server that others reach, and set `API_KEY` with it."),
        setting(
            "SERVER_PORT",
            Kind::PORT,
            Preset::Is("8080"),
            "The port on which the engine listens; `0` takes a free one, and the first line of output says which.",
        ),
        setting(
            "SERVER_WORKERS",
            Kind::Whole { least: 1, most: 1024 },
            Preset::Computed("one for each processor core"),
            "How many threads serve requests and run sessions. One process does all the work; media tools run beside it.",
        )
        .advice("Lower it to leave cores to ffmpeg on a small machine."),
        setting(
            "API_KEY",
            Kind::Word,
            Preset::Is("dev-token"),
            "The key that clients send as `x-api-key` or as a bearer token. The installer generates one and calls it `ENGINE_API_KEY`.",
        )
        .secret()
        .advice("Always set it when the engine is reachable from other machines: with the default it only starts on a loopback address."),
        setting(
            "SECRETS_KEY",
            Kind::Word,
            Preset::Computed("`API_KEY`"),
            "From this the key is derived under which the model keys of agents are sealed in the database.",
        )
        .secret()
        .advice("Set it before `API_KEY` is changed, to the old key: what was sealed under another value cannot be opened again. All engines over one database need the same."),
        setting(
            "ALLOW_DEV_TOKEN",
            Kind::Switch,
            Preset::Is("false"),
            "Lets the engine start with the default `API_KEY` on an address that is not loopback.",
        )
        .advice("Only where something else keeps strangers out, such as a container whose port is published on 127.0.0.1."),
        setting(
            "MAX_UPLOAD_BYTES",
            Kind::Bytes { least: 1, most: u64::MAX },
            Preset::Is("10GiB"),
            "The largest video that may be uploaded.",
        ),
        setting(
            "SHUTDOWN_GRACE_SECONDS",
            Kind::Seconds { least: 0, most: LONGEST },
            Preset::Is("30"),
            "How long running answers may go on after SIGTERM or SIGINT before they are interrupted.",
        )
        .advice("Keep it below the patience of whatever stops the process (`stop_grace_period` in a compose file)."),
        setting(
            "WORKER_ID",
            Kind::Word,
            Preset::Unset,
            "A name for this process in leases and queues. A random part is always added, so that two processes with one name stay apart.",
        )
        .advice("Set it to recognise a replica in logs."),
    ],
};

pub(super) const LOGS: Section = Section {
    title: "Logs",
    intro: "Logs go to standard error, one line an event, and never hold secrets or prompts.",
    rows: &[
        setting(
            "RUST_LOG",
            Kind::Text,
            Preset::Is("info"),
            "What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), or levels for parts such as `info,ambient_engine=debug`.",
        ),
        setting(
            "LOG_FORMAT",
            Kind::OneOf(&["text", "json"]),
            Preset::Is("text"),
            "`text` for people, `json` for a log collector.",
        ),
    ],
};
