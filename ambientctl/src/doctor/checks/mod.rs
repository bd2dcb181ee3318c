//! The checks, a file each. Each looks at one side of the target and says what it sees.

mod backend;
mod bucket;
mod certificates;
mod containers;
mod disk;
mod e2b_boot;
mod e2b_key;
mod e2b_template;
mod env_file;
mod llm;
mod llm_deep;
mod overrides;
mod ports;
mod programs;
mod redis;
mod sessions;
mod settings;
mod store;
mod version;

use super::runner::Check;

/// A row of the table: the check's name, and the module that looks.
macro_rules! check {
    ($id:literal, $run:path) => {
        check!($id, $run, false)
    };
    ($id:literal, $run:path, $is_long_when_deep:literal) => {
        Check {
            id: $id,
            cut_off: concat!($id, ".timeout"),
            is_long_when_deep: $is_long_when_deep,
            run: |context, sink| Box::pin($run(context, sink)),
        }
    };
}

/// All checks, in the order in which they are shown: what others stand on first.
pub(super) const CHECKS: &[Check] = &[
    check!("env-file", env_file::look),
    check!("settings", settings::look),
    check!("override", overrides::look),
    check!("backend", backend::look),
    check!("certificates", certificates::look),
    check!("e2b-key", e2b_key::look),
    check!("e2b-template", e2b_template::look),
    check!("e2b-boot", e2b_boot::look, true),
    check!("bucket", bucket::look),
    check!("llm", llm::look, true),
    check!("store", store::look),
    check!("redis", redis::look),
    check!("disk", disk::look),
    check!("ffmpeg", programs::ffmpeg),
    check!("ffprobe", programs::ffprobe),
    check!("yt-dlp", programs::yt_dlp),
    check!("docker", containers::look),
    check!("ports", ports::look),
    check!("version", version::look),
    check!("sessions", sessions::look),
];
