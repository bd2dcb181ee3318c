//! What any server that speaks E2B's protocol must do for this client, as stories.
//!
//! A story gets a server and fails with what it saw. The stories know nothing about whose server it is, so that the same ones run against a server in the
//! same process and against any other that an address leads to (`examples/contract.rs`).

mod commands;
mod files;
mod lifecycle;
mod templates;

use std::time::Duration;

use ambient_e2b::{Client, Config, NewSandbox, Sandbox};
use anyhow::{Context as _, bail};
use futures::future::BoxFuture;

/// A server under test.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// A client of a team.
    pub(crate) client: Client,
    /// A client of another team.
    pub(crate) stranger: Client,
}

/// One story.
pub(crate) struct Story {
    /// A sentence.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) run: for<'a> fn(&'a Server) -> BoxFuture<'a, anyhow::Result<()>>,
}

macro_rules! stories {
    ($($module:ident::$story:ident),* $(,)?) => {
        /// All of them.
        pub(crate) fn stories() -> Vec<Story> {
            vec![$(Story { name: stringify!($story), run: |server| Box::pin($module::$story(server)) }),*]
        }
    };
}

stories![
    lifecycle::a_sandbox_lives_from_create_to_kill,
    lifecycle::metadata_finds_a_sandbox,
    lifecycle::every_page_is_read,
    lifecycle::the_end_can_be_moved,
    lifecycle::connect_only_lengthens_a_life,
    lifecycle::a_sandbox_ends_at_its_time,
    lifecycle::a_paused_sandbox_comes_back,
    lifecycle::a_stranger_sees_nothing,
    lifecycle::what_is_not_there_is_said,
    lifecycle::a_wrong_key_is_refused,
    lifecycle::a_killed_sandbox_is_lost_to_those_who_hold_it,
    lifecycle::a_kill_ends_the_commands_in_it,
    commands::output_and_exit_come_back,
    commands::a_command_gets_its_surroundings,
    commands::a_signal_shows_in_the_exit,
    commands::a_program_needs_no_shell,
    commands::a_program_is_looked_for_as_a_shell_does,
    commands::input_reaches_a_command,
    commands::a_command_can_be_left_and_joined,
    commands::dropping_leaves_and_kill_ends,
    commands::a_deadline_ends_a_command,
    commands::a_daemon_does_not_hold_the_call,
    commands::a_marked_command_leaves_nothing,
    commands::characters_survive_the_pieces,
    commands::output_over_the_limit_is_counted,
    commands::three_run_at_once,
    commands::a_terminal_is_one,
    commands::what_cannot_start_is_said,
    files::what_is_written_is_read,
    files::names_may_be_anything,
    files::large_files_go_both_ways_in_pieces,
    files::a_folder_is_made_listed_moved_and_removed,
    files::what_is_not_there_is_told_apart,
    files::a_signed_address_needs_no_token,
    files::words_stay_with_a_file,
    files::a_watch_tells_what_happens,
    templates::a_dockerfile_becomes_a_template,
    templates::files_are_uploaded_once,
    templates::a_failing_step_is_named,
    templates::tags_come_and_go,
    templates::names_are_told_apart,
];

impl Server {
    /// A server at these addresses, with two keys of two teams.
    pub(crate) fn at(api_url: &str, sandbox_url: &str, key: &str, other_key: &str) -> anyhow::Result<Self> {
        let client = |key: &str| {
            let config = Config::from_lookup(|name| match name {
                "E2B_API_URL" => Some(api_url.to_owned()),
                "E2B_SANDBOX_URL" => Some(sandbox_url.to_owned()),
                "E2B_API_KEY" => Some(key.to_owned()),
                _ => None,
            })?;
            anyhow::Ok(Client::new(config)?)
        };
        Ok(Self { client: client(key)?, stranger: client(other_key)? })
    }

    /// A sandbox that lives for two minutes unless the story ends it.
    pub(crate) async fn sandbox(&self) -> anyhow::Result<Sandbox> {
        let new = NewSandbox::new("base").timeout(Duration::from_mins(2));
        self.client.create(&new).await.context("could not create a sandbox")
    }
}

/// A text that no other story, and no other run of this one, has.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}-{:016x}", rand::random::<u64>())
}

/// Asks until the answer is yes, and fails after a while with what was asked.
pub(crate) async fn until<F, T>(what: &str, mut ask: F) -> anyhow::Result<()>
where
    F: FnMut() -> T,
    T: Future<Output = anyhow::Result<bool>>,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        if ask().await? {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            bail!("it did not come to this: {what}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
