//! An engine with a bucket: uploads are copied and mended, what is not on the disk is read from the bucket, models get links, and what is
//! deleted goes from the bucket too.

mod support {
    pub(crate) mod place;
}

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ambient_engine::Engine;
use ambient_engine::backend::inprocess::{InProcess, InProcessConfig, media_config};
use ambient_engine::backend::{ClipWish, FramesWish, MediaBackend, Target};
use ambient_engine::ids::SessionId;
use ambient_engine::store::records::MediaRef;
use ambient_media::{BucketReading, Media};
use ambient_settings::Settings;
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, Conduct, Permission, SECRET_ACCESS_KEY, TestBucket};
use anyhow::{Context, Result};
use camino::{Utf8Path, Utf8PathBuf};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use support::place::{Place, eventually};
use tokio_util::sync::CancellationToken;

/// Where the settings of an engine point.
fn settings(home: &Utf8Path, bucket: &TestBucket) -> Settings {
    let mut settings = Settings::for_tests(home);
    settings.s3.bucket = Some(BUCKET.to_owned());
    settings.s3.endpoint = Some(bucket.endpoint().to_owned());
    settings.s3.access_key_id = Some(ACCESS_KEY_ID.into());
    settings.s3.secret_access_key = Some(SECRET_ACCESS_KEY.into());
    settings
}

/// A running engine beside a bucket.
struct World {
    bucket: TestBucket,
    engine: Engine,
    client: Client,
    videos: Utf8PathBuf,
    _home: tempfile::TempDir,
}

impl World {
    async fn new() -> Result<Self> {
        Self::with(|_settings| {}).await
    }

    async fn with(adjust: impl FnOnce(&mut Settings)) -> Result<Self> {
        let bucket = TestBucket::start().await?;
        let home = tempfile::tempdir()?;
        let path = Utf8PathBuf::from_path_buf(home.path().canonicalize()?).ok().context("UTF-8")?;
        let mut settings = settings(&path, &bucket);
        adjust(&mut settings);
        let videos = settings.media.video_folder.clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let engine = ambient_engine::start(settings, listener).await?;
        Ok(Self { bucket, engine, client: Client::new(), videos, _home: home })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.engine.address());
        self.client.request(method, url).header("x-api-key", "dev-token")
    }

    async fn upload(&self, bytes: &[u8]) -> Result<String> {
        let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"clip.mp4\"\r\n\r\n";
        let body = [head.as_bytes(), bytes, b"\r\n--b--\r\n"].concat();
        let request = self.request(Method::POST, "/v1/files").header("content-type", "multipart/form-data; boundary=b");
        let file: Value = request.body(body).send().await?.error_for_status()?.json().await?;
        Ok(file["id"].as_str().context("a file has an id")?.to_owned())
    }

    async fn end(self) {
        assert!(self.engine.shut_down().await, "a task outlived the engine");
    }
}

/// A video that ffmpeg made, as bytes.
async fn video() -> Result<Vec<u8>> {
    let place = Place::new().await;
    Ok(std::fs::read(place.settings.media.video_folder.join(format!("{}.mp4", place.file.id)))?)
}

/// What is logged on this thread while it is held.
struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nothing panics here").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn new() -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let sink = Sink(Arc::clone(&text));
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || sink.clone())
            .finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("nothing panics here")).into_owned()
    }
}

#[tokio::test]
async fn an_upload_is_in_the_bucket_when_it_is_answered_and_is_served_from_there() -> Result<()> {
    let world = World::new().await?;
    let bytes = video().await?;
    let id = world.upload(&bytes).await?;
    assert_eq!(world.bucket.objects()?, [format!("videos/{id}.mp4")]);
    assert!(std::fs::read(world.bucket.path_of(&format!("videos/{id}.mp4")))? == bytes);

    std::fs::remove_file(world.videos.join(format!("{id}.mp4")))?;
    let path = format!("/v1/files/{id}/content");
    let whole = world.request(Method::GET, &path).send().await?.error_for_status()?;
    assert_eq!(whole.content_length(), Some(bytes.len() as u64));
    assert!(whole.bytes().await? == bytes);
    let part = world.request(Method::GET, &path).header("range", "bytes=100-199").send().await?;
    assert_eq!((part.status().as_u16(), part.bytes().await?.as_ref()), (206, &bytes[100..200]));
    let head = world.request(Method::HEAD, &path).send().await?;
    assert_eq!(head.headers()["content-length"], bytes.len().to_string());
    world.bucket.behave(|conduct| conduct.cuts = Some((2, bytes.len() / 3)));
    let whole = world.request(Method::GET, &path).send().await?.error_for_status()?;
    assert!(whole.bytes().await? == bytes, "a connection that breaks is taken up again");
    let ready: Value = world.request(Method::GET, "/readyz").send().await?.json().await?;
    let checks = ready["checks"].as_array().context("checks")?;
    assert!(checks.iter().any(|check| check["name"] == "bucket" && check["status"] == "ok"), "{ready}");
    world.end().await;
    Ok(())
}

#[tokio::test]
async fn a_copy_that_failed_is_logged_and_made_by_the_same_bytes_again() -> Result<()> {
    let log = Log::new();
    let world = World::new().await?;
    let bytes = video().await?;
    world.bucket.behave(|conduct| conduct.denied = [Permission::Put].into());
    let id = world.upload(&bytes).await?;
    let line = format!(
        "R2 upload failed for {id}: bucket `films` refused to store `videos/{id}.mp4` (403 AccessDenied): the access key lacks `s3:PutObject`"
    );
    assert!(log.text().contains(&line), "{}", log.text());
    assert_eq!(world.bucket.objects()?, [""; 0]);
    let content = world.request(Method::GET, &format!("/v1/files/{id}/content")).send().await?.error_for_status()?;
    assert!(content.bytes().await? == bytes, "the copy is no condition of the upload");

    world.bucket.behave(|conduct| *conduct = Conduct::default());
    assert_eq!(world.upload(&bytes).await?, id);
    assert_eq!(world.bucket.objects()?, [format!("videos/{id}.mp4")]);
    // A copy that got lost in the bucket is mended too, and one that is there is not sent again.
    std::fs::remove_file(world.bucket.path_of(&format!("videos/{id}.mp4")))?;
    world.upload(&bytes).await?;
    assert_eq!(world.bucket.objects()?, [format!("videos/{id}.mp4")]);
    world.bucket.forget();
    world.upload(&bytes).await?;
    assert!(world.bucket.seen().iter().all(|seen| seen.method == "HEAD"), "{:?}", world.bucket.seen());
    world.end().await;
    for secret in [SECRET_ACCESS_KEY, "X-Amz-Signature=", "dev-token"] {
        assert!(!log.text().contains(secret), "`{secret}` stands in the log");
    }
    Ok(())
}

#[tokio::test]
async fn an_upload_does_not_wait_for_a_bucket_that_is_slow_or_dead() -> Result<()> {
    let log = Log::new();
    let world = World::new().await?;
    let bytes = video().await?;
    world.bucket.behave(|conduct| conduct.dropped_connections = u32::MAX);
    let began = std::time::Instant::now();
    let id = world.upload(&bytes).await?;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let failed = || async { log.text().contains(&format!("R2 upload failed for {id}: could not reach")).then_some(()) };
    eventually(failed, "the line about the failed copy").await;
    world.end().await;
    Ok(())
}

#[tokio::test]
async fn a_deleted_file_takes_its_objects_with_it() -> Result<()> {
    let log = Log::new();
    let world = World::new().await?;
    let id = world.upload(&video().await?).await?;
    for key in [format!("{id}/clips/a.mp4"), format!("{id}/tiles/manifest.json"), format!("artifacts/{id}/b_1.txt")] {
        let path = world.bucket.path_of(&key);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(path, "x")?;
    }
    std::fs::write(world.bucket.path_of("videos/vid_ffffffffffffffff.mp4"), "another's")?;
    world.request(Method::DELETE, &format!("/v1/files/{id}")).send().await?.error_for_status()?;
    assert_eq!(world.bucket.objects()?, ["videos/vid_ffffffffffffffff.mp4"]);

    let id = world.upload(&video().await?).await?;
    world.bucket.behave(|conduct| conduct.denied = [Permission::Delete].into());
    world.request(Method::DELETE, &format!("/v1/files/{id}")).send().await?.error_for_status()?;
    assert!(log.text().contains("objects of a deleted file stay in the bucket"), "{}", log.text());
    assert!(log.text().contains("s3:DeleteObject"), "{}", log.text());
    world.end().await;
    Ok(())
}

/// Two replicas over one store and one bucket; the second one has no disk of its own worth mentioning.
struct Replicas {
    bucket: TestBucket,
    place: Place,
    first: InProcess,
    second: InProcess,
    _home: tempfile::TempDir,
}

impl Replicas {
    /// The same with a record that tells the video's own size and hash, which tiles are bound to.
    async fn with_a_true_record() -> Result<Self> {
        let replicas = Self::new().await?;
        let Place { settings, store, file, .. } = &replicas.place;
        let bytes = std::fs::read(settings.media.video_folder.join(format!("{}.mp4", file.id)))?;
        let known = store.file(&file.id).await?.context("the file")?;
        let mut told = known.clone();
        told.size_bytes = bytes.len() as u64;
        told.sha256 = Sha256::digest(&bytes).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        told.updated_at = known.updated_at.checked_add(Duration::from_secs(1))?;
        assert!(store.update_file(&told, known.updated_at).await?);
        Ok(replicas)
    }

    fn key(&self, of: &str) -> String {
        format!("{}/tiles/{of}", self.place.file.id)
    }

    async fn new() -> Result<Self> {
        let bucket = TestBucket::start().await?;
        let place = Place::new().await;
        let home = tempfile::tempdir()?;
        let other = Utf8PathBuf::from_path_buf(home.path().canonicalize()?).ok().context("UTF-8")?;
        let local = place.settings.media.video_folder.join(format!("{}.mp4", place.file.id));
        let key = format!("videos/{}.mp4", place.file.id);
        std::fs::create_dir_all(bucket.path_of("videos"))?;
        std::fs::copy(local, bucket.path_of(&key))?;
        let mut file = place.file.clone();
        file.bucket_key = Some(key);
        file.updated_at = file.updated_at.checked_add(Duration::from_secs(1))?;
        assert!(place.store.update_file(&file, place.file.updated_at).await?);
        let replica = |home: &Utf8Path| -> Result<InProcess> {
            let settings = settings(home, &bucket);
            let reading = BucketReading::on_host(&settings).context("a bucket is set")?;
            let media = Media::with_bucket(media_config(&settings), reading)?;
            Ok(InProcess::new(InProcessConfig::from_settings(&settings), Arc::clone(&place.store), media))
        };
        let (first, second) = (replica(&place.settings.home)?, replica(&other)?);
        Ok(Self { first, second, bucket, place, _home: home })
    }

    fn target(&self) -> Target {
        Target { session: SessionId::generate(), video: self.place.file.id.clone(), path: None }
    }

    fn stored(&self) -> usize {
        self.bucket.seen().iter().filter(|seen| seen.method == "PUT").count()
    }
}

fn clip() -> ClipWish {
    ClipWish {
        start: 2.0,
        end: 5.0,
        frames_per_second: Some(2.0),
        max_dimension: 320,
        max_size_bytes: 8 << 20,
        crf: None,
    }
}

#[tokio::test]
async fn a_clip_becomes_a_link_once_and_every_replica_finds_it() -> Result<()> {
    let replicas = Replicas::new().await?;
    let stop = CancellationToken::new();
    let made = replicas.first.clip(&replicas.target(), &clip(), &stop).await?;
    assert_eq!(replicas.stored(), 0, "nothing is sent that nobody wants");
    let ttl = Duration::from_mins(1);
    let bytes = replicas.first.read(&made.media).await?;
    for _ in 0..3 {
        let link = replicas.first.link(&made.media, ttl).await?.context("there is a bucket")?;
        assert!(reqwest::get(link).await?.error_for_status()?.bytes().await? == bytes);
    }
    assert_eq!(replicas.stored(), 1);
    let stored = replicas.bucket.objects()?;
    let clips = format!("{}/clips/", replicas.place.file.id);
    let mp4 = |key: &String| key.starts_with(&clips) && Utf8Path::new(key).extension() == Some("mp4");
    assert!(stored.iter().any(mp4), "{stored:?}");
    // The reference in the history says nothing that ends.
    assert!(!serde_json::to_string(&made.media)?.contains("http"), "{:?}", made.media);

    let link = replicas.second.link(&made.media, ttl).await?.context("there is a bucket")?;
    assert!(reqwest::get(link).await?.error_for_status()?.bytes().await? == bytes);
    assert!(replicas.second.read(&made.media).await? == bytes);
    assert_eq!(replicas.stored(), 1);
    let unmade = MediaRef::Local { path: format!("{clips}none.mp4").into(), mime_type: "video/mp4".to_owned() };
    let error = replicas.second.link(&unmade, ttl).await.expect_err("nobody made it");
    assert_eq!(error.to_string(), "it is not in the bucket any more");
    Ok(())
}

#[tokio::test]
async fn a_replica_without_the_file_works_on_the_copy_in_the_bucket() -> Result<()> {
    let replicas = Replicas::new().await?;
    let stop = CancellationToken::new();
    let frames = FramesWish { start: 0.0, end: Some(10.0), frames_per_second: 1.0, max_frames: 4, max_dimension: 320 };
    let here = replicas.first.frames(&replicas.target(), &frames, &stop).await?;
    let there = replicas.second.frames(&replicas.target(), &frames, &stop).await?;
    assert_eq!(here.len(), 4);
    for (one, other) in here.iter().zip(&there) {
        assert_eq!(one, other);
        let (one, other) = (replicas.first.read(&one.media).await?, replicas.second.read(&other.media).await?);
        assert!(one == other, "the same picture");
    }
    replicas.second.clip(&replicas.target(), &clip(), &stop).await?;
    let seen = replicas.bucket.seen();
    // Whether there are tiles is asked too.
    let mut reads = seen.iter().filter(|seen| seen.is_read() && !seen.path.ends_with("/tiles/manifest.json"));
    assert!(reads.all(|seen| seen.range.is_some()));

    let (source, size_bytes) = replicas.second.source(&replicas.place.file.id).await?;
    assert_eq!(size_bytes, replicas.place.file.size_bytes);
    let link = replicas.second.link(&source, Duration::from_mins(1)).await?.context("there is a bucket")?;
    assert_eq!(reqwest::get(link).await?.status(), 200);
    let (source, _size) = replicas.first.source(&replicas.place.file.id).await?;
    let link = replicas.first.link(&source, Duration::from_mins(1)).await?.context("there is a bucket")?;
    assert!(link.contains(&format!("/videos/{}.mp4?", replicas.place.file.id)), "the copy that is there");
    assert_eq!(replicas.stored(), 0);

    let wish = ClipWish { start: 6.0, end: 8.0, ..clip() };
    let fresh = Replicas::new().await?;
    fresh.bucket.behave(|conduct| conduct.denied = [Permission::Get].into());
    let error = fresh.second.clip(&fresh.target(), &wish, &stop).await.expect_err("no right to read");
    assert_eq!(
        error.to_string(),
        "the video could not be read: the bucket refuses; the engine's operator can find the reason with `ambientctl doctor`"
    );
    Ok(())
}

#[tokio::test]
async fn clips_come_out_of_tiles_on_every_replica() -> Result<()> {
    let replicas = Replicas::with_a_true_record().await?;
    let (stop, video) = (CancellationToken::new(), replicas.place.file.id.clone());
    // Off the grid of half seconds, so that the beginning tells what a clip was made of.
    let wish = ClipWish { start: 2.1, end: 5.0, ..clip() };
    let cut = replicas.second.clip(&replicas.target(), &wish, &stop).await?;
    assert!((cut.start - 2.1).abs() < 1e-6, "there are no tiles yet: {cut:?}");

    replicas.first.make_tiles(&replicas.target().session, &video, &stop).await?;
    let tiles = [replicas.key("manifest.json"), replicas.key("tile_00000.mp4")];
    assert_eq!(replicas.bucket.objects()?[..2], tiles);
    let wish = ClipWish { start: 2.2, ..wish };
    for replica in [&replicas.first, &replicas.second] {
        let joined = replica.clip(&replicas.target(), &wish, &stop).await?;
        assert!((joined.start - 2.5).abs() < 1e-6 && (joined.end - 5.0).abs() < 1e-6, "{joined:?}");
        assert!(joined.has_audio);
    }
    // Neither the source nor the bucket is asked for what was read before.
    let source = replicas.bucket.path_of(&format!("videos/{video}.mp4"));
    let bytes = std::fs::read(&source)?;
    std::fs::remove_file(&source)?;
    let wish = ClipWish { start: 3.3, ..wish };
    let joined = replicas.second.clip(&replicas.target(), &wish, &stop).await?;
    assert!((joined.start - 3.5).abs() < 1e-6, "{joined:?}");
    std::fs::write(&source, bytes)?;

    // Another rate is no tile's, and a size that cannot be kept is cut anew.
    let other = replicas
        .first
        .clip(&replicas.target(), &ClipWish { frames_per_second: Some(3.0), ..wish.clone() }, &stop)
        .await?;
    assert!((other.start - 3.3).abs() < 1e-6, "{other:?}");
    let small =
        replicas.first.clip(&replicas.target(), &ClipWish { max_size_bytes: 12_000, ..wish.clone() }, &stop).await?;
    assert!(small.size_bytes <= 12_000 && (small.start - 3.3).abs() < 1e-6, "{small:?}");
    Ok(())
}

#[tokio::test]
async fn tiles_that_are_gone_or_of_other_bytes_do_no_harm() -> Result<()> {
    let log = Log::new();
    let replicas = Replicas::with_a_true_record().await?;
    let (stop, video) = (CancellationToken::new(), replicas.place.file.id.clone());
    replicas.first.make_tiles(&replicas.target().session, &video, &stop).await?;
    let tile = replicas.bucket.path_of(&replicas.key("tile_00000.mp4"));
    std::fs::remove_file(&tile)?;
    let cut = replicas.second.clip(&replicas.target(), &ClipWish { start: 2.1, ..clip() }, &stop).await?;
    assert!((cut.start - 2.1).abs() < 1e-6, "{cut:?}");
    assert!(log.text().contains("the tiles of a video cannot be used"), "{}", log.text());
    replicas.second.make_tiles(&replicas.target().session, &video, &stop).await?;
    assert!(tile.exists(), "what is missing is made again");
    let joined = replicas.second.clip(&replicas.target(), &ClipWish { start: 2.2, ..clip() }, &stop).await?;
    assert!((joined.start - 2.5).abs() < 1e-6, "{joined:?}");

    // A manifest of other bytes is nobody's.
    let path = replicas.bucket.path_of(&replicas.key("manifest.json"));
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    manifest["source"]["sha256"] = "f".repeat(64).into();
    std::fs::write(&path, manifest.to_string())?;
    let cut = replicas.second.clip(&replicas.target(), &ClipWish { start: 2.3, ..clip() }, &stop).await?;
    assert!((cut.start - 2.3).abs() < 1e-6, "{cut:?}");
    Ok(())
}

#[tokio::test]
async fn an_upload_gets_tiles_and_the_same_bytes_again_mend_them() -> Result<()> {
    let world = World::with(|settings| {
        let named = [
            ("AMBIENT_HOME", "/nowhere"),
            ("LLM_BASE_URL", "http://127.0.0.1:9/v1"),
            ("LLM_API_KEY", "k"),
            ("LLM_MODEL", "nobody/sees-video"),
        ];
        let named = named.map(|(name, value)| (name.into(), value.into()));
        settings.llm.clone_from(&Settings::load(named, None).expect("these have no fault").settings.llm);
    })
    .await?;
    let bytes = video().await?;
    let id = world.upload(&bytes).await?;
    let [manifest, tile] =
        ["manifest.json", "tile_00000.mp4"].map(|name| world.bucket.path_of(&format!("{id}/tiles/{name}")));
    let there = || async { (manifest.exists() && tile.exists()).then_some(()) };
    eventually(there, "the tiles").await;
    std::fs::remove_file(&tile)?;
    world.upload(&bytes).await?;
    eventually(there, "the tile that was gone").await;
    world.request(Method::DELETE, &format!("/v1/files/{id}")).send().await?.error_for_status()?;
    let gone = || async { world.bucket.objects().ok().filter(Vec::is_empty) };
    eventually(gone, "an empty bucket").await;
    world.end().await;
    Ok(())
}

#[tokio::test]
async fn without_a_bucket_tiles_lie_beside_the_video_if_that_is_wanted() -> Result<()> {
    let place = Place::new().await;
    let (stop, job) = (CancellationToken::new(), SessionId::generate());
    let folder = place.settings.media.video_folder.join(place.file.id.as_str()).join("tiles");
    place.backend.make_tiles(&job, &place.file.id, &stop).await?;
    assert!(!folder.exists(), "off by default");
    let mut settings = place.settings.clone();
    settings.tiles.local = true;
    let media = Media::new(media_config(&settings));
    let backend = InProcess::new(InProcessConfig::from_settings(&settings), Arc::clone(&place.store), media);
    backend.make_tiles(&job, &place.file.id, &stop).await?;
    assert!(folder.join("manifest.json").exists() && folder.join("tile_00000.mp4").exists());
    Ok(())
}

#[tokio::test]
async fn an_exported_file_is_downloaded_under_its_name() -> Result<()> {
    let replicas = Replicas::new().await?;
    let stop = CancellationToken::new();
    let target = replicas.target();
    let folder = replicas.first.workspace(&target.session).context("it is on this host")?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("ü 50%.csv"), "a,b\n")?;
    let made = replicas.first.upload_artifact(&target, "ü 50%.csv", None, &stop).await?;
    let prefix = format!("artifacts/{}/ü 50%_", target.video);
    let is_csv = |key: &str| Utf8Path::new(key).extension() == Some("csv");
    assert!(made.key.starts_with(&prefix) && is_csv(&made.key), "{}", made.key);
    assert_eq!((made.uri, made.size_bytes), (format!("s3://films/{}", made.key), 4));
    assert!(made.url.contains("X-Amz-Expires=604800&"), "{}", made.url);
    let answer = reqwest::get(made.url).await?.error_for_status()?;
    assert_eq!(answer.headers()["content-type"], "text/csv");
    let disposition = answer.headers()["content-disposition"].to_str()?.to_owned();
    assert!(disposition.ends_with("filename*=UTF-8''%C3%BC%2050%25.csv"), "{disposition}");
    assert_eq!(answer.text().await?, "a,b\n");

    let named = replicas.first.upload_artifact(&target, "ü 50%.csv", Some("../table"), &stop).await?;
    assert!(named.key.starts_with(&format!("artifacts/{}/table_", target.video)) && is_csv(&named.key));
    assert!(replicas.first.upload_artifact(&target, "/etc/passwd", None, &stop).await.is_err());

    let without = replicas.place.backend();
    let error = without.upload_artifact(&target, "ü 50%.csv", None, &stop).await.expect_err("there is no bucket");
    assert_eq!(error.to_string(), "S3 is not configured, so upload_artifact is unavailable.");
    Ok(())
}
