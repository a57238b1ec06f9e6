//! The layout of a description: fields, blocks below them, tables.

use super::columns;
use super::format::{now_us, printable};
use super::list::View;
use volhost_api::pb::Kind;
use volhost_table::{Cell, Table};

/// Where a field's value begins.
const VALUE_COLUMN: usize = 14;

/// A description that is being written.
pub(super) struct Text {
    text: String,
    indent: usize,
    colour: bool,
    /// The moment that ages and next tries are counted from.
    pub(super) now_us: u64,
}

impl Text {
    /// An empty one.
    pub(super) fn new(colour: bool) -> Self {
        Self { text: String::new(), indent: 0, colour, now_us: now_us() }
    }

    /// `Name:        value`. An empty value is shown as `-`.
    pub(super) fn field(&mut self, name: &str, value: &str) {
        let value = printable(value);
        let value = if value.is_empty() { "-" } else { &value };
        let label = format!("{name}:");
        let width = VALUE_COLUMN.saturating_sub(1);
        self.line(&format!("{label:<width$} {value}"));
    }

    /// `Name:`, with what `write` adds below and to the right.
    pub(super) fn block(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.line(&format!("{}:", printable(name)));
        self.indent += 2;
        write(self);
        self.indent -= 2;
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(&" ".repeat(self.indent));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A block with a table of these objects; `none` when there are none.
    pub(super) fn table(&mut self, name: &str, kind: Kind, views: &[View]) {
        let (names, _) = columns::names(kind);
        let now = self.now_us;
        let rows = views.iter().map(|view| {
            let mut cells = columns::cells(view, false, now);
            cells.truncate(names.len());
            cells
        });
        self.cells(name, names, &rows.collect::<Vec<_>>());
    }

    /// A block with a table of these cells; `none` when there are none.
    pub(super) fn cells(&mut self, name: &str, names: &[&str], rows: &[Vec<Cell>]) {
        if rows.is_empty() {
            self.field(name, "none");
            return;
        }
        let table = Table::new(names, self.colour).rows(rows);
        self.block(name, |text| {
            for line in table.lines() {
                text.line(line);
            }
        });
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}
