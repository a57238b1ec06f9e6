//! Tables as kubectl prints them: columns as wide as their widest cell, three spaces between, no
//! lines.
#![forbid(unsafe_code)]

use volhost_model::visible::visible_line;

/// The space between columns.
const GAP: &str = "   ";

/// A cell's colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// As it should be.
    Green,
    /// On its way.
    Yellow,
    /// Calls for action.
    Red,
}

impl Colour {
    /// The text in this colour, if colour is wanted.
    pub fn paint(self, text: &str, wanted: bool) -> String {
        let code = match self {
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Red => 31,
        };
        if wanted { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A cell. Empty text is shown as `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    colour: Option<Colour>,
    /// What it is sorted by, if not by its text.
    order: Option<u64>,
}

impl Cell {
    /// A cell without colour. What a plugin or a manifest wrote stays on its line and cannot steer
    /// the terminal.
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = visible_line(text.as_ref()).into_owned();
        Self { text: if text.is_empty() { "-".to_owned() } else { text }, colour: None, order: None }
    }

    /// A cell in this colour.
    pub fn coloured(text: impl AsRef<str>, colour: Option<Colour>) -> Self {
        Self { colour, ..Self::new(text) }
    }

    /// Sorted by this number, which the text shows in short; by the text without one.
    pub fn ordered(self, order: impl Into<Option<u64>>) -> Self {
        Self { order: order.into(), ..self }
    }

    /// What it is sorted by, if not by its text.
    pub const fn order(&self) -> Option<u64> {
        self.order
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its colour.
    pub const fn colour(&self) -> Option<Colour> {
        self.colour
    }

    /// Its width in characters.
    pub fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// The shape of a table: its columns' names and how wide they have become.
#[derive(Debug)]
pub struct Table {
    header: Vec<Cell>,
    widths: Vec<usize>,
    colour: bool,
    begun: bool,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[&str], colour: bool) -> Self {
        let header: Vec<Cell> = columns.iter().map(Cell::new).collect();
        Self { widths: header.iter().map(Cell::width).collect(), header, colour, begun: false }
    }

    /// Leaves the columns' names out: they take no part in the columns' widths.
    pub fn without_header(self) -> Self {
        Self { widths: vec![0; self.widths.len()], begun: true, ..self }
    }

    /// The text of these rows, after the header the first time. Columns grow and never shrink, so
    /// that later rows stay below earlier ones.
    pub fn rows(&mut self, rows: &[Vec<Cell>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            text.push_str(&self.line(&self.header));
        }
        for row in rows {
            text.push_str(&self.line(row));
        }
        text
    }

    fn line(&self, cells: &[Cell]) -> String {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            if at > 0 {
                line.push_str(GAP);
            }
            line.push_str(
                &cell.colour.map_or_else(|| cell.text.clone(), |colour| colour.paint(&cell.text, self.colour)),
            );
            if at + 1 < cells.len() {
                line.push_str(&" ".repeat(width.saturating_sub(cell.width())));
            }
        }
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_their_colour() {
        let rows = [
            vec![Cell::new("web"), Cell::coloured("Mounted", Some(Colour::Green)), Cell::new("3m")],
            vec![Cell::new("database-0"), Cell::coloured("Mounting", Some(Colour::Yellow)), Cell::new("")],
        ];
        let plain = Table::new(&["NAME", "STATUS", "AGE"], false).rows(&rows);
        assert_eq!(plain, "NAME         STATUS     AGE\nweb          Mounted    3m\ndatabase-0   Mounting   -\n");
        let coloured = Table::new(&["NAME", "STATUS", "AGE"], true).rows(&rows);
        assert!(coloured.contains("web          \u{1b}[32mMounted\u{1b}[0m    3m\n"), "{coloured:?}");
    }

    #[test]
    fn later_rows_stay_in_their_columns_and_bring_no_second_header() {
        let rows = [vec![Cell::new("a"), Cell::new("1s")], vec![Cell::new("bb"), Cell::new("2s")]];
        assert_eq!(Table::new(&["NAME", "AGE"], false).without_header().rows(&rows), "a    1s\nbb   2s\n");
        let mut table = Table::new(&["NAME", "AGE"], false);
        assert_eq!(table.rows(&[vec![Cell::new("abcdef"), Cell::new("1s")]]), "NAME     AGE\nabcdef   1s\n");
        assert_eq!(table.rows(&[vec![Cell::new("a"), Cell::new("2s")]]), "a        2s\n");
    }

    #[test]
    fn a_hostile_message_cannot_steer_the_terminal_or_break_the_line() {
        let text = Table::new(&["MESSAGE"], false).rows(&[vec![Cell::new("a\n\u{1b}[31mb\u{202e}c\t")]]);
        assert_eq!(text, "MESSAGE\na \\u{1b}[31mb\\u{202e}c \n");
    }
}
