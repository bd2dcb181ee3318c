//! Tiles in a folder: clips out of them are exact, and they are made once and of the right bytes.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ambient_media::{
    Clip, ClipSpec, FolderTiles, MediaError, Rate, TileError, TileManifest, TileStore, TilesDone, TilesSpec, WantedTile,
};
use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};

use crate::film::{Film, Room, Watched, run, watch, words};
use crate::judge::{Truth, at, millis};
use crate::kinds::{made, truth};

const TILE_SECONDS: u32 = 5;
/// Between two steps of 2 pictures a second.
const STEP_MILLIS: u32 = 500;

pub(crate) fn spec() -> TilesSpec {
    TilesSpec {
        video_id: "vid_0123456789abcdef".to_owned(),
        fps: Rate::new(2, 1).expect("a rate"),
        max_dim: 768,
        tile_seconds: u64::from(TILE_SECONDS),
        workers: 2,
    }
}

pub(crate) fn clip_spec(start: u32, end: u32) -> ClipSpec {
    let fps = Rate::new(2, 1);
    ClipSpec { start: at(start), end: at(end), fps, max_dim: Some(768), max_size_bytes: None, crf: None }
}

/// Counts what is stored, and fails when it is told to.
#[derive(Debug)]
pub(crate) struct Counting<S> {
    pub(crate) inner: S,
    puts: Mutex<HashMap<String, usize>>,
    pub(crate) forgets: AtomicBool,
}

impl<S> Counting<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, puts: Mutex::default(), forgets: AtomicBool::new(false) }
    }

    /// How often each tile was stored, by its name.
    pub(crate) fn puts(&self) -> Vec<(String, usize)> {
        let puts = self.puts.lock().expect("nothing panics while it holds the lock");
        let mut puts: Vec<_> = puts.iter().map(|(name, count)| (name.clone(), *count)).collect();
        puts.sort();
        puts
    }

    pub(crate) fn forget(&self) {
        self.puts.lock().expect("nothing panics while it holds the lock").clear();
    }
}

#[async_trait]
impl<S: TileStore> TileStore for Counting<S> {
    async fn text(&self, name: &str) -> Result<Option<Vec<u8>>, TileError> {
        self.inner.text(name).await
    }

    async fn put_text(&self, name: &str, text: Vec<u8>) -> Result<(), TileError> {
        if self.forgets.load(Ordering::Relaxed) {
            return Err(TileError::new("write", name, "the disk is full"));
        }
        self.inner.put_text(name, text).await
    }

    async fn sizes(&self) -> Result<HashMap<String, u64>, TileError> {
        self.inner.sizes().await
    }

    async fn put(&self, name: &str, path: &Utf8Path) -> Result<(), TileError> {
        *self.puts.lock().expect("nothing panics while it holds the lock").entry(name.to_owned()).or_default() += 1;
        self.inner.put(name, path).await
    }

    async fn file(&self, wanted: &WantedTile) -> Result<Utf8PathBuf, TileError> {
        self.inner.file(wanted).await
    }

    async fn remove(&self, name: &str) -> Result<(), TileError> {
        self.inner.remove(name).await
    }

    fn key(&self, name: &str) -> String {
        self.inner.key(name)
    }
}

pub(crate) fn names(indexes: &[u32]) -> Vec<(String, usize)> {
    indexes.iter().map(|index| (format!("tile_{index:05}.mp4"), 1)).collect()
}

fn folder(room: &Room) -> Counting<FolderTiles> {
    Counting::new(FolderTiles::new(room.folder.join("tiles")))
}

/// A film and its tiles.
struct Tiled {
    room: Room,
    truth: Truth,
    store: Counting<FolderTiles>,
    manifest: TileManifest,
}

impl Tiled {
    async fn of((room, truth): (Room, Truth)) -> Result<Self> {
        let store = folder(&room);
        let manifest =
            room.media.make_tiles(&room.source(truth.name), &spec(), &store, &|_done| {}, &room.stop).await?;
        Ok(Self { room, truth, store, manifest })
    }

    async fn joined(&self, start: u32, end: u32) -> Result<Option<Clip>> {
        let Self { room, store, manifest, .. } = self;
        Ok(room.media.clip_from_tiles(manifest, &clip_spec(start, end), store, &room.stop).await?)
    }

    /// A clip out of tiles shows at each step of the window what is on screen then, and nothing else, with its sound.
    async fn is_exact(&self, start: u32, end: u32) -> Result<(Clip, Watched)> {
        let truth = &self.truth;
        let clip = self.joined(start, end).await?.with_context(|| format!("{start}-{end} is not served"))?;
        let watched = watch(&clip)?;
        let first = truth.time(truth.codes[0]).ceil() as u32;
        let inside = |moment: &u32| (start.max(first)..end.min(truth.end)).contains(moment);
        let moments: Vec<u32> = (0..200).map(|step| step * STEP_MILLIS).filter(inside).collect();
        let wanted: Vec<u32> = moments.iter().map(|&moment| truth.shown(moment)).collect();
        ensure!(watched.codes() == wanted, "{start}-{end}: shows {:?}, wanted {wanted:?}", watched.codes());
        ensure!(watched.pictures.len() == wanted.len(), "{start}-{end}: a picture cannot be read");
        for (number, picture) in watched.pictures.iter().enumerate() {
            let step = number as f64 * f64::from(STEP_MILLIS);
            ensure!(
                (picture.shown_millis - step).abs() < 0.1,
                "{start}-{end}: step {number} at {}",
                picture.shown_millis
            );
            let reading = picture.reading.context("it was read before")?;
            ensure!(reading.file == truth.file && reading.turn == 0, "{start}-{end}: {reading:?}");
        }
        ensure!((millis(clip.start) - f64::from(moments[0])).abs() < 0.01, "{start}-{end}: says {}", clip.start);
        let true_end = f64::from(end.min(truth.end));
        ensure!((millis(clip.end) - true_end).abs() <= 2.0 * truth.tolerance_millis + 1.0, "says {}", clip.end);
        ensure!(
            clip.clamped == (end > truth.end + 5 || f64::from(start) < truth.time(truth.codes[0]) - 500.0),
            "{clip:?}"
        );
        ensure!(watched.video == ["yuv420p", "tv", "bt709", "bt709", "bt709"], "{:?}", watched.video);
        ensure!(watched.audio == if truth.has_audio { "aac" } else { "" }, "sound: {:?}", watched.audio);
        for second in 0..60_u32 {
            let middle = f64::from(second) + 0.5;
            let is_inside = middle * 1000.0 > millis(clip.start) + 300.0 && middle * 1000.0 < millis(clip.end) - 300.0;
            if truth.has_audio && is_inside {
                let heard = watched.heard(middle - clip.start.as_secs_f64());
                ensure!(heard == Some(second), "{start}-{end}: second {second} sounds like {heard:?}");
            }
        }
        Ok((clip, watched))
    }
}

/// 27 s at 25 pictures a second, of which every second step lies between two pictures.
fn film() -> Film {
    Film::new(61, "25", 675).h264(&["-g", "60"])
}

#[tokio::test]
async fn clips_are_exact_wherever_they_begin_and_end() -> Result<()> {
    let tiled = Tiled::of(made("film.mp4", &film())?).await?;
    assert_eq!(tiled.store.puts(), names(&[0, 1, 2, 3, 4, 5]));
    assert!(tiled.manifest.tiles.iter().all(|tile| tile.first_sound_frame.is_some()));
    // At, before and behind each border.
    for border in (0..=25_000).step_by(5000) {
        for shift in [-700_i32, -500, -1, 0, 1, 250, 500] {
            let start = border + shift;
            if (0..26_000).contains(&start) {
                tiled.is_exact(start as u32, start as u32 + 900).await?;
            }
        }
    }
    // Across two, three and all of them.
    for (start, end) in [(3_000, 7_500), (4_900, 15_100), (8_250, 16_740), (0, 27_000), (12_340, 40_000)] {
        tiled.is_exact(start, end).await?;
    }
    assert_eq!(tiled.joined(10_100, 10_400).await?, None, "there is no step inside");
    assert_eq!(tiled.joined(27_000, 30_000).await?, None, "that is past the end");
    Ok(())
}

#[tokio::test]
async fn sound_goes_on_over_a_border() -> Result<()> {
    let tiled = Tiled::of(made("film.mp4", &film())?).await?;
    for (start, end) in [(3_000, 7_000), (9_000, 21_000), (14_000, 16_000)] {
        let (_clip, joined) = tiled.is_exact(start, end).await?;
        let (_clip, cut) = tiled.room.cut(&tiled.truth, start, end, Rate::new(2, 1)).await?;
        for border in (5000..end).step_by(5000).filter(|border| *border > start) {
            let place = f64::from(border - start) / 1000.0;
            let (at_border, elsewhere) =
                (joined.difference(&cut, place - 0.1, place + 0.1), joined.difference(&cut, place + 0.2, place + 0.4));
            ensure!(at_border < 0.1 && elsewhere < 0.1, "at {border}: {at_border}, elsewhere {elsewhere}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_kind_of_film_has_exact_tiles() -> Result<()> {
    // Pictures that do not divide a step, and reordered ones. The one at 500.5 ms is on screen at 500 by the rule of half a millisecond.
    let tiled =
        Tiled::of(made("ntsc.mp4", &Film::new(62, "30000/1001", 400).h264(&["-bf", "3", "-g", "200"]))?).await?;
    for (start, end) in [(700, 13_000), (4_500, 9_999), (6_300, 12_000)] {
        tiled.is_exact(start, end).await?;
    }
    // No sound; and a transport stream that starts at an hour.
    let silent = Film::new(63, "15", 180).sound(0).h264(&["-g", "30", "-output_ts_offset", "3600"]);
    let tiled = Tiled::of(made("late.ts", &silent)?).await?;
    tiled.is_exact(2_000, 11_000).await?;
    // Turned by a phone.
    let (room, upright) =
        made("stored.mp4", &Film::new(64, "25", 200).sized(120, 160).h264(&["-vf", "transpose=clock"]))?;
    let (from, to) = (room.folder.join("stored.mp4"), room.folder.join("turned.mp4"));
    let rotate = ["-v", "error", "-i", from.as_str(), "-c", "copy", "-metadata:s:v:0", "rotate=90", to.as_str()];
    run("ffmpeg", &words(&rotate), Vec::new())?;
    let tiled = Tiled::of((room, Truth { name: "turned.mp4", ..upright })).await?;
    tiled.is_exact(3_500, 8_000).await?;
    Ok(())
}

#[tokio::test]
async fn a_picture_that_stands_over_whole_tiles_is_in_each_of_them() -> Result<()> {
    let film =
        Film::new(65, "10", 220).h264(&["-vf", r"select=lt(t\,1.99)+gte(t\,17.99)", "-fps_mode", "vfr", "-g", "400"]);
    let (room, truth) = made("gap.mp4", &film)?;
    let codes = truth.codes.iter().copied().filter(|code| *code < 2000 || *code >= 18_000).collect();
    let tiled = Tiled::of((room, Truth { codes, ..truth })).await?;
    assert_eq!(tiled.manifest.tiles.len(), 5);
    for (start, end) in [(0, 22_000), (6_000, 9_000), (9_500, 15_500), (16_000, 20_000)] {
        tiled.is_exact(start, end).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_clip_over_its_cap_or_of_another_quality_is_not_served() -> Result<()> {
    let tiled = Tiled::of(made("film.mp4", &film())?).await?;
    let ask = async |change: fn(&mut ClipSpec)| -> Result<bool> {
        let mut wish = clip_spec(5_000, 10_000);
        change(&mut wish);
        let Tiled { room, store, manifest, .. } = &tiled;
        Ok(room.media.clip_from_tiles(manifest, &wish, store, &room.stop).await?.is_some())
    };
    assert!(ask(|_wish| {}).await?);
    assert!(ask(|wish| wish.max_size_bytes = Some(1 << 20)).await?);
    assert!(!ask(|wish| wish.max_size_bytes = Some(20_000)).await?);
    assert!(!ask(|wish| wish.fps = None).await?);
    assert!(!ask(|wish| wish.max_dim = Some(80)).await?);
    assert!(ask(|wish| wish.max_dim = Some(1080)).await?, "the film is smaller than that anyway");
    assert_eq!(tiled.room.outputs()?.len(), 3, "what was too large is gone");
    Ok(())
}

#[tokio::test]
async fn who_comes_after_a_crash_makes_what_is_missing() -> Result<()> {
    let (room, truth) = made("film.mp4", &film())?;
    let (store, source) = (folder(&room), room.source(truth.name));
    let one_at_a_time = TilesSpec { workers: 1, ..spec() };
    // The future is dropped in the middle of the fourth tile, which leaves what a kill leaves.
    let (half_way, reached) = (tokio::sync::Notify::new(), AtomicBool::new(false));
    let told = |done: TilesDone| {
        if done.done_tiles == 3 && !reached.swap(true, Ordering::Relaxed) {
            half_way.notify_one();
        }
    };
    tokio::select! {
        made = room.media.make_tiles(&source, &one_at_a_time, &store, &told, &room.stop) => {
            made?;
            anyhow::bail!("it was not broken off");
        }
        () = half_way.notified() => {}
    }
    assert_eq!(store.puts(), names(&[0, 1, 2]));
    assert_eq!(TileManifest::of(&store).await?, None, "the manifest comes last");
    let first = Mutex::new(Vec::new());
    let told = |done: TilesDone| first.lock().expect("no panic").push(done.done_tiles);
    let manifest = room.media.make_tiles(&source, &spec(), &store, &told, &room.stop).await?;
    assert_eq!(store.puts(), names(&[0, 1, 2, 3, 4, 5]), "each was made once");
    assert_eq!(*first.lock().expect("no panic"), [3, 4, 5, 6]);
    let tiled = Tiled { room, truth, store, manifest };
    tiled.is_exact(0, 27_000).await?;
    Ok(())
}

#[tokio::test]
async fn finished_tiles_are_not_made_again() -> Result<()> {
    let tiled = Tiled::of(made("film.mp4", &film())?).await?;
    tiled.store.forget();
    let Tiled { room, truth, store, manifest } = &tiled;
    let again = room.media.make_tiles(&room.source(truth.name), &spec(), store, &|_done| {}, &room.stop).await?;
    assert_eq!((&again, store.puts()), (manifest, Vec::new()));
    let mut left: Vec<String> = store.sizes().await?.into_keys().collect();
    left.sort();
    assert_eq!(left.first().map(String::as_str), Some("manifest.json"));
    assert_eq!(left.len(), 7, "{left:?}");
    Ok(())
}

#[tokio::test]
async fn a_missing_or_damaged_tile_is_seen_and_mended() -> Result<()> {
    let tiled = Tiled::of(made("film.mp4", &film())?).await?;
    let path = |index: u32| tiled.room.folder.join(format!("tiles/tile_{index:05}.mp4"));
    std::fs::remove_file(path(1))?;
    std::fs::write(path(3), b"cut off")?;
    for start in [5_000, 15_000] {
        let error = tiled.joined(start, start + 2_000).await.expect_err("there is no such tile");
        let code = error.downcast_ref::<MediaError>().map(MediaError::code);
        assert_eq!(code, Some("TileStoreFailed"), "{error:#}");
    }
    assert!(tiled.joined(10_000, 12_000).await?.is_some(), "the others are good");
    tiled.store.forget();
    let Tiled { room, truth, store, manifest } = &tiled;
    let mended = room.media.make_tiles(&room.source(truth.name), &spec(), store, &|_done| {}, &room.stop).await?;
    assert_eq!((&mended, store.puts()), (manifest, names(&[1, 3])));
    tiled.is_exact(4_000, 21_000).await?;
    Ok(())
}

#[tokio::test]
async fn another_source_or_quality_has_other_tiles() -> Result<()> {
    let (room, truth) = made("film.mp4", &film())?;
    let tiled = Tiled::of((room, truth)).await?;
    let Tiled { room, store, manifest, .. } = &tiled;
    let source = room.source("film.mp4");
    assert!(manifest.is_of(std::fs::metadata(room.folder.join("film.mp4"))?.len(), &manifest.source.sha256[..16]));
    let other = Film::new(66, "25", 275).h264(&["-g", "60"]);
    other.make(&room.folder.join("film.mp4"))?;
    assert!(!manifest.is_of(std::fs::metadata(room.folder.join("film.mp4"))?.len(), &manifest.source.sha256[..16]));
    store.forget();
    let changed = room.media.make_tiles(&source, &spec(), store, &|_done| {}, &room.stop).await?;
    assert_eq!(store.puts(), names(&[0, 1, 2]));
    assert_ne!(changed.source, manifest.source);
    assert_eq!(store.sizes().await?.len(), 4, "the tiles of the longer film are gone");
    let old = room.media.clip_from_tiles(manifest, &clip_spec(0, 5_000), store, &room.stop).await;
    assert!(old.is_err(), "a reader with the old manifest must not get the new film");

    store.forget();
    let finer = TilesSpec { max_dim: 120, ..spec() };
    room.media.make_tiles(&source, &finer, store, &|_done| {}, &room.stop).await?;
    assert_eq!(store.puts(), names(&[0, 1, 2]));
    let Tiled { room, store, .. } = tiled;
    let tiled = Tiled { truth: truth_of(&other), manifest: changed, room, store };
    let manifest = tiled.room.media.make_tiles(&source, &spec(), &tiled.store, &|_done| {}, &tiled.room.stop).await?;
    Tiled { manifest, ..tiled }.is_exact(2_000, 11_000).await?;
    Ok(())
}

fn truth_of(film: &Film) -> Truth {
    truth("film.mp4", film)
}

#[tokio::test]
async fn a_tile_that_was_not_noted_is_made_again() -> Result<()> {
    let (room, truth) = made("film.mp4", &film())?;
    let (store, source) = (folder(&room), room.source(truth.name));
    store.forgets.store(true, Ordering::Relaxed);
    let error =
        room.media.make_tiles(&source, &TilesSpec { workers: 1, ..spec() }, &store, &|_done| {}, &room.stop).await;
    assert_eq!(error.expect_err("nothing can be noted").code(), "TileStoreFailed");
    store.forgets.store(false, Ordering::Relaxed);
    let manifest = room.media.make_tiles(&source, &spec(), &store, &|_done| {}, &room.stop).await?;
    assert_eq!(store.puts()[0], ("tile_00000.mp4".to_owned(), 2));
    Tiled { room, truth, store, manifest }.is_exact(0, 8_000).await?;
    Ok(())
}
