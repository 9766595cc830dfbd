//! Aligned columns that never need to see the whole table.

use std::io::{self, Write};

/// Between two columns.
const GAP: &str = "  ";

/// A table whose rows come in batches. Each batch is aligned to itself and all before
/// it, so that a list of a million rows starts to show at once.
pub(super) struct Table {
    headers: Vec<&'static str>,
    widths: Vec<usize>,
    has_begun: bool,
}

impl Table {
    /// The headers are written with the first row: an empty table shows nothing.
    pub(super) fn new(headers: &[&'static str]) -> Self {
        Self {
            headers: headers.to_vec(),
            widths: headers.iter().map(|header| header.len()).collect(),
            has_begun: false,
        }
    }

    /// Keeps a column at least this wide, for rows that come one by one.
    pub(super) fn at_least(mut self, column: usize, width: usize) -> Self {
        if let Some(current) = self.widths.get_mut(column) {
            *current = width.max(*current);
        }
        self
    }

    /// Writes some more rows.
    pub(super) fn write(&mut self, out: &mut dyn Write, rows: Vec<Vec<String>>) -> io::Result<()> {
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if !rows.is_empty() && !self.has_begun {
            self.has_begun = true;
            self.line(out, &self.headers)?;
        }
        rows.iter().try_for_each(|row| self.line(out, row))
    }

    fn line<T: AsRef<str>>(&self, out: &mut dyn Write, cells: &[T]) -> io::Result<()> {
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            let cell = cell.as_ref();
            line.push_str(cell);
            if index + 1 < cells.len() {
                let width = self.widths.get(index).copied().unwrap_or_default();
                line.extend(std::iter::repeat_n(
                    ' ',
                    width.saturating_sub(cell.chars().count()),
                ));
                line.push_str(GAP);
            }
        }
        writeln!(out, "{line}")
    }
}
