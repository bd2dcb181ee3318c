//! Stacks on a real Docker engine, next to the real Docker Compose.
//!
//! `AMBIENT_TEST_DOCKER` is the path of the engine's socket, which has the image `ambient-test:1` (a busybox), and
//! `AMBIENT_TEST_COMPOSE` that of a `docker-compose` 2.40.3; `tests/run.sh` provides both.

mod changes;
mod commands;
mod convergence;
mod doctor;
mod images;
mod kills;
mod lab;
