//! Structured logs to stderr: text for people, or one JSON object a line.

use std::io::{self, IsTerminal as _};

use ambient_ctl::output::{Exit, Failure};
use ambient_settings::{LogFormat, LogSettings};
use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process.
///
/// # Errors
/// When `RUST_LOG` is no filter.
pub(crate) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|error| {
        Failure::new(Exit::Usage, BadFilter { filter: settings.filter.clone(), source: error })
            .hint("write `RUST_LOG` as `info`, or as `info,ambient_engine=debug`")
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match settings.format {
        LogFormat::Json => logs.json().flatten_event(true).with_current_span(true).with_span_list(false).init(),
        LogFormat::Text => logs.with_ansi(is_coloured()).init(),
    }
    Ok(())
}

/// Colour on a terminal only, and never where `NO_COLOR` holds something.
fn is_coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[derive(Debug, thiserror::Error)]
#[error("`RUST_LOG` cannot be `{filter}`")]
struct BadFilter {
    filter: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}
