//! The agent: turns of model and tools until there is an answer.
