//! What an operator sees of a node from outside: figures, traces, log lines, the live view.

mod alerts;
mod collector;
mod csi_figures;
mod dashboard;
mod figures;
mod journal;
mod logs;
mod metrics;
mod node_figures;
mod page;
mod prometheus;
mod top;
mod traces;
