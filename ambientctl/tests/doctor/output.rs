//! What people and programs get to read: its form, its secrets, and how long it takes.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use ambient_ctl::doctor::{Finding, Level, Look, Remedy, Report, json, text};
use ambient_test_bucket::{ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, TestBucket};

use super::e2b::{Cloud, KEY};
use super::lab::Lab;
use super::model::{self, ModelServer};

fn report() -> Report {
    let findings = vec![
        Finding::ok("backend.value", "`SANDBOX_BACKEND` is `e2b`: each session gets a sandbox of its own"),
        Finding::skipped("e2b-boot.shallow", "`--deep` boots a sandbox, which costs about a minute of one"),
        Finding::failure(
            "bucket.put",
            "the key lacks `s3:PutObject` on bucket `films`",
            "videos, clips and frames cannot be stored: uploads log `R2 upload failed`",
            Remedy::paste(
                "add this statement to the policy of the key; on R2, give the token `Object Read & Write`",
                r#"{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::films/*"}"#,
            ),
        ),
        Finding::warning(
            "redis.persistence",
            "Redis at 127.0.0.1:6379 keeps nothing over a restart: `appendonly` is off, and there are no snapshots",
            "jobs that wait, such as descriptions of uploaded videos, are lost then",
            Remedy::run("redis-cli -h 127.0.0.1 -p 6379 config set appendonly yes"),
        ),
    ];
    Report { subject: "the installation in /home/ann/.ambient".to_owned(), findings }
}

#[test]
fn plain() {
    insta::assert_snapshot!(text(&report(), Look::default()));
}

#[test]
fn coloured() {
    let coloured = text(&report(), Look { is_coloured: true, ..Look::default() });
    insta::assert_snapshot!(coloured.replace('\u{1b}', "␛"));
}

#[test]
fn narrow() {
    let narrow = text(&report(), Look { width: Some(50), ..Look::default() });
    for line in narrow.lines().filter(|line| !line.contains('{') && !line.contains("redis-cli")) {
        assert!(line.chars().count() <= 50, "{line}");
    }
    insta::assert_snapshot!(narrow);
}

#[test]
fn for_programs() {
    insta::assert_json_snapshot!(json(&report()));
}

#[test]
fn clean() {
    let findings = report().findings.into_iter().filter(|finding| finding.level <= Level::Skipped).collect();
    let clean = Report { findings, ..report() };
    assert!(clean.is_clean());
    insta::assert_snapshot!(text(&clean, Look::default()));
    assert_eq!(json(&clean)["clean"], true);
}

/// Everything answers on the loopback.
async fn live() -> io::Result<(Lab, TestBucket, ModelServer, Cloud)> {
    let (bucket, server, cloud) = (TestBucket::start().await?, ModelServer::start().await?, Cloud::start().await?);
    cloud.has_built("video-analysis-v1");
    let redis =
        super::lab::variable("AMBIENT_TEST_REDIS_URL").expect("AMBIENT_TEST_REDIS_URL is set, as tests/run.sh does");
    let postgres = super::lab::variable("AMBIENT_TEST_POSTGRES_URL")
        .expect("AMBIENT_TEST_POSTGRES_URL is set, as tests/run.sh does");
    let mut lines = server.lines();
    lines.extend([
        "SANDBOX_BACKEND=e2b".to_owned(),
        format!("E2B_API_KEY={KEY}"),
        format!("E2B_API_URL={}", cloud.url),
        format!("S3_ENDPOINT={}", bucket.endpoint()),
        format!("S3_BUCKET={BUCKET}"),
        format!("AWS_ACCESS_KEY_ID={ACCESS_KEY_ID}"),
        format!("AWS_SECRET_ACCESS_KEY={SECRET_ACCESS_KEY}"),
        format!("REDIS_URL={redis}"),
        format!("DATABASE_URL={postgres}"),
        "API_KEY=engine-key-that-no-output-may-show".to_owned(),
    ]);
    let lab = Lab::repository(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok((lab, bucket, server, cloud))
}

#[tokio::test]
async fn everything_on_the_loopback_is_well_and_quick() -> io::Result<()> {
    let (lab, _bucket, _server, _cloud) = live().await?;
    let context = lab.context();
    let begun = Instant::now();
    let report = ambient_ctl::doctor::run(&context, &[]).await;
    let taken = begun.elapsed();
    let failures: Vec<_> = report.findings.iter().filter(|finding| finding.level == Level::Failure).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    // 1.5 s of the shipped program; this one is not optimised, and other tests run beside it.
    assert!(taken < Duration::from_secs(5), "a look at everything took {taken:?}");
    Ok(())
}

#[tokio::test]
async fn what_does_not_answer_delays_nothing_beyond_its_own_limit() -> io::Result<()> {
    // Takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", silent.local_addr()?);
    let mut lab = Lab::repository(&[
        "SANDBOX_BACKEND=e2b",
        &format!("E2B_API_KEY={KEY}"),
        &format!("E2B_API_URL={url}"),
        &format!("S3_ENDPOINT={url}"),
        &format!("S3_BUCKET={BUCKET}"),
        &format!("AWS_ACCESS_KEY_ID={ACCESS_KEY_ID}"),
        &format!("AWS_SECRET_ACCESS_KEY={SECRET_ACCESS_KEY}"),
        &format!("LLM_BASE_URL={url}/v1"),
        &format!("REDIS_URL=redis://{}/0", silent.local_addr()?),
        &format!("DATABASE_URL=postgres://a@{}/b", silent.local_addr()?),
    ])?;
    lab.limit = Duration::from_secs(1);
    let begun = Instant::now();
    let report = lab.look(&["e2b-key", "e2b-template", "bucket", "llm", "redis", "store"]).await;
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(3), "six silent parts took {taken:?}");
    for check in ["e2b-key", "bucket", "llm", "redis", "store"] {
        let found = report.findings.iter().find(|finding| finding.check() == check && finding.level == Level::Failure);
        let words = found.map(|finding| finding.seen.clone()).unwrap_or_default();
        assert!(words.contains("answer"), "{check}: {words}");
    }
    // Who wants the same as another check waits with it, and not once more.
    assert!(report.findings.iter().any(|finding| finding.id == "e2b-template.unknown"), "{:#?}", report.findings);
    Ok(())
}

#[tokio::test]
async fn no_secret_is_in_any_output() -> io::Result<()> {
    const CANARIES: [&str; 9] = [
        "e2b_canary1_0123456789",
        "canary2-secret-access-key",
        "canary3-llm-key",
        "canary4-api-key",
        "canary5-database-password",
        "canary6-redis-password",
        "canary7-of-the-shell",
        "canary8-in-a-broken-line",
        "canary9-agent-key",
    ];
    let (bucket, server, cloud) = (TestBucket::start().await?, ModelServer::start().await?, Cloud::start().await?);
    let lines = [
        "SANDBOX_BACKEND=E2B".to_owned(),
        format!("E2B_API_KEY={}", CANARIES[0]),
        format!("E2B_API_URL={}", cloud.url),
        format!("S3_ENDPOINT={}", bucket.endpoint()),
        format!("S3_BUCKET={BUCKET}"),
        format!("AWS_ACCESS_KEY_ID={ACCESS_KEY_ID}"),
        format!("AWS_SECRET_ACCESS_KEY={}", CANARIES[1]),
        format!("LLM_BASE_URL={}", server.url),
        format!("LLM_API_KEY={}", CANARIES[2]),
        format!("API_KEY={}", CANARIES[3]),
        format!("DATABASE_URL=postgres://ann:{}@127.0.0.1:1/x", CANARIES[4]),
        format!("REDIS_URL=redis://:{}@127.0.0.1:1/0", CANARIES[5]),
        format!("AGENT_API_KEY={}", CANARIES[8]),
        "SERVER_HOST=0.0.0.0".to_owned(),
    ];
    let mut lab = Lab::repository(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
    lab.in_shell("LLM_API_KEY", CANARIES[6]);
    lab.deep = true;
    let whole = lab.read(".env");
    for file in [
        whole.clone(),
        whole.replace("SANDBOX_BACKEND=E2B", "SANDBOX_BACKEND=e2b"),
        format!("{whole}SECRETS_KEY=\"{}\n", CANARIES[7]),
    ] {
        lab.write(".env", &file)?;
        let report = lab.look(&[]).await;
        let shown = [
            text(&report, Look::default()),
            text(&report, Look { is_coloured: true, ..Look::default() }),
            json(&report).to_string(),
            format!("{report:?}"),
            format!("{:?}", lab.context()),
        ]
        .join("\n");
        for canary in CANARIES.into_iter().chain([model::KEY, SECRET_ACCESS_KEY]) {
            let at = shown.find(canary).map(|at| shown[at.saturating_sub(200)..at].to_owned());
            assert_eq!(at, None, "`{canary}` is shown");
        }
        assert!(!report.is_clean());
    }
    Ok(())
}
