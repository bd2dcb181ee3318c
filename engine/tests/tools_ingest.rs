//! Descriptions in the background: real frames, a scripted video model, the in-process queue.

mod support {
    pub(crate) mod place;
    pub(crate) mod vision_server;
}

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::agent::vision::Vision;
use ambient_engine::broker::{Broker, BrokerOptions, Job};
use ambient_engine::clock::Clock;
use ambient_engine::ingest::{IngestConfig, IngestParts, start};
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::store::records::{FileRecord, WorkStatus};
use support::place::{Place, eventually};
use support::vision_server::{VisionServer, kinds};

const SHUT_DOWN: Duration = Duration::from_secs(10);

/// The background work of an engine.
struct Works {
    place: Place,
    broker: Arc<dyn Broker>,
    lifecycle: Lifecycle,
    parts: IngestParts,
}

impl Works {
    async fn new(server: Option<&VisionServer>, adjust: impl FnOnce(&mut IngestConfig)) -> Self {
        let place = Place::new().await;
        let options = BrokerOptions { engine_id: "e".into(), stream: "s".into(), group: "g".into() };
        let broker = ambient_engine::broker::connect(None, &options).await.expect("the in-process broker");
        let backend = place.backend();
        let vision: Option<Arc<Vision>> =
            server.map(|server| server.vision(Arc::clone(&backend), Arc::clone(&place.store)));
        let mut config = IngestConfig::from_settings(&place.settings);
        config.description_model = String::from(support::vision_server::MODEL);
        config.first_retry = Duration::from_millis(10);
        adjust(&mut config);
        let (store, clock) = (Arc::clone(&place.store), Clock::system());
        let video_folder = place.settings.media.video_folder.clone();
        let parts = IngestParts {
            store,
            broker: Arc::clone(&broker),
            backend,
            youtube: None,
            video_folder,
            uploads: None,
            vision,
            clock,
            config,
        };
        Self { place, broker, lifecycle: Lifecycle::new(), parts }
    }

    fn start(&self) {
        start(&self.lifecycle, &self.parts);
    }

    async fn file(&self) -> FileRecord {
        self.place.store.file(&self.place.file.id).await.expect("a store").expect("the file")
    }

    async fn becomes(&self, status: Option<WorkStatus>) -> FileRecord {
        let ask = || async { Some(self.file().await).filter(|file| file.description_status == status) };
        eventually(ask, &format!("the description status {status:?}")).await
    }

    async fn ends(self) {
        assert!(self.lifecycle.shut_down(SHUT_DOWN).await, "a task outlived the engine");
    }
}

#[tokio::test]
async fn a_file_that_waits_at_the_start_is_described_without_a_job() {
    let server = VisionServer::start(|_number, _request| {
        (200, "x <video_description>A test picture.</video_description>".to_owned())
    })
    .await;
    let works = Works::new(Some(&server), |config| config.description_max_frames = 5).await;
    works.start();
    let file = works.becomes(Some(WorkStatus::Ready)).await;
    assert_eq!(
        file.description.as_deref(),
        Some("Total duration: 12.0 seconds. Approximate, from 5 frames:\nA test picture.")
    );
    assert_eq!((file.description_attempts, file.description_error), (1, None));
    assert_eq!(kinds(&server.requests()[0]).iter().filter(|kind| *kind == "image_url").count(), 5);

    // A second job of the same file finds nothing to do.
    works.broker.enqueue(&Job::Ingest { video: file.id.clone() }, Duration::ZERO).await.unwrap();
    works.ends().await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_model_that_fails_is_tried_again_and_given_up_at_last() {
    let server = VisionServer::start(|_number, _request| (200, String::new())).await;
    let works = Works::new(Some(&server), |config| config.max_attempts = 2).await;
    works.start();
    let file = works.becomes(Some(WorkStatus::Failed)).await;
    assert_eq!(file.description_attempts, 2);
    assert!(file.description_error.is_some_and(|error| error.contains("empty")));
    works.ends().await;
}

#[tokio::test]
async fn a_refusal_that_will_stay_is_not_tried_again() {
    let server = VisionServer::start(|_number, _request| (401, "bad key".to_owned())).await;
    let works = Works::new(Some(&server), |_config| {}).await;
    works.start();
    let file = works.becomes(Some(WorkStatus::Failed)).await;
    assert_eq!(file.description_attempts, 1);
    assert!(file.description_error.is_some_and(|error| error.contains("HTTP 401")));
    assert_eq!(server.requests().len(), 1);
    works.ends().await;
}

#[tokio::test]
async fn without_a_model_there_is_no_description_and_no_failure() {
    let works = Works::new(None, |_config| {}).await;
    works.start();
    let file = works.becomes(None).await;
    assert_eq!((file.description_error, file.description_attempts), (None, 0));
    works.ends().await;
}

#[tokio::test]
async fn a_video_that_takes_the_engine_down_is_given_up() {
    let server = VisionServer::start(|_number, _request| (200, "never asked".to_owned())).await;
    let works = Works::new(Some(&server), |config| config.max_attempts = 2).await;
    let mut file = works.file().await;
    let before = file.updated_at;
    (file.description_status, file.description_attempts) = (Some(WorkStatus::Processing), 2);
    file.updated_at = Clock::system().now();
    assert!(works.place.store.update_file(&file, before).await.unwrap());
    works.start();
    let file = works.becomes(Some(WorkStatus::Failed)).await;
    assert_eq!(file.description_error.as_deref(), Some("no description came of 2 attempts"));
    assert!(server.requests().is_empty());
    works.ends().await;
}

#[tokio::test]
async fn a_shut_down_puts_the_work_back() {
    let (asked, mut was_asked) = tokio::sync::mpsc::channel(1);
    let server = VisionServer::start(move |_number, _request| {
        let _first_is_enough = asked.try_send(());
        (503, "busy".to_owned())
    })
    .await;
    let works = Works::new(Some(&server), |_config| {}).await;
    works.start();
    was_asked.recv().await.unwrap();
    // The question waits before its second try now.
    assert!(works.lifecycle.shut_down(SHUT_DOWN).await, "a task outlived the engine");
    let file = works.file().await;
    assert_eq!((file.description_status, file.description_attempts), (Some(WorkStatus::Pending), 0));
}

#[tokio::test]
async fn a_file_is_described_by_one_worker_at_a_time() {
    let (asked, mut was_asked) = tokio::sync::mpsc::channel(1);
    let server = VisionServer::start(move |number, _request| {
        let _first_is_enough = asked.try_send(());
        if number == 0 { (503, "busy".to_owned()) } else { (200, "once".to_owned()) }
    })
    .await;
    let works = Works::new(Some(&server), |config| config.concurrency = 4.try_into().expect("not zero")).await;
    works.start();
    was_asked.recv().await.unwrap();
    // The first worker waits before its second try; another one takes this job.
    works.broker.enqueue(&Job::Ingest { video: works.place.file.id.clone() }, Duration::ZERO).await.unwrap();
    let file = works.becomes(Some(WorkStatus::Ready)).await;
    assert_eq!(file.description_attempts, 1);
    works.ends().await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn lost_work_is_found_while_the_engine_runs() {
    let server = VisionServer::start(|_number, _request| (200, "found".to_owned())).await;
    let works = Works::new(Some(&server), |config| {
        config.sweep_every = Duration::from_millis(50);
        config.stale_after = Duration::from_millis(200);
    })
    .await;
    // Nobody may work on it at the start, as if another engine did.
    let name = format!("ingest:{}", works.place.file.id);
    let lease = works.broker.acquire(&name, Duration::from_mins(5)).await.unwrap().unwrap();
    works.start();
    works.broker.release(&lease).await.unwrap();
    let file = works.becomes(Some(WorkStatus::Ready)).await;
    assert!(file.description.is_some_and(|text| text.ends_with("found")));
    works.ends().await;
}
