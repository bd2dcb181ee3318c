//! Many requests at once: bounded, and fair between sessions.

use std::sync::Mutex;

use ambient_media::{ClipSpec, Rate};
use anyhow::{Context, Result};
use futures::future::join_all;

use crate::film::{Film, Room, with_script};
use crate::judge::at;

const CONCURRENCY: usize = 2;
const REQUESTS: usize = 64;
const SESSIONS: usize = 8;

/// A room whose ffmpeg notes how many of it run, and then is the real one.
fn room() -> Result<Room> {
    let room = with_script(
        "/bin/mkdir \"$ROOM/running/$$\"\n/bin/ls \"$ROOM/running\" | /usr/bin/wc -l >> \"$ROOM/counts\"\n\
         \"$FFMPEG\" \"$@\"\nended=$?\n/bin/rmdir \"$ROOM/running/$$\"\nexit $ended",
        |config| config.concurrency = CONCURRENCY,
    )?;
    std::fs::create_dir(room.folder.join("running"))?;
    Ok(room)
}

#[tokio::test]
async fn sixty_four_clips_at_once_are_bounded_and_fair() -> Result<()> {
    let room = room()?;
    Film::new(81, "10", 100).sound(0).h264(&[]).make(&room.folder.join("film.mp4"))?;
    let source = room.source("film.mp4");
    room.media.probe(&source, &room.stop).await?;
    let ended = Mutex::new(Vec::new());
    let ask = async |number: usize| -> Result<()> {
        // The first session asks for all but one clip of each other one, and asks first.
        let session = number.saturating_sub(REQUESTS - SESSIONS);
        let start = u32::try_from(number)? * 100;
        let spec = ClipSpec {
            start: at(start),
            end: at(start + 1000),
            fps: Rate::new(5, 1),
            max_dim: Some(64),
            max_size_bytes: None,
            crf: None,
        };
        let media = room.media.for_caller(&format!("session {session}"));
        let clip = media.clip(&source, &spec, &room.stop).await?;
        assert_eq!(clip.start, at(start));
        ended.lock().expect("nothing panics while it holds the lock").push(session);
        Ok(())
    };
    for asked in join_all((0..REQUESTS).map(ask)).await {
        asked?;
    }
    let counts = std::fs::read_to_string(room.folder.join("counts"))?;
    let counts: Vec<usize> = counts.lines().filter_map(|line| line.trim().parse().ok()).collect();
    // One more looked at the film before.
    assert_eq!(counts.len(), REQUESTS + 1);
    assert_eq!(counts.iter().max(), Some(&CONCURRENCY));
    let ended = ended.into_inner().expect("nothing panicked");
    assert_eq!(ended.len(), REQUESTS);
    // Those who asked last and for little waited for what ran already, for a turn or two of everybody, and no longer.
    let longest_wait = ended.iter().rposition(|session| *session > 0).context("other sessions")?;
    assert!(longest_wait < 2 * (CONCURRENCY + SESSIONS), "{ended:?}");
    Ok(())
}
