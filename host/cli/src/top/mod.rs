//! `volhost top`: what the node is doing now. Everything comes through the API.
//!
//! | module | its job |
//! |---|---|
//! | [`board`] | the daemon's answers as lists |
//! | [`latency`] | how long operations took, read from the metrics |
//! | [`rows`] | the lists as cells |
//! | [`draw`] | the lists on a terminal |
//! | [`live`] | the terminal: keys, ticks, and how it is left |

mod board;
mod draw;
mod latency;
mod live;
mod rows;

use std::io::IsTerminal;
use std::path::Path;

use super::arguments::TopArguments;
use super::client::Client;
use super::error::CliError;
use super::format::now_us;
use super::output::Output;
use board::Board;
use volhost_table::Table;

/// Shows the node until `q` is pressed; once, in plain text, if requested or without a terminal.
pub(super) async fn run(arguments: &TopArguments, socket: &Path, output: &mut Output) -> Result<(), CliError> {
    if !arguments.once && std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return live::run(arguments, socket).await;
    }
    let mut client = Client::connect(socket).await?;
    let mut board = Board::gather(&mut client, socket).await?;
    board.sort(arguments.sort);
    let now = now_us();
    output.line(&board.summary())?;
    for (title, columns, rows) in [
        ("Operations", rows::OPERATIONS, rows::operations(&board, now)),
        ("Latencies", rows::LATENCIES, rows::latencies(&board)),
        ("Volumes in trouble", rows::TROUBLES, rows::troubles(&board, now)),
        ("Fullest volumes", rows::FULLEST, rows::fullest(&board, now)),
    ] {
        output.line("")?;
        if rows.is_empty() {
            output.line(&format!("{title}: none"))?;
        } else {
            output.line(&format!("{title}:"))?;
            output.write(&Table::new(columns, output.colour()).rows(&rows))?;
        }
    }
    Ok(())
}
