//! PostgreSQL with a fault: a cluster of this test alone, which asks for passwords and can be made a standby.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use ambient_ctl::doctor::Level;

use super::lab::{Lab, closed_port, remedy};

/// The password of its owner, `ambient`.
const PASSWORD: &str = "word-of-the-owner";

/// A running cluster. It ends when this is dropped.
struct Cluster {
    folder: tempfile::TempDir,
    bin: PathBuf,
    port: u16,
}

impl Cluster {
    fn start() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("postgres").tempdir()?;
        fs::write(folder.path().join("password"), PASSWORD)?;
        // The server refuses to run as root, and is run as its package's user then.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        let cluster = Self { folder, bin: bin()?, port: closed_port() };
        let password = cluster.path("password");
        cluster.server(
            "initdb",
            &["--username=ambient", "--auth=scram-sha-256", "--no-sync", &format!("--pwfile={password}")],
        )?;
        cluster.control("start")?;
        Ok(cluster)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Starts or stops it, and waits until that is done.
    fn control(&self, what: &str) -> io::Result<()> {
        let options =
            format!("-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off", self.port);
        self.server(
            "pg_ctl",
            &["--silent", "--wait", "--mode=fast", "--log", &self.path("log"), "--options", &options, what],
        )
    }

    /// A program of the server, on its data.
    fn server(&self, program: &str, words: &[&str]) -> io::Result<()> {
        let program = self.bin.join(program).display().to_string();
        let as_user: &[&str] =
            if nix::unistd::geteuid().is_root() { &["runuser", "-u", "postgres", "--"] } else { &["env"] };
        let data = format!("--pgdata={}", self.path("data"));
        let words = [as_user, &[&program, &data], words].concat();
        let output = run(&words, &[], self.folder.path().to_path_buf())?;
        if output.status.success() {
            return Ok(());
        }
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        Err(io::Error::other(format!("{words:?}: {}\n{log}", String::from_utf8_lossy(&output.stderr))))
    }

    /// As the owner, in a database.
    fn sql(&self, database: &str, text: &str) {
        let url = format!("postgres://ambient@127.0.0.1:{}/{database}", self.port);
        let psql = self.bin.join("psql").display().to_string();
        let words = [psql.as_str(), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--command", text, &url];
        let output = run(&words, &[("PGPASSWORD", PASSWORD)], "/".into()).expect("`psql` is there");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn url(&self, user: &str, password: &str, database: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _may_be_stopped = self.control("stop");
    }
}

/// The folder of the newest PostgreSQL; Debian keeps it out of `PATH`.
fn bin() -> io::Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    found.sort();
    if let Some((_, newest)) = found.pop() {
        return Ok(newest);
    }
    let output = run(&["pg_config", "--bindir"], &[], "/".into())?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

#[expect(clippy::disallowed_methods, reason = "a server of its own, which may be set at will")]
fn run(words: &[&str], variables: &[(&str, &str)], folder: PathBuf) -> io::Result<Output> {
    Command::new(words[0]).args(&words[1..]).envs(variables.iter().copied()).current_dir(folder).output()
}

fn with(url: &str) -> io::Result<Lab> {
    Lab::repository(&[&format!("DATABASE_URL={url}")])
}

#[tokio::test]
async fn passwords_rights_and_settings_of_a_user_are_mended_by_their_remedies() -> io::Result<()> {
    let cluster = Cluster::start()?;
    let place = format!("127.0.0.1:{}/films", cluster.port);
    cluster.sql("postgres", "create database films");
    cluster.sql("films", "create role \"An engine\" login password 'word-of-the-engine'");
    let right = cluster.url("An%20engine", "word-of-the-engine", "films");

    let lab = with(&cluster.url("An%20engine", "another-word", "films"))?;
    let finding = lab.finding("store.password").await;
    assert_eq!(finding.level, Level::Failure);
    assert!(
        finding
            .seen
            .starts_with(&format!("PostgreSQL at {place} does not take the user and password of `DATABASE_URL`")),
        "{finding:?}"
    );
    assert!(!format!("{finding:?}").contains("another-word"), "{finding:?}");
    lab.carry_out_with(remedy(&finding), "DATABASE_URL", &right).await;

    // Since PostgreSQL 15 nobody but its owner may make tables in `public`; before that, this takes the right away.
    cluster.sql("films", "revoke create on schema public from public");
    for taken in
        ["revoke create on schema public from public", "revoke all on schema public from public, \"An engine\""]
    {
        cluster.sql("films", taken);
        let finding = lab.finding("store.rights").await;
        assert_eq!(finding.level, Level::Failure);
        assert_eq!(finding.seen, format!("the user of `DATABASE_URL` may make no tables at {place}"));
        assert_eq!(remedy(&finding).how, "run this in that database, as its owner");
        assert_eq!(remedy(&finding).paste, "GRANT CREATE, USAGE ON SCHEMA public TO \"An engine\";");
        cluster.sql("films", &remedy(&finding).paste);
        assert_eq!(lab.finding("store.answers").await.level, Level::Ok, "{taken}");
    }

    for fault in ["alter database films", "alter role \"An engine\"", "alter role \"An engine\" in database films"] {
        // The remedy of the fault before wins over this one.
        cluster.sql("postgres", "alter role \"An engine\" in database films reset all");
        cluster.sql("postgres", &format!("{fault} set default_transaction_read_only = on"));
        let finding = lab.finding("store.read-only").await;
        assert_eq!(finding.level, Level::Failure);
        assert_eq!(
            finding.seen,
            format!("the user of `DATABASE_URL` may only read at {place}: `default_transaction_read_only` is on")
        );
        assert_eq!(
            remedy(&finding).paste,
            "BEGIN READ WRITE; ALTER ROLE \"An engine\" IN DATABASE films SET default_transaction_read_only = off; COMMIT;"
        );
        cluster.sql("films", &remedy(&finding).paste);
        assert_eq!(lab.finding("store.answers").await.level, Level::Ok, "{fault}");
    }
    Ok(())
}

#[tokio::test]
async fn a_standby_and_a_server_of_long_ago_are_told() -> io::Result<()> {
    let cluster = Cluster::start()?;
    let url = cluster.url("ambient", PASSWORD, "postgres");
    let lab = with(&url)?;
    let answers = lab.finding("store.answers").await;

    // A real server that says of itself to this user that it is older than it is.
    cluster.sql(
        "postgres",
        "create role old login superuser password 'old'; create schema long_ago; \
         create function long_ago.current_setting(name text) returns text language sql as $$ select case name \
         when 'server_version_num' then '130014' when 'server_version' then '13.14' else pg_catalog.current_setting(name) end $$; \
         alter role old set search_path = long_ago, pg_catalog, public",
    );
    let of_long_ago = with(&cluster.url("old", "old", "postgres"))?;
    let finding = of_long_ago.finding("store.version").await;
    assert_eq!(finding.level, Level::Failure);
    let place = format!("127.0.0.1:{}/postgres", cluster.port);
    assert_eq!(finding.seen, format!("PostgreSQL at {place} is 13.14; it has to be 14 or newer"));
    of_long_ago.carry_out_with(remedy(&finding), "DATABASE_URL", &url).await;
    assert_eq!(of_long_ago.finding("store.answers").await, answers);

    cluster.control("stop")?;
    fs::write(cluster.path("data/standby.signal"), "")?;
    cluster.control("start")?;
    let finding = lab.finding("store.standby").await;
    assert_eq!(finding.level, Level::Failure);
    assert_eq!(finding.seen, format!("PostgreSQL at {place} is a standby, which takes no writes"));
    // The remedy is the address of the server that it follows.
    let primary = Cluster::start()?;
    lab.carry_out_with(remedy(&finding), "DATABASE_URL", &primary.url("ambient", PASSWORD, "postgres")).await;
    assert_eq!(lab.finding("store.answers").await.level, Level::Ok);
    Ok(())
}
