//! A host with a real video: ffmpeg, SQLite and the in-process backend, in a folder of its own.

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::backend::MediaBackend;
use ambient_engine::backend::inprocess::{InProcess, InProcessConfig, media_config};
use ambient_engine::clock::Clock;
use ambient_engine::ids::VideoId;
use ambient_engine::store::records::{FileRecord, FileSource, MediaFacts, Metadata, WorkStatus};
use ambient_engine::store::{Migrate, Store, StoreOptions};
use ambient_media::Media;
use ambient_settings::Settings;
use camino::{Utf8Path, Utf8PathBuf};

/// Length of the video in seconds.
pub(crate) const DURATION: f64 = 12.0;

/// See the module.
pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) backend: Arc<InProcess>,
    pub(crate) file: FileRecord,
}

impl Place {
    /// With one video of [`DURATION`], ten pictures a second, with sound.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Utf8PathBuf::from_path_buf(folder.path().canonicalize().expect("it was just made")).expect("UTF-8");
        let settings = Settings::for_tests(&home);
        let url = format!("sqlite://{}", home.join("ambient.db"));
        let store = ambient_engine::store::connect(&url, &StoreOptions::new(Migrate::Run)).await.expect("a store");
        let config = InProcessConfig::from_settings(&settings);
        let backend = Arc::new(InProcess::new(config, Arc::clone(&store), Media::new(media_config(&settings))));
        let file = record(VideoId::of_hash("0123456789abcdef").expect("a hash"));
        fs_err::create_dir_all(&settings.media.video_folder).expect("a writable folder");
        make_video(&settings.media.video_folder.join(format!("{}{}", file.id, file.extension)));
        store.insert_file(&file).await.expect("a file");
        Self { _folder: folder, settings, store, backend, file }
    }

    /// The backend as everybody else sees it.
    pub(crate) fn backend(&self) -> Arc<dyn MediaBackend> {
        let backend: Arc<InProcess> = Arc::clone(&self.backend);
        backend
    }
}

fn record(id: VideoId) -> FileRecord {
    let now = Clock::system().now();
    FileRecord {
        id,
        filename: "test.mp4".to_owned(),
        mime_type: "video/mp4".to_owned(),
        extension: ".mp4".to_owned(),
        size_bytes: 1,
        sha256: "0123456789abcdef".repeat(4),
        source: FileSource::Upload,
        source_status: WorkStatus::Ready,
        source_error: None,
        bucket_key: None,
        media: Some(MediaFacts {
            duration_seconds: DURATION,
            width: 320,
            height: 240,
            frames_per_second: 10.0,
            has_audio: true,
            video_codec: "h264".to_owned(),
            container: "mp4".to_owned(),
        }),
        description_status: Some(WorkStatus::Pending),
        description: None,
        description_error: None,
        description_attempts: 0,
        metadata: Metadata::new(),
        expires_at: None,
        created_at: now,
        updated_at: now,
    }
}

#[expect(clippy::disallowed_methods, reason = "the video is made by ffmpeg itself, not by the code under test")]
fn make_video(path: &Utf8Path) {
    let made = std::process::Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y"])
        .args(["-f", "lavfi", "-i", "testsrc=size=320x240:rate=10:duration=12"])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:duration=12"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-shortest"])
        .arg(path)
        .status()
        .expect("ffmpeg is installed");
    assert!(made.success(), "ffmpeg made no video");
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F, what: &str) -> T {
    const PATIENCE: Duration = Duration::from_secs(30);
    let answer = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_elapsed| panic!("{what} did not come about"))
}
