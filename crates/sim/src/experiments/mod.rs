//! Experiments of the source documents.
