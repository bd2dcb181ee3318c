//! The shell tool in a sandbox.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Inner;
use super::handle::{BoxCommand, Ended, Handle, RunError, ShellOutput};
use super::scripts;
use super::told::command_failure;
use crate::backend::shell::capture::Capture;
use crate::backend::{BackendError, ShellDone, ShellWish, Target};

/// Output that leaves a sandbox, of each stream; what comes behind is thrown away there.
const MOST_OUTPUT_BYTES: usize = 8 << 20;
/// How long the link to the source lives that a command may use.
const LINK_LIFE: Duration = Duration::from_hours(2);
/// The watchman in the sandbox ends a command so long after the engine would have.
const WATCHMAN_GRACE: Duration = Duration::from_secs(15);
const TIMED_OUT: i32 = 124;
const KILLED: i32 = 137;

impl Inner {
    /// Where a shell command finds the link to the source.
    pub(crate) fn link_file(&self, target: &Target) -> String {
        self.config.box_video_folder.join(target.video.as_str()).join("source.url").into_string()
    }

    pub(crate) async fn shell(
        self: &Arc<Self>,
        target: &Target,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<ShellDone, BackendError> {
        let handle = self.handle(&target.session, stop).await?;
        match self.shell_in(&handle, target, wish, stop).await {
            Ok(outcome) => outcome,
            Err(RunError::NotBegun(error)) if error.is_sandbox_lost() => {
                self.gave_up(&target.session, handle.id()).await;
                let next = self.handle(&target.session, stop).await?;
                match self.shell_in(&next, target, wish, stop).await {
                    Ok(outcome) => outcome,
                    Err(error) => self.shell_failed(target, &next, &error).await,
                }
            }
            Err(error) => self.shell_failed(target, &handle, &error).await,
        }
    }

    /// A command may have done half of its work, so it is not done again.
    async fn shell_failed(
        &self,
        target: &Target,
        handle: &Handle,
        error: &RunError,
    ) -> Result<ShellDone, BackendError> {
        if error.error().is_sandbox_lost() {
            self.gave_up(&target.session, handle.id()).await;
        }
        Err(command_failure(error.error(), handle.id()))
    }

    async fn shell_in(
        &self,
        handle: &Handle,
        target: &Target,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<Result<ShellDone, BackendError>, RunError> {
        // A command may do without the video, so one that is gone does not keep it from running.
        let link = match self.source_key(&target.video).await {
            Ok((key, ..)) => self.objects.presign_get(&key, LINK_LIFE).await.ok(),
            Err(_gone) => None,
        };
        let tag = scripts::new_tag();
        let cap = MOST_OUTPUT_BYTES.max(wish.max_output_bytes);
        let arguments = vec![
            "-c".to_owned(),
            scripts::SHELL.to_owned(),
            tag.clone(),
            wish.command.clone(),
            cap.to_string(),
            (wish.timeout + WATCHMAN_GRACE).as_secs().to_string(),
            self.link_file(target),
            link.map(ambient_media::objects::PresignedUrl::into_string).unwrap_or_default(),
            scripts::SWEEP.to_owned(),
        ];
        let command = BoxCommand {
            arguments,
            folder: None,
            environment: self.config.environment.clone(),
            tag,
            timeout: wish.timeout,
            ends_gently: false,
        };
        let mut output =
            ShellOutput { stdout: Capture::new(wish.max_output_bytes), stderr: Capture::new(wish.max_output_bytes) };
        let ended = handle.run(&command, &mut output, stop).await?;
        let (exit_code, timed_out) = match ended {
            Ended::Cancelled => return Ok(Err(BackendError::Cancelled)),
            Ended::TimedOut => (TIMED_OUT, true),
            Ended::By(exit) if exit.exited => (exit.code, false),
            Ended::By(_killed) => (KILLED, false),
        };
        let (stdout, stdout_cut) = output.stdout.finish();
        let (stderr, stderr_cut) = output.stderr.finish();
        Ok(Ok(ShellDone { exit_code, stdout, stderr, stdout_cut, stderr_cut, timed_out }))
    }
}
