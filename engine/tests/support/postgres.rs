//! A real Postgres.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::geteuid;

use crate::servers::{Failure, Shared, address_of, run};

/// The address of a Postgres whose user may make schemas, with a database of that server.
pub(crate) fn postgres_url() -> Result<String, Failure> {
    static URL: OnceLock<String> = OnceLock::new();
    let server = Shared {
        name: "postgres",
        prepare: prepare_postgres,
        url: |port| format!("postgres://ambient@127.0.0.1:{port}/postgres"),
    };
    address_of("AMBIENT_TEST_POSTGRES_URL", &URL, &server)
}

/// A new cluster, owned by a user that is not root, since Postgres runs as no root.
fn prepare_postgres(folder: &Path, port: u16) -> Result<Vec<String>, Failure> {
    let binaries = postgres_binaries()?;
    let as_user: Vec<String> = if geteuid().is_root() {
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"].map(str::to_owned).into()
    } else {
        Vec::new()
    };
    let cluster = folder.join("cluster");
    let _none = fs::remove_dir_all(&cluster);
    fs::create_dir(&cluster)?;
    if geteuid().is_root() {
        let owner = nix::unistd::User::from_name("postgres")?
            .ok_or("there is no user `postgres`: install Debian's package `postgresql`")?;
        nix::unistd::chown(&cluster, Some(owner.uid), Some(owner.gid))?;
    }
    let initdb = [binaries.join("initdb").display().to_string(), format!("--pgdata={}", cluster.display())];
    let plain = ["--username=ambient", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"];
    run(as_user.iter().cloned().chain(initdb).chain(plain.map(str::to_owned)))?;
    let settings = [
        format!("port={port}"),
        "listen_addresses=127.0.0.1".to_owned(),
        "unix_socket_directories=".to_owned(),
        "max_connections=300".to_owned(),
        "fsync=off".to_owned(),
    ];
    let mut command = as_user;
    command.push(binaries.join("postgres").display().to_string());
    command.extend(["-D".to_owned(), cluster.display().to_string()]);
    command.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
    Ok(command)
}

/// The newest version's.
fn postgres_binaries() -> Result<PathBuf, Failure> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|error| {
        format!("there is no Postgres for the tests (install Debian's package `postgresql`, or set AMBIENT_TEST_POSTGRES_URL): {error}")
    })?;
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .max_by_key(|name| name.parse::<u32>().unwrap_or(0))
        .ok_or("`/usr/lib/postgresql` is empty: install Debian's package `postgresql`")?;
    Ok(Path::new("/usr/lib/postgresql").join(newest).join("bin"))
}
