//! Records to put into a store, with every field set to something that would show if it were lost or swapped.

use ambient_engine::events::body::{ContentBlock, EventBody};
use ambient_engine::ids::{AgentId, EnvironmentId, EventId, ResourceId, SessionId, VideoId};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::store::records::{
    AgentEndpoint, AgentModel, AgentRecord, AgentTool, EnvironmentRecord, FileRecord, FileSource, ImportState,
    MediaFacts, Metadata, Mode, PendingAction, PendingKind, PermissionPolicy, ResourceRecord, SandboxRecord,
    SessionRecord, ToolConfig, UsageShare, UsageTotals, WorkStatus,
};
use jiff::Timestamp;
use serde_json::json;

/// A moment, so many microseconds after an evening in 2026.
pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_796_000_000_000_000 + micros).expect("in range")
}

pub(crate) fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn agent(created: i64) -> AgentRecord {
    AgentRecord {
        id: AgentId::generate(),
        version: 1,
        name: "looks closely".to_owned(),
        description: Some("äöü 🎬".to_owned()),
        model: AgentModel { id: "m-1".to_owned(), speed: Some("fast".to_owned()), effort: None },
        system: Some("Be exact.\n'\"%_\\".to_owned()),
        tools: vec![
            AgentTool::Toolset {
                type_name: "agent_toolset_20260401".to_owned(),
                enabled: true,
                policy: PermissionPolicy::AlwaysAllow,
                configs: vec![ToolConfig {
                    name: "bash".to_owned(),
                    enabled: false,
                    policy: PermissionPolicy::AlwaysAsk,
                }],
            },
            AgentTool::Custom {
                name: "lookup".to_owned(),
                description: "Looks up.".to_owned(),
                input_schema: json!({"z": 1, "a": [true, null]}).as_object().cloned().unwrap_or_default(),
            },
        ],
        metadata: metadata(&[("zeta", "1"), ("alpha", "2")]),
        endpoint: Some(AgentEndpoint {
            base_url: "https://models.example/v1".to_owned(),
            sealed_api_key: "sealed".to_owned(),
        }),
        created_at: at(created),
        updated_at: at(created),
        archived_at: None,
    }
}

pub(crate) fn environment(created: i64) -> EnvironmentRecord {
    let id = EnvironmentId::generate();
    EnvironmentRecord {
        name: format!("lab {id}"),
        id,
        description: "for trials".to_owned(),
        config: json!({"type": "cloud", "packages": {"pip": ["numpy"]}}),
        metadata: metadata(&[("k", "v")]),
        scope: Some("organization".to_owned()),
        created_at: at(created),
        updated_at: at(created),
        archived_at: None,
    }
}

pub(crate) fn video_id() -> VideoId {
    VideoId::of_hash(SessionId::generate().as_str().trim_start_matches(SessionId::PREFIX)).expect("hex digits")
}

pub(crate) fn file(created: i64) -> FileRecord {
    FileRecord {
        id: video_id(),
        filename: "Straße — 1.mp4".to_owned(),
        mime_type: "video/mp4".to_owned(),
        extension: ".mp4".to_owned(),
        size_bytes: 5_000_000_000,
        sha256: "0123456789abcdef".repeat(4),
        source: FileSource::Youtube {
            url: "https://youtu.be/x".to_owned(),
            import: ImportState {
                percent: Some(40),
                title: Some("x".to_owned()),
                duration_seconds: Some(4.5),
                ..ImportState::default()
            },
        },
        source_status: WorkStatus::Processing,
        source_error: Some("slow".to_owned()),
        bucket_key: Some("videos/x.mp4".to_owned()),
        media: Some(MediaFacts {
            duration_seconds: 12.5,
            width: 1920,
            height: 1080,
            frames_per_second: 29.5,
            has_audio: true,
            video_codec: "h264".to_owned(),
            container: "mov".to_owned(),
        }),
        description_status: Some(WorkStatus::Pending),
        description: Some("a dog".to_owned()),
        description_error: Some("once".to_owned()),
        description_attempts: 2,
        metadata: metadata(&[("b", "1"), ("a", "2")]),
        expires_at: Some(at(created + 9)),
        created_at: at(created),
        updated_at: at(created),
    }
}

pub(crate) fn session(created: i64) -> SessionRecord {
    let mut usage = UsageTotals { input_tokens: 1, cost: 0.25, ..UsageTotals::default() };
    usage.by_source.insert("tool:bash".to_owned(), UsageShare { requests: 3, ..UsageShare::default() });
    SessionRecord {
        id: SessionId::generate(),
        state: SessionState::Idle,
        title: Some("a title".to_owned()),
        metadata: metadata(&[("k", "v")]),
        agent: agent(created),
        mode: Mode::Agent,
        environment_id: EnvironmentId::built_in(),
        video_id: video_id(),
        max_turns: 25,
        sandbox: SandboxRecord { backend: "inprocess".to_owned(), status: "ready".to_owned(), id: None },
        usage,
        active_micros: 5,
        run_began_at: None,
        fence: 0,
        interrupted_fence: 0,
        last_seq: 0,
        run_start_seq: 0,
        read_seq: 0,
        message_count: 0,
        pending_actions: vec![PendingAction {
            event_id: EventId::generate(),
            call_id: "call_1".to_owned(),
            name: "lookup".to_owned(),
            input: json!({"q": "x"}).as_object().cloned().unwrap_or_default(),
            kind: PendingKind::CustomResult,
            answer: None,
        }],
        last_event_at: at(created),
        created_at: at(created),
        updated_at: at(created),
        archived_at: None,
    }
}

pub(crate) fn resource(session: &SessionRecord, created: i64) -> ResourceRecord {
    ResourceRecord {
        id: ResourceId::generate(),
        session_id: session.id.clone(),
        file_id: session.video_id.clone(),
        mount_path: "/mnt/session/uploads/film.mp4".to_owned(),
        created_at: at(created),
        updated_at: at(created),
    }
}

pub(crate) fn said(text: &str) -> EventBody {
    EventBody::UserMessage { content: vec![ContentBlock::text(text)] }
}
