//! A whole engine, from `POST /v1/files/import` to the answer of a session over that video.

mod support {
    #[expect(dead_code, reason = "the model says one thing here")]
    pub(crate) mod model;
    #[expect(dead_code, reason = "the engine makes its own store and backend here")]
    pub(crate) mod place;
    #[expect(dead_code, reason = "what becomes of children is looked at elsewhere")]
    pub(crate) mod yt_dlp;
}

use std::ffi::OsString;
use std::time::Duration;

use ambient_engine::Engine;
use ambient_settings::Settings;
use camino::Utf8PathBuf;
use serde_json::{Value, json};
use support::model::{Model, say};
use support::place::{Place, eventually};
use support::yt_dlp::YtDlp;
use tempfile::TempDir;

type Fault = Box<dyn std::error::Error + Send + Sync>;

const URL: &str = "https://youtu.be/dQw4w9WgXcQ";

/// An engine that listens, and a program in place of yt-dlp.
struct Town {
    base: String,
    client: reqwest::Client,
    engine: Engine,
    yt_dlp: YtDlp,
    model: Model,
    _home: TempDir,
}

impl Town {
    async fn new(model: Model) -> Result<Self, Fault> {
        let place = Place::new().await;
        let video = place.settings.media.video_folder.join(format!("{}{}", place.file.id, place.file.extension));
        let held = tempfile::tempdir()?;
        let home = Utf8PathBuf::from_path_buf(held.path().canonicalize()?).map_err(|_path| "not UTF-8")?;
        let yt_dlp = YtDlp::new(&home.join("yt-dlp"), &video)?;
        let environment = [
            ("HOME", home.as_str()),
            ("AMBIENT_HOME", home.as_str()),
            ("SERVER_PORT", "0"),
            ("MODEL_CATALOGUE_URL", ""),
            ("LLM_BASE_URL", &model.base_url),
            ("LLM_MODEL", "nobody/knows-this"),
            ("AGENT_MODEL", "nobody/knows-this"),
            ("YTDLP_PATH", yt_dlp.program().as_str()),
            ("FIRST_TURN_WAIT_FOR_DESCRIPTION", "false"),
        ]
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let settings = Settings::load(environment, None).map_err(|faults| faults.to_string())?.settings;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let engine = ambient_engine::start(settings, listener).await?;
        Ok(Self { base, client: reqwest::Client::new(), engine, yt_dlp, model, _home: held })
    }

    async fn ask(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> Result<Value, Fault> {
        let request = self.client.request(method, format!("{}{path}", self.base)).header("x-api-key", "dev-token");
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let response = request.send().await?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            return Err(format!("{path}: {status} {text}").into());
        }
        Ok(serde_json::from_str(&text)?)
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, Fault> {
        self.ask(reqwest::Method::POST, path, Some(body)).await
    }

    async fn get(&self, path: &str) -> Result<Value, Fault> {
        self.ask(reqwest::Method::GET, path, None).await
    }

    /// A session over this video, with a question already on its way.
    async fn asked(&self, video: &str, fast: bool) -> Result<String, Fault> {
        let agent = if fast { "ambient_fast" } else { "ambient_v1" };
        let wish = json!({"agent": agent, "environment_id": "default", "metadata": {"video_id": video}});
        let session = self.post("/v1/sessions", wish).await?;
        let id = session["id"].as_str().ok_or("no id")?.to_owned();
        let question =
            json!({"events": [{"type": "user.message", "content": [{"type": "text", "text": "What is it?"}]}]});
        self.post(&format!("/v1/sessions/{id}/events"), question).await?;
        Ok(id)
    }

    /// The session's events, once one of them is as wanted.
    async fn events(&self, session: &str, wanted: impl Fn(&Value) -> bool, what: &str) -> Vec<Value> {
        let path = format!("/v1/sessions/{session}/events?limit=100");
        let wanted = &wanted;
        let ask = || async {
            let page = self.get(&path).await.ok()?;
            let events = page["data"].as_array().cloned().unwrap_or_default();
            events.iter().any(wanted).then_some(events)
        };
        eventually(ask, what).await
    }
}

fn is(event: &Value, kind: &str) -> bool {
    event["type"] == kind
}

#[tokio::test]
async fn a_question_about_a_video_on_its_way_is_answered_when_it_is_here() -> Result<(), Fault> {
    for fast in [false, true] {
        let town = Town::new(Model::start(Vec::new()).await?).await?;
        town.model.rule(|_asked| Some(say("a bridge")));
        town.yt_dlp.put("gate", "")?;
        town.yt_dlp.put("progress.txt", "ambient-progress downloading 38000 50000\n")?;
        let file = town.post("/v1/files/import", json!({"url": URL})).await?;
        let id = file["id"].as_str().ok_or("no id")?;
        assert_eq!((&file["source_type"], &file["source_status"]), (&json!("youtube"), &json!("pending")));

        let session = town.asked(id, fast).await?;
        let is_told = |event: &Value| is(event, "session.progress") && event["percent"] == 40;
        let events = town.events(&session, is_told, "the progress of the download").await;
        assert!(events.iter().any(|event| event["message"] == "the video is being fetched: 40 %"), "{events:?}");
        assert!(!events.iter().any(|event| is(event, "span.model_request_start")), "nobody is asked without the video");
        let file = town.get(&format!("/v1/files/{id}")).await?;
        assert_eq!((&file["source_status"], &file["source_percent"]), (&json!("processing"), &json!(42)));
        assert_eq!(file["youtube"]["title"], "How a bridge is built");

        town.yt_dlp.put("go", "")?;
        let events = town.events(&session, |event| is(event, "session.status_idle"), "the end of the run").await;
        let said = events.iter().find(|event| is(event, "agent.message")).ok_or("no answer")?;
        assert_eq!(said["content"][0]["text"], "a bridge", "{events:?}");
        let file = town.get(&format!("/v1/files/{id}")).await?;
        assert_eq!((&file["source_status"], &file["downloadable"]), (&json!("ready"), &json!(true)));
        assert_eq!(file.get("source_percent"), None);
        let asked = town.model.messages().last().cloned().unwrap_or_default();
        assert!(fast || serde_json::to_string(&asked)?.contains("Title: How a bridge is built"));
        assert!(town.engine.shut_down().await);
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_import_fails_the_question_in_words() -> Result<(), Fault> {
    let town = Town::new(Model::start(Vec::new()).await?).await?;
    town.yt_dlp.put("refusal", "ERROR: [youtube] dQw4w9WgXcQ: Private video. Sign in\n")?;
    let file = town.post("/v1/files/import", json!({"url": URL})).await?;
    let id = file["id"].as_str().ok_or("no id")?;
    let session = town.asked(id, false).await?;
    let events = town.events(&session, |event| is(event, "session.status_idle"), "the end of the run").await;
    let error = events.iter().find(|event| is(event, "session.error")).ok_or("no error")?;
    let message = error["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("video source failed: YouTube gave no video: Private video"), "{message}");
    assert!(town.engine.shut_down().await);
    Ok(())
}

#[tokio::test]
async fn deleting_the_video_ends_the_wait_for_it() -> Result<(), Fault> {
    let town = Town::new(Model::start(Vec::new()).await?).await?;
    town.yt_dlp.put("gate", "")?;
    let file = town.post("/v1/files/import", json!({"url": URL})).await?;
    let id = file["id"].as_str().ok_or("no id")?;
    let session = town.asked(id, false).await?;
    town.events(&session, |event| is(event, "session.progress"), "the wait").await;
    town.ask(reqwest::Method::DELETE, &format!("/v1/files/{id}"), None).await?;
    let events = town.events(&session, |event| is(event, "session.status_idle"), "the end of the run").await;
    let error = events.iter().find(|event| is(event, "session.error")).ok_or("no error")?;
    assert_eq!(error["error"]["message"], "video source failed: the file was deleted");
    assert!(tokio::time::timeout(Duration::from_secs(20), town.engine.shut_down()).await?);
    Ok(())
}
