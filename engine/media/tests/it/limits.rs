//! Children are bounded, and nothing of them outlives the request. The programs here are small scripts in place of ffprobe.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use ambient_media::{MediaConfig, MediaError};
use anyhow::{Context, Result, bail};
use camino::{Utf8Path, Utf8PathBuf};

use crate::film::{Film, Room};

/// A room whose ffprobe is the script, and in which a real film lies, so that the content check passes.
fn room_with(script: &str, change: impl FnOnce(&mut MediaConfig)) -> Result<Room> {
    let scripts = tempfile::tempdir()?;
    let program = Utf8PathBuf::from_path_buf(scripts.keep().join("ffprobe")).ok().context("not UTF-8")?;
    let room = Room::with(|config| {
        config.ffprobe.clone_from(&program);
        change(config);
    })?;
    std::fs::write(&program, format!("#!/bin/sh\nROOM='{}'\n{script}\n", room.folder))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700))?;
    Film::new(1, "5", 5).sound(0).h264(&[]).make(&room.folder.join("film.mp4"))?;
    Ok(room)
}

/// Starts a grandchild that would live for minutes, and tells its number.
const FAMILY: &str =
    "/bin/sleep 300 &\necho $! > \"$ROOM/number.part\"\n/bin/mv \"$ROOM/number.part\" \"$ROOM/number\"\nwait";

pub(crate) async fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if let Some(found) = look() {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("{what} did not come about")
}

async fn grandchild(folder: &Utf8Path) -> Result<u32> {
    poll("the grandchild", || std::fs::read_to_string(folder.join("number")).ok()?.trim().parse().ok()).await
}

/// A process that is gone, or that only waits for its parent to notice.
pub(crate) async fn ends(number: u32) -> Result<()> {
    poll("the end of the grandchild", || {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("gone");
        matches!(state, "gone" | "Z" | "X").then_some(())
    })
    .await
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_family() -> Result<()> {
    let room = room_with(FAMILY, |config| config.wall_limit = Duration::from_millis(700))?;
    let error = room.media.probe(&room.source("film.mp4"), &room.stop).await.expect_err("it never ends by itself");
    assert!(matches!(error, MediaError::TimedOut { .. }), "{error}");
    ends(grandchild(&room.folder).await?).await
}

#[tokio::test]
async fn cancelling_ends_the_whole_family() -> Result<()> {
    let room = room_with(FAMILY, |_config| {})?;
    let source = room.source("film.mp4");
    let (answer, number) = tokio::join!(room.media.probe(&source, &room.stop), async {
        let number = grandchild(&room.folder).await;
        room.stop.cancel();
        number
    });
    assert!(matches!(answer, Err(MediaError::Cancelled)), "{answer:?}");
    ends(number?).await
}

#[tokio::test]
async fn dropping_the_request_ends_the_whole_family() -> Result<()> {
    let room = room_with(FAMILY, |_config| {})?;
    let source = room.source("film.mp4");
    let number = tokio::select! {
        answer = room.media.probe(&source, &room.stop) => bail!("it ended: {answer:?}"),
        number = grandchild(&room.folder) => number?,
    };
    ends(number).await
}

#[tokio::test]
async fn a_stray_that_holds_the_pipes_does_not_hold_the_answer() -> Result<()> {
    let script = "/bin/sleep 300 &\necho $! > \"$ROOM/number\"\necho 'ffprobe version 7.7 test'\nexit 0";
    let room = room_with(script, |_config| {})?;
    let versions = room.media.versions().await?;
    assert_eq!(versions.ffprobe, "7.7");
    ends(grandchild(&room.folder).await?).await
}

#[tokio::test]
async fn of_endless_complaints_the_end_is_kept() -> Result<()> {
    let script = "i=0\nwhile [ $i -lt 20000 ]; do echo \"line $i of a long complaint\" >&2; i=$((i+1)); done\necho 'the last word' >&2\nexit 3";
    let room = room_with(script, |config| config.stderr_tail_bytes = 5000)?;
    match room.media.versions().await {
        Err(MediaError::Exit { stderr_tail, status, .. }) => {
            assert!(stderr_tail.len() <= 5000 && stderr_tail.len() > 4000, "{} bytes", stderr_tail.len());
            assert!(stderr_tail.ends_with("the last word"));
            assert_eq!(status.code(), Some(3));
        }
        other => bail!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn endless_output_ends_the_program() -> Result<()> {
    let room = room_with("while :; do echo 0123456789012345678901234567890123456789; done", |_config| {})?;
    let error = room.media.versions().await.expect_err("it never ends by itself");
    assert!(matches!(error, MediaError::TooMuchOutput { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_child_starts_with_limits_and_without_our_environment() -> Result<()> {
    let script = "echo \"cpu $(ulimit -t) memory $(ulimit -v) file $(ulimit -f) core $(ulimit -c) path [$CARGO_MANIFEST_DIR$HOME]\" >&2\nread line && echo 'there is input' >&2\nexit 1";
    let room = room_with(script, |config| {
        config.cpu_seconds = 77;
        config.memory_bytes = 3 << 30;
        config.output_limit_bytes = 512 * 1000;
    })?;
    match room.media.versions().await {
        Err(MediaError::Exit { stderr_tail, .. }) => {
            assert_eq!(stderr_tail, "cpu 77 memory 3145728 file 1000 core 0 path []");
        }
        other => bail!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn no_more_children_run_at_once_than_allowed() -> Result<()> {
    let script = "/bin/mkdir \"$ROOM/running/$$\"\n/bin/ls \"$ROOM/running\" | /usr/bin/wc -l >> \"$ROOM/counts\"\n/bin/sleep 0.1\n/bin/rmdir \"$ROOM/running/$$\"\necho 'ffprobe version 1 x'";
    let room = room_with(script, |config| config.concurrency = 2)?;
    std::fs::create_dir(room.folder.join("running"))?;
    let answers = futures::future::join_all((0..10).map(|_number| room.media.versions())).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let counts = std::fs::read_to_string(room.folder.join("counts"))?;
    let counts: Vec<u32> = counts.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert_eq!(counts.len(), 10);
    assert!(counts.iter().all(|&count| count <= 2), "{counts:?}");
    Ok(())
}

#[tokio::test]
async fn a_missing_program_is_named() -> Result<()> {
    let room = Room::with(|config| config.ffmpeg = "no-such-ffmpeg".into())?;
    let error = room.media.versions().await.expect_err("there is no such program");
    assert_eq!(error.to_string(), "could not start `no-such-ffmpeg`");
    Ok(())
}

#[tokio::test]
async fn the_real_programs_tell_their_versions() -> Result<()> {
    let versions = Room::new()?.media.versions().await?;
    assert!(
        versions.ffmpeg.starts_with(|first: char| first.is_ascii_digit() || first == 'n' || first == 'N'),
        "{versions:?}"
    );
    assert_eq!(versions.ffmpeg, versions.ffprobe);
    Ok(())
}

#[tokio::test]
async fn a_failed_or_cancelled_clip_leaves_nothing() -> Result<()> {
    let spec = ambient_media::ClipSpec {
        start: ambient_media::MediaTime::ZERO,
        end: ambient_media::MediaTime::from_millis(20_000),
        fps: None,
        max_dim: None,
        max_size_bytes: None,
        crf: Some(0),
    };
    let room = Room::with(|config| config.output_limit_bytes = 20_000)?;
    let film = Film::new(5, "25", 500).sized(320, 240).sound(0).h264(&["-vf", "noise=alls=60:allf=t"]);
    film.make(&room.folder.join("film.mp4"))?;
    let error = room.media.clip(&room.source("film.mp4"), &spec, &room.stop).await.expect_err("over the output limit");
    assert!(matches!(error, MediaError::Exit { .. }), "{error}");
    assert_eq!(room.outputs()?, Vec::<String>::new());

    let cancelled = Room::new()?;
    film.make(&cancelled.folder.join("film.mp4"))?;
    let source = cancelled.source("film.mp4");
    let (answer, seen) = tokio::join!(cancelled.media.clip(&source, &spec, &cancelled.stop), async {
        let seen = poll("the clip's folder", || cancelled.outputs().ok().filter(|names| !names.is_empty())).await;
        cancelled.stop.cancel();
        seen
    });
    assert!(matches!(answer, Err(MediaError::Cancelled)), "{answer:?}");
    seen?;
    assert_eq!(cancelled.outputs()?, Vec::<String>::new());
    Ok(())
}
