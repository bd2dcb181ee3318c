//! Videos from YouTube: real children, with a program in place of yt-dlp that replays what lies beside it.

use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::time::Duration;

use ambient_media::{
    Downloaded, Media, MediaConfig, MediaError, MediaTime, Source, Youtube, YoutubeConfig, YoutubeError, YoutubePhase,
    YoutubeProgress,
};
use anyhow::{Context, Result, bail};
use camino::Utf8PathBuf;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::film::Film;
use crate::limits::{ends, poll};

const URL: &str = "https://youtu.be/dQw4w9WgXcQ";

/// A yt-dlp, what it replays, and the crate using it.
struct Station {
    /// Where yt-dlp lies, and all that it replays.
    folder: Utf8PathBuf,
    youtube: Youtube,
    media: Media,
    stop: CancellationToken,
    _held: TempDir,
}

impl Station {
    fn new() -> Result<Self> {
        Self::with(|_config| {})
    }

    fn with(change: impl FnOnce(&mut YoutubeConfig)) -> Result<Self> {
        let held = tempfile::tempdir()?;
        let folder = Utf8PathBuf::from_path_buf(held.path().canonicalize()?).ok().context("not UTF-8")?;
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/youtube");
        for name in ["yt-dlp", "info.json", "progress.txt"] {
            std::fs::copy(format!("{data}/{name}"), folder.join(name))?;
        }
        std::fs::set_permissions(folder.join("yt-dlp"), std::fs::Permissions::from_mode(0o700))?;
        let work_folder = folder.join("work");
        let mut config = YoutubeConfig {
            program: folder.join("yt-dlp"),
            max_height: Some(720),
            max_duration: Duration::from_hours(3),
            max_size_bytes: 5 << 30,
            download_timeout: Duration::from_mins(1),
            cpu_seconds: 60,
            concurrency: 2,
            work_folder: work_folder.clone(),
        };
        change(&mut config);
        let media = Media::new(MediaConfig::in_folder(work_folder));
        let youtube = Youtube::new(config, media.clone());
        Ok(Self { folder, youtube, media, stop: CancellationToken::new(), _held: held })
    }

    /// What a download gives: a film of 4 s, made with these arguments.
    fn film(&self, extension: &str, film: &Film) -> Result<()> {
        let path = self.folder.join(format!("video.{extension}"));
        film.make(&path)?;
        std::fs::rename(path, self.folder.join("video"))?;
        std::fs::write(self.folder.join("extension"), extension)?;
        Ok(())
    }

    fn put(&self, name: &str, content: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.join(name), content)?)
    }

    /// Changes a field of what the page says.
    fn page(&self, field: &str, value: serde_json::Value) -> Result<()> {
        let path = self.folder.join("info.json");
        let mut page: serde_json::Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        page[field] = value;
        Ok(std::fs::write(path, serde_json::to_vec(&page)?)?)
    }

    async fn fetch(&self, progress: &(dyn Fn(YoutubeProgress) + Send + Sync)) -> Result<Downloaded, YoutubeError> {
        let extraction = self.youtube.extract(URL, &self.stop).await?;
        self.youtube.download(extraction, progress, &self.stop).await
    }

    async fn refused(&self) -> Result<YoutubeError> {
        match self.fetch(&|_progress| {}).await {
            Err(error) => Ok(error),
            Ok(downloaded) => bail!("it was fetched: {downloaded:?}"),
        }
    }

    fn calls(&self) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        let calls = text.split("call\n").filter(|call| !call.is_empty());
        calls.map(|call| call.lines().map(str::to_owned).collect()).collect()
    }

    /// What stands in the work folder; empty when it was never made.
    fn left(&self) -> Result<Vec<String>> {
        let folder = self.folder.join("work");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        folder.read_dir_utf8()?.map(|entry| Ok(entry?.file_name().to_owned())).collect()
    }
}

fn film() -> Film {
    Film::new(7, "25", 100).sized(320, 240)
}

#[tokio::test]
async fn a_video_is_looked_at_once_and_fetched() -> Result<()> {
    let station = Station::new()?;
    station.film("mp4", &film().h264(&[]))?;
    let told = Mutex::new(Vec::new());
    let downloaded = station.fetch(&|progress| told.lock().expect("no panic").push(progress)).await?;
    assert_eq!(downloaded.info().title.as_deref(), Some("How a bridge is built"));
    assert_eq!(downloaded.probe().duration, MediaTime::from_millis(4000));
    let place = station.folder.join("vid.mp4");
    downloaded.move_to(&place).await?;
    assert!(station.media.probe(&Source::File(place), &station.stop).await?.is_accepted());
    assert_eq!(station.left()?, Vec::<String>::new());

    let told = told.into_inner()?;
    let percents: Vec<u8> = told.iter().filter_map(YoutubeProgress::percent).collect();
    assert_eq!(percents, [1, 27, 54, 55, 77, 100, 100, 100]);
    assert_eq!(told.last().map(|progress| progress.phase), Some(YoutubePhase::Merging));

    let calls = station.calls();
    assert_eq!(calls.len(), 2, "one look and one download");
    assert_eq!(calls[0].last().map(String::as_str), Some("https://www.youtube.com/watch?v=dQw4w9WgXcQ"));
    assert!(
        calls[1].contains(&"--load-info-json".to_owned()) && !calls[1].iter().any(|word| word.contains("youtube.com"))
    );
    Ok(())
}

#[tokio::test]
async fn a_title_is_never_a_file_name_nor_a_word_of_a_command() -> Result<()> {
    let station = Station::new()?;
    let title = "../../a: b %(id)s --exec | ;\n===AMBIENT_RESULT===";
    station.page("title", title.into())?;
    station.film("mp4", &film().h264(&[]))?;
    let downloaded = station.fetch(&|_progress| {}).await?;
    assert_eq!(downloaded.info().title.as_deref(), Some(title));
    assert!(downloaded.path().starts_with(station.folder.join("work")), "{}", downloaded.path());
    assert!(!station.calls().iter().flatten().any(|word| word.contains("a: b")));
    Ok(())
}

#[tokio::test]
async fn yt_dlp_knows_nothing_of_the_hosts_home() -> Result<()> {
    let station = Station::new()?;
    station.film("mp4", &film().h264(&[]))?;
    station.fetch(&|_progress| {}).await?;
    let environment = std::fs::read_to_string(station.folder.join("environment"))?;
    let mut names: Vec<&str> = environment.lines().filter_map(|line| line.split('=').next()).collect();
    // The shell itself adds the last three; proxies are the tester's.
    names.retain(|name| !matches!(*name, "PWD" | "_" | "SHLVL" | "OLDPWD" | "SSL_CERT_FILE" | "SSL_CERT_DIR"));
    names.retain(|name| !name.to_ascii_lowercase().ends_with("_proxy"));
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR"]);
    let home = environment.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap_or_default();
    assert!(home.starts_with(station.folder.join("work").as_str()), "{home}");
    Ok(())
}

#[tokio::test]
async fn an_index_at_the_end_comes_to_the_front() -> Result<()> {
    let station = Station::new()?;
    station.film("mp4", &film().h264(&[]))?;
    let before = std::fs::read(station.folder.join("video"))?;
    let at = |bytes: &[u8], name: &[u8]| bytes.windows(4).position(|window| window == name).context("no such box");
    assert!(at(&before, b"mdat")? < at(&before, b"moov")?, "the film is not what this test needs");
    let downloaded = station.fetch(&|_progress| {}).await?;
    let after = std::fs::read(downloaded.path())?;
    assert!(at(&after, b"moov")? < at(&after, b"mdat")?);
    assert!(downloaded.probe().has_audio());
    assert_eq!(downloaded.probe().duration, MediaTime::from_millis(4000));
    Ok(())
}

#[tokio::test]
async fn another_container_becomes_mp4_where_it_can() -> Result<()> {
    let station = Station::new()?;
    station.film("mkv", &film().h264(&[]))?;
    assert_eq!(station.fetch(&|_progress| {}).await?.probe().container.as_deref(), Some("mov"));
    // VP8 has no place in MP4.
    station.film("webm", &film().coded(&["-c:v", "libvpx", "-deadline", "realtime"], &["-c:a", "libvorbis"], &[]))?;
    let downloaded = station.fetch(&|_progress| {}).await?;
    assert_eq!(downloaded.probe().container.as_deref(), Some("matroska"));
    Ok(())
}

#[tokio::test]
async fn limits_are_checked_before_a_byte_is_fetched() -> Result<()> {
    for (field, value, words) in [
        ("duration", serde_json::json!(36_000), "YouTube video duration 36000s exceeds limit 10800s"),
        ("is_live", true.into(), "on the air"),
        ("live_status", "is_upcoming".into(), "not begun"),
        ("live_status", "post_live".into(), "still working"),
        ("duration", serde_json::Value::Null, "no length"),
        ("_type", "playlist".into(), "playlists"),
    ] {
        let station = Station::new()?;
        station.page(field, value)?;
        let error = station.refused().await?;
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.is_final());
        assert_eq!((station.calls().len(), station.left()?.len()), (1, 0), "{words}");
    }
    let station = Station::with(|config| config.max_size_bytes = 80_000)?;
    let error = station.refused().await?;
    assert_eq!(error.to_string(), "YouTube video size 90000 bytes exceeds limit 80000 bytes");
    assert_eq!(station.calls().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_video_that_hid_its_size_is_held_to_the_limit() -> Result<()> {
    let untold = |station: &Station| {
        station.page("requested_formats", serde_json::json!([{"width": 320}]))?;
        station.page("filesize_approx", serde_json::Value::Null)
    };
    // yt-dlp itself notices, says so in passing and ends well.
    let station = Station::with(|config| config.max_size_bytes = 1000)?;
    untold(&station)?;
    station
        .put("progress.txt", "[download] File is larger than max-filesize (90000 bytes > 1000 bytes). Aborting.\n")?;
    assert!(matches!(station.refused().await?, YoutubeError::TooLarge { limit_bytes: 1000, .. }));
    // Nobody notices before the file is here.
    let station = Station::with(|config| config.max_size_bytes = 1000)?;
    untold(&station)?;
    station.film("mp4", &film().h264(&[]))?;
    assert!(matches!(station.refused().await?, YoutubeError::TooLarge { size_bytes: Some(1001..), .. }));
    assert_eq!(station.left()?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn what_youtube_says_is_told() -> Result<()> {
    let station = Station::new()?;
    station.put(
        "refusal",
        "WARNING: [youtube] x\nERROR: [youtube] dQw4w9WgXcQ: Private video. Sign in if you've been granted access\n",
    )?;
    let error = station.refused().await?;
    assert!(error.to_string().starts_with("YouTube gave no video: Private video. Sign in"), "{error}");
    assert!(error.is_final());
    let station = Station::new()?;
    station.put("complaint", "ERROR: unable to download video data: HTTP Error 503: Service Unavailable\n")?;
    let error = station.refused().await?;
    assert!(error.to_string().contains("HTTP Error 503") && !error.is_final(), "{error}");
    assert_eq!(station.left()?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn what_came_is_judged_by_its_bytes() -> Result<()> {
    let station = Station::new()?;
    station.put("video", "#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n")?;
    let error = station.refused().await?;
    assert!(matches!(error, YoutubeError::Refused(_)), "{error}");
    let station = Station::new()?;
    let error = station.refused().await?;
    assert!(error.to_string().contains("left no video"), "{error}");
    Ok(())
}

#[tokio::test]
async fn other_addresses_start_nothing() -> Result<()> {
    let station = Station::new()?;
    for url in [
        "",
        "--exec=id",
        "https://example.com/watch?v=dQw4w9WgXcQ",
        "file:///etc/passwd",
        "https://youtube.com@evil.example/watch?v=dQw4w9WgXcQ",
    ] {
        let error = station.youtube.extract(url, &station.stop).await.expect_err("no address of YouTube's");
        assert!(matches!(error, YoutubeError::NotYoutube), "{url}: {error}");
    }
    assert!(station.calls().is_empty());
    Ok(())
}

async fn grandchild(station: &Station) -> Result<u32> {
    let number = station.folder.join("grandchild");
    poll("the grandchild", || std::fs::read_to_string(&number).ok()?.trim().parse().ok()).await
}

#[tokio::test]
async fn cancelling_ends_a_download_and_all_it_started() -> Result<()> {
    let station = Station::new()?;
    station.put("stuck", "")?;
    let nobody = |_progress| {};
    let (answer, number) = tokio::join!(station.fetch(&nobody), async {
        let number = grandchild(&station).await;
        station.stop.cancel();
        number
    });
    assert!(matches!(answer, Err(YoutubeError::Media(MediaError::Cancelled))), "{answer:?}");
    ends(number?).await?;
    assert_eq!(station.left()?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_download_that_takes_too_long_is_ended() -> Result<()> {
    let station = Station::with(|config| config.download_timeout = Duration::from_secs(4))?;
    station.put("stuck", "")?;
    let error = station.refused().await?;
    assert!(matches!(error, YoutubeError::TimedOut { .. }) && !error.is_final(), "{error}");
    ends(grandchild(&station).await?).await?;
    assert_eq!(station.left()?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_missing_yt_dlp_is_named() -> Result<()> {
    let station = Station::with(|config| config.program = "no-such-yt-dlp".into())?;
    let error = station.refused().await?;
    assert_eq!(error.to_string(), "could not start `no-such-yt-dlp`");
    assert!(error.is_final(), "it does not come by itself");
    assert_eq!(Station::new()?.youtube.version().await?, "2026.10.26");
    Ok(())
}
