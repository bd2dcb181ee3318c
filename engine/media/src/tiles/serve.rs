//! A clip out of tiles: packets copied, an index written in front.

use std::fs::File;
use std::io;
use std::ops::Range;

use camino::Utf8PathBuf;
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::grid::Grid;
use super::manifest::{MANIFEST, TileManifest};
use super::plan::{Plan, plan};
use super::select::{Read, Selected};
use super::store::{TileError, TileStore};
use crate::args::clip::OUTPUT;
use crate::args::tile::{self as tile_args, HEAD, Look};
use crate::clip::{Clip, ClipSpec};
use crate::error::MediaError;
use crate::media::Media;
use crate::mp4::{self, Kind, Piece, Written};
use crate::probe::Size;
use crate::workspace::Workspace;

/// A group of pictures that is decoded in order to encode its end anew.
const GROUP: &str = "group.mp4";
/// The clock of such a group, where no time counts: each picture takes a second.
const GROUP_SCALE: u32 = 1000;

impl TileManifest {
    /// The manifest of a store; `None` if there is none, or none of ours.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn of(store: &dyn TileStore) -> Result<Option<Self>, TileError> {
        let text = store.text(MANIFEST).await?;
        let manifest = text.and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        Ok(manifest.filter(|manifest| manifest.grid().is_some()))
    }
}

impl Media {
    /// The clip that `spec` asks for, put together from the tiles of `manifest`; `None` if they do not fit the request: then the clip has to be cut
    /// from the source.
    ///
    /// Its pictures are those of the steps `n / fps` of the whole video that lie in the window, and `start` is the moment of the first of them. Whether
    /// the manifest belongs to the source that is meant is the caller's to check, see [`TileManifest::is_of`].
    ///
    /// # Errors
    ///
    /// When a tile is missing or is not the one that the manifest tells, the clip cannot be written, or `stop` fires.
    pub async fn clip_from_tiles(
        &self,
        manifest: &TileManifest,
        spec: &ClipSpec,
        store: &dyn TileStore,
        stop: &CancellationToken,
    ) -> Result<Option<Clip>, MediaError> {
        let Some(grid) = manifest.grid() else { return Ok(None) };
        let Some(plan) = plan(manifest, grid, spec) else { return Ok(None) };
        let fetched = try_join_all(plan.tiles.iter().map(|tile| {
            let wanted = manifest.wanted(tile);
            async move { store.file(&wanted).await }
        }));
        let files = tokio::select! {
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            files = fetched => files?,
        };
        self.join(manifest, grid, spec, &plan, files, stop).await
    }

    async fn join(
        &self,
        manifest: &TileManifest,
        grid: Grid,
        spec: &ClipSpec,
        plan: &Plan,
        files: Vec<Utf8PathBuf>,
        stop: &CancellationToken,
    ) -> Result<Option<Clip>, MediaError> {
        let opened = blocking(move || files.into_iter().map(Read::open).collect::<io::Result<Vec<_>>>()).await;
        let tiles = opened.map_err(MediaError::file("read a tile"))?;
        let workspace = Workspace::new(&self.config().work_folder).await?;
        let size = Size { width: manifest.width, height: manifest.height };
        let look = Look { rate: grid.rate, size, crf: manifest.crf, key_distance: grid.key_distance() };
        let Some(selected) = Selected::of(plan, tiles) else { return Ok(None) };
        let selected = match selected.group() {
            None => selected,
            Some(group) => match self.head(selected, group, look, &workspace, stop).await? {
                Some(selected) => selected,
                None => return Ok(None),
            },
        };
        let Some(tracks) = selected.tracks(plan, grid.rate, size) else { return Ok(None) };
        let has_audio = tracks.len() > 1;
        let path = workspace.file(OUTPUT);
        let written = blocking(move || {
            let mut files: Vec<File> = selected.tiles.into_iter().map(|tile| tile.file).collect();
            mp4::write(File::create(path)?, &mut files, &tracks)
        });
        let size_bytes = written.await.map_err(MediaError::file("write the clip"))?;
        if stop.is_cancelled() {
            return Err(MediaError::Cancelled);
        }
        if spec.max_size_bytes.is_some_and(|limit| size_bytes > limit) {
            return Ok(None);
        }
        let mut paths = workspace.hand_over(&[OUTPUT.to_owned()]).await?;
        Ok(Some(Clip {
            path: paths.remove(0),
            start: plan.start,
            end: plan.end,
            size_bytes,
            width: size.width,
            height: size.height,
            has_audio,
            clamped: plan.is_clamped,
            held: false,
            source_pictures: usize::try_from(plan.steps.end - plan.steps.start).unwrap_or(usize::MAX),
        }))
    }

    /// Encodes the pictures before the first key frame anew, so that the clip begins with one; `None` if they would not stand together with the rest.
    async fn head(
        &self,
        mut selected: Selected,
        group: Range<usize>,
        look: Look,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<Option<Selected>, MediaError> {
        const MAKE: &str = "encode the beginning of a clip";
        let path = workspace.file(GROUP);
        let skipped = u64::try_from(selected.skipped()).unwrap_or(0);
        let gathered = blocking(move || {
            let tile = &mut selected.tiles[0];
            let one = |&sample| Piece { file: 0, sample, length: GROUP_SCALE, later: 0 };
            let pieces: Vec<Piece> = tile.video.samples[group].iter().map(one).collect();
            let track = Written {
                kind: Kind::Video,
                description: tile.video.description.clone(),
                scale: GROUP_SCALE,
                width: u16::try_from(look.size.width).unwrap_or(u16::MAX),
                height: u16::try_from(look.size.height).unwrap_or(u16::MAX),
                edit: None,
                pieces,
            };
            mp4::write(File::create(path)?, std::slice::from_mut(&mut tile.file), &[track])?;
            Ok(selected)
        });
        let selected = gathered.await.map_err(MediaError::file(MAKE))?;
        let args = tile_args::head(GROUP, skipped, look, self.threads(1));
        self.ffmpeg(args, workspace.path(), stop).await?.succeeded(&self.config().ffmpeg)?;
        let path = workspace.file(HEAD);
        let head = blocking(move || Read::open(path)).await.map_err(MediaError::file(MAKE))?;
        Ok(selected.begin_with(head))
    }
}

/// Work on files, off the threads that serve requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
