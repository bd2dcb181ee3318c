//! The words of the command line: one enum over all parts of the product.

use std::net::SocketAddr;
use std::path::PathBuf;

use ambient_ctl::asking::{AskArgs, ChatArgs};
use ambient_ctl::commands::{
    completions, config, doctor, health, install, lifecycle, logs, open, status, template, uninstall, verify, version,
};
use ambient_ctl::mcp::McpArgs;
use ambient_media::sub::MediaCommand;
use clap::CommandFactory as _;

/// Ambient answers questions about long videos
#[derive(Debug, clap::Parser)]
#[command(name = "ambientctl", version, about, propagate_version = true, disable_help_subcommand = true)]
#[command(
    after_help = "Example:\n  ambientctl serve\n\nSettings are environment variables, or lines of `.env`: see docs/configuration.md"
)]
pub(crate) struct Cli {
    /// One JSON document on stdout instead of text, failures too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No notes and no warnings
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The whole command line, for completion scripts.
    pub(crate) fn words() -> clap::Command {
        Self::command()
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Runs the engine until SIGTERM or SIGINT; a second signal ends it at once
    #[command(
        after_help = "Examples:\n  ambientctl serve\n  LLM_BASE_URL=http://127.0.0.1:8000/v1 ambientctl serve --port 9000\n\n\
        The first line on stdout is `ambient listening on http://HOST:PORT`; logs go to stderr.\n\
        RUST_LOG=debug shows more, LOG_FORMAT=json writes one JSON object a line."
    )]
    Serve(ServeArgs),
    /// Answers a question about a video, without an engine that runs
    #[command(after_help = "Examples:\n  ambientctl ask film.mp4 \"When does the train leave?\"\n  \
        ambientctl ask https://www.youtube.com/watch?v=dQw4w9WgXcQ \"What is shown?\" --fast\n  \
        ambientctl ask film.mp4 \"Who speaks when?\" --subtitles film.srt --schema speakers.json --json\n\n\
        Needs LLM_BASE_URL, and on most servers LLM_API_KEY, in the environment or in `.env`. stdout holds the answer,\n\
        stderr what happens on the way. Exit code: 0 answered, 1 no answer, 2 words, files or settings are wrong,\n\
        130 interrupted.")]
    Ask(AskArgs),
    /// Answers questions about a video, one a line, until the end of input or /exit
    #[command(after_help = "Examples:\n  ambientctl chat film.mp4\n  ambientctl chat film.mp4 < questions.txt\n\n\
        Ctrl-C interrupts an answer; once more, it leaves. With --json each answer is a document of one line.")]
    Chat(ChatArgs),
    /// Serves the Model Context Protocol on stdin and stdout, with the tool `analyze_video`
    #[command(
        after_help = "Examples:\n  ambientctl mcp\n  AMBIENT_API_KEY=… ambientctl mcp --url http://127.0.0.1:8080\n\n\
        Without --url it brings an engine of its own, which ends with it; settings are those of `serve`."
    )]
    Mcp(McpArgs),
    /// Asks a running engine whether it is up and ready
    #[command(
        after_help = "Examples:\n  ambientctl health\n  ambientctl health --url http://127.0.0.1:9000 --json\n\n\
        Exit code: 0 ready, 1 up but not ready, 3 nobody answers."
    )]
    Health(health::Args),
    /// Works on videos and pictures, and answers with one line of JSON
    #[command(
        subcommand,
        after_help = "Example:\n  ambientctl media probe --source-path film.mp4\n\n\
        stdout holds one line, a JSON object between two `===AMBIENT_RESULT===`: `ok`, `data`, and `error` with `code` and\n\
        `message`. Logs and progress go to stderr. Exit code: 0 done, 1 not done. Settings are those of the engine."
    )]
    Media(MediaCommand),
    /// Installs Ambient on this machine's Docker, or brings an installation up to date
    #[command(disable_version_flag = true)] // its own `--version` says which release
    #[command(after_help = "Examples:\n  ambientctl install\n  AMBIENT_LLM_KEY=… ambientctl install --yes\n\n\
        The installation is in `--dir DIR`, else in AMBIENT_DIR, else in ~/.ambient. Keys, secrets, comments and the\n\
        override of an earlier installation are kept. Exit code: 3 when Docker cannot be reached.")]
    Install(install::Args),
    /// Shows what runs, whether it is well, and whether it is what the files say
    #[command(after_help = "Examples:\n  ambientctl status\n  ambientctl status --json\n\n\
        Exit code: 0 all is well, 1 something is not, 3 Docker cannot be reached.")]
    Status(status::Args),
    /// Prints what the services say
    #[command(after_help = "Examples:\n  ambientctl logs\n  ambientctl logs --follow --tail 20 engine")]
    Logs(logs::Args),
    /// Makes the stack what the files say, and waits until it is healthy
    #[command(after_help = "Example:\n  ambientctl start --timeout 300")]
    Start(lifecycle::StartArgs),
    /// Stops services; containers and data stay
    #[command(after_help = "Examples:\n  ambientctl stop\n  ambientctl stop engine")]
    Stop(lifecycle::StopArgs),
    /// Stops services and starts them again
    #[command(after_help = "Examples:\n  ambientctl restart\n  ambientctl restart engine")]
    Restart(lifecycle::RestartArgs),
    /// Pulls the images anew and makes what changed anew
    #[command(after_help = "Example:\n  ambientctl update")]
    Update(lifecycle::UpdateArgs),
    /// Opens the engine's page in a browser
    #[command(after_help = "Examples:\n  ambientctl open\n  ambientctl open --print")]
    Open(open::Args),
    /// Prints the versions of this program and of the installation
    #[command(after_help = "Example:\n  ambientctl version --json")]
    Version(version::Args),
    /// Removes the containers; with --purge the data and the files too
    #[command(after_help = "Examples:\n  ambientctl uninstall\n  ambientctl uninstall --purge")]
    Uninstall(uninstall::Args),
    /// Shows and changes what an installation is set to
    #[command(after_help = "Examples:\n  ambientctl config show\n  ambientctl config get LLM_BASE_URL\n  \
        ambientctl config set LLM_BASE_URL=http://127.0.0.1:8000/v1\n  ambientctl config set LLM_API_KEY -  < key\n  \
        ambientctl config render --format json\n\n\
        The files are those of `--dir DIR`, else of AMBIENT_DIR, else of ~/.ambient.\n\
        A change is applied to the running stack, and taken back when it does not become healthy.")]
    Config(config::Args),
    /// Builds and checks the template of E2B sandboxes
    #[command(after_help = "Examples:\n  ambientctl template build\n  ambientctl template check\n\n\
        The key is E2B_API_KEY, from the environment, from `.env` here, or from that of the installation.")]
    Template(template::Args),
    /// Looks for what keeps Ambient from working, and says what mends it
    #[command(after_help = "Examples:\n  ambientctl doctor\n  ambientctl doctor --only bucket,llm --json\n  \
        ambientctl doctor --env-file .env --deep\n\n\
        It looks at `.env` here, else at the installation, else at the environment, as in the engine's container.\n\
        Exit code: 0 nothing failed, 1 something did, 2 a word is wrong. docs/doctor.md lists all findings.")]
    Doctor(doctor::Args),
    /// Uploads a video to a running engine, asks about it, and tells what came of each step
    #[command(
        after_help = "Examples:\n  ambientctl verify\n  ambientctl verify film.mp4 --question 'When does it rain?'\n  \
        ambientctl verify --url http://127.0.0.1:9000 --api-key - < key\n\n\
        Exit code: 0 everything works, 1 a step failed, 3 nobody answers."
    )]
    Verify(verify::Args),
    /// Hosts sandboxes on this machine for E2B's SDKs and for `SANDBOX_BACKEND=e2b`, until SIGTERM or SIGINT
    #[command(after_help = "Examples:\n  ambientctl sandboxd --key e2b_0123456789abcdef0123456789abcdef01234567\n  \
        SANDBOXD_KEYS=e2b_0123456789abcdef0123456789abcdef01234567 ambientctl sandboxd --driver docker\n\n\
        Clients set E2B_API_KEY to the key, E2B_API_URL and E2B_SANDBOX_URL to the address. Needs root, and Debian's\n\
        debootstrap once. The first line on stdout is `sandboxd listening on http://HOST:PORT`.")]
    Sandboxd(SandboxdArgs),
    /// The agent in a sandbox; `sandboxd` starts it
    #[command(hide = true, subcommand)]
    SandboxdAgent(SandboxStage),
    /// Prints the completion script of a shell
    #[command(
        after_help = "Example:\n  ambientctl completions bash > ~/.local/share/bash-completion/completions/ambientctl"
    )]
    Completions(completions::Args),
}

/// Words of `ambientctl serve`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on, before `SERVER_HOST`
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// The port to listen on, before `SERVER_PORT`; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Refuse to start on a database that needs a migration, instead of migrating it
    #[arg(long)]
    pub(crate) no_migrate: bool,
    /// The file to read settings from, instead of `.env` in the working directory
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Option<PathBuf>,
}

/// Words of `ambientctl sandboxd`.
#[derive(Debug, clap::Args)]
pub(crate) struct SandboxdArgs {
    /// The address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t = crate::sandboxd::USUAL_ADDRESS, value_parser = crate::sandboxd::address)]
    pub(crate) listen: SocketAddr,
    /// A key that is let in, as a team of its own; may be given several times. In the environment it is in no list of processes
    #[arg(
        long,
        value_name = "KEY",
        required = true,
        env = "SANDBOXD_KEYS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) key: Vec<String>,
    /// What sandboxes are made of
    #[arg(long, value_enum, default_value_t = SandboxDriver::Namespace)]
    pub(crate) driver: SandboxDriver,
    /// With `--driver docker`: the Docker engine's address, a socket of this machine [default: `DOCKER_HOST`, the current docker context, then the
    /// known sockets]
    #[arg(long, value_name = "URL")]
    pub(crate) docker: Option<String>,
    /// Where templates and sandboxes are kept, instead of `sandboxd` in the home of Ambient
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How many sandboxes may exist at once, paused ones too
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_sandboxes: usize,
    /// The network of sandboxes
    #[arg(long, value_enum, default_value_t = SandboxNetwork::Private)]
    pub(crate) network: SandboxNetwork,
}

/// What sandboxes are made of.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SandboxDriver {
    /// Namespaces, control groups and overlays of this machine
    Namespace,
    /// Containers of the Docker engine on this machine
    Docker,
}

/// The network of sandboxes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum SandboxNetwork {
    /// One of its own for each, with a way out to other machines
    Private,
    /// The host's, services on its loopback included
    Host,
}

/// The two stages of the agent.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SandboxStage {
    /// Leaves the namespaces of the host
    Enter {
        /// Leave its network too
        #[arg(long)]
        own_network: bool,
        /// A file that moves a process into a control group
        #[arg(long, value_name = "FILE")]
        control_group: Vec<PathBuf>,
    },
    /// Is process 1 of the sandbox
    Init,
    /// Is process 1 of a container
    Contained {
        /// The folder where it meets the host
        #[arg(long, value_name = "DIR")]
        door: PathBuf,
    },
}
