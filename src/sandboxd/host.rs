//! On Linux: a host until a signal; and the agent in each of its sandboxes.

use ambient_ctl::commands::docker_failure;
use ambient_ctl::docker::{Connection, Origin, addresses};
use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_ctl::signals::Signals;
use ambient_sandboxd::agent::Stage;
use ambient_sandboxd::{Config, Driver, Host, NetworkMode, StartError};
use camino::Utf8PathBuf;
use secrecy::SecretString;

use crate::cli::{SandboxDriver, SandboxNetwork, SandboxStage, SandboxdArgs};

/// Where data is kept below the home of Ambient.
const FOLDER: &str = "sandboxd";

/// Runs a host until a signal, and gives how that ended.
///
/// # Errors
/// When the settings have faults, or the host does not start.
pub(crate) fn run(args: SandboxdArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let settings = environment.settings(&[], &printer)?;
    crate::logs::start(&settings.logs)?;
    let data_folder = match args.data_dir {
        Some(folder) => Utf8PathBuf::try_from(folder).map_err(|error| Failure::new(Exit::Usage, error))?,
        None => settings.home.join(FOLDER),
    };
    let keys = args.key.into_iter().map(SecretString::from).collect();
    let mut config = Config::new(args.listen, keys, data_folder);
    config.max_sandboxes = args.max_sandboxes;
    config.network = match args.network {
        SandboxNetwork::Private => NetworkMode::Private,
        SandboxNetwork::Host => NetworkMode::Host,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    let ended = runtime.block_on(async {
        config.driver = driver(args.driver, args.docker.as_deref(), environment).await?;
        serve(config, printer).await
    });
    runtime.shutdown_background();
    ended
}

/// Why sandboxes cannot be made as was said.
#[derive(Debug, thiserror::Error)]
enum DriverFailure {
    #[error("`--docker` says where `--driver docker` finds its engine, and sandboxes are to be namespaces")]
    NoUse,
    #[error(
        "the docker engine is `{address}` (from {origin}), and sandboxes are made by an engine on this machine alone"
    )]
    Elsewhere { address: String, origin: Origin },
}

/// What sandboxes are made of: for containers, the engine that answers is found as everywhere.
async fn driver(wanted: SandboxDriver, flag: Option<&str>, environment: &Environment) -> Result<Driver, Failure> {
    match (wanted, flag) {
        (SandboxDriver::Namespace, None) => Ok(Driver::Namespace),
        (SandboxDriver::Namespace, Some(_)) => {
            Err(Failure::new(Exit::Usage, DriverFailure::NoUse).hint("add `--driver docker`, or leave `--docker` away"))
        }
        (SandboxDriver::Docker, flag) => {
            let addresses = addresses(flag, environment).map_err(docker_failure)?;
            for address in &addresses {
                socket(&address.url, &address.origin)?;
            }
            let found = Connection::open(&addresses, environment).await.map_err(docker_failure)?.address;
            Ok(Driver::Docker { socket: socket(&found.url, &found.origin)? })
        }
    }
}

/// The path of a socket of this machine.
fn socket(address: &str, origin: &Origin) -> Result<String, Failure> {
    let path = address.strip_prefix("unix://").map(str::to_owned);
    path.ok_or_else(|| {
        let failure = DriverFailure::Elsewhere { address: address.to_owned(), origin: origin.clone() };
        Failure::new(Exit::Usage, failure).hint("name a socket: `--docker unix:///var/run/docker.sock`")
    })
}

async fn serve(config: Config, printer: Printer) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::new(Exit::Internal, error))?;
    let host = tokio::select! {
        started = Host::start(config) => started.map_err(start_failure)?,
        // The first start takes a minute.
        _ = signals.next() => return Ok(Exit::Interrupted),
    };
    printer.data(&format!("sandboxd listening on http://{}", host.address()));
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "ending all sandboxes; a second signal ends at once"),
        () = host.stopped() => tracing::error!("the host stopped by itself"),
    }
    tokio::select! {
        () = host.shut_down() => Ok(Exit::Ok),
        _ = signals.next() => Ok(Exit::Interrupted),
    }
}

fn start_failure(error: StartError) -> Failure {
    let hint = match &error {
        StartError::NotRoot => "run it with `sudo`, or as a service of the system",
        StartError::NoKey | StartError::BadKey => "give a key with `--key e2b_…`: `e2b_` and 40 hex digits",
        StartError::Folder(_) => "`--data-dir` names the folder; each host has one of its own",
        StartError::Listen { .. } => "`--listen` names an address and port of this machine; port 0 takes a free one",
        StartError::CleanUp(_) => "look what holds the files in `s` and `t` of the data folder, and remove them",
        StartError::Docker(_) => "`docker ps --all` has to work; the engine's own log says more",
        StartError::Base(_) => "`apt-get install debootstrap`; it needs Debian's mirror once",
        StartError::Templates { .. } => "put the file aside: templates have to be built again then",
    };
    let exit = match &error {
        StartError::CleanUp(_) | StartError::Templates { .. } => Exit::Internal,
        StartError::Base(_) | StartError::Docker(_) => Exit::Unreachable,
        StartError::NotRoot
        | StartError::NoKey
        | StartError::BadKey
        | StartError::Folder(_)
        | StartError::Listen { .. } => Exit::Usage,
    };
    Failure::new(exit, error).hint(hint)
}

/// Runs a stage of the agent.
pub(crate) fn agent(stage: SandboxStage) -> std::process::ExitCode {
    ambient_sandboxd::agent::main(match stage {
        SandboxStage::Enter { own_network, control_group } => {
            Stage::Enter { own_network, control_groups: control_group }
        }
        SandboxStage::Init => Stage::Init,
        SandboxStage::Contained { door } => Stage::Contained { door },
    })
}
