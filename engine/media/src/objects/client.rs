//! The S3 client, set so that every store understands it.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Config, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use secrecy::ExposeSecret;

use super::config::ObjectStoreConfig;

/// How long the way to the server may take to open.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How often one request is tried in all. A broken connection is the usual reason for a second time.
const ATTEMPTS: u32 = 4;

/// Makes the client; `None` without a key to sign with. Opens no connection.
pub(super) fn client(config: &ObjectStoreConfig) -> Option<Client> {
    let (id, secret) = config.credentials.as_ref()?;
    let credentials = Credentials::new(id.expose_secret(), secret.expose_secret(), None, None, "settings");
    let mut builder = Config::builder()
        .region(Region::new(config.region.clone()))
        .credentials_provider(credentials)
        // Stores other than AWS answer 400 or 501 to the checksums that the client adds by itself.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        // It ends healthy slow transfers; `stall_limit` is our own guard.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_LIMIT).build());
    if let Some(endpoint) = &config.endpoint {
        // The bucket in the host name needs a DNS entry for each bucket, which only AWS is sure to have.
        builder = builder.endpoint_url(endpoint.trim_end_matches('/')).force_path_style(true);
    }
    Some(Client::from_conf(builder.build()))
}
