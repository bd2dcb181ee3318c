//! The database, Redis, programs, ports and room.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ambient_ctl::doctor::Level;

use super::lab::{Lab, closed_port, remedy, variable};

/// A Redis of this test alone, which keeps nothing; it ends when this is dropped.
struct Redis {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    #[expect(clippy::disallowed_methods, reason = "a server of its own, which may be set at will")]
    async fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = closed_port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(10);
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen on port {port}");
            tokio::task::yield_now().await;
        }
        Ok(server)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}

#[tokio::test]
async fn a_redis_that_keeps_nothing_is_mended_by_its_remedy() -> io::Result<()> {
    let redis = Redis::start().await?;
    let lab = Lab::repository(&[&format!("REDIS_URL={}", redis.url())])?;
    let finding = lab.finding("redis.persistence").await;
    assert_eq!(finding.level, Level::Warning);
    assert_eq!(remedy(&finding).paste, format!("redis-cli -h 127.0.0.1 -p {} config set appendonly yes", redis.port));
    lab.carry_out(remedy(&finding)).await;
    let report = lab.look(&["redis"]).await;
    let ids: Vec<_> = report.findings.iter().map(|finding| (finding.id, finding.level)).collect();
    let well = ["redis.answers", "redis.streams", "redis.messages", "redis.persistence"].map(|id| (id, Level::Ok));
    assert_eq!(ids, well, "{:#?}", report.findings);
    Ok(())
}

#[tokio::test]
async fn a_redis_that_is_not_there_or_wants_a_password_is_told() -> io::Result<()> {
    let lab = Lab::repository(&[&format!("REDIS_URL=redis://127.0.0.1:{}/0", closed_port())])?;
    assert!(lab.finding("redis.reach").await.seen.contains("cannot be reached"));
    let redis = Redis::start().await?;
    let lab = Lab::repository(&[&format!("REDIS_URL={}", redis.url().replace("127", ":a-wrong-password@127"))])?;
    let finding = lab.finding("redis.password").await;
    assert!(!format!("{finding:?}").contains("a-wrong-password"), "{finding:?}");
    lab.carry_out_with(remedy(&finding), "REDIS_URL", &redis.url()).await;
    assert_eq!(lab.finding("redis.answers").await.level, Level::Ok);
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_missing_is_made_by_its_remedy() -> io::Result<()> {
    let url = variable("AMBIENT_TEST_POSTGRES_URL").expect("AMBIENT_TEST_POSTGRES_URL is set, as tests/run.sh does");
    let (server, _database) = url.rsplit_once('/').expect("the address names a database");
    let name = format!("doctor_{}", std::process::id());
    let lab = Lab::repository(&[&format!("DATABASE_URL={server}/{name}")])?;
    let finding = lab.finding("store.missing").await;
    assert!(finding.seen.ends_with(&format!("has no database `{name}`")), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    let answers = lab.finding("store.answers").await;
    let dropped = ambient_ctl::doctor::Remedy::run(remedy(&finding).paste.replace("createdb", "dropdb"));
    lab.carry_out(&dropped).await;
    assert!(answers.seen.starts_with("PostgreSQL "), "{answers:?}");

    let lab = Lab::repository(&[&format!("DATABASE_URL=postgres://a:word-of-the-url@127.0.0.1:{}/b", closed_port())])?;
    let finding = lab.finding("store.reach").await;
    assert!(!format!("{finding:?}").contains("word-of-the-url"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_no_database_is_put_aside() -> io::Result<()> {
    let lab = Lab::repository(&[])?;
    assert!(lab.finding("store.file").await.seen.ends_with("is made at the first start"));
    lab.write("ambient.db", "this is no database, and long enough to be one; this is no database at all, as one sees")?;
    let finding = lab.finding("store.file").await;
    assert_eq!(finding.level, Level::Failure, "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("store").await;
    Ok(())
}

#[tokio::test]
async fn programs_that_are_missing_or_are_others_are_told() -> io::Result<()> {
    let lab =
        Lab::repository(&["FFMPEG_PATH=/no/such/ffmpeg", "FFPROBE_PATH=/bin/echo", "YTDLP_PATH=/no/such/yt-dlp"])?;
    let finding = lab.finding("ffmpeg.missing").await;
    assert!(remedy(&finding).paste.starts_with("ambientctl config set FFMPEG_PATH ffmpeg"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    assert_eq!(lab.finding("ffmpeg.works").await.level, Level::Ok);
    let finding = lab.finding("ffprobe.fails").await;
    lab.carry_out(remedy(&finding)).await;
    assert_eq!(lab.finding("ffprobe.works").await.level, Level::Ok);
    let finding = lab.finding("yt-dlp.missing").await;
    assert_eq!((finding.level, remedy(&finding).paste.as_str()), (Level::Warning, "pipx install yt-dlp"));
    Ok(())
}

#[tokio::test]
async fn a_port_that_somebody_has_is_told_and_another_one_is_free() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let mut lab = Lab::repository(&[&format!("SERVER_PORT={port}")])?;
    lab.shell.retain(|(name, _)| name != "SERVER_PORT");
    lab.limit = Duration::from_secs(1);
    let finding = lab.finding("ports.taken").await;
    assert_eq!(finding.seen, format!("another program listens on `127.0.0.1:{port}`"));
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("ports").await;
    Ok(())
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_told_where_it_is_blocked() -> io::Result<()> {
    let lab = Lab::repository(&["VIDEO_FOLDER=/proc/videos"])?;
    // Root may write everywhere but there.
    let report = lab.look(&["disk"]).await;
    assert!(report.findings.iter().any(|finding| finding.level == Level::Failure), "{:#?}", report.findings);
    let lab = Lab::repository(&[])?;
    assert!(lab.finding("disk.room").await.seen.starts_with("`VIDEO_FOLDER`"));
    Ok(())
}
