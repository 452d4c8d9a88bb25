//! A machine in memory, for tests: every operation can be made to fail, or to be the last before a kill.
