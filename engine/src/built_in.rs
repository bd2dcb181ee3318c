//! The agents and the environment that always exist.
//!
//! They follow the settings: a start with another model or prompt gives them a new version, and a start without a change
//! gives none. Sessions that exist keep the version they began with.

use ambient_settings::Settings;
use jiff::Timestamp;
use serde_json::json;

use crate::ids::{AgentId, EnvironmentId};
use crate::store::records::{AgentModel, AgentRecord, AgentTool, EnvironmentRecord, Metadata, PermissionPolicy};
use crate::store::{Inserted, Store, StoreError};

/// What people call the built-in fast agent.
const FAST_NAME: &str = "Video Analyst (Fast)";

/// Brings the built-in agents and the environment to what the settings say. Several engines may do this at once.
///
/// # Errors
/// When the store fails.
pub async fn seed(store: &dyn Store, settings: &Settings, now: Timestamp) -> Result<(), StoreError> {
    for wanted in agents(settings, now) {
        agree(store, wanted, now).await?;
    }
    store.insert_environment(&environment(now)).await?;
    Ok(())
}

/// Adds the agent, or the version that makes it as wanted.
async fn agree(store: &dyn Store, wanted: AgentRecord, now: Timestamp) -> Result<(), StoreError> {
    if let Inserted::New = store.insert_agent(&wanted).await? {
        return Ok(());
    }
    while let Some(current) = store.agent(&wanted.id, None).await? {
        let next = AgentRecord {
            version: current.version,
            metadata: current.metadata.clone(),
            created_at: current.created_at,
            updated_at: current.updated_at,
            archived_at: current.archived_at,
            ..wanted.clone()
        };
        if next == current {
            return Ok(());
        }
        let next = AgentRecord { version: current.version + 1, updated_at: now.max(current.updated_at), ..next };
        // Refused means that another engine was first; what it wrote is looked at again.
        if store.add_agent_version(&next).await? {
            tracing::info!(agent.id = %next.id, agent.version = next.version, "built-in agent follows the settings");
            return Ok(());
        }
    }
    Ok(())
}

fn agents(settings: &Settings, now: Timestamp) -> [AgentRecord; 2] {
    let system = Some(settings.agent.default_system.clone()).filter(|system| !system.is_empty());
    let agent = |id: AgentId, name: &str, model: &str, tools: Vec<AgentTool>| AgentRecord {
        id,
        version: 1,
        name: name.to_owned(),
        description: None,
        model: AgentModel { id: model.to_owned(), speed: None, effort: None },
        system: system.clone(),
        tools,
        metadata: Metadata::new(),
        endpoint: None,
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    let toolset = AgentTool::Toolset {
        type_name: "video_agent_20260825".to_owned(),
        enabled: true,
        policy: PermissionPolicy::AlwaysAllow,
        configs: Vec::new(),
    };
    let fast = AgentTool::Fast { type_name: "video_fast_20260825".to_owned() };
    [
        agent(AgentId::built_in_agent(), &settings.agent.default_name, &settings.agent.model, vec![toolset]),
        agent(AgentId::built_in_fast(), FAST_NAME, &settings.llm.model, vec![fast]),
    ]
}

fn environment(now: Timestamp) -> EnvironmentRecord {
    EnvironmentRecord {
        id: EnvironmentId::built_in(),
        name: "default".to_owned(),
        description: String::new(),
        config: json!({
            "type": "cloud",
            "networking": {"type": "unrestricted"},
            "packages": {"type": "packages", "apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": []},
        }),
        metadata: Metadata::new(),
        scope: Some("organization".to_owned()),
        created_at: now,
        updated_at: now,
        archived_at: None,
    }
}
