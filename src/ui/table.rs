//! Columns of text. Every cell is cleaned: what stands in it may come from a node.

use std::fmt::Write as _;

use super::{Hue, Palette, clean};

/// A table that keeps the widths of its columns, so that rows can be added page by page.
#[derive(Clone, Debug, Default)]
pub struct Table {
    widths: Vec<usize>,
}

/// Between two columns.
const GAP: usize = 2;

impl Table {
    /// A table with these titles, which is wide enough for `rows`; the line of titles.
    pub fn open<'a>(
        titles: &[&str],
        rows: impl IntoIterator<Item = &'a Vec<String>>,
    ) -> (Self, String) {
        let mut widths: Vec<usize> = titles.iter().map(|title| width(title)).collect();
        for row in rows {
            for (column, cell) in widths.iter_mut().zip(row) {
                *column = (*column).max(width(cell));
            }
        }
        let table = Self { widths };
        let line = table.row(&titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>());
        (table, line)
    }

    /// One row as a line, with its line end.
    pub fn row(&self, cells: &[String]) -> String {
        self.painted(cells, Palette::Plain, |_| None)
    }

    /// The same with colours, by the number of the column.
    pub fn painted(
        &self,
        cells: &[String],
        palette: Palette,
        hue: impl Fn(usize) -> Option<Hue>,
    ) -> String {
        let mut line = String::new();
        for (place, cell) in cells.iter().enumerate() {
            let cell = clean(cell);
            let painted = palette.paint(hue(place).filter(|_| !cell.is_empty()), &cell);
            // Writing to a String cannot fail.
            let _ = if place + 1 == cells.len() {
                write!(line, "{painted}")
            } else {
                let room = self.widths.get(place).copied().unwrap_or(0);
                let fill = room.saturating_sub(width(&cell)) + GAP;
                write!(line, "{painted}{:fill$}", "")
            };
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_clean() {
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["\x1b[2Jbü".into(), "2".into()]];
        let (table, titles) = Table::open(&["KEY", "N"], &rows);
        assert_eq!(titles, "KEY     N\n");
        assert_eq!(table.row(&rows[0]), "a       1\n");
        assert_eq!(table.row(&rows[1]), "\u{fffd}[2Jbü  2\n");
        assert_eq!(table.row(&["x".into(), String::new()]), "x\n");
        // Colour is for words that were cleaned before, and takes no room.
        let all = |palette| table.painted(&rows[1], palette, |_| Some(Hue::Bad));
        assert_eq!(all(Palette::Plain), table.row(&rows[1]));
        let painted = "\x1b[31m\u{fffd}[2Jbü\x1b[0m  \x1b[31m2\x1b[0m\n";
        assert_eq!(all(Palette::Coloured), painted);
    }
}
