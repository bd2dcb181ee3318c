//! Videos in a bucket: the same pictures as from the disk, whatever the way to them is like.

use std::collections::BTreeSet;

use ambient_media::objects::{About, ObjectError, ObjectStore};
use ambient_media::{
    BucketReading, Clip, ClipSpec, Frames, FramesSpec, Media, MediaConfig, MediaError, MediaTime, Pick, Rate, Source,
};
use ambient_test_bucket::{Conduct, Permission, TestBucket};
use anyhow::{Context, Result};
use camino::Utf8PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::film::{Film, watch};
use crate::hostile::{CANARY, hostile_files};
use crate::objects::config;

const MEBIBYTE: u64 = 1 << 20;

/// A bucket, a folder with films, and the crate between them.
struct World {
    bucket: TestBucket,
    folder: Utf8PathBuf,
    reading: BucketReading,
    media: Media,
    stop: CancellationToken,
    _held: TempDir,
}

impl World {
    async fn new() -> Result<Self> {
        let bucket = TestBucket::start().await?;
        let held = tempfile::tempdir()?;
        let folder = Utf8PathBuf::from_path_buf(held.path().canonicalize()?).ok().context("UTF-8")?;
        let reading = BucketReading {
            store: ObjectStore::new(config(bucket.endpoint())),
            streams: true,
            stream_min_bytes: 0,
            link_life: Duration::from_hours(2),
            copies: folder.join("copies"),
            copies_max_bytes: 100 * MEBIBYTE,
        };
        let media = Media::with_bucket(MediaConfig::in_folder(folder.join("out")), reading.clone())?;
        Ok(Self { bucket, folder, reading, media, stop: CancellationToken::new(), _held: held })
    }

    /// A crate that remembers nothing.
    fn fresh(&self, change: impl FnOnce(&mut BucketReading)) -> Result<Media> {
        let mut reading = self.reading.clone();
        change(&mut reading);
        Ok(Media::with_bucket(MediaConfig::in_folder(self.folder.join("out")), reading)?)
    }

    /// Makes a film, on the disk and in the bucket.
    async fn add(&self, name: &str, film: &Film) -> Result<(Source, Source)> {
        let path = self.folder.join(name);
        film.make(&path)?;
        let key = format!("videos/{name}").parse()?;
        self.reading.store.put_file(&key, &path, &About::new("video/mp4", "test")).await?;
        Ok((Source::File(path), Source::Object(key)))
    }

    async fn frames(&self, media: &Media, source: &Source) -> Result<Frames, MediaError> {
        media.frames(source, &frames(), &self.stop).await
    }

    async fn clip(&self, media: &Media, source: &Source) -> Result<Clip, MediaError> {
        media.clip(source, &clip(), &self.stop).await
    }

    /// Frames and a clip from the bucket are those from the disk.
    async fn compare(&self, media: &Media, local: &Source, remote: &Source) -> Result<()> {
        let (here, there) = (self.frames(&self.media, local).await?, self.frames(media, remote).await?);
        assert_eq!(here.frames.len(), there.frames.len());
        for (one, other) in here.frames.iter().zip(&there.frames) {
            assert_eq!(one.timestamp, other.timestamp);
            assert!(std::fs::read(&one.path)? == std::fs::read(&other.path)?, "the picture at {}", one.timestamp);
        }
        let (here, there) = (self.clip(&self.media, local).await?, self.clip(media, remote).await?);
        assert_eq!((here.start, here.end, here.has_audio), (there.start, there.end, there.has_audio));
        let (here, there) = (watch(&here)?, watch(&there)?);
        assert!(!here.codes().is_empty());
        assert_eq!(here.codes(), there.codes());
        Ok(())
    }

    /// How many reads went out, and how many bytes of links they had.
    fn reads(&self) -> usize {
        self.bucket.seen().iter().filter(|seen| seen.is_read()).count()
    }

    fn copies(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in self.reading.copies.read_dir_utf8()? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    }
}

fn frames() -> FramesSpec {
    FramesSpec {
        pick: Pick::Window {
            start: MediaTime::ZERO,
            end: seconds(11),
            fps: Rate::from_f64(1.0).expect("a rate"),
            max_frames: 6,
        },
        max_dim: None,
        jpeg_quality: 85,
    }
}

fn clip() -> ClipSpec {
    ClipSpec { start: seconds(5), end: seconds(8), fps: None, max_dim: None, max_size_bytes: None, crf: None }
}

fn seconds(seconds: u64) -> MediaTime {
    Duration::from_secs(seconds).into()
}

/// Small, with an index that suits most seeks.
fn small(file: u8, args: &[&'static str]) -> Film {
    Film::new(file, "10", 120).h264(args)
}

/// Several megabytes, so that it is more than a few blocks: most of it is sound.
fn large(file: u8) -> Film {
    let sound = ["-c:a", "pcm_s16le", "-ar", "96000", "-ac", "2"];
    Film::new(file, "10", 120).coded(&["-c:v", "mjpeg", "-q:v", "2", "-pix_fmt", "yuvj420p"], &sound, &[])
}

/// A film of this kind, from the bucket and from the disk.
async fn same_pictures(name: &str, film: Film) -> Result<()> {
    let world = World::new().await?;
    let (local, remote) = world.add(name, &film).await?;
    world.compare(&world.media, &local, &remote).await?;
    let (here, there) = (world.media.probe(&local, &world.stop).await?, world.media.probe(&remote, &world.stop).await?);
    assert_eq!(format!("{here:?}"), format!("{there:?}"));
    assert!(!world.reading.copies.exists(), "nothing was downloaded whole");
    let seen = world.bucket.seen();
    assert!(seen.iter().filter(|seen| seen.is_read()).all(|seen| seen.is_link() && seen.range.is_some()), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn a_video_with_its_index_behind_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.mp4", small(1, &["-g", "10"])).await
}

#[tokio::test]
async fn a_video_with_its_index_in_front_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.mp4", small(2, &["-g", "20", "-movflags", "+faststart"])).await
}

#[tokio::test]
async fn a_video_in_fragments_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.mp4", small(3, &["-g", "10", "-movflags", "frag_keyframe+empty_moov"])).await
}

#[tokio::test]
async fn a_matroska_file_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.mkv", small(4, &["-g", "24"])).await
}

#[tokio::test]
async fn a_transport_stream_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.ts", small(5, &["-g", "10"])).await
}

#[tokio::test]
async fn a_video_of_many_blocks_gives_the_same_pictures_as_on_the_disk() -> Result<()> {
    same_pictures("film.mov", large(6)).await
}

#[tokio::test]
async fn bytes_are_fetched_once_for_all_programs_of_an_operation() -> Result<()> {
    let world = World::new().await?;
    let (local, remote) = world.add("large.mov", &large(1)).await?;
    let Source::File(path) = &local else { unreachable!("a file") };
    let size = path.metadata()?.len();
    assert!(size > 4 * MEBIBYTE, "{size} bytes are too few for this test");
    let everybody = (0..4).map(|_| world.frames(&world.media, &remote));
    for outcome in futures::future::join_all(everybody).await {
        outcome?;
    }
    let ranges: Vec<_> = world.bucket.seen().into_iter().filter_map(|seen| seen.range).collect();
    let different: BTreeSet<_> = ranges.iter().collect();
    assert_eq!(ranges.len(), different.len(), "{ranges:?}");
    Ok(())
}

#[tokio::test]
async fn links_that_end_while_a_video_is_read_are_renewed() -> Result<()> {
    let world = World::new().await?;
    let (local, remote) = world.add("large.mov", &large(1)).await?;
    world.bucket.behave(|conduct| conduct.reads_per_link = Some(1));
    world.compare(&world.media, &local, &remote).await?;
    let seen = world.bucket.seen();
    assert!(seen.iter().any(|seen| seen.is_read() && seen.status == 403), "the switch was on");
    let links: BTreeSet<_> = seen.iter().filter_map(|seen| seen.parameter("X-Amz-Signature")).collect();
    assert!(links.len() > 4, "{links:?}");
    Ok(())
}

#[tokio::test]
async fn connections_that_break_while_a_video_is_read_do_no_harm() -> Result<()> {
    let world = World::new().await?;
    let (local, remote) = world.add("large.mov", &large(1)).await?;
    world.bucket.behave(|conduct| conduct.cuts = Some((1000, 300_000)));
    world.compare(&world.media, &local, &remote).await?;
    assert!(world.reads() > 12);
    Ok(())
}

#[tokio::test]
async fn a_server_without_ranges_is_read_whole_once_for_all() -> Result<()> {
    let world = World::new().await?;
    let (local, remote) = world.add("large.mov", &large(1)).await?;
    world.bucket.behave(|conduct| conduct.ignores_ranges = true);
    let everybody = (0..4).map(|_| world.frames(&world.media, &remote));
    for outcome in futures::future::join_all(everybody).await {
        outcome?;
    }
    world.compare(&world.media, &local, &remote).await?;
    let whole = world.bucket.seen().into_iter().filter(|seen| seen.is_read() && !seen.is_link()).count();
    assert_eq!(whole, 1);
    // Another process finds the copy too.
    let other = world.fresh(|_reading| {})?;
    world.compare(&other, &local, &remote).await?;
    let whole = world.bucket.seen().into_iter().filter(|seen| seen.is_read() && !seen.is_link()).count();
    assert_eq!(whole, 1);
    Ok(())
}

#[tokio::test]
async fn downloads_stay_within_their_budget() -> Result<()> {
    let world = World::new().await?;
    let (local, film) = world.add("film.mov", &large(1)).await?;
    let Source::File(path) = &local else { unreachable!("a file") };
    let length = path.metadata()?.len();
    let mut sources = vec![film];
    for name in ["second", "third"] {
        let key = format!("videos/{name}.mov").parse()?;
        let bytes = vec![0; usize::try_from(length)?];
        world.reading.store.put_bytes(&key, bytes.into(), &About::new("video/mp4", "test")).await?;
        sources.push(Source::Object(key));
    }
    let budget = length * 2 + 100;
    let media = world.fresh(|reading| (reading.streams, reading.copies_max_bytes) = (false, budget))?;
    world.bucket.forget();
    for number in [0, 1, 2, 2, 1] {
        // A file that was looked at is remembered, and what is remembered holds no room.
        if number == 0 {
            world.frames(&media, &sources[0]).await?;
        }
        let copy = media.on_disk(&sources[number], &world.stop).await?;
        assert_eq!(copy.path().metadata()?.len(), length);
        assert!(world.copies()? <= budget);
    }
    assert_eq!(world.reads(), 3, "each came once, and the two used last are still there");
    world.frames(&media, &sources[0]).await?;
    assert_eq!(world.reads(), 4, "the one not used for longest had gone");
    assert!(world.copies()? <= budget);

    let held = media.on_disk(&sources[0], &world.stop).await?;
    let other = media.on_disk(&sources[1], &world.stop).await?;
    assert!(held.path().exists() && other.path().exists());
    let error = media.on_disk(&sources[2], &world.stop).await.expect_err("both are in use");
    assert_eq!(error.code(), "NoRoom");
    drop(other);
    media.on_disk(&sources[2], &world.stop).await?;
    assert!(held.path().exists(), "what is in use stays");

    let tight = world.fresh(|reading| (reading.streams, reading.copies_max_bytes) = (false, 1000))?;
    let error = world.frames(&tight, &sources[1]).await.expect_err("there is no room");
    assert!(matches!(error, MediaError::NoRoom { limit_bytes: 1000, .. }), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_read_that_fails_on_the_way_is_no_short_video() -> Result<()> {
    let world = World::new().await?;
    let (_local, remote) = world.add("large.mov", &large(1)).await?;
    for reads in 1..4 {
        let media = world.fresh(|_reading| {})?;
        world.bucket.behave(|conduct| *conduct = Conduct { reads_left: Some(reads), ..Conduct::default() });
        for error in [
            world.clip(&media, &remote).await.expect_err("the bytes do not come"),
            world.frames(&media, &remote).await.expect_err("the bytes do not come"),
        ] {
            assert_eq!(error.code(), "S3Forbidden", "{error:?}");
        }
        // When the right is back, nothing wrong is remembered.
        world.bucket.behave(|conduct| *conduct = Conduct::default());
        world.clip(&media, &remote).await?;
    }
    Ok(())
}

#[tokio::test]
async fn missing_and_forbidden_videos_are_told_apart() -> Result<()> {
    let world = World::new().await?;
    let missing = Source::Object("videos/missing.mp4".parse()?);
    let bucket_error = |error: MediaError| match error {
        MediaError::Bucket(error) => error,
        other => panic!("{other:?}"),
    };
    let error = bucket_error(world.frames(&world.media, &missing).await.expect_err("it is not there"));
    assert!(matches!(*error, ObjectError::NotFound { .. }), "{error:?}");
    world.bucket.behave(|conduct| conduct.denied = [Permission::Get].into());
    let error = bucket_error(world.frames(&world.media, &missing).await.expect_err("no right"));
    assert!(matches!(*error, ObjectError::Forbidden { .. }), "{error:?}");
    let without = Media::new(MediaConfig::in_folder(world.folder.join("out")));
    let error = world.frames(&without, &missing).await.expect_err("there is no bucket");
    assert_eq!(error.code(), "S3NotConfigured");
    Ok(())
}

#[tokio::test]
async fn another_content_under_the_same_key_is_noticed() -> Result<()> {
    let world = World::new().await?;
    let (_local, remote) = world.add("film.mov", &large(1)).await?;
    let (replacement, _remote) = world.add("other.mov", &large(2)).await?;
    let media = world.fresh(|_reading| {})?;
    world.bucket.behave(|conduct| conduct.reads_left = Some(1));
    world.frames(&media, &remote).await.expect_err("only the first block comes");
    world.bucket.behave(|conduct| *conduct = Conduct::default());
    let (Source::File(path), Source::Object(key)) = (&replacement, &remote) else {
        unreachable!("a file and an object")
    };
    world.reading.store.put_file(key, path, &About::new("video/mp4", "test")).await?;
    let error = world.frames(&media, &remote).await.expect_err("two contents are not mixed");
    assert_eq!(error.code(), "S3Replaced", "{error:?}");
    world.compare(&media, &replacement, &remote).await?;
    Ok(())
}

#[tokio::test]
async fn a_hostile_object_opens_no_connection_and_no_file() -> Result<()> {
    let world = World::new().await?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    std::fs::write(world.folder.join("canary.txt"), CANARY)?;
    std::fs::create_dir_all(world.bucket.path_of("videos"))?;
    let by_ranges = world.fresh(|_reading| {})?;
    let whole = world.fresh(|reading| reading.streams = false)?;
    for (name, bytes, word) in hostile_files(&world.folder, listener.local_addr()?.port()) {
        std::fs::write(world.bucket.path_of(&format!("videos/{name}")), bytes)?;
        let source = Source::Object(format!("videos/{name}").parse()?);
        for media in [&by_ranges, &whole] {
            let error = world.frames(media, &source).await.expect_err("that is no video");
            assert_eq!(error.code(), "SourceRefused", "{name}: {error:?}");
            assert!(error.to_string().contains(word), "{name}: {error}");
            assert!(!format!("{error:?}").contains(CANARY), "{name} tells the canary");
            let called = listener.accept().map_err(|error| error.kind()).err();
            assert_eq!(called, Some(std::io::ErrorKind::WouldBlock), "{name} made a request");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_stop_ends_the_wait_for_a_bucket_that_does_not_answer() -> Result<()> {
    let world = World::new().await?;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", silent.local_addr()?);
    let media = world.fresh(|reading| reading.store = ObjectStore::new(config(&endpoint)))?;
    let source = Source::Object("videos/a.mp4".parse()?);
    let stopped = async {
        let connection = silent.accept().await?;
        world.stop.cancel();
        anyhow::Ok(connection)
    };
    let (outcome, held) = tokio::join!(world.frames(&media, &source), stopped);
    held?;
    assert!(matches!(outcome, Err(MediaError::Cancelled)), "{outcome:?}");
    Ok(())
}
