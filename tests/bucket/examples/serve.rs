//! A bucket for tests of another language: prints its address and its folder, and serves until its standard input ends.

use std::io::{Read as _, Write as _};

use ambient_test_bucket::{BUCKET, TestBucket};

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bucket = runtime.block_on(TestBucket::start())?;
    let mut out = std::io::stdout();
    writeln!(out, "bucket {BUCKET} at {} in {}", bucket.endpoint(), bucket.path_of("").display())?;
    out.flush()?;
    std::io::stdin().lock().read_to_end(&mut Vec::new()).map(drop)
}
