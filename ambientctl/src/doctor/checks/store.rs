//! Whether the database answers, is new enough, and lets the engine write.

use std::time::Duration;

use ambient_settings::DatabaseUrl;
use camino::Utf8Path;
use secrecy::ExposeSecret as _;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use url::Url;

use super::llm::{from_inside, inside, outside};
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{chain, quoted};

/// The oldest PostgreSQL that the engine works with, as the server numbers itself.
const OLDEST: i32 = 140_000;
/// Why it matters.
const WHY: &str = "sessions, events and files are kept there, and the engine does not start without it";
/// SQLSTATEs of a refusal.
const WRONG_PASSWORD: [&str; 2] = ["28P01", "28000"];
const NO_DATABASE: &str = "3D000";

pub(super) async fn look(context: &Context, sink: &Sink) {
    match &context.target.settings.store.database {
        DatabaseUrl::Sqlite(path) => sqlite(context, path, sink).await,
        DatabaseUrl::Postgres(url) => match Url::parse(url.expose_secret()) {
            Ok(url) => postgres(context, &url, sink).await,
            Err(error) => sink.put(Finding::failure(
                "store.url",
                format!("`DATABASE_URL` is no URL: {error}"),
                WHY,
                context.target.set_secret("DATABASE_URL"),
            )),
        },
    }
}

async fn sqlite(context: &Context, path: &Utf8Path, sink: &Sink) {
    let target = &context.target;
    if target.is_install() {
        sink.put(Finding::skipped(
            "store.inside",
            format!("the database is a file in the engine's container; `{}` looks there", from_inside(target, "store")),
        ));
        return;
    }
    if !path.is_file() {
        let folder = super::disk::existing(path.as_std_path());
        if super::disk::is_writable(&folder) {
            sink.put(Finding::ok("store.file", format!("`{path}` is made at the first start")));
        } else {
            sink.put(not_writable(path, &folder));
        }
        return;
    }
    sink.step(format!("the database `{path}`"));
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(Duration::from_secs(1))
        .disable_statement_logging();
    let asked = async {
        let mut connection = options.connect().await?;
        let row = sqlx::query("select sqlite_version()").fetch_one(&mut connection).await?;
        let version: String = row.try_get(0)?;
        // Reads the first page, which tells a database from another file.
        sqlx::query("select count(*) from sqlite_master").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok::<_, sqlx::Error>(version)
    };
    match asked.await {
        Ok(version) if super::disk::is_writable(path.as_std_path()) => {
            sink.put(Finding::ok("store.answers", format!("`{path}` is a database of SQLite {version}")));
        }
        Ok(_) => sink.put(not_writable(path, path.as_std_path())),
        Err(error) => sink.put(Finding::failure(
            "store.file",
            format!("`{path}` cannot be opened as a database: {}", chain(&error)),
            WHY,
            Remedy::run(format!("mv {0} {0}.aside", quoted(path.as_str()))),
        )),
    }
}

fn not_writable(path: &Utf8Path, blocked: &std::path::Path) -> Finding {
    Finding::failure(
        "store.file",
        format!("the database `{path}` cannot be written: `{}` is not this user's", blocked.display()),
        WHY,
        Remedy::run(format!("sudo chown -R \"$(id -un)\" {}", quoted(&blocked.to_string_lossy()))),
    )
}

async fn postgres(context: &Context, url: &Url, sink: &Sink) {
    let target = &context.target;
    if let Some(service) = inside(target, url) {
        sink.put(Finding::skipped(
            "store.inside",
            format!(
                "the database is the stack's service `{service}`; `docker` tells its health, and `{}` asks it",
                from_inside(target, "store")
            ),
        ));
        return;
    }
    let url = outside(url);
    let place = format!(
        "{}:{}{}",
        url.host_str().unwrap_or("localhost"),
        url.port().unwrap_or(5432),
        url.path().trim_end_matches('/')
    );
    sink.step(format!("PostgreSQL at {place}"));
    let asked = async {
        let options: sqlx::postgres::PgConnectOptions = url.as_str().parse()?;
        let mut connection = options.disable_statement_logging().connect().await?;
        let row = sqlx::query(
            "select current_setting('server_version_num')::int4, current_setting('server_version'), \
             coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), pg_is_in_recovery(), \
             current_setting('transaction_read_only') = 'on', \
             quote_ident(current_user), quote_ident(current_database())",
        )
        .fetch_one(&mut connection)
        .await?;
        let found = Server {
            number: row.try_get(0)?,
            version: row.try_get(1)?,
            may_create: row.try_get(2)?,
            is_standby: row.try_get(3)?,
            is_read_only: row.try_get(4)?,
            user: row.try_get(5)?,
            database: row.try_get(6)?,
        };
        connection.close().await?;
        Ok::<_, sqlx::Error>(found)
    };
    match tokio::time::timeout(context.request_limit(), asked).await {
        Ok(Ok(server)) => sink.put(judged(context, &place, &server)),
        Ok(Err(error)) => sink.put(refused(context, &place, &url, &error)),
        Err(_elapsed) => sink.put(Finding::failure(
            "store.reach",
            format!("PostgreSQL at {place} does not answer"),
            WHY,
            Remedy::run(ready(&url)),
        )),
    }
}

/// What PostgreSQL says about itself and its user.
struct Server {
    number: i32,
    version: String,
    /// Whether the user may make tables where they go to; not so either where no schema is the user's.
    may_create: bool,
    is_standby: bool,
    /// Whether transactions of this user in this database begin as read-only ones.
    is_read_only: bool,
    /// The user and the database, as SQL has them.
    user: String,
    database: String,
}

fn judged(context: &Context, place: &str, server: &Server) -> Finding {
    let Server { number, version, may_create, is_standby, is_read_only, user, database } = server;
    if *number < OLDEST {
        return Finding::failure(
            "store.version",
            format!("PostgreSQL at {place} is {version}; it has to be 14 or newer"),
            WHY,
            context.target.set_secret("DATABASE_URL"),
        );
    }
    if *is_standby {
        return Finding::failure(
            "store.standby",
            format!("PostgreSQL at {place} is a standby, which takes no writes"),
            WHY,
            context.target.set_secret("DATABASE_URL"),
        );
    }
    if *is_read_only {
        return Finding::failure(
            "store.read-only",
            format!("the user of `DATABASE_URL` may only read at {place}: `default_transaction_read_only` is on"),
            WHY,
            Remedy::paste(
                "run this in that database, as its owner",
                format!(
                    "BEGIN READ WRITE; ALTER ROLE {user} IN DATABASE {database} SET default_transaction_read_only = off; \
                     COMMIT;"
                ),
            ),
        );
    }
    if !may_create {
        return Finding::failure(
            "store.rights",
            format!("the user of `DATABASE_URL` may make no tables at {place}"),
            "the engine brings its tables up to date when it starts",
            Remedy::paste(
                "run this in that database, as its owner",
                format!("GRANT CREATE, USAGE ON SCHEMA public TO {user};"),
            ),
        );
    }
    Finding::ok("store.answers", format!("PostgreSQL {version} answers at {place}"))
}

fn refused(context: &Context, place: &str, url: &Url, error: &sqlx::Error) -> Finding {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let told = chain(error);
    match code.as_deref() {
        Some(code) if WRONG_PASSWORD.contains(&code) => Finding::failure(
            "store.password",
            format!("PostgreSQL at {place} does not take the user and password of `DATABASE_URL`: {told}"),
            WHY,
            context.target.set_secret("DATABASE_URL"),
        ),
        Some(NO_DATABASE) => {
            let name = url.path().trim_matches('/');
            let host = url.host_str().unwrap_or("localhost");
            Finding::failure(
                "store.missing",
                format!("PostgreSQL at {place} has no database `{name}`"),
                WHY,
                Remedy::run(format!(
                    "createdb --host {host} --port {} --username {} {}",
                    url.port().unwrap_or(5432),
                    quoted(if url.username().is_empty() { "postgres" } else { url.username() }),
                    quoted(name)
                )),
            )
        }
        _ => Finding::failure(
            "store.reach",
            format!("PostgreSQL at {place} cannot be used: {told}"),
            WHY,
            Remedy::run(ready(url)),
        ),
    }
}

fn ready(url: &Url) -> String {
    format!("pg_isready --host {} --port {}", url.host_str().unwrap_or("localhost"), url.port().unwrap_or(5432))
}
