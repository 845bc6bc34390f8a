//! Which source of accessed bits works here, best first, and what is lost with each.
//!
//! Invariant: a source is chosen by trying it, never by the kernel's version; what a poorer one costs in
//! truth is said in words that end up in the report.

use std::io;

use pagetables::{IdleBitmap, PageTables, Referenced, Sizes, Source};

use crate::report::{AgeGrain, AgeSource};

/// A source, and what to tell about the choice.
pub struct Chosen {
    /// The source.
    pub source: Box<dyn Source>,
    /// Why it is not a better one, and what would help; empty for the best.
    pub notes: Vec<String>,
}

/// The best source that works, or the one that is wanted.
///
/// # Errors
/// The wanted one does not work: why, and what to do.
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
    fn alone(source: Box<dyn Source>) -> Chosen {
        Chosen {
            source,
            notes: Vec::new(),
        }
    }
}

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

/// Whether `clear_refs` is there and smaps tells `Referenced` (CONFIG_PROC_PAGE_MONITOR), tried on
/// ourselves.
fn can_clear_own() -> bool {
    let referenced = std::fs::read("/proc/self/smaps")
        .is_ok_and(|text| text.windows(11).any(|part| part == b"Referenced:"));
    referenced && std::fs::write("/proc/self/clear_refs", "1").is_ok()
}

/// As reports name it.
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
