//! The flags of commands that can put their output into the bucket.

use std::time::Duration;

use super::Surroundings;
use super::bucket::Outbox;
use super::envelope::Failure;

/// Whether outputs go to the bucket.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Upload {
    /// Also put the output into the bucket, and answer with a link to it
    #[arg(long)]
    upload_s3: bool,

    /// How long the link lives, in seconds: a week at most
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    s3_presigned_expires: u64,
}

impl Upload {
    /// Where to send outputs; `None` where they stay here. Asked before the work begins, so that none is done for nothing.
    pub(super) fn outbox(self, around: &Surroundings) -> Result<Option<Outbox>, Failure> {
        let life = Duration::from_secs(self.s3_presigned_expires);
        self.upload_s3.then(|| Outbox::new(around, life)).transpose()
    }
}
