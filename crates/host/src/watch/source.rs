//! Chooses the best source of accessed bits that works here, and notes what is lost with it.
//!
//! Invariant: a source is chosen by trying it, never by the kernel's version. If a source is less
//! accurate, a note in the report says in which way.

use std::io;

use pagetables::{IdleBitmap, PageTables, Referenced, Sizes, Source};

use crate::report::{AgeGrain, AgeSource};

/// The chosen source of accessed bits, with notes on the choice.
pub struct Chosen {
    /// The chosen source.
    pub source: Box<dyn Source>,
    /// Why no better source works, and what would help; empty if this is the best source.
    pub notes: Vec<String>,
}

/// Opens the source `wanted`, or the best that works if it is `None`.
///
/// # Errors
/// The wanted source does not work. Contains the reason, then what to do.
pub fn choose(wanted: Option<AgeSource>) -> Result<Chosen, (String, String)> {
    match wanted {
        None => Ok(best()),
        Some(AgeSource::PageTables) => {
            let reader =
                PageTables::open().map_err(|error| (error.to_string(), error.hint().to_owned()))?;
            Ok(Chosen::alone(Box::new(reader)))
        }
        Some(AgeSource::IdleBitmap) => {
            let bitmap =
                IdleBitmap::open().map_err(|error| (no_bitmap(&error), BITMAP_HINT.to_owned()))?;
            Ok(Chosen::alone(Box::new(bitmap)))
        }
        Some(AgeSource::Referenced) => Ok(Chosen::alone(Box::new(Referenced::default()))),
        Some(AgeSource::None) => Ok(Chosen::alone(Box::new(Sizes::default()))),
    }
}

const BITMAP_HINT: &str = "use a kernel built with CONFIG_IDLE_PAGE_TRACKING, as root";

fn no_bitmap(error: &io::Error) -> String {
    format!("cannot open the idle-page bitmap (/sys/kernel/mm/page_idle/bitmap): {error}")
}

impl Chosen {
    /// Creates a choice without notes.
    fn alone(source: Box<dyn Source>) -> Chosen {
        Chosen {
            source,
            notes: Vec::new(),
        }
    }
}

/// Opens the best source that works here.
fn best() -> Chosen {
    let mut notes = Vec::new();
    match PageTables::open() {
        Ok(reader) => return Chosen::alone(Box::new(reader)),
        Err(error) => notes.push(format!(
            "page tables are not read: {error}; to change that: {}",
            error.hint()
        )),
    }
    if let Ok(bitmap) = IdleBitmap::open() {
        return Chosen {
            source: Box::new(bitmap),
            notes,
        };
    }
    if can_clear_own() {
        notes.push("ages are those of whole mappings, by smaps' Referenced: a mapping is as young as its youngest page".to_owned());
        return Chosen {
            source: Box::new(Referenced::default()),
            notes,
        };
    }
    notes.push(
        "accessed bits may not be cleared (/proc/PID/clear_refs): sizes only, all ages are unknown"
            .to_owned(),
    );
    Chosen {
        source: Box::new(Sizes::default()),
        notes,
    }
}

/// Returns whether `clear_refs` exists and smaps contains `Referenced` (CONFIG_PROC_PAGE_MONITOR),
/// by trying both on our own process.
fn can_clear_own() -> bool {
    let referenced = std::fs::read("/proc/self/smaps")
        .is_ok_and(|text| text.windows(11).any(|part| part == b"Referenced:"));
    referenced && std::fs::write("/proc/self/clear_refs", "1").is_ok()
}

/// Returns the names, for reports, of a source and of the unit of memory that has one age with it.
pub(super) fn names(source: &dyn Source) -> (AgeSource, AgeGrain) {
    let kind = match source.kind() {
        pagetables::SourceKind::PageTables => AgeSource::PageTables,
        pagetables::SourceKind::IdleBitmap => AgeSource::IdleBitmap,
        pagetables::SourceKind::Referenced => AgeSource::Referenced,
        pagetables::SourceKind::None => AgeSource::None,
    };
    let grain = match source.grain() {
        pagetables::Grain::Page => AgeGrain::Page,
        pagetables::Grain::Mapping => AgeGrain::Mapping,
        pagetables::Grain::None => AgeGrain::None,
    };
    (kind, grain)
}
