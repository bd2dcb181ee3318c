//! Which bucket, and how patient we are with it. The caller fills it from its settings; nothing here reads the environment.

use std::time::Duration;

use ambient_settings::Settings;
use secrecy::SecretString;

/// The smallest part of an upload in parts. S3 asks for 5 MiB at least.
pub(super) const LEAST_PART_BYTES: u64 = 8 << 20;

/// The address, the key and the limits of one [`crate::objects::ObjectStore`].
#[derive(Clone, Debug)]
pub struct ObjectStoreConfig {
    /// The bucket's name.
    pub bucket: String,
    /// The server as `scheme://host[:port]`; `None` is AWS itself.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The access key and its secret. Without them every operation fails with a word about it.
    pub credentials: Option<(SecretString, SecretString)>,
    /// The prefix of uploaded videos.
    pub video_base_key: String,
    /// How many bodies are sent to the bucket at once.
    pub upload_concurrency: usize,
    /// The size of a part, in bytes; at least 8 MiB. Grows with a file that would need more than 10,000 parts.
    pub part_bytes: u64,
    /// How long nothing may move in a request before it is given up. A slow connection is not a dead one.
    pub stall_limit: Duration,
}

impl ObjectStoreConfig {
    /// What the operator set; `None` without a bucket.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let s3 = &settings.s3;
        Some(Self {
            bucket: s3.bucket.clone()?,
            endpoint: s3.endpoint.clone(),
            region: s3.region.clone(),
            credentials: s3.access_key_id.clone().zip(s3.secret_access_key.clone()),
            video_base_key: s3.video_base_key.clone(),
            upload_concurrency: settings.source.upload_concurrency,
            part_bytes: LEAST_PART_BYTES,
            stall_limit: Duration::from_mins(2),
        })
    }
}
