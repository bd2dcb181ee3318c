//! From nothing to the first good answer, and what an idle engine holds.

use std::time::Duration;

use crate::figure::{bytes_in, milliseconds, quantile};
use crate::process::Engine;
use crate::{BenchError, Figure, RunArgs};

const STARTS: usize = 21;
const REST: Duration = Duration::from_secs(2);

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for turn in 0..STARTS {
        let home = tempfile::tempdir()?;
        let (took, server) = Engine::timed_start(args, home.path()).await?;
        times.push(milliseconds(took));
        if turn % 5 == 0 {
            tokio::time::sleep(REST).await;
            memory.push(bytes_in(server.resident()?, 1_000_000));
        }
        server.stop().await?;
    }
    Ok(vec![
        Figure::below("start of serve to the first healthy answer, median", quantile(&mut times, 0.5), 150.0, "ms"),
        Figure::below("resident memory of an idle engine, median", quantile(&mut memory, 0.5), 40.0, "MB"),
    ])
}
