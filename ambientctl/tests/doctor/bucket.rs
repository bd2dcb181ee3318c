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

/// The AWS CLI, as far as remedies call it: it signs what it asks for, with the keys of the bucket's owner.
fn aws(lab: &Lab) -> io::Result<()> {
    lab.hand(
        "aws",
        &format!(
            r#"[ "$1" = --endpoint-url ] || exit 2
server=$2
shift 2
put() {{ exec curl --fail-with-body -sS -X PUT --aws-sigv4 aws:amz:us-east-1:s3 --user {ACCESS_KEY_ID}:{SECRET_ACCESS_KEY} -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' --noproxy '*' "$@" >&2; }}
case "$1 $2 $3" in
"s3 mb s3://"*) put "$server/${{3#s3://}}" ;;
"s3api put-public-access-block --bucket")
    [ "$5" = --public-access-block-configuration ] || exit 2
    body=$(printf %s "$6" | sed -E 's,([A-Za-z]+)=([a-z]+)\,?,<\1>\2</\1>,g')
    put "$server/$4?publicAccessBlock=" --data "<PublicAccessBlockConfiguration>$body</PublicAccessBlockConfiguration>" ;;
*) exit 2 ;;
esac"#
        ),
    )
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
        bucket.add_to_policy(paste).unwrap_or_else(|fault| panic!("{paste}: {fault}"));
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
        // Whoever sets this machine's clock sets it by the same time as the bucket's server.
        lab.hand("sudo", r#"exec "$@""#)?;
        lab.hand("timedatectl", r#"[ "$*" = "set-ntp true" ] && touch clock-is-set"#)?;
        lab.carry_out(remedy(&finding)).await;
        if std::fs::remove_file(lab.path("clock-is-set")).is_ok() {
            bucket.behave(|conduct| conduct.clock_ahead_seconds = 0);
        }
        lab.is_well("bucket").await;
    }
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

// A remedy holds this thread while it is carried out, and the server answers it.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_missing_buckets_and_dead_servers_are_three_things() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    let lab = with(bucket.endpoint(), BUCKET, "not-the-secret")?;
    let finding = lab.finding("bucket.credentials").await;
    lab.carry_out_with(remedy(&finding), "AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY).await;
    lab.is_well("bucket").await;

    let lab = with(bucket.endpoint(), "flims", SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.missing").await;
    assert_eq!(remedy(&finding).paste, format!("aws --endpoint-url {} s3 mb s3://flims", bucket.endpoint()));
    aws(&lab)?;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("bucket").await;

    let lab = with(&format!("http://127.0.0.1:{}", closed_port()), BUCKET, SECRET_ACCESS_KEY)?;
    assert!(lab.finding("bucket.unreachable").await.seen.contains("cannot be reached"));

    // TLS to a server that has none.
    let lab = with(&bucket.endpoint().replace("http://", "https://"), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.tls").await;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("bucket").await;
    Ok(())
}

// A remedy holds this thread while it is carried out, and the server answers it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_anybody_reads_and_one_without_ranges_are_warnings() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| conduct.is_public = true);
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.public").await;
    assert_eq!(finding.level, Level::Warning);
    assert_eq!(finding.seen, "anybody can read what is in bucket `films`, without a key");
    assert!(remedy(&finding).paste.contains("put-public-access-block --bucket films"), "{finding:?}");
    aws(&lab)?;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("bucket").await;
    bucket.behave(|conduct| conduct.ignores_ranges = true);
    let finding = lab.finding("bucket.range").await;
    assert_eq!(finding.level, Level::Warning);
    assert!(remedy(&finding).paste.contains("config set STREAM_SOURCE_VIDEO false"), "{finding:?}");
    bucket.behave(|conduct| conduct.ignores_ranges = false);
    lab.is_well("bucket").await;
    Ok(())
}

#[tokio::test]
async fn a_line_that_others_can_read_is_told_where_it_leaves_this_machine() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    // This machine by an address that is not the loopback's.
    let lab = with(&bucket.endpoint().replace("127.0.0.1", "0.0.0.0"), BUCKET, SECRET_ACCESS_KEY)?;
    let finding = lab.finding("bucket.plain").await;
    let port = bucket.endpoint().rsplit(':').next().unwrap_or_default();
    assert_eq!(finding.level, Level::Warning);
    assert_eq!(finding.seen, format!("`S3_ENDPOINT` is `http://0.0.0.0:{port}`, without TLS"));
    assert_eq!(finding.why, "videos and links to them can be read on the way");
    lab.carry_out(remedy(&finding)).await;
    assert!(lab.read(".env").contains(&format!("S3_ENDPOINT=https://0.0.0.0:{port}\n")));
    // The line is no longer plain; that this server has no TLS is another finding.
    let left: Vec<_> = lab.look(&["bucket"]).await.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(left, ["bucket.tls"]);
    Ok(())
}

#[tokio::test]
async fn two_rights_that_are_missing_are_two_findings_and_two_remedies() -> io::Result<()> {
    let bucket = TestBucket::start().await?;
    bucket.behave(|conduct| conduct.denied.extend([Permission::Get, Permission::List]));
    let lab = with(bucket.endpoint(), BUCKET, SECRET_ACCESS_KEY)?;
    for (id, next) in [("bucket.list", "bucket.get"), ("bucket.get", "")] {
        let finding = lab.finding(id).await;
        assert_eq!(finding.level, Level::Failure, "{finding:?}");
        bucket.add_to_policy(&remedy(&finding).paste).unwrap_or_else(|fault| panic!("{finding:?}: {fault}"));
        let left = lab.look(&["bucket"]).await.findings;
        let left: Vec<_> =
            left.iter().filter(|finding| finding.level == Level::Failure).map(|finding| finding.id).collect();
        assert_eq!(left, if next.is_empty() { vec![] } else { vec![next] });
    }
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
