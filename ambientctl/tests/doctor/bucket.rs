//! The bucket: whether it answers, and each right alone.

use std::io;

use ambient_ctl::doctor::{Level, Remedy};
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, Permission, SECRET_ACCESS_KEY, TestBucket};

use super::lab::{Lab, closed_port, remedy};

fn lines(endpoint: &str, bucket: &str, secret: &str) -> Vec<String> {
    vec![
        format!("S3_ENDPOINT={endpoint}"),
        format!("S3_BUCKET={bucket}"),
        format!("AWS_ACCESS_KEY_ID={ACCESS_KEY_ID}"),
        format!("AWS_SECRET_ACCESS_KEY={secret}"),
    ]
}

/// A `.env` with a bucket.
pub(crate) fn with(endpoint: &str, bucket: &str, secret: &str) -> io::Result<Lab> {
    let lines = lines(endpoint, bucket, secret);
    Lab::repository(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_bucket_that_is_well_is_left_as_it_was() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    let report = lab.look(&["bucket"]).await;
    let ids: Vec<_> = report.findings.iter().map(|finding| (finding.id, finding.level)).collect();
    let mut expected =
        ["bucket.region", "bucket.put", "bucket.list", "bucket.get", "bucket.parts", "bucket.link", "bucket.range"]
            .map(|id| (id, Level::Ok))
            .to_vec();
    let mut found = ids.clone();
    expected.sort_by_key(|(id, _)| *id);
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, expected, "{:#?}", report.findings);
    assert_eq!(bucket.objects()?, Vec::<String>::new(), "the probe objects are gone");
    assert!(!bucket.has_parts()?);
    Ok(())
}

#[tokio::test]
async fn each_right_is_missed_by_its_own_name() -> io::Result<()> {
    for (permission, id, name, resource) in [
        (Permission::Get, "bucket.get", "s3:GetObject", "arn:aws:s3:::films/*"),
        (Permission::Put, "bucket.put", "s3:PutObject", "arn:aws:s3:::films/*"),
        (Permission::List, "bucket.list", "s3:ListBucket", "arn:aws:s3:::films"),
    ] {
        let bucket = TestBucket::start().await?;
        bucket.behave(|conduct| {
            conduct.denied.insert(permission);
        });
        let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
        let report = lab.look(&["bucket"]).await;
        let failures: Vec<_> = report.findings.iter().filter(|finding| finding.level == Level::Failure).collect();
        assert_eq!(failures.iter().map(|finding| finding.id).collect::<Vec<_>>(), [id], "{failures:#?}");
        assert_eq!(failures[0].seen, format!("the key lacks `{name}` on bucket `films`"));
        let Remedy { how, paste } = remedy(failures[0]);
        assert!(how.starts_with("add this statement to the policy of the key"), "{how}");
        assert_eq!(*paste, format!(r#"{{"Effect":"Allow","Action":"{name}","Resource":"{resource}"}}"#));
        // The remedy: the right is given.
        bucket.behave(|conduct| conduct.denied.clear());
        lab.is_well("bucket").await;
    }
    Ok(())
}

#[tokio::test]
async fn without_any_right_what_cannot_be_told_is_not_claimed() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| conduct.denied.extend([Permission::Get, Permission::Put, Permission::List]));
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    assert_eq!(lab.finding("bucket.get").await.level, Level::Skipped);
    bucket.behave(|conduct| {
        conduct.denied.remove(&Permission::List);
    });
    assert_eq!(lab.finding("bucket.get").await.level, Level::Failure);
    bucket.behave(|conduct| {
        conduct.denied.remove(&Permission::Get);
    });
    assert_eq!(lab.finding("bucket.get").await.level, Level::Ok, "who may list is told that an object is missing");
    Ok(())
}

#[tokio::test]
async fn what_may_not_be_removed_stays_and_is_said() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| {
        conduct.denied.insert(Permission::Delete);
    });
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.left").await;
    assert_eq!(finding.level, Level::Ok);
    assert!(finding.seen.contains("`.ambient-doctor/probe.txt`"), "{finding:?}");
    lab.look(&["bucket"]).await;
    assert_eq!(
        bucket.objects()?,
        [".ambient-doctor/parts.txt", ".ambient-doctor/probe.txt"],
        "a second look adds none"
    );
    Ok(())
}

#[tokio::test]
async fn clocks_that_differ_are_told_before_credentials_are_blamed() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    for (ahead, level, words) in
        [(300, Level::Warning, "behind"), (-300, Level::Warning, "ahead of"), (1200, Level::Failure, "behind")]
    {
        bucket.behave(|conduct| conduct.clock_ahead_seconds = ahead);
        let finding = lab.finding("bucket.clock").await;
        assert_eq!(finding.level, level, "{finding:?}");
        let seconds = ahead.unsigned_abs();
        let near = [seconds - 1, seconds, seconds + 1].map(|seconds| format!("is {seconds} s {words}"));
        assert!(near.iter().any(|words| finding.seen.contains(words)), "{finding:?}");
        assert_eq!(remedy(&finding).paste, "sudo timedatectl set-ntp true");
    }
    bucket.behave(|conduct| conduct.clock_ahead_seconds = 0);
    lab.is_well("bucket").await;
    Ok(())
}

#[tokio::test]
async fn another_region_is_named_and_set_by_the_remedy() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| conduct.region = Some("eu-west-1".to_owned()));
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.region").await;
    assert!(finding.seen.contains("but in `eu-west-1`"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("bucket").await;
    Ok(())
}

#[tokio::test]
async fn wrong_keys_missing_buckets_and_dead_servers_are_three_things() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    let lab = with(bucket.endpoint(), BUCKET, "not-the-secret")?;
    let finding = lab.finding("bucket.credentials").await;
    lab.carry_out_with(remedy(&finding), "AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY).await;
    lab.is_well("bucket").await;

    let lab = with(bucket.endpoint(), "flims", SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.missing").await;
    assert_eq!(remedy(&finding).paste, format!("aws --endpoint-url {} s3 mb s3://flims", bucket.endpoint()));

    let lab = with(&format!("http://127.0.0.1:{}", closed_port()), BUCKET, SECRET_ACCESS_KEY)?;
    assert!(lab.finding("bucket.unreachable").await.seen.contains("cannot be reached"));

    // TLS to a server that has none.
    let lab = with(&bucket.endpoint().replace("http://", "https://"), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.tls").await;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("bucket").await;
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_anybody_reads_and_one_without_ranges_are_warnings() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| conduct.is_public = true);
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.public").await;
    assert_eq!(finding.level, Level::Warning);
    assert!(remedy(&finding).paste.contains("put-public-access-block --bucket films"), "{finding:?}");
    bucket.behave(|conduct| {
        conduct.is_public = false;
        conduct.ignores_ranges = true;
    });
    let finding = lab.finding("bucket.range").await;
    assert_eq!(finding.level, Level::Warning);
    assert!(remedy(&finding).paste.contains("config set STREAM_SOURCE_VIDEO false"), "{finding:?}");
    bucket.behave(|conduct| conduct.ignores_ranges = false);
    lab.is_well("bucket").await;
    Ok(())
}

#[tokio::test]
async fn on_e2b_a_bucket_has_to_be_there() -> io::Result<()> {
    let lab = Lab::repository(&[])?;
    assert_eq!(lab.finding("bucket.none").await.level, Level::Skipped);
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b"])?;
    let finding = lab.finding("bucket.unset").await;
    assert_eq!(finding.level, Level::Failure);
    assert!(remedy(&finding).paste.starts_with("ambientctl config set S3_BUCKET ambient-videos"), "{finding:?}");
    Ok(())
}
