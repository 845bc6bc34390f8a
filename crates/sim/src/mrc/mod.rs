//! Miss-ratio curves and the policies that traces are compared with.
