//! Bodies of the template calls.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::null_as_default;
use super::{LogEntry, Token};

/// `POST /v3/templates`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTemplate {
    /// `alias` or `alias:tag`, at most 128 characters. A name that the team has already gets a new build.
    pub name: String,
    /// Tags for the build; none means `default`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Processors: 1 or even; absent means 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<u32>,
    /// Memory in MiB, even; absent means 1024.
    #[serde(rename = "memoryMB", default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Disk that must be free, in MiB.
    #[serde(rename = "minFreeDiskMB", default, skip_serializing_if = "Option::is_none")]
    pub min_free_disk_mb: Option<u64>,
}

/// Its answer, status 202.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedTemplate {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the build, a UUID.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Whether other teams may use it.
    #[serde(default)]
    pub public: bool,
    /// Its names with their team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub names: Vec<String>,
    /// Tags of the build.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// Its names without a team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub aliases: Vec<String>,
}

/// `GET /templates/{id}/files/{hash}`, status 201.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileUpload {
    /// Whether the server has the archive already.
    #[serde(default)]
    pub present: bool,
    /// Where to `PUT` it; the address carries its own right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Token>,
    /// Headers for that request.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StepKind {
    /// Command, and a user if not the current one.
    #[serde(rename = "RUN")]
    Run,
    /// Source, destination, owner or nothing, octal mode or nothing.
    #[serde(rename = "COPY", alias = "ADD")]
    Copy,
    /// Name, value, name, value.
    #[serde(rename = "ENV", alias = "ARG")]
    Env,
    /// A path.
    #[serde(rename = "WORKDIR")]
    Workdir,
    /// A name, and `true` if it shall have sudo.
    #[serde(rename = "USER")]
    User,
}

/// One step of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What it does.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// What it does it with; see [`StepKind`].
    #[serde(default, deserialize_with = "null_as_default")]
    pub args: Vec<String>,
    /// Of a copy: hash of the files, by which their archive is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_hash: Option<String>,
    /// Whether to do it again though it is cached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub force: bool,
}

/// How to get an image from a registry that asks who one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum RegistryAccess {
    /// Any registry.
    Registry {
        /// The user.
        username: String,
        /// The password.
        password: Token,
    },
    /// Amazon's.
    Aws {
        /// Id of the key.
        aws_access_key_id: String,
        /// The key.
        aws_secret_access_key: Token,
        /// The region.
        aws_region: String,
    },
    /// Google's.
    Gcp {
        /// A service account's key file.
        service_account_json: Token,
    },
}

/// `POST /v2/templates/{id}/builds/{build}`, status 202 without a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartBuild {
    /// The image to begin with; either this or `from_template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image: Option<String>,
    /// The template to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_template: Option<String>,
    /// The right to get the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image_registry: Option<RegistryAccess>,
    /// Whether to do all steps though they are cached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub force: bool,
    /// The steps in order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub steps: Vec<Step>,
    /// What runs in every sandbox from its first moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cmd: Option<String>,
    /// What succeeds once that is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_cmd: Option<String>,
}

/// Where a build stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BuildStatus {
    /// It has not begun.
    Waiting,
    /// It runs.
    Building,
    /// It is done.
    Ready,
    /// It failed.
    Error,
}

/// Why a build failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildReason {
    /// What happened, in words.
    #[serde(default)]
    pub message: String,
    /// `base`, `finalize`, or the step's number from 1 as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The lines that tell of it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub log_entries: Vec<LogEntry>,
}

/// `GET /templates/{id}/builds/{build}/status?logsOffset=N&limit=M`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildProgress {
    /// Lines of old.
    #[serde(default, deserialize_with = "null_as_default")]
    pub logs: Vec<String>,
    /// Lines from the offset on.
    #[serde(default, deserialize_with = "null_as_default")]
    pub log_entries: Vec<LogEntry>,
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the build.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Where it stands.
    pub status: BuildStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<BuildReason>,
}

/// `GET /templates/aliases/{alias}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateAlias {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Whether other teams may use it.
    #[serde(default)]
    pub public: bool,
}

/// Who made a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateAuthor {
    /// Id of the user.
    pub id: String,
    /// Address of the user.
    #[serde(default)]
    pub email: String,
}

/// One entry of `GET /v2/templates` and `GET /templates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTemplate {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the build in use.
    #[serde(rename = "buildID", default)]
    pub build_id: String,
    /// Processors.
    #[serde(default)]
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB", default)]
    pub memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB", default, deserialize_with = "null_as_default")]
    pub disk_size_mb: u64,
    /// Whether other teams may use it.
    #[serde(default)]
    pub public: bool,
    /// Its names without a team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub aliases: Vec<String>,
    /// Its names with their team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub names: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Who made it.
    #[serde(default)]
    pub created_by: Option<TemplateAuthor>,
    /// When a sandbox was last made of it.
    #[serde(default)]
    pub last_spawned_at: Option<Timestamp>,
    /// How many sandboxes were made of it.
    #[serde(default)]
    pub spawn_count: u64,
    /// How many builds it had.
    #[serde(default)]
    pub build_count: u64,
    /// Version of the agent in it.
    #[serde(default)]
    pub envd_version: String,
    /// Where its last build stands.
    pub build_status: BuildStatus,
}

/// One build of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateBuild {
    /// Id of the build.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Where it stands.
    pub status: BuildStatus,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB", default, skip_serializing_if = "Option::is_none")]
    pub disk_size_mb: Option<u64>,
    /// Version of the agent in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_version: Option<String>,
}

/// `GET /templates/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDetail {
    /// Id of the template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Whether other teams may use it.
    #[serde(default)]
    pub public: bool,
    /// Its names without a team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub aliases: Vec<String>,
    /// Its names with their team.
    #[serde(default, deserialize_with = "null_as_default")]
    pub names: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When a sandbox was last made of it.
    #[serde(default)]
    pub last_spawned_at: Option<Timestamp>,
    /// How many sandboxes were made of it.
    #[serde(default)]
    pub spawn_count: u64,
    /// Its builds.
    #[serde(default, deserialize_with = "null_as_default")]
    pub builds: Vec<TemplateBuild>,
}

/// `POST /templates/tags`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignTags {
    /// `name:tag` of the build that gets them.
    pub target: String,
    /// The tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// Its answer, status 201.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedTags {
    /// The tags.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
    /// The build that has them now.
    #[serde(rename = "buildID")]
    pub build_id: String,
}

/// `DELETE /templates/tags`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveTags {
    /// Name of the template.
    pub name: String,
    /// The tags that go.
    #[serde(default, deserialize_with = "null_as_default")]
    pub tags: Vec<String>,
}

/// One entry of `GET /templates/{id}/tags`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateTag {
    /// The tag.
    pub tag: String,
    /// The build that has it.
    #[serde(rename = "buildID")]
    pub build_id: String,
    /// Since when.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::{BuildProgress, BuildStatus, RegistryAccess, StartBuild, Step, StepKind};

    #[test]
    fn a_build_is_written_as_the_sdk_does() {
        let build = StartBuild {
            from_image: Some("debian:12".into()),
            steps: vec![Step { kind: StepKind::Run, args: vec!["true".into()], files_hash: None, force: false }],
            ..StartBuild::default()
        };
        assert_eq!(
            serde_json::to_string(&build).unwrap(),
            r#"{"fromImage":"debian:12","force":false,"steps":[{"type":"RUN","args":["true"],"force":false}]}"#
        );
    }

    #[test]
    fn a_step_may_carry_strangers() {
        let step: Step = serde_json::from_str(r#"{"type":"ADD","args":["a","b","",""],"forceUpload":null}"#).unwrap();
        assert_eq!(step.kind, StepKind::Copy);
    }

    #[test]
    fn access_to_a_registry_names_its_kind() {
        let text = r#"{"type":"aws","awsAccessKeyId":"a","awsSecretAccessKey":"s","awsRegion":"r"}"#;
        let access: RegistryAccess = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&access).unwrap(), text);
        assert!(!format!("{access:?}").contains("\"s\""));
        let google: RegistryAccess = serde_json::from_str(r#"{"type":"gcp","serviceAccountJson":"{}"}"#).unwrap();
        assert!(matches!(google, RegistryAccess::Gcp { .. }));
    }

    #[test]
    fn progress_is_read_without_its_options() {
        let progress: BuildProgress =
            serde_json::from_str(r#"{"templateID":"t","buildID":"b","status":"waiting","logs":null,"reason":null}"#)
                .unwrap();
        assert_eq!((progress.status, progress.log_entries.len()), (BuildStatus::Waiting, 0));
    }
}
