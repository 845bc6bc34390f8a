//! Arguments of `resize`.

use std::path::PathBuf;

use daemon::options::{Bytes, Millis, bytes, millis};

use super::report::cost;

/// The control group or unit whose limit is set.
#[derive(clap::Args, Debug, Clone)]
#[group(required = true, multiple = false)]
pub(crate) struct Whom {
    /// A unit, a container, a pod, or a process, which stands for its control group
    #[arg(value_name = "PID|NAME")]
    pub(crate) name: Option<String>,
    /// This control group
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// A limit, and how to test whether the group can work within it.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Resize {
    #[command(flatten)]
    pub(crate) whom: Whom,
    /// The limit
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) memory_max: Bytes,
    /// Watch for this time which pages are used, before the coldest are paged out
    #[arg(long = "look", value_name = "TIME", value_parser = millis, default_value = "20s", allow_negative_numbers = true)]
    pub(crate) scan: Millis,
    /// Print each step, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Restore the former limit if the cost exceeds --cost within this time; 0s does not watch
    #[arg(long, value_name = "TIME", value_parser = millis, default_value = "2m", allow_negative_numbers = true)]
    pub(crate) watch: Millis,
    /// How much of the watched time the group may wait for memory
    #[arg(long, value_name = "PERCENT", value_parser = cost, default_value = "0.1%", allow_negative_numbers = true)]
    pub(crate) cost: f64,
    /// If systemd sets the limit, keep the limit after the next boot, too
    #[arg(long)]
    pub(crate) persistent: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        resize: Resize,
    }

    #[test]
    fn exactly_one_target_and_a_size_are_required() {
        let line = |words: &str| Line::try_parse_from(words.split_whitespace());
        let one = line("resize redis --memory-max 1M --watch 0s").expect("both are given");
        assert_eq!(
            (one.resize.memory_max, one.resize.watch, one.resize.scan),
            (Bytes(1 << 20), Millis(0), Millis(20_000))
        );
        assert!(line("resize --cgroup a/b --memory-max 1M --dry-run --persistent").is_ok());
        for bad in [
            "resize redis",
            "resize --memory-max 1M",
            "resize redis --cgroup a --memory-max 1M",
            "resize redis --memory-max 1M --cost 0",
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
