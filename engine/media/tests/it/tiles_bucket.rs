//! Tiles in a bucket.

use std::time::Duration;

use ambient_media::objects::{About, ObjectStore};
use ambient_media::{BucketReading, BucketTiles, Media, MediaConfig, Source, TileManifest, TilesDone, TilesSpec};
use ambient_test_bucket::{Permission, TestBucket};
use anyhow::{Context, Result};
use camino::Utf8PathBuf;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::film::{Film, watch};
use crate::objects::config;
use crate::tiles::{Counting, clip_spec, names, spec};

const ID: &str = "vid_0123456789abcdef";

/// A film of 12 s that lies in a bucket alone.
struct World {
    bucket: TestBucket,
    folder: Utf8PathBuf,
    media: Media,
    source: Source,
    store: Counting<BucketTiles>,
    stop: CancellationToken,
    _held: TempDir,
}

impl World {
    async fn new() -> Result<Self> {
        let bucket = TestBucket::start().await?;
        let held = tempfile::tempdir()?;
        let folder = Utf8PathBuf::from_path_buf(held.path().canonicalize()?).ok().context("UTF-8")?;
        let objects = ObjectStore::new(config(bucket.endpoint()));
        let film = folder.join("film.mp4");
        Film::new(71, "20", 240).h264(&["-g", "40"]).make(&film)?;
        let key = objects.source_key(ID, "mp4");
        objects.put_file(&key, &film, &About::new("video/mp4", "test")).await?;
        std::fs::remove_file(film)?;
        let reading = BucketReading {
            store: objects.clone(),
            streams: true,
            stream_min_bytes: 0,
            link_life: Duration::from_hours(2),
            copies: folder.join("copies"),
            copies_max_bytes: 100 << 20,
        };
        let media = Media::with_bucket(MediaConfig::in_folder(folder.join("out")), reading)?;
        let store = Counting::new(BucketTiles::new(objects, ID, "test", folder.join("fetched")));
        Ok(Self {
            bucket,
            folder,
            media,
            source: Source::Object(key),
            store,
            stop: CancellationToken::new(),
            _held: held,
        })
    }

    async fn make(&self) -> Result<TileManifest, ambient_media::MediaError> {
        self.media.make_tiles(&self.source, &spec(), &self.store, &|_done| {}, &self.stop).await
    }

    /// What clips out of the tiles show.
    async fn codes(&self, manifest: &TileManifest, start: u32, end: u32) -> Result<Vec<u32>> {
        let clip = self.media.clip_from_tiles(manifest, &clip_spec(start, end), &self.store, &self.stop).await?;
        Ok(watch(&clip.context("tiles do not fit")?)?.codes())
    }

    fn reads_of_tiles(&self) -> usize {
        self.bucket.seen().iter().filter(|seen| seen.is_read() && seen.path.contains("/tile_")).count()
    }
}

#[tokio::test]
async fn tiles_lie_in_the_bucket_and_are_read_from_there_once() -> Result<()> {
    let world = World::new().await?;
    let manifest = world.make().await?;
    assert_eq!(world.store.puts(), names(&[0, 1, 2]));
    let tile = |index: u32| format!("{ID}/tiles/tile_{index:05}.mp4");
    let source = format!("videos/{ID}.mp4");
    assert_eq!(world.bucket.objects()?, [format!("{ID}/tiles/manifest.json"), tile(0), tile(1), tile(2), source]);
    assert_eq!(manifest.tiles[2].key, tile(2));
    assert_eq!(TileManifest::of(&world.store).await?.as_ref(), Some(&manifest));
    let wanted: Vec<u32> = (7..22).map(|step| step * 500).collect();
    assert_eq!(world.codes(&manifest, 3_500, 11_000).await?, wanted);
    assert_eq!(world.reads_of_tiles(), 3);
    assert_eq!(world.codes(&manifest, 4_000, 6_000).await?, [4000, 4500, 5000, 5500]);
    assert_eq!(world.reads_of_tiles(), 3, "they are here already");
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_refuses_is_named_and_what_was_made_stays() -> Result<()> {
    let world = World::new().await?;
    let one_at_a_time = TilesSpec { workers: 1, ..spec() };
    let told = |done: TilesDone| {
        if done.done_tiles == 2 {
            world.bucket.behave(|conduct| _ = conduct.denied.insert(Permission::Put));
        }
    };
    let refused = world.media.make_tiles(&world.source, &one_at_a_time, &world.store, &told, &world.stop).await;
    assert_eq!(refused.expect_err("it may not be stored").code(), "S3Forbidden");
    world.bucket.behave(|conduct| conduct.denied.clear());
    world.store.forget();
    let manifest = world.make().await?;
    assert_eq!(world.store.puts(), names(&[2]));
    assert_eq!(world.codes(&manifest, 9_000, 11_000).await?, [9000, 9500, 10_000, 10_500]);
    Ok(())
}

#[tokio::test]
async fn a_key_that_may_not_delete_is_enough() -> Result<()> {
    let world = World::new().await?;
    world.bucket.behave(|conduct| _ = conduct.denied.insert(Permission::Delete));
    world.make().await?;
    let longer = TilesSpec { tile_seconds: 10, ..spec() };
    let manifest = world.media.make_tiles(&world.source, &longer, &world.store, &|_done| {}, &world.stop).await?;
    assert_eq!(manifest.tiles.len(), 2);
    assert_eq!(world.codes(&manifest, 9_000, 11_000).await?, [9000, 9500, 10_000, 10_500]);
    Ok(())
}

#[tokio::test]
async fn a_tile_that_is_gone_or_was_replaced_is_an_error() -> Result<()> {
    let world = World::new().await?;
    let manifest = world.make().await?;
    let path = |index: u32| world.bucket.path_of(&format!("{ID}/tiles/tile_{index:05}.mp4"));
    std::fs::remove_file(path(0))?;
    std::fs::write(path(1), b"something else")?;
    for (start, code) in [(1_000, "S3NotFound"), (6_000, "TileStoreFailed")] {
        let wish = clip_spec(start, start + 2_000);
        let failed = world.media.clip_from_tiles(&manifest, &wish, &world.store, &world.stop).await;
        assert_eq!(failed.expect_err("it is not there").code(), code);
    }
    assert!(world.folder.join("fetched").read_dir_utf8()?.next().is_none(), "nothing of it is kept");
    world.store.forget();
    let mended = world.make().await?;
    assert_eq!(world.store.puts(), names(&[0, 1]));
    assert_eq!(world.codes(&mended, 4_000, 6_000).await?, [4000, 4500, 5000, 5500]);
    Ok(())
}
