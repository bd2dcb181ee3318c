//! A real Redis.

use std::path::Path;
use std::sync::OnceLock;

use crate::servers::{Failure, Shared, address_of, run};

/// The address of a Redis.
pub(crate) fn redis_url() -> Result<String, Failure> {
    static URL: OnceLock<String> = OnceLock::new();
    let server = Shared { name: "redis", prepare: prepare_redis, url: |port| format!("redis://127.0.0.1:{port}/0") };
    address_of("AMBIENT_TEST_REDIS_URL", &URL, &server)
}

fn prepare_redis(folder: &Path, port: u16) -> Result<Vec<String>, Failure> {
    run(["redis-server", "--version"].map(str::to_owned).into_iter()).map_err(|error| {
        format!("there is no Redis for the tests (install Debian's package `redis-server`, or set AMBIENT_TEST_REDIS_URL): {error}")
    })?;
    let words = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"];
    let mut command: Vec<String> = words.map(str::to_owned).into();
    command.extend([folder.display().to_string(), "--port".to_owned(), port.to_string()]);
    Ok(command)
}
