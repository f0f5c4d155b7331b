//! The vocabulary of Danube and the bytes of its batches and frames.
