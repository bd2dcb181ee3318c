//! Whether this machine knows the authorities whose certificates it is to trust: small images have none.

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};

pub(super) async fn look(context: &Context, sink: &Sink) {
    sink.put(match &context.no_certificates {
        None => Finding::ok("certificates.there", "this machine knows authorities whose certificates it trusts"),
        Some(told) => Finding::failure(
            "certificates.none",
            format!("this machine has no certificates of authorities: {told}"),
            "no model server, bucket or E2B can be reached over TLS, since none can be trusted",
            Remedy::run("sudo apt-get install -y ca-certificates"),
        ),
    });
}
