//! How old each frame is.
