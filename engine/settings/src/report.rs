//! What a load has to say besides the settings: faults that stop the start, warnings that do not, and where each value came from.

use std::fmt;

use camino::Utf8PathBuf;

use crate::catalogue::catalogue;

/// Where a value came from, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The process environment.
    Environment,
    /// The `.env` file, at this line (the first is 1).
    Dotenv {
        /// The line on which the name stands.
        line: usize,
    },
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::Dotenv { line } => write!(f, "`.env` line {line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong with the configuration. Its text never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A setting's value cannot be used.
    #[error("`{name}` ({origin}): {reason}; {accepted}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Where the value came from.
        origin: Origin,
        /// What is wrong with the value.
        reason: String,
        /// The accepted form, or what to do.
        accepted: String,
    },
    /// The `.env` file cannot be read, so none of it counts.
    #[error("`{path}`{}: {reason}", line.map(|line| format!(" line {line}")).unwrap_or_default())]
    Dotenv {
        /// The file.
        path: Utf8PathBuf,
        /// The line of the mistake, when there is one.
        line: Option<usize>,
        /// What is wrong with it.
        reason: String,
    },
}

impl Fault {
    /// Files first, then settings in the order in which the reference lists them.
    pub(crate) fn place(&self) -> usize {
        match self {
            Self::Dotenv { .. } => 0,
            Self::Setting { name, .. } => catalogue().take_while(|setting| setting.name != *name).count() + 1,
        }
    }
}

/// All that is wrong with a configuration, reported at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The faults, in the order of the catalogue; there is at least one.
    pub faults: Vec<Fault>,
    /// The warnings of the same load: a misspelt name often explains a missing value.
    pub warnings: Vec<Warning>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.faults.as_slice() {
            [fault] => write!(f, "the configuration has a fault: {fault}"),
            faults => {
                write!(f, "the configuration has {} faults:", faults.len())?;
                for fault in faults {
                    write!(f, "\n  {fault}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Faults {}

/// Something that works, but perhaps not as meant. Its text never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The name it is about, as written; empty for a line without one.
    pub name: String,
    /// Where that name stands.
    pub origin: Origin,
    /// What was seen, why it matters, and how to mend it; it follows the name.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            _ if self.name.is_empty() => {
                write!(f, "{} {}", self.origin, self.message)
            }
            Origin::Default => write!(f, "`{}` {}", self.name, self.message),
            Origin::Environment | Origin::Dotenv { .. } => {
                write!(f, "`{}` ({}) {}", self.name, self.origin, self.message)
            }
        }
    }
}
