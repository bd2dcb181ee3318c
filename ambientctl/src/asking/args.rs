//! The words of `ask` and `chat`.

use std::path::PathBuf;

/// Words about how a question is answered.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AnswerArgs {
    /// The model that answers [default: `AGENT_MODEL`, with --fast `LLM_MODEL`]
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// The model that watches clips and describes the video [default: `LLM_MODEL`]
    #[arg(long, value_name = "MODEL")]
    pub vision_model: Option<String>,
    /// One look at the whole video and one answer, instead of an agent with tools
    #[arg(long)]
    pub fast: bool,
    /// How often the agent may call tools before it has to answer [default: `MAX_TURNS_PER_RUN`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_turns: Option<u32>,
}

/// Words of `ambientctl ask`.
#[derive(Clone, Debug, clap::Args)]
pub struct AskArgs {
    /// A file, or the address of a video on YouTube
    #[arg(value_name = "VIDEO")]
    pub video: String,
    /// What is to be answered
    #[arg(value_name = "QUESTION")]
    pub question: String,
    #[command(flatten)]
    pub answer: AnswerArgs,
    /// What is spoken in the video, as `.srt`, `.vtt` or plain text
    #[arg(long, value_name = "FILE")]
    pub subtitles: Option<PathBuf>,
    /// A JSON schema that the answer has to fit; the answer is JSON then
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Show what the model thinks, on stderr
    #[arg(long)]
    pub show_thinking: bool,
}

/// Words of `ambientctl chat`.
#[derive(Clone, Debug, clap::Args)]
pub struct ChatArgs {
    /// A file, or the address of a video on YouTube
    #[arg(value_name = "VIDEO")]
    pub video: String,
    #[command(flatten)]
    pub answer: AnswerArgs,
    /// What is spoken in the video, as `.srt`, `.vtt` or plain text
    #[arg(long, value_name = "FILE")]
    pub subtitles: Option<PathBuf>,
    /// Show what the model thinks, on stderr
    #[arg(long)]
    pub show_thinking: bool,
}
