//! Makes the machine as declared: order, clashes, removal, steps, drift. Pure where it decides.
