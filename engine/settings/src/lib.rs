//! The one catalogue of Ambient's settings, their one loader, and the dotenv grammar of every `.env` of the product.
//!
//! What a setting is called, what it accepts, whether it is a secret and what it does stands in one row of the
//! [`mod@catalogue`]; the loader, `config set`, `doctor`, `.env.example` and `docs/configuration.md` all come from these rows.
//! The crate reads no environment and writes no file by itself: callers hand in the process environment and paths, so a
//! load can be repeated in a test with nothing but data.

pub mod catalogue;
pub mod docs;
pub mod dotenv;
mod hints;
pub mod interpolate;
mod kind;
mod load;
pub mod quote;
mod redact;
mod report;
mod sandbox_environment;
mod settings;
mod urls;

pub use catalogue::{Preset, Reader, Secrecy, Section, Setting, catalogue, find};
pub use hints::{UnknownName, unknown_name};
pub use kind::{BadValue, Kind, Value};
pub use load::{Loaded, dotenv_exports};
pub use redact::Redactor;
pub use report::{Fault, Faults, Origin, Warning};
pub use settings::{
    AgentSettings, ArtifactSettings, BashSettings, ClipSettings, DescriptionSettings, E2bSettings, FastSettings,
    IngestSettings, LlmSettings, LogFormat, LogSettings, MediaSettings, S3Settings, SandboxBackend, SandboxSettings,
    ServerSettings, SessionSettings, Settings, SourceSettings, StoreSettings, TileSettings, YoutubeSettings,
};
pub use urls::{DatabaseUrl, Endpoint, HttpUrl};
