//! The bucket as its callers meet it, against a server that checks signatures and behaves like the stores that people have.

use std::time::Duration;

use ambient_media::objects::{About, ObjectError, ObjectKey, ObjectStore, ObjectStoreConfig, Operation};
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, Conduct, Permission, SECRET_ACCESS_KEY, TestBucket};
use anyhow::{Context, Result};
use bytes::Bytes;
use camino::Utf8PathBuf;
use futures::TryStreamExt;

const MEBIBYTE: usize = 1 << 20;

/// As the settings would have it for this server.
pub(crate) fn config(endpoint: &str) -> ObjectStoreConfig {
    ObjectStoreConfig {
        bucket: BUCKET.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        region: "us-east-1".to_owned(),
        credentials: Some((ACCESS_KEY_ID.into(), SECRET_ACCESS_KEY.into())),
        video_base_key: "videos".to_owned(),
        upload_concurrency: 8,
        part_bytes: 8 << 20,
        stall_limit: Duration::from_secs(20),
    }
}

async fn world() -> Result<(TestBucket, ObjectStore)> {
    let bucket = TestBucket::start().await?;
    let store = ObjectStore::new(config(bucket.endpoint()));
    Ok((bucket, store))
}

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

fn about() -> About {
    About::new("video/mp4", "test")
}

/// Bytes of which no two parts are alike.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at / MEBIBYTE) as u8).collect()
}

struct OnDisk {
    path: Utf8PathBuf,
    _folder: tempfile::TempDir,
}

fn on_disk(bytes: &[u8]) -> Result<OnDisk> {
    let folder = tempfile::tempdir()?;
    let path = Utf8PathBuf::from_path_buf(folder.path().join("file")).ok().context("UTF-8")?;
    std::fs::write(&path, bytes)?;
    Ok(OnDisk { path, _folder: folder })
}

#[tokio::test]
async fn what_goes_in_comes_out() -> Result<()> {
    let (bucket, store) = world().await?;
    let name = key("vid_0123456789abcdef/clips/a.mp4");
    assert_eq!(store.head(&name).await?, None);
    assert!(matches!(store.get(&name).await, Err(ObjectError::NotFound { .. })));

    store.put_bytes(&name, Bytes::from(content(1000)), &about()).await?;
    let facts = store.head(&name).await?.context("it was stored")?;
    assert_eq!((facts.size_bytes, facts.content_type.as_deref()), (1000, Some("video/mp4")));
    assert_eq!(store.get(&name).await?.into_bytes(2000).await?, content(1000));
    assert!(store.get(&name).await?.into_bytes(999).await.is_err(), "over the limit of the caller");
    let part = store.get_range(&name, 10..20).await?;
    assert_eq!((part.range.clone(), part.facts.size_bytes), (10..20, 1000));
    let pieces: Vec<Bytes> = part.into_stream().try_collect().await?;
    assert_eq!(pieces.concat(), content(1000)[10..20]);

    store.put_bytes(&key("vid_0123456789abcdef/frames/b.jpg"), Bytes::new(), &about()).await?;
    store.put_bytes(&key("vid_f/clips/c.mp4"), Bytes::from_static(b"c"), &about()).await?;
    let listed = store.list(&ObjectKey::derived_prefix("vid_0123456789abcdef")).await?;
    let mut names: Vec<_> = listed.iter().map(|object| (object.key.as_str(), object.size_bytes)).collect();
    names.sort_unstable();
    assert_eq!(names, [("vid_0123456789abcdef/clips/a.mp4", 1000), ("vid_0123456789abcdef/frames/b.jpg", 0)]);

    assert_eq!(store.delete_under("vid_0123456789abcdef/").await?, 2);
    assert_eq!(bucket.objects()?, ["vid_f/clips/c.mp4"]);
    store.delete(&key("vid_f/clips/c.mp4")).await?;
    store.delete(&key("vid_f/clips/c.mp4")).await?;
    assert_eq!(store.list("").await?, []);
    Ok(())
}

#[tokio::test]
async fn a_store_without_checksums_and_signed_chunks_is_served() -> Result<()> {
    let (bucket, store) = world().await?;
    bucket.behave(|conduct| conduct.refuses_checksums = true);
    let file = on_disk(&content(9 * MEBIBYTE))?;
    store.put_bytes(&key("small"), Bytes::from_static(b"x"), &about()).await?;
    store.put_file(&key("large"), &file.path, &about()).await?;
    store.get(&key("small")).await?.into_bytes(10).await?;
    store.list("").await?;
    let link = store.presign_get(&key("small"), Duration::from_mins(1)).await?;
    assert_eq!(reqwest::get(link.as_str()).await?.text().await?, "x");
    store.delete(&key("small")).await?;
    for seen in bucket.seen() {
        assert_eq!(seen.checksums, [""; 0], "{seen:?}");
        if matches!(seen.method.as_str(), "PUT" | "POST") {
            let payload = seen.payload.clone().unwrap_or_default();
            assert!(payload.len() == 64 || payload == "UNSIGNED-PAYLOAD", "{seen:?}");
            assert!(seen.content_length.is_some() || seen.query == "uploads", "{seen:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_link_needs_no_header_but_the_host() -> Result<()> {
    let (bucket, store) = world().await?;
    store.put_bytes(&key("a"), Bytes::from_static(b"seen"), &about()).await?;
    let link = store.presign_get(&key("a"), Duration::from_mins(1)).await?;
    assert!(link.as_str().contains("X-Amz-SignedHeaders=host&"), "{}", link.as_str());
    assert!(link.as_str().contains("X-Amz-Expires=60&") && !link.as_str().to_lowercase().contains("checksum"));
    assert_eq!(reqwest::get(link.as_str()).await?.bytes().await?, "seen");
    assert!(!format!("{link:?}").contains("Signature"), "a log does not show it");
    let other = link.as_str().replace("/a?", "/b?");
    assert_eq!(reqwest::get(other).await?.status(), 403);
    let week = store.presign_get(&key("a"), Duration::from_secs(999_999)).await?;
    assert!(week.as_str().contains("X-Amz-Expires=604800&"), "the most that S3 takes");
    assert_eq!(bucket.seen().last().context("requests")?.status, 403);
    Ok(())
}

#[tokio::test]
async fn a_slash_behind_the_endpoint_does_no_harm() -> Result<()> {
    let (bucket, _store) = world().await?;
    let store = ObjectStore::new(config(&format!("{}/", bucket.endpoint())));
    store.put_bytes(&key("a"), Bytes::from_static(b"x"), &about()).await?;
    let link = store.presign_get(&key("a"), Duration::from_mins(1)).await?;
    assert_eq!(reqwest::get(link.as_str()).await?.text().await?, "x");
    assert!(
        bucket.seen().iter().all(|seen| seen.path == "/films/a" || seen.path == "/films/a/"),
        "{:?}",
        bucket.seen()
    );
    Ok(())
}

#[tokio::test]
async fn odd_names_are_stored_listed_and_followed() -> Result<()> {
    let (_bucket, store) = world().await?;
    let names =
        ["a b+c.mp4", "ü 视频.mp4", "50%.mp4", "x//y.mp4", "q?s#f.mp4", "a&b=c;d.mp4", "'\"()*!.mp4", "~tilde.mp4"];
    for name in names {
        let place = key(&format!("artifacts/vid_0123456789abcdef/{name}"));
        let file_name = place.file_name().to_owned();
        let about = About { download_name: Some(file_name.clone()), ..about() };
        store.put_bytes(&place, Bytes::from(name), &about).await.context(name)?;
        let facts = store.head(&place).await.context(name)?.context(name)?;
        assert_eq!(facts.size_bytes, name.len() as u64);
        let link = store.presign_get(&place, Duration::from_mins(1)).await?;
        let answer = reqwest::get(link.as_str()).await?;
        assert_eq!(answer.status(), 200, "{name}");
        let disposition = answer.headers()["content-disposition"].to_str()?.to_owned();
        let (_plain, whole) = disposition.split_once("filename*=UTF-8''").context("a name for all readers")?;
        let whole = percent_encoding::percent_decode_str(whole).decode_utf8()?;
        assert_eq!(whole, file_name);
        assert_eq!(answer.text().await?, name);
    }
    Ok(())
}

#[tokio::test]
async fn each_missing_permission_is_named() -> Result<()> {
    let (bucket, store) = world().await?;
    let (there, missing) = (key("videos/there.mp4"), key("videos/missing.mp4"));
    store.put_bytes(&there, Bytes::from_static(b"x"), &about()).await?;
    let deny = |permission: Permission| {
        bucket.behave(|conduct| *conduct = Conduct { denied: [permission].into(), ..Conduct::default() });
    };
    let named = |error: ObjectError, operation: Operation, key: &ObjectKey| {
        let words = error.to_string();
        assert!(words.contains(operation.permission()), "{words}");
        assert!(words.contains("`films`") && words.contains(key.as_str()), "{words}");
        assert!(matches!(error, ObjectError::Forbidden { operation: told, .. } if told == operation), "{error:?}");
    };
    deny(Permission::Put);
    named(store.put_bytes(&there, Bytes::new(), &about()).await.expect_err("no right"), Operation::Put, &there);
    let file = on_disk(&content(9 * MEBIBYTE))?;
    named(store.put_file(&there, &file.path, &about()).await.expect_err("no right"), Operation::Put, &there);
    assert!(store.head(&there).await?.is_some(), "all else works");

    deny(Permission::Get);
    named(store.get(&there).await.expect_err("no right"), Operation::Get, &there);
    named(store.head(&there).await.expect_err("no right"), Operation::Head, &there);

    deny(Permission::Delete);
    named(store.delete(&there).await.expect_err("no right"), Operation::Delete, &there);

    deny(Permission::List);
    named(store.list("videos/").await.expect_err("no right"), Operation::List, &key("videos/"));
    assert!(store.head(&there).await?.is_some());
    let hidden = store.head(&missing).await.expect_err("without the right to list, missing looks like forbidden");
    assert!(hidden.to_string().contains("the object is missing and the key lacks `s3:ListBucket`"), "{hidden}");
    named(hidden, Operation::Head, &missing);
    Ok(())
}

#[tokio::test]
async fn a_large_file_goes_up_in_parts_of_one_size() -> Result<()> {
    let (bucket, store) = world().await?;
    let bytes = content(20 * MEBIBYTE + 5);
    let file = on_disk(&bytes)?;
    let stored = store.put_file(&key("videos/large.mp4"), &file.path, &about()).await?;
    assert_eq!(stored, bytes.len() as u64);
    let mut parts: Vec<(u32, u64)> = Vec::new();
    for seen in bucket.seen().iter().filter(|seen| seen.is_part()) {
        let number = seen.parameter("partNumber").context("a part has a number")?.parse()?;
        parts.push((number, seen.content_length.context("a part has a length")?));
    }
    parts.sort_unstable();
    let whole = 8 * MEBIBYTE as u64;
    assert_eq!(parts, [(1, whole), (2, whole), (3, 4 * MEBIBYTE as u64 + 5)]);
    assert!(std::fs::read(bucket.path_of("videos/large.mp4"))? == bytes, "the parts are in their order");
    assert!(!bucket.has_parts()?);
    let facts = store.head(&key("videos/large.mp4")).await?.context("it is there")?;
    assert_eq!(facts.content_type.as_deref(), Some("video/mp4"));
    let to = file.path.with_extension("back");
    store.download(&key("videos/large.mp4"), &to).await?;
    assert!(std::fs::read(to)? == bytes);
    Ok(())
}

#[tokio::test]
async fn a_failed_upload_leaves_no_parts() -> Result<()> {
    let (bucket, store) = world().await?;
    bucket.behave(|conduct| conduct.failing_parts = 1);
    let file = on_disk(&content(20 * MEBIBYTE))?;
    let error = store.put_file(&key("a"), &file.path, &about()).await.expect_err("a part failed");
    assert!(error.to_string().contains("BadDigest The part was damaged"), "{error}");
    assert!(!bucket.has_parts()?);
    assert_eq!(bucket.objects()?, [""; 0]);
    assert_eq!(bucket.seen().iter().filter(|seen| seen.method == "DELETE").count(), 1);
    Ok(())
}

#[tokio::test]
async fn an_upload_that_nobody_waits_for_leaves_no_parts() -> Result<()> {
    let (bucket, store) = world().await?;
    bucket.behave(|conduct| conduct.stands_still = true);
    let file = on_disk(&content(20 * MEBIBYTE))?;
    let has_begun = async {
        while !bucket.seen().iter().any(|seen| seen.method == "POST" && seen.query.starts_with("uploads")) {
            tokio::task::yield_now().await;
        }
    };
    let (key, about) = (key("a"), about());
    tokio::select! {
        ended = store.put_file(&key, &file.path, &about) => anyhow::bail!("it stands still, and ended: {ended:?}"),
        () = has_begun => {}
    }
    store.settle().await;
    let aborted: Vec<_> = bucket.seen().into_iter().filter(|seen| seen.method == "DELETE").collect();
    assert_eq!(aborted.iter().map(|seen| seen.status).collect::<Vec<_>>(), [204]);
    assert!(!bucket.has_parts()?);
    Ok(())
}

#[tokio::test]
async fn an_object_that_lacks_a_part_is_no_success_and_does_not_stay() -> Result<()> {
    let (bucket, store) = world().await?;
    bucket.behave(|conduct| conduct.loses_a_part = true);
    let file = on_disk(&content(9 * MEBIBYTE))?;
    let error = store.put_file(&key("a"), &file.path, &about()).await.expect_err("bytes are missing");
    assert!(matches!(error, ObjectError::WrongSize { sent_bytes: 9_437_184, found_bytes: 9_436_184, .. }), "{error:?}");
    assert_eq!(bucket.objects()?, [""; 0]);
    store.put_file(&key("a"), &file.path, &about()).await?;
    assert_eq!(bucket.objects()?, ["a"]);
    Ok(())
}

#[tokio::test]
async fn a_slow_line_is_no_dead_one_and_a_dead_one_is_given_up() -> Result<()> {
    let (bucket, _store) = world().await?;
    let limit = Duration::from_secs(3);
    let store = ObjectStore::new(ObjectStoreConfig { stall_limit: limit, ..config(bucket.endpoint()) });
    let file = on_disk(&content(9 * MEBIBYTE))?;
    bucket.behave(|conduct| conduct.pause_in_parts = Some(Duration::from_millis(500)));
    let began = std::time::Instant::now();
    store.put_file(&key("slow"), &file.path, &about()).await?;
    assert!(began.elapsed() > limit, "it took longer than nothing may move: {:?}", began.elapsed());

    bucket.behave(|conduct| conduct.stands_still = true);
    let error = store.put_file(&key("dead"), &file.path, &about()).await.expect_err("nothing moves");
    assert!(matches!(error, ObjectError::Stalled { operation: Operation::Put, .. }), "{error:?}");
    assert!(!bucket.has_parts()?);
    Ok(())
}

#[tokio::test]
async fn a_wrong_clock_is_called_that() -> Result<()> {
    let (bucket, store) = world().await?;
    for (ahead, words) in [(1200, "s behind; set this host's clock"), (-1200, "s ahead; set this host's clock")] {
        bucket.behave(|conduct| conduct.clock_ahead_seconds = ahead);
        for error in [
            store.head(&key("a")).await.expect_err("a head has no words"),
            store.put_bytes(&key("a"), Bytes::new(), &about()).await.expect_err("a put has"),
        ] {
            let ObjectError::Clock { difference, .. } = &error else { panic!("{error:?}") };
            assert!((1199..=1202).contains(&difference.as_secs()), "{difference:?}");
            assert!(error.to_string().ends_with(words), "{error}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_endpoint_of_ones_own_is_addressed_by_path_and_a_wrong_region_is_named() -> Result<()> {
    let (bucket, store) = world().await?;
    store.put_bytes(&key("a"), Bytes::from_static(b"x"), &about()).await?;
    assert_eq!(bucket.seen()[0].path, "/films/a");
    bucket.behave(|conduct| conduct.region = Some("auto".to_owned()));
    for error in [
        store.head(&key("a")).await.expect_err("another region"),
        store.put_bytes(&key("a"), Bytes::new(), &about()).await.expect_err("another region"),
    ] {
        assert_eq!(error.to_string(), "bucket `films` is not in region `us-east-1` but in `auto`: set `AWS_REGION`");
    }
    let store = ObjectStore::new(ObjectStoreConfig { region: "auto".to_owned(), ..config(bucket.endpoint()) });
    assert_eq!(store.get(&key("a")).await?.into_bytes(10).await?, "x");
    Ok(())
}

#[tokio::test]
async fn credentials_bucket_and_network_have_their_own_words() -> Result<()> {
    let (bucket, _store) = world().await?;
    let wrong = ("test-access-key".into(), "another-secret".into());
    let store = ObjectStore::new(ObjectStoreConfig { credentials: Some(wrong), ..config(bucket.endpoint()) });
    let error = store.list("").await.expect_err("a wrong secret");
    assert!(matches!(&error, ObjectError::Credentials { code, .. } if code == "SignatureDoesNotMatch"), "{error:?}");
    assert!(!format!("{store:?} {error:?} {error}").contains("another-secret"));

    let store = ObjectStore::new(ObjectStoreConfig { credentials: None, ..config(bucket.endpoint()) });
    let error = store.presign_get(&key("a"), Duration::from_secs(1)).await.expect_err("nothing to sign with");
    assert_eq!(error.code(), "S3NotConfigured");

    let store = ObjectStore::new(ObjectStoreConfig { bucket: "other".to_owned(), ..config(bucket.endpoint()) });
    let error = store.list("").await.expect_err("no such bucket");
    assert!(matches!(error, ObjectError::NoSuchBucket { .. }), "{error:?}");

    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let store = ObjectStore::new(config(&format!("http://{nobody}")));
    let error = store.head(&key("a")).await.expect_err("nobody listens");
    assert!(matches!(error, ObjectError::Unreachable { .. }) && error.is_passing(), "{error:?}");
    assert_eq!(error.to_string(), format!("could not reach the bucket's server `http://{nobody}`"));
    let reason = std::error::Error::source(&error).context("the network's reason")?.to_string();
    assert!(reason.to_lowercase().contains("refused"), "{reason}");
    Ok(())
}

#[tokio::test]
async fn connections_that_break_are_taken_up_again() -> Result<()> {
    let (bucket, store) = world().await?;
    bucket.behave(|conduct| conduct.dropped_connections = 2);
    let bytes = content(3 * MEBIBYTE);
    store.put_bytes(&key("a"), Bytes::from(bytes.clone()), &about()).await?;
    bucket.behave(|conduct| conduct.cuts = Some((3, MEBIBYTE / 2)));
    let folder = tempfile::tempdir()?;
    let to = Utf8PathBuf::from_path_buf(folder.path().join("back")).ok().context("UTF-8")?;
    store.download(&key("a"), &to).await?;
    assert!(std::fs::read(&to)? == bytes);
    let ranges: Vec<_> = bucket.seen().into_iter().filter_map(|seen| seen.range).collect();
    assert_eq!(ranges.len(), 3, "it went on where it broke: {ranges:?}");

    bucket.behave(|conduct| (conduct.cuts, conduct.ignores_ranges) = (Some((2, MEBIBYTE / 2)), true));
    store.download(&key("a"), &to).await?;
    assert!(std::fs::read(&to)? == bytes, "a server without ranges begins anew, and nothing is written twice");
    Ok(())
}
