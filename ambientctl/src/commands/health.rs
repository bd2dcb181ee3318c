//! `ambientctl health`: asks a running engine whether it is up, and whether everything it needs answers.
//!
//! Made for container health checks and scripts: the answer is the exit code. 0 the engine is up and ready, 1 it is up and
//! something that it needs is not, 3 nobody answered.

use std::time::Duration;

use ambient_settings::Settings;
use reqwest::StatusCode;
use serde_json::{Value, json};
use url::Url;

use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl health`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The engine's base URL [default: what `SERVER_HOST` and `SERVER_PORT` say]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Seconds to wait for each answer
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error("no engine answers at `{url}`")]
    Silent {
        url: Url,
        #[source]
        source: reqwest::Error,
    },
    #[error("`{url}` answered {status}, so it is not a healthy engine")]
    Stranger { url: Url, status: StatusCode },
    #[error("`{0}` cannot be a base URL")]
    NoBase(String),
    #[error("could not set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Asks `/v1/healthz`, then `/readyz`, and prints what was found.
///
/// # Errors
/// When nobody answers, or somebody who is no engine.
pub async fn run(args: &Args, environment: &Environment, printer: &Printer) -> Result<Exit, Failure> {
    let base = match &args.url {
        Some(url) => url.clone(),
        None => base_url(&own_address(&environment.settings(&[], printer)?))?,
    };
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(args.timeout))
        .no_proxy() // an engine's health is asked on its own network
        .build()
        .map_err(|source| Failure::new(Exit::Internal, HealthError::Client(source)))?;

    let health = path_of(&base, "v1/healthz")?;
    let answer = get(&client, &health).await?;
    if answer.status() != StatusCode::OK {
        let error = HealthError::Stranger { url: health, status: answer.status() };
        return Err(Failure::new(Exit::Unhealthy, error).hint("is this the engine's base URL, without `/v1`?"));
    }

    let answer = get(&client, &path_of(&base, "readyz")?).await?;
    let ready = answer.status().is_success();
    let readiness = answer.json::<Value>().await.unwrap_or(Value::Null);
    let url = base.as_str().trim_end_matches('/');
    if printer.json {
        printer.data(&json!({ "url": url, "healthy": true, "ready": ready, "readiness": readiness }).to_string());
    } else if ready {
        printer.data(&format!("{url} is up and ready"));
    } else {
        printer.data(&format!("{url} is up, but not ready:\n{readiness:#}"));
    }
    Ok(if ready { Exit::Ok } else { Exit::Unhealthy })
}

async fn get(client: &reqwest::Client, url: &Url) -> Result<reqwest::Response, Failure> {
    client.get(url.clone()).send().await.map_err(|source| {
        let error = HealthError::Silent { url: url.clone(), source: source.without_url() };
        Failure::new(Exit::Unreachable, error).hint("start one with `ambientctl serve`, or name another with `--url`")
    })
}

/// Where an engine with these settings is reached from the same machine.
fn own_address(settings: &Settings) -> String {
    let host = match settings.server.host.trim_start_matches('[').trim_end_matches(']') {
        "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        address if address.contains(':') => format!("[{address}]"),
        name => name.to_owned(),
    };
    format!("http://{host}:{}", settings.server.port)
}

fn base_url(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|_malformed| no_base(text))
}

fn no_base(text: &str) -> Failure {
    Failure::new(Exit::Usage, HealthError::NoBase(text.to_owned())).hint("write it as `http://HOST:PORT`")
}

fn path_of(base: &Url, path: &str) -> Result<Url, Failure> {
    let mut url = base.clone();
    url.path_segments_mut().map_err(|()| no_base(base.as_str()))?.pop_if_empty().extend(path.split('/'));
    Ok(url)
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;

    #[test]
    fn the_own_address_is_one_that_can_be_dialled() {
        let home = tempfile::tempdir().unwrap();
        let mut settings = Settings::for_tests(Utf8Path::from_path(home.path()).unwrap());
        for (host, expected) in [
            ("127.0.0.1", "http://127.0.0.1:8080"),
            ("0.0.0.0", "http://127.0.0.1:8080"),
            ("::", "http://[::1]:8080"),
            ("[::1]", "http://[::1]:8080"),
            ("localhost", "http://localhost:8080"),
        ] {
            host.clone_into(&mut settings.server.host);
            settings.server.port = 8080;
            assert_eq!(own_address(&settings), expected, "for `{host}`");
        }
    }

    #[test]
    fn paths_are_put_behind_a_prefix() {
        for (base, expected) in [
            ("http://h:1", "http://h:1/v1/healthz"),
            ("http://h:1/", "http://h:1/v1/healthz"),
            ("http://h/prefix", "http://h/prefix/v1/healthz"),
            ("http://h/prefix/", "http://h/prefix/v1/healthz"),
        ] {
            assert_eq!(path_of(&Url::parse(base).unwrap(), "v1/healthz").unwrap().as_str(), expected);
        }
        assert_eq!(path_of(&Url::parse("mailto:x").unwrap(), "readyz").unwrap_err().exit(), Exit::Usage);
    }
}
