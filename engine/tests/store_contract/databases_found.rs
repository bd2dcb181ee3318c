//! What a store finds at its start, and what it says when its database is not what it should be.

use std::time::Duration;

use ambient_engine::ids::SessionId;
use ambient_engine::sessions::change::{Guard, SessionChange};
use ambient_engine::store::{Migrate, StoreError};

use crate::databases::Database;
use crate::records::{at, file};
use crate::{done, new_session, page};

contract!(
    engines_that_start_at_once_migrate_once,
    missing_migrations_refuse_the_start,
    a_database_of_a_newer_engine_is_refused,
    a_closed_store_is_unavailable,
);

async fn engines_that_start_at_once_migrate_once(database: &Database) {
    let empty = database.another().await.unwrap();
    let starts = (0..6).map(|_| empty.open(Migrate::Run));
    for store in futures::future::join_all(starts).await {
        let store = store.unwrap();
        store.ping().await.unwrap();
        assert_eq!(store.files(&page(1)).await.unwrap().items, vec![]);
        store.close().await;
    }
    empty.open(Migrate::Refuse).await.unwrap().close().await;
}

async fn missing_migrations_refuse_the_start(database: &Database) {
    let empty = database.another().await.unwrap();
    let refused = empty.open(Migrate::Refuse).await.expect_err("nothing is migrated");
    assert!(matches!(refused, StoreError::Pending { missing } if missing > 0), "{refused}");
    assert!(refused.to_string().contains("--no-migrate"));
}

async fn a_database_of_a_newer_engine_is_refused(database: &Database) {
    let newer = database.another().await.unwrap();
    newer.open(Migrate::Run).await.unwrap().close().await;
    newer
        .execute(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
             select 999999, description, success, checksum, execution_time from _sqlx_migrations where version = 1",
        )
        .await
        .unwrap();
    for migrate in [Migrate::Run, Migrate::Refuse] {
        let refused = newer.open(migrate).await.expect_err("an unknown migration is there");
        assert!(matches!(refused, StoreError::Migrate(_)), "{refused}");
    }
}

async fn a_closed_store_is_unavailable(database: &Database) {
    let another = database.another().await.unwrap();
    let store = another.open(Migrate::Run).await.unwrap();
    store.close().await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    let change = SessionChange::new(Guard::Always);
    let outcome = store.change_session(&SessionId::generate(), change, at(1)).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn an_address_of_nothing_known_is_refused_without_its_secrets() {
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    for url in
        ["mysql://root:hunter2@db/x", "hunter2", "postgresql+asyncpg://u:hunter2@h/d", "postgres://u:hunter2@h:port/d"]
    {
        let refused = ambient_engine::store::connect(url, &options).await.expect_err(url);
        assert!(matches!(refused, StoreError::Address { .. }), "{refused}");
        assert!(!ambient_engine::store::chain(&refused).contains("hunter2"), "{refused}");
    }
}

#[tokio::test]
async fn a_sqlite_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/ambient.db");
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    let store = ambient_engine::store::connect(&format!("sqlite://{}", path.display()), &options).await.unwrap();
    store.insert_file(&file(1)).await.unwrap();
    for name in ["ambient.db", "ambient.db-wal", "ambient.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    store.close().await;
    assert!(!path.with_file_name("ambient.db-wal").exists(), "a clean stop leaves one file");
}

/// Another process holds the write lock (a backup): writers wait for it instead of failing.
#[tokio::test]
async fn a_writer_waits_for_another_process() {
    use sqlx::{ConnectOptions as _, Connection as _};
    let database = Database::sqlite().await.unwrap();
    let made = new_session(database.store()).await;
    let path = database.url().trim_start_matches("sqlite://").to_owned();
    let mut other = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let lock = other.begin_with("begin immediate").await.unwrap();
    let write = database.store().mark_read(&made.id, 1);
    tokio::pin!(write);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut write).await.is_err(), "it waits");
    assert!(database.store().session(&made.id).await.unwrap().is_some(), "readers do not");
    lock.rollback().await.unwrap();
    write.await.unwrap();
}

#[tokio::test]
async fn a_start_names_what_is_wrong_with_postgres() {
    let there = crate::postgres::postgres_url().unwrap();
    let place = there.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    for (url, expected) in [
        (format!("postgres://ambient:hunter2@{free}/x"), "nothing listens at"),
        (format!("postgres://nobody:hunter2@{place}/postgres"), "refused the login of user `nobody`"),
        (format!("postgres://ambient:hunter2@{place}/missing"), "has no database `missing`"),
        (format!("postgres://ambient:hunter2@{place}/postgres?sslmode=require"), "no TLS with Postgres"),
    ] {
        let error = ambient_engine::store::connect(&url, &options).await.expect_err(&url);
        let text = ambient_engine::store::chain(&error);
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// A pool that is busy and a database that is away do not look the same, and neither keeps a request for long.
#[tokio::test]
async fn a_busy_pool_and_a_lost_database_are_told_apart() {
    let database = Database::postgres().await.unwrap();
    let made = new_session(database.store()).await;
    let short = Duration::from_millis(300);
    let server = database.url().rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let wire = crate::proxy::Proxy::to(server.clone()).await.unwrap();
    let options = ambient_engine::store::StoreOptions {
        connections: 1,
        acquire_timeout: short,
        ..ambient_engine::store::StoreOptions::new(Migrate::Refuse)
    };
    let url = database.url().replace(&server, &wire.address().to_string());
    let store = ambient_engine::store::connect(&url, &options).await.unwrap();
    store.ping().await.unwrap();

    // Somebody else holds the session's row, so the one connection waits.
    let mut other = database.connection().await.unwrap();
    sqlx::Executor::execute(&mut other, "begin; select id from sessions for update").await.unwrap();
    let stuck = store.change_session(&made.id, SessionChange::new(Guard::Always), at(1));
    tokio::pin!(stuck);
    let busy = tokio::select! {
        outcome = &mut stuck => panic!("the row was locked: {outcome:?}"),
        failed = async {
            loop {
                if let Err(error) = store.ping().await {
                    return error;
                }
            }
        } => failed,
    };
    assert!(matches!(busy, StoreError::Busy { connections: 1 }), "{busy}");
    sqlx::Executor::execute(&mut other, "rollback").await.unwrap();
    done(stuck.await.unwrap());

    wire.cut();
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    let away = loop {
        match store.ping().await {
            Err(error) => break error,
            Ok(()) => assert!(tokio::time::Instant::now() < until, "the cut was not noticed"),
        }
    };
    assert!(matches!(away, StoreError::Unavailable(_)), "{away}");
    let began = tokio::time::Instant::now();
    let outcome = store.session(&made.id).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
    wire.mend();
    while let Err(error) = store.ping().await {
        assert!(tokio::time::Instant::now() < until, "it never came back: {error}");
    }
    assert_eq!(store.session(&made.id).await.unwrap().unwrap().id, made.id);
}
