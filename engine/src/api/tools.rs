//! The `tools` of an agent: what clients send, and what they get back.
//!
//! Answers speak the SDK's types, so that a strict client can read them: the engine's older name `video_agent_…` is
//! answered as the toolset it stands for, and the built-in fast agent shows no tools. Only an agent that a client made
//! with `video_fast_…` shows that, since nothing else would say that it is fast.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::error::{ApiError, shortened};
use super::extract::{Fields, Patch};
use crate::ids::AgentId;
use crate::store::records::{AgentTool, PermissionPolicy, ToolConfig};

/// Tool entries of one agent.
const MOST_TOOLS: usize = 256;
/// The toolset as answers name it.
const TOOLSET: &str = "agent_toolset_20260401";

/// Tools that a toolset's `configs` may name: the SDK's, and the engine's own.
pub const TOOLSET_NAMES: &[&str] = &[
    "bash",
    "edit",
    "read",
    "write",
    "glob",
    "grep",
    "web_fetch",
    "web_search",
    "search_clip",
    "focus_clip",
    "grab_frames",
    "annotate_frames",
    "draw_bounding_box",
    "draw_point",
    "read_image",
    "upload_artifact",
];

/// Names that a custom tool may not take, because the engine answers to them.
const TAKEN_NAMES: &[&str] = &[
    "bash",
    "search_clip",
    "focus_clip",
    "grab_frames",
    "annotate_frames",
    "draw_bounding_box",
    "draw_point",
    "read_image",
    "upload_artifact",
];

/// Reads `tools`.
///
/// # Errors
/// For unknown types, and for what does not fit.
pub fn tools(fields: &mut Fields) -> Result<Patch<Vec<AgentTool>>, ApiError> {
    fields.list("tools", MOST_TOOLS)?.map(|items| {
        let mut tools = Vec::with_capacity(items.len());
        for (path, item) in items {
            tools.push(tool(Fields::of(path, item)?)?);
        }
        unambiguous(&tools)?;
        Ok(tools)
    })
}

fn unambiguous(tools: &[AgentTool]) -> Result<(), ApiError> {
    let mut names: Vec<&str> = Vec::new();
    let mut sets = 0;
    for tool in tools {
        match tool {
            AgentTool::Toolset { .. } | AgentTool::Fast { .. } => sets += 1,
            AgentTool::Custom { name, .. } if names.contains(&name.as_str()) => {
                return Err(ApiError::invalid(format!("`tools` names the custom tool `{name}` twice")));
            }
            AgentTool::Custom { name, .. } => names.push(name),
        }
    }
    if sets > 1 {
        return Err(ApiError::invalid(format!(
            "`tools` may have one entry besides custom tools, `{TOOLSET}` for one, not {sets}"
        )));
    }
    Ok(())
}

fn tool(mut fields: Fields) -> Result<AgentTool, ApiError> {
    let type_name = fields.type_name()?;
    let is_dated = |prefix: &str| {
        type_name
            .strip_prefix(prefix)
            .is_some_and(|date| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if is_dated("agent_toolset_") || is_dated("video_agent_") {
        return toolset(fields, type_name);
    }
    if is_dated("video_fast_") {
        return Ok(AgentTool::Fast { type_name });
    }
    match type_name.as_str() {
        "custom" => custom(fields),
        "mcp_toolset" => Err(fields.bad(
            "type",
            "`mcp_toolset` is not supported: this engine calls no MCP servers; use a `custom` tool, which your client runs",
        )),
        other => Err(fields.bad(
            "type",
            format!("must be `{TOOLSET}`, `custom`, `video_agent_20260825` or `video_fast_20260825`, not `{}`", shortened(other)),
        )),
    }
}

fn toolset(mut fields: Fields, type_name: String) -> Result<AgentTool, ApiError> {
    let (mut enabled, mut policy) = (true, PermissionPolicy::AlwaysAllow);
    if let Patch::Given(mut default) = fields.object("default_config")? {
        enabled = default.boolean("enabled")?.unwrap_or(true);
        policy = permission(&mut default)?.unwrap_or(policy);
    }
    let mut configs: Vec<ToolConfig> = Vec::new();
    for (path, item) in fields.list("configs", TOOLSET_NAMES.len())?.given().unwrap_or_default() {
        let mut config = Fields::of(path, item)?;
        let Patch::Given(name) = config.word("name", TOOLSET_NAMES)? else {
            return Err(config.bad("name", "is required and must be the name of a tool"));
        };
        if configs.iter().any(|other| other.name == name) {
            return Err(config.bad("name", format!("names `{name}` a second time")));
        }
        configs.push(ToolConfig {
            name: name.to_owned(),
            enabled: config.boolean("enabled")?.unwrap_or(enabled),
            policy: permission(&mut config)?.unwrap_or(policy),
        });
    }
    Ok(AgentTool::Toolset { type_name, enabled, policy, configs })
}

fn permission(fields: &mut Fields) -> Result<Option<PermissionPolicy>, ApiError> {
    let Patch::Given(mut policy) = fields.object("permission_policy")? else { return Ok(None) };
    match policy.word("type", &["always_allow", "always_ask", "auto"])? {
        Patch::Given("always_allow") => Ok(Some(PermissionPolicy::AlwaysAllow)),
        Patch::Given("always_ask") => Ok(Some(PermissionPolicy::AlwaysAsk)),
        Patch::Given(_) => Ok(Some(PermissionPolicy::Auto)),
        Patch::Absent | Patch::Null => Err(policy.bad("type", "is required")),
    }
}

fn custom(mut fields: Fields) -> Result<AgentTool, ApiError> {
    let name = fields.required_text("name", 1..=128)?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return Err(
            fields.bad("name", format!("may hold letters, digits, `_` and `-` alone, unlike `{}`", shortened(&name)))
        );
    }
    if TAKEN_NAMES.contains(&name.as_str()) {
        return Err(fields.bad("name", format!("must not be `{name}`, which is a tool of the engine")));
    }
    let description = fields.required_text("description", 1..=4096)?;
    let Patch::Given(mut schema) = fields.object("input_schema")? else {
        return Err(fields.bad("input_schema", "is required and must be a JSON schema with `type` `object`"));
    };
    let path = schema.path().to_owned();
    match schema.word("type", &["object"])? {
        Patch::Given(_) => {}
        Patch::Absent | Patch::Null => return Err(schema.bad("type", "is required and must be `object`")),
    }
    let mut input_schema = Map::from_iter([("type".to_owned(), Value::from("object"))]);
    input_schema.extend(schema.into_map());
    without_nul(&path, &Value::Object(input_schema.clone()))?;
    if let Err(error) = jsonschema::validator_for(&Value::Object(input_schema.clone())) {
        return Err(ApiError::invalid(format!("`{path}` is no valid JSON schema: {error}")));
    }
    Ok(AgentTool::Custom { name, description, input_schema })
}

/// Refuses NUL characters anywhere inside, which the database cannot hold.
pub fn without_nul(path: &str, value: &Value) -> Result<(), ApiError> {
    let holds_nul = |text: &str| text.contains('\0');
    let is_bad = match value {
        Value::String(text) => holds_nul(text),
        Value::Array(items) => {
            items.iter().try_for_each(|item| without_nul(path, item))?;
            false
        }
        Value::Object(map) => {
            map.values().try_for_each(|item| without_nul(path, item))?;
            map.keys().any(|key| holds_nul(key))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    if is_bad { Err(ApiError::invalid(format!("`{path}` holds a NUL character; remove it"))) } else { Ok(()) }
}

/// A tool entry as answered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ToolView {
    /// The engine's tools.
    Toolset(ToolsetView),
    /// Fast mode.
    Fast(FastToolView),
    /// A tool that the client runs.
    Custom(CustomToolView),
}

/// Fast mode: one call over the whole video.
#[derive(Debug, Serialize, ToSchema)]
pub struct FastToolView {
    /// As sent, `video_fast_20260825` for one.
    #[serde(rename = "type")]
    pub kind: String,
}

/// The engine's tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolsetView {
    /// Always `agent_toolset_20260401`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// For tools that `configs` does not name.
    pub default_config: DefaultConfigView,
    /// For single tools.
    pub configs: Vec<ToolConfigView>,
}

/// What a tool may do, unless said otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub struct DefaultConfigView {
    /// Whether the model gets it.
    pub enabled: bool,
    /// Whether a call asks first.
    pub permission_policy: PolicyView,
}

/// What one tool may do.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolConfigView {
    /// Which tool.
    pub name: String,
    /// The same as `name`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the model gets it.
    pub enabled: bool,
    /// Whether a call asks first.
    pub permission_policy: PolicyView,
}

/// Whether a tool call asks first.
#[derive(Debug, Serialize, ToSchema)]
pub struct PolicyView {
    /// `always_allow`, `always_ask` or `auto`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
}

/// A tool that the client runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct CustomToolView {
    /// Always `custom`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// What the model calls it.
    pub name: String,
    /// What the model is told about it.
    pub description: String,
    /// JSON schema of its input.
    #[schema(value_type = Object)]
    pub input_schema: Map<String, Value>,
}

impl From<PermissionPolicy> for PolicyView {
    fn from(policy: PermissionPolicy) -> Self {
        let kind = match policy {
            PermissionPolicy::AlwaysAllow => "always_allow",
            PermissionPolicy::AlwaysAsk => "always_ask",
            PermissionPolicy::Auto => "auto",
        };
        Self { kind }
    }
}

/// Tool entries of an agent as answered.
pub fn views(agent: &AgentId, tools: Vec<AgentTool>) -> Vec<ToolView> {
    tools
        .into_iter()
        .filter_map(|tool| match tool {
            AgentTool::Toolset { type_name: _, enabled, policy, configs } => Some(ToolView::Toolset(ToolsetView {
                kind: TOOLSET,
                default_config: DefaultConfigView { enabled, permission_policy: policy.into() },
                configs: configs
                    .into_iter()
                    .map(|config| ToolConfigView {
                        kind: config.name.clone(),
                        name: config.name,
                        enabled: config.enabled,
                        permission_policy: config.policy.into(),
                    })
                    .collect(),
            })),
            AgentTool::Fast { .. } if agent.is_built_in() => None,
            AgentTool::Fast { type_name } => Some(ToolView::Fast(FastToolView { kind: type_name })),
            AgentTool::Custom { name, description, input_schema } => {
                Some(ToolView::Custom(CustomToolView { kind: "custom", name, description, input_schema }))
            }
        })
        .collect()
}

/// `tools` of a request, for the API description: an object that `type` tells apart.
#[derive(Debug, ToSchema)]
#[schema(as = ToolParam)]
pub struct ToolParam {
    /// `agent_toolset_20260401` or `custom`; the older `video_agent_20260825` and `video_fast_20260825` are taken too.
    #[schema(rename = "type", example = "agent_toolset_20260401")]
    pub kind: String,
    /// Of a toolset: for tools that `configs` does not name.
    #[schema(value_type = Option<Object>)]
    pub default_config: Option<Value>,
    /// Of a toolset: for single tools.
    #[schema(value_type = Option<Vec<Object>>)]
    pub configs: Option<Vec<Value>>,
    /// Of a custom tool.
    pub name: Option<String>,
    /// Of a custom tool.
    pub description: Option<String>,
    /// Of a custom tool.
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<AgentTool>, ApiError> {
        let mut body = Fields::of_body(format!(r#"{{"tools":{json}}}"#).as_bytes())?;
        Ok(tools(&mut body)?.given().unwrap_or_default())
    }

    #[test]
    fn a_toolset_comes_back_whole() {
        let json = r#"[{"type":"agent_toolset_20260401","configs":[{"name":"bash","enabled":false}]},
                       {"type":"custom","name":"lookup","description":"d","input_schema":{"type":"object","properties":{}}}]"#;
        let answered = serde_json::to_string(&views(&AgentId::generate(), read(json).unwrap())).unwrap();
        assert_eq!(
            answered,
            concat!(
                r#"[{"type":"agent_toolset_20260401","default_config":{"enabled":true,"permission_policy":{"type":"always_allow"}},"#,
                r#""configs":[{"name":"bash","type":"bash","enabled":false,"permission_policy":{"type":"always_allow"}}]},"#,
                r#"{"type":"custom","name":"lookup","description":"d","input_schema":{"type":"object","properties":{}}}]"#
            )
        );
    }

    #[test]
    fn the_older_names_are_taken_and_answered_in_the_sdks_types() {
        let answered = |agent: &AgentId, json: &str| serde_json::to_value(views(agent, read(json).unwrap())).unwrap();
        let own = AgentId::generate();
        assert_eq!(answered(&own, r#"[{"type":"video_agent_20260825"}]"#)[0]["type"], TOOLSET);
        let fast = r#"[{"type":"video_fast_20260825"}]"#;
        assert_eq!(answered(&own, fast)[0]["type"], "video_fast_20260825");
        assert_eq!(answered(&AgentId::built_in_fast(), fast), serde_json::json!([]));
    }

    #[test]
    fn bad_tools_are_refused_with_their_path() {
        for (json, path) in [
            (r#"[{"type":"no_such_tool"}]"#, "`tools[0].type`"),
            (r#"[{"type":"mcp_toolset","mcp_server_name":"x"}]"#, "`tools[0].type`"),
            (r"[5]", "`tools[0]`"),
            (r"[{}]", "`tools[0].type`"),
            (r"{}", "`tools`"),
            (r#"[{"type":"agent_toolset_20260401","configs":[{"name":"rm"}]}]"#, "`tools[0].configs[0].name`"),
            (
                r#"[{"type":"agent_toolset_20260401","default_config":{"permission_policy":{"type":"never"}}}]"#,
                "`tools[0].default_config.permission_policy.type`",
            ),
            (
                r#"[{"type":"custom","name":"a b","description":"d","input_schema":{"type":"object"}}]"#,
                "`tools[0].name`",
            ),
            (
                r#"[{"type":"custom","name":"bash","description":"d","input_schema":{"type":"object"}}]"#,
                "`tools[0].name`",
            ),
            (
                r#"[{"type":"custom","name":"a","description":"d","input_schema":{"type":"string"}}]"#,
                "`tools[0].input_schema.type`",
            ),
            (
                r#"[{"type":"custom","name":"a","description":"d","input_schema":{"type":"object","required":5}}]"#,
                "`tools[0].input_schema`",
            ),
            (r#"[{"type":"custom","name":"a","description":"d"}]"#, "`tools[0].input_schema`"),
            (r#"[{"type":"agent_toolset_20260401"},{"type":"video_fast_20260825"}]"#, "`tools`"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.starts_with(path), "{json}: {error}");
        }
    }
}
