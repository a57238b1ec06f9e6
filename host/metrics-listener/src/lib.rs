//! Metrics over HTTP, for every program of volhost that has some.
//!
//! | module | its job |
//! |---|---|
//! | [`listener`] | a text of metrics over HTTP |
//! | [`site`] | the status page beside it |
//! | [`driver_calls`] | calls of a CSI driver, counted as they end |
//! | [`registry`] | metrics that are made at each scrape |
//! | `connections` | how many peers are served at once |
//! | `plain_text` | the text in Prometheus' own format |
//! | [`process`] | the process's own memory, processor time and files |
#![forbid(unsafe_code)]

mod connections;
pub mod driver_calls;
pub mod listener;
mod plain_text;
pub mod process;
pub mod registry;
pub mod site;

/// The HTTP content type of OpenMetrics text, which a source of metrics gives.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
