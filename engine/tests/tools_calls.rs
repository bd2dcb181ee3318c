//! The tools of a session, called as the run loop calls them: real ffmpeg, a real shell, a scripted video model.

mod support {
    pub(crate) mod place;
    pub(crate) mod vision_server;
}

use std::sync::Arc;

use ambient_engine::agent::catalogue::Modalities;
use ambient_engine::agent::vision::Vision;
use ambient_engine::backend::{ClipWish, MediaBackend as _, Target};
use ambient_engine::clock::Clock;
use ambient_engine::ids::{AgentId, EnvironmentId, SessionId};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::store::records::{
    AgentModel, AgentRecord, AgentTool, MediaRef, Metadata, Mode, Part, PermissionPolicy, SandboxRecord, SessionRecord,
    ToolConfig, UsageTotals,
};
use ambient_engine::tools::toolbox::{ToolSet, Toolbox, ToolboxConfig};
use ambient_engine::tools::{Arguments, ToolContext, ToolOutput, ToolRunner};
use serde_json::{Value, json};
use support::place::Place;
use support::vision_server::{VisionServer, kinds};
use tokio_util::sync::CancellationToken;

const SEES_ALL: Modalities = Modalities::UNKNOWN;
const SEES_PICTURES: Modalities = Modalities { video: false, ..Modalities::UNKNOWN };

fn toolset(enabled: bool, configs: &[(&str, bool, PermissionPolicy)]) -> AgentTool {
    AgentTool::Toolset {
        type_name: "agent_toolset_20260401".to_owned(),
        enabled,
        policy: PermissionPolicy::AlwaysAllow,
        configs: configs
            .iter()
            .map(|(name, enabled, policy)| ToolConfig { name: (*name).to_owned(), enabled: *enabled, policy: *policy })
            .collect(),
    }
}

fn session(place: &Place, tools: Vec<AgentTool>) -> SessionRecord {
    let now = Clock::system().now();
    let agent = AgentRecord {
        id: AgentId::built_in_agent(),
        version: 1,
        name: "agent".to_owned(),
        description: None,
        model: AgentModel { id: "test/agent".to_owned(), speed: None, effort: None },
        system: None,
        tools,
        metadata: Metadata::new(),
        endpoint: None,
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    SessionRecord {
        id: SessionId::generate(),
        state: SessionState::Idle,
        title: None,
        metadata: Metadata::new(),
        agent,
        mode: Mode::Agent,
        environment_id: EnvironmentId::built_in(),
        video_id: place.file.id.clone(),
        max_turns: 20,
        sandbox: SandboxRecord { backend: "inprocess".to_owned(), status: "ready".to_owned(), id: None },
        usage: UsageTotals::default(),
        active_micros: 0,
        run_began_at: None,
        fence: 0,
        interrupted_fence: 0,
        last_seq: 0,
        run_start_seq: 0,
        read_seq: 0,
        message_count: 0,
        pending_actions: Vec::new(),
        last_event_at: now,
        created_at: now,
        updated_at: now,
        archived_at: None,
    }
}

/// A session's tools at work.
struct Desk {
    place: Place,
    set: ToolSet,
    context: ToolContext,
}

impl Desk {
    async fn new(modalities: Modalities, server: Option<&VisionServer>) -> Self {
        Self::with(Place::new().await, modalities, server, |_config| {})
    }

    fn with(
        place: Place,
        modalities: Modalities,
        server: Option<&VisionServer>,
        adjust: impl FnOnce(&mut ToolboxConfig),
    ) -> Self {
        let mut config = ToolboxConfig::from_settings(&place.settings);
        adjust(&mut config);
        let backend = place.backend();
        let vision: Option<Arc<Vision>> =
            server.map(|server| server.vision(Arc::clone(&backend), Arc::clone(&place.store)));
        let session = Arc::new(session(&place, Vec::new()));
        let set = Toolbox::new(config, vision).for_session(&session, modalities, false);
        let facts = place.file.media.clone().expect("the record has them");
        let context = ToolContext { session, facts, backend, stop: CancellationToken::new() };
        Self { place, set, context }
    }

    async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        let arguments: Arguments = arguments.as_object().cloned().expect("an object");
        let output = self.set.call(name, &arguments, &self.context).await;
        assert!(!output.text.contains("base64") && output.text.len() < 4000, "{}", output.text);
        output
    }

    async fn works(&self, name: &str, arguments: Value) -> ToolOutput {
        let output = self.call(name, arguments).await;
        assert!(!output.is_error, "{name}: {}", output.text);
        output
    }

    async fn fails(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(output.is_error && output.media.is_empty(), "{name}: {}", output.text);
        output.text
    }
}

/// The labels before pictures; every picture has one.
fn labels(media: &[Part]) -> Vec<String> {
    let mut labels = Vec::new();
    for pair in media.chunks(2) {
        match pair {
            [Part::Text { text }, Part::Image { .. } | Part::Video { .. }] => labels.push(text.clone()),
            other => panic!("a picture without its label: {other:?}"),
        }
    }
    labels
}

#[tokio::test]
async fn frames_come_with_their_times() {
    let desk = Desk::new(SEES_PICTURES, None).await;
    let output = desk.works("grab_frames", json!({"start_time": 1.0, "end_time": 4.0})).await;
    let labels = labels(&output.media);
    assert_eq!(labels.len(), 6);
    assert_eq!(labels[0], "Frame at 00:01.000:");
    assert!(output.text.contains("00:01.000, 00:01.500"), "{}", output.text);
    for part in &output.media {
        if let Part::Image { media } = part {
            let bytes = desk.place.backend.read(media).await.unwrap();
            assert!(bytes.starts_with(b"\xff\xd8\xff"), "a JPEG");
        }
    }
    let cut = desk.works("grab_frames", json!({"start_time": 11.0, "end_time": 15.0})).await;
    assert!(cut.text.contains("the window was cut to 00:11.000-00:12.000"), "{}", cut.text);
    assert!(desk.fails("grab_frames", json!({"start_time": 0, "end_time": 6})).await.contains("at most 5 s"));
    assert!(desk.fails("grab_frames", json!({"start_time": 12, "end_time": 13})).await.contains("behind the end"));
    assert!(desk.fails("grab_frames", json!({"start_time": 3, "end_time": 2})).await.contains("before `end_time`"));
}

#[tokio::test]
async fn the_video_is_the_sessions_own_whatever_the_model_says() {
    let desk = Desk::new(SEES_ALL, None).await;
    for definition in desk.set.definitions() {
        assert!(definition.parameters["properties"].get("video_id").is_none(), "{}", definition.name);
        assert_eq!(definition.parameters["additionalProperties"], json!(false), "{}", definition.name);
        let missing = desk.fails(&definition.name, json!({})).await;
        for required in definition.parameters["required"].as_array().unwrap() {
            assert!(missing.contains(required.as_str().unwrap()), "{}: {missing}", definition.name);
        }
        let strange = desk.fails(&definition.name, json!({"nonsense": 1})).await;
        assert!(strange.contains("`nonsense` is no argument"), "{strange}");
    }
    let window = json!({"start_time": 1, "end_time": 2, "video_id": "vid_ffffffffffffffff"});
    let output = desk.works("grab_frames", window).await;
    assert!(output.text.contains("`video_id` was ignored"), "{}", output.text);
    let window = json!({"start_time": 1, "end_time": 2, "video_id": desk.place.file.id});
    assert!(!desk.works("grab_frames", window).await.text.contains("ignored"));
}

#[tokio::test]
async fn other_files_are_out_of_reach() {
    let desk = Desk::new(SEES_ALL, None).await;
    let other = desk.place.settings.media.video_folder.join("vid_ffffffffffffffff.mp4");
    fs_err::copy(desk.place.settings.media.video_folder.join("vid_0123456789abcdef.mp4"), &other).unwrap();
    for path in [other.as_str(), "../../vid_ffffffffffffffff.mp4", "/etc/passwd"] {
        for (tool, arguments) in [
            ("grab_frames", json!({"start_time": 1, "end_time": 2, "video_path": path})),
            ("focus_clip", json!({"start_time": 1, "end_time": 2, "video_path": path})),
            ("read_image", json!({"image_path": path})),
        ] {
            let text = desk.fails(tool, arguments).await;
            assert!(text.contains("is outside the allowed roots"), "{tool} {path}: {text}");
        }
    }
    let text = desk.fails("grab_frames", json!({"start_time": 1, "end_time": 2, "video_path": "http://x/y"})).await;
    assert!(text.contains("video_path must be a local file path, not a URL/flag"), "{text}");
}

#[tokio::test]
async fn the_shell_works_beside_the_video_and_its_pictures_can_be_read() {
    let desk = Desk::new(SEES_ALL, None).await;
    let made = desk
        .works(
            "bash",
            json!({"command": "ls *.mp4 && ffmpeg -loglevel error -ss 2 -i *.mp4 -frames:v 1 a.png && echo ok"}),
        )
        .await;
    assert_eq!(made.text, "exit_code: 0\nstdout:\nvid_0123456789abcdef.mp4\nok");
    let picture = desk.works("read_image", json!({"image_path": "a.png", "note": "the clock"})).await;
    assert_eq!(labels(&picture.media), ["Picture `a.png` (the clock):"]);
    assert!(picture.text.contains("320 x 240"), "{}", picture.text);
    let frames = desk
        .works("grab_frames", json!({"start_time": 1, "end_time": 2, "video_path": "vid_0123456789abcdef.mp4"}))
        .await;
    assert_eq!(labels(&frames.media).len(), 2);
    let failed = desk.works("bash", json!({"command": "echo no >&2; exit 3"})).await;
    assert_eq!(failed.text, "exit_code: 3\nstderr:\nno");
    let slow = desk.works("bash", json!({"command": "sleep 60", "timeout": 1})).await;
    assert_eq!(slow.text, "exit_code: 124\nstderr:\ncommand timed out after 1s");

    let workspace = desk.place.backend.workspace(&desk.context.session.id).unwrap();
    assert!(workspace.join("a.png").exists());
    desk.place.backend.end_session(&desk.context.session.id).await.unwrap();
    assert!(!workspace.exists());
    assert!(desk.place.settings.media.video_folder.join("vid_0123456789abcdef.mp4").exists());
}

#[tokio::test]
async fn a_model_that_sees_gets_the_window_itself() {
    let place = Place::new().await;
    let desk = Desk::with(place, SEES_ALL, None, |_config| {});
    let output = desk.works("focus_clip", json!({"start_time": 2, "end_time": 8})).await;
    assert!(labels(&output.media)[0].contains("from 00:02.000-00:08.000"), "{:?}", output.media);
    assert!(
        matches!(&output.media[1], Part::Video { media: MediaRef::Local { mime_type, .. } } if mime_type == "video/mp4")
    );
    let desk = Desk::with(desk.place, SEES_PICTURES, None, |_config| {});
    let output = desk.works("focus_clip", json!({"start_time": 2, "end_time": 8})).await;
    assert_eq!(labels(&output.media).len(), 12, "two a second");
}

#[tokio::test]
async fn equal_clips_are_one_file_and_others_are_others() {
    let place = Place::new().await;
    let target = Target { session: SessionId::generate(), video: place.file.id.clone(), path: None };
    let wish = ClipWish {
        start: 1.0,
        end: 3.0,
        frames_per_second: Some(2.0),
        max_dimension: 160,
        max_size_bytes: 1 << 20,
        crf: None,
    };
    let never = CancellationToken::new();
    let first = place.backend.clip(&target, &wish, &never).await.unwrap();
    let MediaRef::Local { path, .. } = &first.media else { panic!("{:?}", first.media) };
    assert!(path.starts_with(place.file.id.as_str()), "{path}");
    assert_eq!(place.backend.clip(&target, &wish, &never).await.unwrap(), first);
    assert!(place.backend.read(&first.media).await.unwrap().get(4..8) == Some(b"ftyp"));
    for other in [
        ClipWish { end: 3.5, ..wish.clone() },
        ClipWish { frames_per_second: Some(1.0), ..wish.clone() },
        ClipWish { max_dimension: 128, ..wish.clone() },
        ClipWish { max_size_bytes: 1 << 19, ..wish.clone() },
        ClipWish { crf: Some(40), ..wish.clone() },
    ] {
        let made = place.backend.clip(&target, &other, &never).await.unwrap();
        assert_ne!(made.media, first.media, "{other:?}");
    }
}

#[tokio::test]
async fn the_video_model_watches_a_clip_and_its_times_are_told_as_the_videos() {
    let answer = "<overview>a clock</overview><answer>It strikes <citation>0:01</citation>.</answer>";
    let server = VisionServer::start(move |_number, _request| (200, answer.to_owned())).await;
    let place = Place::new().await;
    let desk = Desk::with(place, SEES_ALL, Some(&server), |config| config.self_analysis_disabled = true);
    let output = desk.works("search_clip", json!({"query": "when?", "start_time": 2, "end_time": 8})).await;
    assert_eq!(
        output.text,
        "Agent Reasoning: a clock\nFinal Response: It strikes <citation>Local Clip: 0:01, Global Video: 00:03</citation>."
    );
    assert!(output.media.is_empty());
    assert_eq!((output.usage.requests, output.usage.input_tokens), (1, 100));
    assert_eq!(output.usage.by_source.keys().collect::<Vec<_>>(), ["tool:search_clip"]);
    let requests = server.requests();
    assert_eq!(kinds(&requests[0]), ["text", "text", "video_url"]);
    assert!(requests[0]["messages"][1]["content"][0]["text"].as_str().unwrap().contains("when?"));

    let told = desk.works("focus_clip", json!({"start_time": 2, "end_time": 8})).await;
    assert!(told.text.contains("Global Video: 00:03"), "{}", told.text);
}

#[tokio::test]
async fn a_server_that_takes_no_video_is_asked_with_frames_and_remembered() {
    let server = VisionServer::start(|_number, request| {
        if kinds(request).contains(&"video_url".to_owned()) {
            (400, "unknown content part type: video_url".to_owned())
        } else {
            (200, "It strikes <citation>00:03</citation>.".to_owned())
        }
    })
    .await;
    let place = Place::new().await;
    let desk = Desk::with(place, SEES_ALL, Some(&server), |config| config.self_analysis_disabled = true);
    let asked = json!({"query": "when?", "start_time": 2, "end_time": 8});
    let output = desk.works("search_clip", asked.clone()).await;
    assert!(output.text.contains("Local Clip: 00:03, Global Video: 00:03"), "{}", output.text);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let parts = kinds(&requests[1]);
    assert_eq!(parts.iter().filter(|kind| *kind == "image_url").count(), 12);
    assert_eq!(requests[1]["messages"][1]["content"][2]["text"], "Frame at 00:02.000:");
    desk.works("search_clip", asked).await;
    assert_eq!(server.requests().len(), 3, "the refusal is remembered");
}

#[tokio::test]
async fn a_failing_video_model_is_a_clear_word() {
    let server = VisionServer::start(|number, _request| match number {
        0 => (401, "bad key".to_owned()),
        _ => (200, "  ".to_owned()),
    })
    .await;
    let place = Place::new().await;
    let desk = Desk::with(place, SEES_ALL, Some(&server), |config| config.self_analysis_disabled = true);
    let asked = json!({"query": "when?", "start_time": 2, "end_time": 8});
    let text = desk.fails("search_clip", asked.clone()).await;
    assert_eq!(text, "Error analyzing clip: LLM request failed (HTTP 401). bad key");
    let text = desk.fails("search_clip", asked).await;
    assert!(text.starts_with("Error analyzing clip: LLM returned"), "{text}");
}

#[tokio::test]
async fn boxes_and_points_come_back_as_a_picture_and_short_words() {
    let desk = Desk::new(SEES_PICTURES, None).await;
    let output = desk
        .works(
            "draw_bounding_box",
            json!({"frame_timestamp": 3.54, "bounding_boxes": [{"box": [250, 500, 500, 1000], "label": "cup"}]}),
        )
        .await;
    assert_eq!(labels(&output.media), ["Frame at 00:03.500:"]);
    assert!(
        output.text.starts_with("Drew 1 box on the frame at 00:03.500 (320 x 240 pixels):\n- cup: x 160 to"),
        "{}",
        output.text
    );
    let output = desk
        .works(
            "draw_point",
            json!({"frame_timestamp": 3, "points": [{"point": [500, 500], "label": "dot"}, {"point": [5000, 1], "label": "x"}]}),
        )
        .await;
    assert_eq!(labels(&output.media), ["Frame at 00:03.000:"]);
    let entries: Value = serde_json::from_str(output.text.lines().next().unwrap()).unwrap();
    assert_eq!(entries[0]["coordinates"], json!([160, 120]));
    assert_eq!(entries[0]["citation"], "00:03");
    assert!(entries[1]["error"].is_string());
    let text = desk
        .fails(
            "draw_bounding_box",
            json!({"frame_timestamp": 30, "bounding_boxes": [{"box": [1, 1, 2, 2], "label": "x"}]}),
        )
        .await;
    assert!(text.contains("behind the end"), "{text}");
}

#[tokio::test]
async fn a_model_that_reads_only_is_told_what_stands_where() {
    let answer = "<annotation frame=\"1\">[{\"box\": [1, 2, 3, 4], \"label\": \"cup\"}]</annotation>A cup.";
    let server = VisionServer::start(move |_number, _request| (200, answer.to_owned())).await;
    let desk = Desk::new(Modalities::TEXT, Some(&server)).await;
    let asked = json!({"start_time": 1, "end_time": 3, "annotation_prompt": "cups"});
    let output = desk.works("annotate_frames", asked).await;
    assert!(output.text.starts_with("Frame at 00:01.000:\n- cup: [1, 2, 3, 4]"), "{}", output.text);
    assert!(output.media.is_empty());
    assert_eq!(output.usage.by_source.keys().collect::<Vec<_>>(), ["tool:annotate_frames"]);
}

#[tokio::test]
async fn a_stop_ends_a_call() {
    let desk = Desk::new(SEES_ALL, None).await;
    let stopping = async {
        let workspace = desk.place.backend.workspace(&desk.context.session.id).unwrap();
        support::place::eventually(|| async { workspace.join("started").exists().then_some(()) }, "the start").await;
        desk.context.stop.cancel();
    };
    let (output, ()) = tokio::join!(desk.call("bash", json!({"command": "touch started; sleep 300"})), stopping);
    assert!(output.is_error);
    assert_eq!(output.text, "the call was interrupted");
    assert_eq!(desk.fails("grab_frames", json!({"start_time": 1, "end_time": 2})).await, "the call was interrupted");
}

#[tokio::test]
async fn a_session_is_offered_what_works_for_it() {
    let server = VisionServer::start(|_number, _request| (200, "x".to_owned())).await;
    let place = Place::new().await;
    let backend = place.backend();
    let vision = server.vision(backend, Arc::clone(&place.store));
    let config = ToolboxConfig::from_settings(&place.settings);
    let offered = |toolbox: &Toolbox, tools: Vec<AgentTool>, modalities, has_bucket| {
        let set = toolbox.for_session(&session(&place, tools), modalities, has_bucket);
        set.definitions().iter().map(|definition| definition.name.clone()).collect::<Vec<_>>()
    };
    let toolbox = Toolbox::new(config.clone(), Some(Arc::clone(&vision)));
    let all = vec![toolset(true, &[])];
    let own = ["focus_clip", "grab_frames", "draw_bounding_box", "draw_point", "read_image", "bash"];
    assert_eq!(offered(&toolbox, all.clone(), SEES_ALL, false), own);
    assert_eq!(offered(&toolbox, Vec::new(), SEES_ALL, false), own);
    assert_eq!(
        offered(&toolbox, all.clone(), Modalities::TEXT, true),
        ["search_clip", "focus_clip", "annotate_frames", "upload_artifact", "bash"]
    );
    let delegating = ToolboxConfig { self_analysis_disabled: true, bash_enabled: false, ..config.clone() };
    let delegating = Toolbox::new(delegating, Some(Arc::clone(&vision)));
    assert_eq!(
        offered(&delegating, all, SEES_ALL, false),
        ["search_clip", "focus_clip", "grab_frames", "draw_bounding_box", "draw_point", "read_image"]
    );
    assert_eq!(offered(&Toolbox::new(config, None), Vec::new(), Modalities::TEXT, false), ["bash"]);

    let only_bash = toolset(false, &[("bash", true, PermissionPolicy::AlwaysAsk)]);
    assert_eq!(offered(&toolbox, vec![only_bash.clone()], SEES_ALL, false), ["bash"]);
    let without_bash = toolset(true, &[("bash", false, PermissionPolicy::AlwaysAllow)]);
    assert!(!offered(&toolbox, vec![without_bash], SEES_ALL, false).contains(&"bash".to_owned()));

    let custom = AgentTool::Custom {
        name: "lookup".to_owned(),
        description: "looks up".to_owned(),
        input_schema: json!({"type": "object"}).as_object().cloned().unwrap(),
    };
    let set = toolbox.for_session(&session(&place, vec![only_bash, custom]), SEES_ALL, false);
    assert_eq!(set.definition("bash").unwrap().policy, PermissionPolicy::AlwaysAsk);
    assert_eq!(set.definition("lookup").unwrap().runner, ToolRunner::Client);

    let mut fast = session(&place, Vec::new());
    fast.mode = Mode::Fast;
    assert!(toolbox.for_session(&fast, SEES_ALL, true).definitions().is_empty());
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_named() {
    let place = Place::new().await;
    let desk = Desk::with(place, Modalities::TEXT, None, |config| config.bash_enabled = false);
    let text = desk.fails("bash", json!({"command": "ls"})).await;
    assert_eq!(text, "bash tool is disabled. Set ENABLE_BASH_TOOL=true to enable it.");
    assert!(desk.fails("teleport", json!({})).await.starts_with("no tool named 'teleport'"));
}
