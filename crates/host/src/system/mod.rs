//! What the kernel says of processes, control groups, pressure and swap.
