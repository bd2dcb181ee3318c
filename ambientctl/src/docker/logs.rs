//! What containers say.

use bollard::query_parameters::{LogsOptions, LogsOptionsBuilder};
use futures::stream::{SelectAll, StreamExt};

use super::{Connection, FoundContainer};

/// How much of a log is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// All of it.
    All,
    /// The last lines.
    Lines(usize),
}

/// What is wanted of the logs.
#[derive(Clone, Copy, Debug)]
pub struct LogWishes {
    /// Whether to go on with what is said later.
    pub follow: bool,
    /// Whether each line shows when it was said.
    pub timestamps: bool,
    /// How much of what was said before.
    pub tail: Tail,
}

fn options(wishes: LogWishes) -> LogsOptions {
    let tail = match wishes.tail {
        Tail::All => "all".to_owned(),
        Tail::Lines(lines) => lines.to_string(),
    };
    LogsOptionsBuilder::default()
        .follow(wishes.follow)
        .stdout(true)
        .stderr(true)
        .timestamps(wishes.timestamps)
        .tail(&tail)
        .build()
}

/// Gives every line of several containers to `line`, with its service, as they come, until that says that nobody reads any
/// more. A container whose log cannot be read says so in its place.
pub async fn follow(
    connection: &Connection,
    containers: &[FoundContainer],
    wishes: LogWishes,
    line: &mut dyn FnMut(&str, &str) -> bool,
) {
    let mut all = SelectAll::new();
    for (index, container) in containers.iter().enumerate() {
        let stream = connection.docker.logs(&container.id, Some(options(wishes)));
        all.push(Box::pin(stream.map(move |output| (index, output))));
    }
    let mut unfinished: Vec<Vec<u8>> = vec![Vec::new(); containers.len()];
    while let Some((index, output)) = all.next().await {
        let service = &containers[index].service;
        match output {
            Ok(output) => {
                unfinished[index].extend_from_slice(&output.into_bytes());
                while let Some(end) = unfinished[index].iter().position(|byte| *byte == b'\n') {
                    let whole: Vec<u8> = unfinished[index].drain(..=end).collect();
                    if !line(service, String::from_utf8_lossy(&whole).trim_end_matches(['\n', '\r'])) {
                        return;
                    }
                }
            }
            Err(error) => {
                line(service, &format!("(its log cannot be read: {error})"));
            }
        }
    }
    for (container, rest) in containers.iter().zip(unfinished) {
        if !rest.is_empty() {
            line(&container.service, String::from_utf8_lossy(&rest).trim_end_matches('\r'));
        }
    }
}

/// The end of a container's log; nothing when it cannot be read.
pub async fn last_lines(connection: &Connection, id: &str, count: usize) -> Vec<String> {
    let wishes = LogWishes { follow: false, timestamps: false, tail: Tail::Lines(count) };
    let container = FoundContainer { id: id.to_owned(), ..FoundContainer::default() };
    let mut lines = Vec::new();
    follow(connection, std::slice::from_ref(&container), wishes, &mut |_, line| {
        lines.push(line.to_owned());
        true
    })
    .await;
    lines
}
