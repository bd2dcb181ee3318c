//! Where commands keep tiles.

use super::Surroundings;
use super::bucket::MADE_BY;
use super::envelope::Failure;
use crate::media::Media;
use crate::tiles::{BucketTiles, FolderTiles, TileStore};

/// The tiles of a video: in the bucket if there is one, else beside the video.
pub(super) fn store(around: &Surroundings, id: &str) -> Box<dyn TileStore> {
    let folder = around.video_folder.join(id).join("tiles");
    match &around.bucket {
        Some(bucket) => Box::new(BucketTiles::new(bucket.store.clone(), id, MADE_BY, folder)),
        None => Box::new(FolderTiles::new(folder)),
    }
}

/// Media work whose outputs go to the sub-folder `kind` of the video's folder.
pub(super) fn media(around: &Surroundings, id: &str, kind: &str) -> Result<Media, Failure> {
    let mut config = around.media.clone();
    config.work_folder = around.video_folder.join(id).join(kind);
    Ok(match &around.bucket {
        Some(bucket) => Media::with_bucket(config, bucket.clone())?,
        None => Media::new(config),
    })
}
