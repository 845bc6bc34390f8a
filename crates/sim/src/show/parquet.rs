//! Writes a table as a Parquet file: one row group; each column has 64-bit numbers or text.
//!
//! Invariant: a column is text if any of its cells is text, integers if all its cells are counts,
//! and otherwise floating-point numbers. Empty cells are null.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use crate::outcome::{Cell, Table};
use crate::stats::number;

/// Writes `table` to `out`.
///
/// # Errors
/// Errors of the Parquet library or of `out`.
pub fn parquet<W: Write + Send>(table: &Table, out: W) -> Result<()> {
    let kinds: Vec<Kind> = (0..table.columns.len()).map(|c| kind(table, c)).collect();
    let fields = table.columns.iter().zip(&kinds).enumerate();
    let fields = fields
        .map(|(n, (name, &kind))| field(n, name, kind))
        .collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("table").with_fields(fields);
    // The file does not name the library's version, so the same table has the same bytes after an
    // update of the library.
    let properties = WriterProperties::builder().set_created_by("pagetide".to_owned());
    let mut writer =
        SerializedFileWriter::new(out, Arc::new(schema.build()?), Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for (column, &kind) in kinds.iter().enumerate() {
        let cells: Vec<&Cell> = table.rows.iter().map(|row| &row[column]).collect();
        write_column(&mut group, kind, &cells)?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Float,
}

fn kind(table: &Table, column: usize) -> Kind {
    let mut cells = table.rows.iter().map(|row| &row[column]);
    let fits = |cell: &Cell| match cell {
        Cell::Count(count) => i64::try_from(*count).is_ok(),
        cell => *cell == Cell::Empty,
    };
    if cells.clone().any(|cell| matches!(cell, Cell::Text(_))) {
        Kind::Text
    } else if cells.all(fits) {
        Kind::Integer
    } else {
        Kind::Float
    }
}

fn field(n: usize, name: &str, kind: Kind) -> Result<Arc<Type>> {
    let name = if name.trim().is_empty() {
        format!("column {n}")
    } else {
        name.trim().to_owned()
    };
    let physical = match kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Integer => Physical::INT64,
        Kind::Float => Physical::DOUBLE,
    };
    let field = Type::primitive_type_builder(&name, physical).with_repetition(Repetition::OPTIONAL);
    let field = match kind {
        Kind::Text => field.with_converted_type(ConvertedType::UTF8),
        _ => field,
    };
    Ok(Arc::new(field.build()?))
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    kind: Kind,
    cells: &[&Cell],
) -> Result<()> {
    let Some(mut column) = group.next_column()? else {
        return Ok(());
    };
    let present: Vec<i16> = cells.iter().map(|c| i16::from(!is_null(c))).collect();
    let cells = cells.iter().filter(|c| !is_null(c));
    match kind {
        Kind::Text => {
            let values: Vec<ByteArray> = cells.map(|c| super::cell(c).as_str().into()).collect();
            let writer = column.typed::<ByteArrayType>();
            writer.write_batch(&values, Some(&present), None)?;
        }
        Kind::Integer => {
            let values: Vec<i64> = cells.map(|c| integer(c)).collect();
            let writer = column.typed::<Int64Type>();
            writer.write_batch(&values, Some(&present), None)?;
        }
        Kind::Float => {
            let values: Vec<f64> = cells.map(|c| float(c)).collect();
            let writer = column.typed::<DoubleType>();
            writer.write_batch(&values, Some(&present), None)?;
        }
    }
    column.close()
}

const fn is_null(cell: &Cell) -> bool {
    match cell {
        Cell::Figure(value) => !value.is_finite(),
        Cell::Empty => true,
        Cell::Text(_) | Cell::Count(_) => false,
    }
}

fn integer(cell: &Cell) -> i64 {
    match cell {
        Cell::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX),
        _ => 0,
    }
}

const fn float(cell: &Cell) -> f64 {
    match cell {
        Cell::Count(count) => number(*count),
        Cell::Figure(value) => *value,
        _ => 0.0,
    }
}
