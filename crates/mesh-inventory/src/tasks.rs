//! What is done again and again, woken by a signal or by time: no input but the world, one bounded batch, and the next run
//! is the retry. `mesh-control` runs them.

mod judge_silence;
mod place_modules;
