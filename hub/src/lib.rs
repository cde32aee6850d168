//! x
pub mod blob_store;
pub mod store;
pub mod wake;
