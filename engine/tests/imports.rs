//! Imports from YouTube: the work in the background, with real children and a program in place of yt-dlp.

mod support {
    pub(crate) mod place;
    pub(crate) mod yt_dlp;
}

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::broker::{Broker, BrokerOptions};
use ambient_engine::clock::Clock;
use ambient_engine::ids::VideoId;
use ambient_engine::ingest::copies::BucketCopies;
use ambient_engine::ingest::import::ImportWish;
use ambient_engine::ingest::upload::Uploads;
use ambient_engine::ingest::{IngestConfig, IngestParts, start, youtube_config};
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::store::records::{FileRecord, FileSource, ImportState, Metadata, WorkStatus};
use ambient_media::objects::{ObjectStore, ObjectStoreConfig};
use ambient_media::{Media, Youtube};
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, Permission, SECRET_ACCESS_KEY, TestBucket};
use support::place::{DURATION, Place, eventually};
use support::yt_dlp::{YtDlp, has_ended};

const SHUT_DOWN: Duration = Duration::from_secs(10);
const URL: &str = "https://youtu.be/dQw4w9WgXcQ";

/// The background work of an engine.
struct Works {
    _place: Place,
    yt_dlp: YtDlp,
    uploads: Uploads,
    lifecycle: Lifecycle,
    parts: IngestParts,
}

impl Works {
    async fn new() -> Self {
        Self::with(|_parts| {}).await
    }

    async fn with(adjust: impl FnOnce(&mut IngestParts)) -> Self {
        Self::with_bucket(None, adjust).await
    }

    async fn with_bucket(bucket: Option<&TestBucket>, adjust: impl FnOnce(&mut IngestParts)) -> Self {
        let lifecycle = Lifecycle::new();
        let copies = bucket.map(|bucket| BucketCopies::new(objects(bucket), lifecycle.clone(), false));
        let mut place = Place::new().await;
        let folder = place.settings.media.video_folder.clone();
        let video = folder.join(format!("{}{}", place.file.id, place.file.extension));
        let yt_dlp = YtDlp::new(&place.settings.home.join("yt-dlp"), &video).expect("a writable folder");
        place.settings.media.yt_dlp = yt_dlp.program();
        let options = BrokerOptions { engine_id: "e".into(), stream: "s".into(), group: "g".into() };
        let broker: Arc<dyn Broker> = ambient_engine::broker::connect(None, &options).await.expect("in-process");
        let media = Media::new(ambient_engine::backend::inprocess::media_config(&place.settings));
        let (store, clock) = (Arc::clone(&place.store), Clock::system());
        let uploads = Uploads::new(
            &folder,
            1 << 30,
            media.clone(),
            Arc::clone(&store),
            Arc::clone(&broker),
            clock.clone(),
            copies,
        )
        .expect("a writable folder");
        let mut config = IngestConfig::from_settings(&place.settings);
        config.first_retry = Duration::from_millis(10);
        config.progress_every = Duration::from_millis(20);
        let youtube = Some(Arc::new(Youtube::new(youtube_config(&place.settings), media)));
        let backend = place.backend();
        let mut parts = IngestParts {
            store,
            broker,
            backend,
            youtube,
            video_folder: folder,
            uploads: None,
            vision: None,
            clock,
            config,
        };
        parts.uploads = Some(uploads.clone());
        adjust(&mut parts);
        Self { _place: place, yt_dlp, uploads, lifecycle, parts }
    }

    fn start(&self) {
        start(&self.lifecycle, &self.parts);
    }

    async fn import(&self) -> FileRecord {
        let wish = ImportWish { url: URL.to_owned(), filename: None, metadata: Metadata::new() };
        self.uploads.import(wish).await.expect("an import")
    }

    async fn file(&self, id: &VideoId) -> Option<FileRecord> {
        self.parts.store.file(id).await.expect("a store")
    }

    async fn becomes(&self, id: &VideoId, status: WorkStatus) -> FileRecord {
        let ask = || async { self.file(id).await.filter(|file| file.source_status == status) };
        eventually(ask, &format!("the source status {status:?}")).await
    }

    async fn is_settled(&self, id: &VideoId) -> FileRecord {
        let is_open = |status| matches!(status, Some(WorkStatus::Pending | WorkStatus::Processing));
        let ask = || async {
            let file = self.file(id).await?;
            (!is_open(Some(file.source_status)) && !is_open(file.description_status)).then_some(file)
        };
        eventually(ask, "the end of the work").await
    }

    async fn grandchild(&self) -> u32 {
        eventually(|| async { self.yt_dlp.grandchild() }, "the stuck download").await
    }

    /// What downloads left in the folder that they work in.
    fn left(&self) -> Vec<String> {
        let folder = self.parts.video_folder.join(".work");
        let entries = folder.read_dir_utf8().into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_owned())).collect()
    }

    async fn ends(self) {
        assert!(self.lifecycle.shut_down(SHUT_DOWN).await, "a task outlived the engine");
    }
}

fn objects(bucket: &TestBucket) -> ObjectStore {
    ObjectStore::new(ObjectStoreConfig {
        bucket: BUCKET.to_owned(),
        endpoint: Some(bucket.endpoint().to_owned()),
        region: "us-east-1".to_owned(),
        credentials: Some((ACCESS_KEY_ID.into(), SECRET_ACCESS_KEY.into())),
        video_base_key: "videos".to_owned(),
        upload_concurrency: 2,
        part_bytes: 8 << 20,
        stall_limit: Duration::from_secs(20),
    })
}

fn state(file: &FileRecord) -> &ImportState {
    match &file.source {
        FileSource::Youtube { import, .. } => import,
        FileSource::Upload => panic!("{} is an upload", file.id),
    }
}

async fn ended(process: u32) {
    eventually(|| async { has_ended(process).then_some(()) }, "the end of the stuck download").await;
}

#[tokio::test]
async fn an_import_becomes_a_file_like_any_other() {
    let works = Works::new().await;
    works.start();
    let noted = works.import().await;
    assert_eq!((noted.source_status, noted.size_bytes), (WorkStatus::Pending, 0));
    let file = works.is_settled(&noted.id).await;
    assert_eq!((file.source_status, &file.source_error, file.description_status), (WorkStatus::Ready, &None, None));
    assert_eq!((file.extension.as_str(), file.mime_type.as_str()), (".mp4", "video/mp4"));
    let path = works.parts.video_folder.join(format!("{}.mp4", file.id));
    assert_eq!(file.size_bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(file.sha256.len(), 64);
    let media = file.media.as_ref().unwrap();
    assert!((media.duration_seconds - DURATION).abs() < 0.2 && media.has_audio, "{media:?}");
    assert_eq!(file.title(), "How a bridge is built");
    let wanted = ImportState {
        attempts: 1,
        percent: None,
        title: Some("How a bridge is built".to_owned()),
        extractor: Some("youtube".to_owned()),
        duration_seconds: Some(4.0),
        width: Some(320),
        height: Some(240),
        format_id: Some("136+140".to_owned()),
    };
    assert_eq!(state(&file), &wanted);
    assert_eq!(works.left(), Vec::<String>::new());

    // The same video again is known; without its bytes it is fetched again.
    assert_eq!(works.import().await, file);
    assert_eq!(works.yt_dlp.calls(), 2);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(works.import().await.source_status, WorkStatus::Pending);
    works.is_settled(&file.id).await;
    assert!(path.exists());
    works.ends().await;
}

#[tokio::test]
async fn an_import_is_copied_to_the_bucket() {
    let bucket = TestBucket::start().await.unwrap();
    let works = Works::with_bucket(Some(&bucket), |_parts| {}).await;
    works.start();
    let id = works.import().await.id;
    let file = works.is_settled(&id).await;
    let ask = || async { works.file(&id).await?.bucket_key };
    let key = eventually(ask, "the copy in the bucket").await;
    assert_eq!(key, format!("videos/{id}.mp4"));
    assert_eq!(std::fs::metadata(bucket.path_of(&key)).unwrap().len(), file.size_bytes);
    works.ends().await;
}

#[tokio::test]
async fn a_bucket_that_refuses_costs_an_import_nothing_but_the_copy() {
    let bucket = TestBucket::start().await.unwrap();
    bucket.behave(|conduct| {
        conduct.denied.insert(Permission::Put);
    });
    let works = Works::with_bucket(Some(&bucket), |_parts| {}).await;
    works.start();
    let id = works.import().await.id;
    let file = works.is_settled(&id).await;
    assert_eq!((file.source_status, file.bucket_key), (WorkStatus::Ready, None));
    works.ends().await;
}

#[tokio::test]
async fn progress_is_written_down_while_it_comes() {
    let works = Works::new().await;
    works.yt_dlp.put("gate", "").unwrap();
    works.yt_dlp.put("progress.txt", "ambient-progress downloading 36000 50000\n").unwrap();
    works.start();
    let id = works.import().await.id;
    let ask = || async { works.file(&id).await.filter(|file| state(file).percent.is_some()) };
    let file = eventually(ask, "a percentage").await;
    assert_eq!((file.source_status, state(&file).percent), (WorkStatus::Processing, Some(40)));
    assert_eq!(file.title(), "How a bridge is built", "the title is told before the video is here");
    works.yt_dlp.put("go", "").unwrap();
    assert_eq!(state(&works.is_settled(&id).await).percent, None);
    works.ends().await;
}

#[tokio::test]
async fn a_failed_download_is_tried_again() {
    let works = Works::new().await;
    works
        .yt_dlp
        .put("complain-once", "ERROR: unable to download video data: HTTP Error 503: Service Unavailable\n")
        .unwrap();
    works.start();
    let id = works.import().await.id;
    let file = works.is_settled(&id).await;
    assert_eq!((file.source_status, &file.source_error, state(&file).attempts), (WorkStatus::Ready, &None, 2));
    assert_eq!(works.yt_dlp.calls(), 4);
    works.ends().await;
}

#[tokio::test]
async fn tries_are_bounded_and_a_new_wish_begins_anew() {
    let works = Works::with(|parts| parts.config.max_attempts = 2).await;
    works
        .yt_dlp
        .put("complaint", "ERROR: unable to download video data: HTTP Error 503: Service Unavailable\n")
        .unwrap();
    works.start();
    let id = works.import().await.id;
    let file = works.is_settled(&id).await;
    assert_eq!((file.source_status, state(&file).attempts), (WorkStatus::Failed, 2));
    let error = file.source_error.unwrap();
    assert!(error.starts_with("YouTube gave no video: unable to download video data: HTTP Error 503"), "{error}");
    assert_eq!(file.description_status, Some(WorkStatus::Failed));
    assert_eq!(file.description_error.as_deref(), Some("there is no video to describe"));

    works.yt_dlp.remove("complaint").unwrap();
    let again = works.import().await;
    assert_eq!((again.source_status, &again.source_error, state(&again).attempts), (WorkStatus::Pending, &None, 0));
    assert_eq!(works.is_settled(&id).await.source_status, WorkStatus::Ready);
    works.ends().await;
}

#[tokio::test]
async fn what_would_fail_again_is_not_tried_again() {
    for (name, content, words) in [
        ("refusal", "ERROR: [youtube] dQw4w9WgXcQ: Private video. Sign in\n", "YouTube gave no video: Private video"),
        ("info.json", r#"{"id":"x","duration":36000}"#, "YouTube video duration 36000s exceeds limit 10800s"),
        ("info.json", r#"{"id":"x","is_live":true}"#, "live streams"),
        ("info.json", r#"{"_type":"playlist","id":"PL"}"#, "playlists"),
        ("video", "#EXTM3U\n/etc/passwd\n", "the downloaded file was refused"),
    ] {
        let works = Works::new().await;
        works.yt_dlp.put(name, content).unwrap();
        works.start();
        let id = works.import().await.id;
        let file = works.is_settled(&id).await;
        assert_eq!((file.source_status, state(&file).attempts), (WorkStatus::Failed, 1), "{words}");
        assert!(file.source_error.as_ref().is_some_and(|error| error.contains(words)), "{:?}", file.source_error);
        assert_eq!(works.left(), Vec::<String>::new());
        works.ends().await;
    }
}

#[tokio::test]
async fn a_missing_yt_dlp_is_told_with_its_remedy() {
    let works = Works::with(|parts| {
        let settings = ambient_settings::Settings::for_tests(&parts.video_folder);
        let mut config = youtube_config(&settings);
        config.program = "no-such-yt-dlp".into();
        let media = Media::new(ambient_engine::backend::inprocess::media_config(&settings));
        parts.youtube = Some(Arc::new(Youtube::new(config, media)));
    })
    .await;
    works.start();
    let id = works.import().await.id;
    let error = works.becomes(&id, WorkStatus::Failed).await.source_error.unwrap();
    assert!(error.contains("`no-such-yt-dlp` could not be started") && error.contains("YTDLP_PATH"), "{error}");
    works.ends().await;
}

#[tokio::test]
async fn where_imports_are_not_wanted_those_that_wait_fail() {
    let works = Works::with(|parts| parts.youtube = None).await;
    works.start();
    let id = works.import().await.id;
    let file = works.becomes(&id, WorkStatus::Failed).await;
    assert_eq!(file.source_error.as_deref(), Some("YouTube URL imports are disabled"));
    works.ends().await;
}

#[tokio::test]
async fn deleting_a_file_ends_its_download() {
    let works = Works::new().await;
    works.yt_dlp.put("stuck", "").unwrap();
    works.start();
    let id = works.import().await.id;
    let process = works.grandchild().await;
    assert!(works.uploads.delete(&id).await.unwrap());
    ended(process).await;
    let gone = || async { works.left().is_empty().then_some(()) };
    eventually(gone, "an empty work folder").await;
    assert!(!works.parts.video_folder.join(format!("{id}.mp4")).exists());
    assert_eq!(works.file(&id).await, None);
    works.ends().await;
}

#[tokio::test]
async fn a_shut_down_puts_a_download_back() {
    let works = Works::new().await;
    works.yt_dlp.put("stuck", "").unwrap();
    works.start();
    let id = works.import().await.id;
    let process = works.grandchild().await;
    assert!(works.lifecycle.shut_down(SHUT_DOWN).await, "a task outlived the engine");
    ended(process).await;
    let file = works.file(&id).await.unwrap();
    assert_eq!((file.source_status, state(&file).attempts), (WorkStatus::Pending, 0));
    assert_eq!(works.left(), Vec::<String>::new());
}

#[tokio::test]
async fn an_import_that_takes_the_engine_down_is_given_up() {
    let works = Works::with(|parts| parts.config.max_attempts = 2).await;
    let noted = works.import().await;
    let mut file = noted.clone();
    file.source_status = WorkStatus::Processing;
    if let FileSource::Youtube { import, .. } = &mut file.source {
        import.attempts = 2;
    }
    file.updated_at = Clock::system().now();
    assert!(works.parts.store.update_file(&file, noted.updated_at).await.unwrap());
    works.start();
    let file = works.becomes(&noted.id, WorkStatus::Failed).await;
    assert_eq!(file.source_error.as_deref(), Some("no video came of 2 attempts"));
    assert_eq!(works.yt_dlp.calls(), 0);
    works.ends().await;
}

#[test]
fn a_record_from_before_there_were_imports_is_read() {
    let source: FileSource = serde_json::from_str(r#"{"kind":"youtube","url":"https://youtu.be/x"}"#).unwrap();
    assert_eq!(source, FileSource::Youtube { url: "https://youtu.be/x".to_owned(), import: ImportState::default() });
}
