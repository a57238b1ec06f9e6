//! The terminal: keys, ticks, and how it is left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::super::arguments::TopArguments;
use super::super::client::Client;
use super::super::error::CliError;
use super::super::format::{now_us, printable};
use super::board::Board;
use super::draw::{Screen, draw};

/// The shortest refresh interval: each refresh costs the daemon a walk over its volumes.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// The daemon's answer.
type BoardResult = Result<Board, CliError>;

/// Shows the node until `q`, ctrl-c or SIGTERM. Reconnects to a daemon that has ended.
pub(super) async fn run(arguments: &TopArguments, socket: &Path) -> Result<(), CliError> {
    // Connected before the terminal is changed: an error is printed as by every command.
    let client = Client::connect(socket).await?;
    let terminate = signal(SignalKind::terminate()).map_err(CliError::Runtime)?;
    let (answers, answered) = mpsc::channel(1);
    tokio::spawn(look(client, socket.to_path_buf(), arguments.interval.0.max(LEAST_INTERVAL), answers));
    let screen = Screen { sort: arguments.sort, ..Screen::default() };
    let mut terminal = ratatui::try_init()?;
    let ended = watch(&mut terminal, screen, answered, terminate).await;
    ratatui::restore();
    ended
}

async fn watch(
    terminal: &mut DefaultTerminal,
    mut screen: Screen,
    mut answers: mpsc::Receiver<BoardResult>,
    mut terminate: Signal,
) -> Result<(), CliError> {
    let mut keys = keys();
    loop {
        tokio::select! {
            Some(answer) = answers.recv() => match answer {
                Ok(mut board) => {
                    board.sort(screen.sort);
                    screen.board = board;
                    screen.error = None;
                }
                // The last answer stays, with the error above it.
                Err(error) => screen.error = Some(printable(&error.to_string())),
            },
            _ = terminate.recv() => return Ok(()),
            key = keys.recv() => match key {
                Some(Event::Key(key)) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Char('s') => {
                        screen.sort = screen.sort.next();
                        screen.board.sort(screen.sort);
                    }
                    _ => {}
                },
                // A terminal of another size is drawn again.
                Some(_) => {}
                None => return Ok(()),
            },
        }
        terminal.draw(|frame| draw(frame, &screen, now_us()))?;
    }
}

/// Asks the daemon periodically, on a task of its own: keys are read while it answers. Ends when
/// the receiver is dropped.
async fn look(client: Client, socket: PathBuf, interval: Duration, answers: mpsc::Sender<BoardResult>) {
    let mut client = Some(client);
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let looked = async {
            let mut connection = match client.take() {
                Some(connection) => connection,
                None => Client::connect(&socket).await?,
            };
            let board = Board::gather(&mut connection, &socket).await?;
            client = Some(connection);
            Ok(board)
        };
        if answers.send(looked.await).await.is_err() {
            return;
        }
    }
}

/// The terminal's events. The thread ends with the process: reading a terminal cannot be
/// interrupted.
fn keys() -> mpsc::UnboundedReceiver<Event> {
    let (typed, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if typed.send(event).is_err() {
                break;
            }
        }
    });
    keys
}
