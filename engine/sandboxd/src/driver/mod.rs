//! What sandboxes are made of: namespaces of this machine, or containers of its Docker engine. The rest of the host does not know which.
//!
//! [`Launcher`] and [`Machine`] are the border: behind them are [`crate::namespace`] and [`crate::containers`], which know nothing of each other.
//! Beside them is what both share: what a sandbox is started from, requests to its agent, commands in it, and rules of the firewall.

mod commands;
mod dial;
pub(crate) mod firewall;
mod launch;

use std::io;
use std::sync::Arc;

use ambient_files::{remove_tree, remove_tree_if_there};
use camino::Utf8Path;

use crate::containers::{self, Containers};
use crate::folders::Folders;
use crate::namespace;
use crate::templates::{BaseFailure, Layers};

pub(crate) use commands::{Output, RunFailure, ShellCommand};
pub(crate) use dial::{Dial, DialFailure};
pub(crate) use launch::{
    HOSTNAME, Launch, LaunchFailure, Limits, NetworkFailure, PROCESSES, START, Usage, tell_closed,
};

/// How sandboxes are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Namespaces, control groups and overlays of this machine.
    #[default]
    Namespace,
    /// Containers of the Docker engine on this machine.
    Docker {
        /// The path of its socket.
        socket: String,
    },
}

/// Which network sandboxes get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// One of their own each, with a way out where this machine can give one.
    #[default]
    Private,
    /// The host's: ports of sandboxes and of the host are the same.
    Host,
}

/// Starts sandboxes.
#[derive(Debug)]
pub(crate) enum Launcher {
    Namespaces(namespace::Launcher),
    Containers(Arc<Containers>),
}

/// A running or paused sandbox.
#[derive(Debug)]
pub(crate) enum Machine {
    Namespaces(Box<namespace::Machine>),
    Container(containers::Machine),
}

impl Launcher {
    pub(crate) fn folders(&self) -> &Arc<Folders> {
        match self {
            Self::Namespaces(launcher) => &launcher.folders,
            Self::Containers(containers) => &containers.folders,
        }
    }

    /// Starts one. What an earlier start of the same sandbox wrote is kept.
    pub(crate) async fn start(&self, launch: Launch) -> Result<Machine, LaunchFailure> {
        match self {
            Self::Namespaces(launcher) => launcher.start(launch).await.map(Box::new).map(Machine::Namespaces),
            // What is asked of the engine is large; on the heap it makes no caller's future large.
            Self::Containers(containers) => Box::pin(containers.start(launch)).await.map(Machine::Container),
        }
    }

    /// Removes what an ended sandbox wrote, in the background: that may be a great many files.
    pub(crate) fn remove_files(&self, id: &str) {
        match self {
            Self::Namespaces(launcher) => {
                let folder = launcher.folders.sandboxes().join(id);
                launcher.tasks.spawn_blocking(move || remove_folder(&folder));
            }
            Self::Containers(containers) => containers.remove_files(id),
        }
    }

    /// Makes a layer of what an ended sandbox wrote, and removes the sandbox.
    pub(crate) async fn keep(&self, id: &str, layers: &Layers, layer: &str) -> io::Result<()> {
        match self {
            Self::Namespaces(launcher) => {
                let folder = launcher.folders.sandboxes().join(id);
                let (layers, layer, written) = (layers.clone(), layer.to_owned(), folder.join("u"));
                let kept = tokio::task::spawn_blocking(move || {
                    layers.finish(&written, &layer)?;
                    remove_tree(folder.as_std_path())
                });
                kept.await.map_err(io::Error::other).flatten()
            }
            Self::Containers(containers) => {
                Box::pin(containers.keep(id, layers, layer)).await.map_err(io::Error::other)?;
                containers.remove_files(id);
                Ok(())
            }
        }
    }

    /// The layer of an image of this machine's Docker; `None` when there is no Docker, or it has no such image.
    pub(crate) async fn local_image(&self, layers: &Layers, reference: &str) -> Result<Option<String>, BaseFailure> {
        match self {
            Self::Namespaces(_launcher) => crate::templates::local_image(layers, reference).await,
            Self::Containers(containers) => {
                Box::pin(containers.local_image(layers, reference)).await.map_err(BaseFailure::Image)
            }
        }
    }

    /// Makes the root that everything begins with one of the layers that sandboxes can be started from.
    pub(crate) async fn take_base(&self, roots: &Layers, layers: &Layers, base: &str) -> Result<(), BaseFailure> {
        match self {
            // It is one already.
            Self::Namespaces(_launcher) => Ok(()),
            Self::Containers(containers) => {
                containers.import_root(&roots.folder(base), layers, base).await.map_err(BaseFailure::Image)
            }
        }
    }

    /// Brings layers and what they are made of elsewhere into line: what only one side has is of no use.
    pub(crate) async fn reconcile(&self, layers: &Layers) -> io::Result<()> {
        match self {
            Self::Namespaces(_launcher) => Ok(()),
            Self::Containers(containers) => containers.reconcile(layers).await,
        }
    }

    /// Ends what an earlier host left running in this data folder, and removes what it left behind.
    pub(crate) async fn clean_up(&self) -> io::Result<()> {
        match self {
            Self::Namespaces(launcher) => launcher.clean_up().await,
            // Its containers went when the engine was opened.
            Self::Containers(containers) => containers.folders.clear(),
        }
    }

    /// Removes what the host has on the machine besides its folder.
    pub(crate) async fn tear_down(&self) {
        match self {
            Self::Namespaces(launcher) => {
                launcher.network.tear_down().await;
                launcher.groups.remove();
            }
            Self::Containers(containers) => containers.tear_down().await,
        }
    }
}

impl Machine {
    pub(crate) fn dial(&self) -> &Dial {
        match self {
            Self::Namespaces(machine) => machine.dial(),
            Self::Container(machine) => machine.dial(),
        }
    }

    pub(crate) async fn usage(&self) -> Usage {
        match self {
            Self::Namespaces(machine) => machine.usage(),
            Self::Container(machine) => machine.usage().await,
        }
    }

    /// Stops every process where it is.
    pub(crate) async fn freeze(&self) -> io::Result<()> {
        match self {
            Self::Namespaces(machine) => machine.freeze().await,
            Self::Container(machine) => machine.freeze().await,
        }
    }

    /// Lets them go on.
    pub(crate) async fn thaw(&self) -> io::Result<()> {
        match self {
            Self::Namespaces(machine) => machine.thaw().await,
            Self::Container(machine) => machine.thaw().await,
        }
    }

    /// Kills every process and waits until they are gone. The sandbox's files stay.
    pub(crate) async fn end(&self) {
        match self {
            Self::Namespaces(machine) => machine.end().await,
            Self::Container(machine) => machine.end().await,
        }
    }
}

/// Removes what the host keeps of a sandbox.
pub(crate) fn remove_folder(folder: &Utf8Path) {
    if let Err(error) = remove_tree_if_there(folder.as_std_path()) {
        tracing::error!(%error, %folder, "files of a sandbox stay until the next start");
    }
}
