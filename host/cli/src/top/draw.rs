//! The lists on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

use super::super::arguments::TopSort;
use super::board::Board;
use super::rows;
use volhost_table::{Cell, Colour};

/// Lines of a list that has nothing in it: its border, its title and one row.
const EMPTY_LINES: u16 = 3;
/// Lines around the rows of a list: border and column names.
const FRAME_LINES: usize = 3;

/// What is on the screen.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The last answer of the daemon.
    pub(super) board: Board,
    /// Why there is no newer one.
    pub(super) error: Option<String>,
    /// How the lists are sorted.
    pub(super) sort: TopSort,
}

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, now: u64) {
    let lists = [
        (" Operations ", rows::OPERATIONS, rows::operations(&screen.board, now)),
        (" Volumes in trouble ", rows::TROUBLES, rows::troubles(&screen.board, now)),
        (" Fullest volumes ", rows::FULLEST, rows::fullest(&screen.board, now)),
        (" Latencies since the daemon started ", rows::LATENCIES, rows::latencies(&screen.board)),
    ];
    let height = |rows: &[Vec<Cell>]| {
        if rows.is_empty() {
            return Constraint::Length(EMPTY_LINES);
        }
        Constraint::Max(u16::try_from(rows.len() + FRAME_LINES).unwrap_or(u16::MAX))
    };
    let [one, two, three, four] = &lists;
    let [head, first, second, third, fourth, rest, foot] = Layout::vertical([
        Constraint::Length(1),
        height(&one.2),
        height(&two.2),
        height(&three.2),
        height(&four.2),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let _ = rest;
    match &screen.error {
        Some(error) => frame.render_widget(Paragraph::new(error.as_str()).style(Color::Red), head),
        None => frame.render_widget(Paragraph::new(screen.board.summary()), head),
    }
    for ((title, columns, rows), area) in lists.iter().zip([first, second, third, fourth]) {
        list(frame, area, title, columns, rows);
    }
    let help = format!("q quit   s sort (now by {})", screen.sort.name());
    frame.render_widget(Paragraph::new(help).style(Modifier::DIM), foot);
}

fn list(frame: &mut Frame<'_>, area: Rect, title: &str, columns: &[&str], rows: &[Vec<Cell>]) {
    let block = Block::new().borders(Borders::TOP).title(title.to_owned());
    if rows.is_empty() {
        return frame.render_widget(Paragraph::new("none").style(Modifier::DIM).block(block), area);
    }
    // As wide as its widest cell, the last with what is left; names of volumes may be cut.
    let last = columns.len().saturating_sub(1);
    let widths = columns.iter().enumerate().map(|(at, column)| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(Cell::width);
        let widest = cells.chain([column.chars().count()]).max().unwrap_or_default();
        if at == last { Constraint::Fill(1) } else { Constraint::Max(u16::try_from(widest).unwrap_or(u16::MAX)) }
    });
    let header = Row::new(columns.iter().map(|column| Line::raw(*column))).style(Modifier::BOLD);
    let body = rows.iter().map(|row| Row::new(row.iter().map(|cell| Line::styled(cell.text(), style(cell)))));
    frame.render_widget(Table::new(body, widths).header(header).column_spacing(2).block(block), area);
}

fn style(cell: &Cell) -> Style {
    match cell.colour() {
        Some(Colour::Green) => Style::new().fg(Color::Green),
        Some(Colour::Yellow) => Style::new().fg(Color::Yellow),
        Some(Colour::Red) => Style::new().fg(Color::Red),
        None => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use volhost_model::view::OperationView;

    use super::*;

    fn shown(screen: &Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal.draw(|frame| draw(frame, screen, 10_000_000)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..120).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..20).map(line).collect()
    }

    #[test]
    fn a_hung_operation_is_shown_with_its_age_and_its_step() {
        let operation = OperationView {
            id: 7,
            name: "volume_mount".into(),
            volume: "kubernetes.io/nfs/share".into(),
            pod: "default/web".into(),
            plugin: "kubernetes.io/nfs".into(),
            running: true,
            step: "mount-source.bind".into(),
            since: 1_000_000,
            overdue: true,
            failures: 0,
            retry_at: None,
            failure: None,
        };
        let lines = shown(&Screen { board: Board::of(vec![operation], vec![], vec![]), ..Screen::default() });
        assert!(lines[0].contains("1 running (1 overdue)"), "{lines:#?}");
        let row = lines.iter().find(|line| line.contains("kubernetes.io/nfs/share")).unwrap();
        for text in ["volume_mount", "default/web", "9s", "Overdue", "mount-source.bind"] {
            assert!(row.contains(text), "{text} is missing in {row:?}");
        }
        assert!(lines[19].contains("q quit"), "{lines:#?}");
    }

    #[test]
    fn a_lost_daemon_is_reported_above_its_last_answer() {
        let screen = Screen { error: Some("cannot reach volhost".into()), ..Screen::default() };
        assert!(shown(&screen)[0].starts_with("cannot reach volhost"));
    }
}
