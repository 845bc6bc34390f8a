//! Converts the text of an experiment file to runs: applies the assignments of `--set`, combines
//! the values of a sweep, and checks everything.
//!
//! Invariant: a run of a [`Plan`] never fails, and never needs more memory or time than the limits
//! here allow.

use super::assign::{assign, assignment, spelled_out};
use super::baseline;
use super::error::{ScenarioError, Source};
use super::file::{
    AccessedBits, File, Global, MemcgLruName, PatternName, PolicyName, Reclaim, ReclaimName, Run,
    Tenant, Work,
};
use super::hierarchy::Hierarchy;
use super::recorded::Recordings;
use engine::{Bytes, NodeId, Pages};
use std::path::Path;
use toml::{Spanned, Table, Value};

/// Maximum length of a file, bytes.
pub const TEXT_MAX: usize = 1 << 20;
/// Maximum number of runs of a sweep.
const RUNS_MAX: usize = 4096;
/// Maximum number of pages of all tenants together: 256 GiB.
const PAGES_MAX: u64 = 1 << 26;
const TENANTS_MAX: u64 = 100_000;
/// Maximum number of touches of all runs together; so many take some hours.
const TOUCHES_MAX: u128 = 1 << 42;
const STEPS_MAX: u64 = 100_000_000;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The swept keys, with their values in this run.
    pub values: Vec<(String, Value)>,
    /// The content of the file, with these values.
    pub file: File,
}

/// All runs of a file.
#[derive(Clone, Debug)]
pub struct Plans {
    /// The runs, one for each combination of the swept values, in the order of the file; the values
    /// of the last key change fastest. All runs have the same number of tenants.
    pub runs: Vec<Plan>,
}

impl Plans {
    /// Returns the paths of the recordings that are replayed.
    pub fn recordings(&self) -> impl Iterator<Item = &Path> {
        let tenants = self.runs.iter().flat_map(|plan| &plan.file.tenant);
        let works = tenants.flat_map(|tenant| &tenant.get_ref().work);
        works.filter_map(|work| Some(work.get_ref().recorded.as_ref()?.file()))
    }
}

/// Parses `text`, the content of the file `name`. `set` are assignments `key=value` that replace
/// values of the file.
///
/// # Errors
/// If the file is wrong: [`ScenarioError`] with file, line, reason and remedy.
pub fn parse(name: &str, text: &str, set: &[String]) -> Result<Plans, ScenarioError> {
    parse_within(Path::new(""), name, text, set)
}

/// Does what [`parse`] does, and reads recordings from `folder`.
///
/// # Errors
/// As for [`parse`].
pub fn parse_within(
    folder: &Path,
    name: &str,
    text: &str,
    set: &[String],
) -> Result<Plans, ScenarioError> {
    let source = Source { name, text };
    let mut recordings = Recordings::within(folder);
    if text.len() > TEXT_MAX {
        let what = format!("the file is longer than {TEXT_MAX} bytes; {TEXT_MAX} are the most");
        return Err(source.error(None, what, "split it"));
    }
    let file: File = toml::from_str(text).map_err(|error| source.toml(&error))?;
    check(source, &file)?;
    let mut table: Table = toml::from_str(text).map_err(|error| source.toml(&error))?;
    let keys = set_values(source, &mut table, set)?;
    let mut swept = match table.remove("sweep") {
        Some(Value::Table(swept)) => swept,
        None => Table::new(),
        Some(_) => {
            let what = "--set sweep: it is no table";
            return Err(source.error(None, what, "give a key of it a list of values"));
        }
    };
    drop_assigned_sweeps(source, (&table, keys), &mut swept)?;
    let combinations = combinations(source, &swept)?;
    let mut runs = Vec::new();
    for values in combinations {
        let mut run = plan(source, &table, values).map_err(|error| {
            // If the file is wrong also without the swept values, these are not the cause.
            let alone = plan(source, &table, Vec::new()).err();
            alone.filter(|_| !set.is_empty()).unwrap_or(error)
        })?;
        load(source, &mut run.file, &mut recordings)?;
        runs.push(run);
    }
    let tenants = |plan: &Plan| plan.file.tenant.len();
    if runs.iter().any(|run| tenants(run) != tenants(&runs[0])) {
        let what = "sweep: a value has other tenants than another";
        let hint = "sweep `count` of a tenant, or give each number of tenants a file of its own";
        return Err(source.error(source.text.find("[sweep]"), what, hint));
    }
    check_bounds(source, &runs)?;
    Ok(Plans { runs })
}

/// Applies the assignments of `--set`. Returns each assignment, with its key in the spelling of
/// [`spelled_out`].
fn set_values<'a>(
    source: Source<'_>,
    table: &mut Table,
    set: &'a [String],
) -> Result<Vec<(&'a str, String)>, ScenarioError> {
    let mut keys = Vec::new();
    for given in set {
        let (key, value) = assignment(given).ok_or_else(|| {
            let what = format!("--set {given}: this is not KEY=VALUE");
            source.error(None, what, "e.g. --set run.seed=7")
        })?;
        // The key is spelled out before it is assigned, because a later assignment may rename a
        // tenant.
        keys.push((given.as_str(), spelled_out(table, &key)));
        assign(table, &key, value).map_err(|why| {
            let what = format!("--set {given}: {why}");
            source.error(
                None,
                what,
                "keys are as in the file, e.g. tenant.db.memory-max=1G",
            )
        })?;
    }
    Ok(keys)
}

/// Removes a key from the sweep if `--set` assigns it: only the assigned value is run.
fn drop_assigned_sweeps(
    source: Source<'_>,
    (table, keys): (&Table, Vec<(&str, String)>),
    swept: &mut Table,
) -> Result<(), ScenarioError> {
    for (given, key) in keys {
        let within = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}."));
        // The assignment may have set a whole table that includes the swept key.
        swept.retain(|swept, _| !within(&spelled_out(table, swept), &key));
        if let Some((whole, _)) = swept
            .iter()
            .find(|(swept, _)| within(&key, &spelled_out(table, swept)))
        {
            let what = format!("--set {given}: it is part of `{whole}`, which is swept");
            return Err(source.error(
                None,
                what,
                "set the whole of it, or sweep no more than that part",
            ));
        }
    }
    Ok(())
}

fn plan(
    source: Source<'_>,
    table: &Table,
    values: Vec<(String, Value)>,
) -> Result<Plan, ScenarioError> {
    let mut table = table.clone();
    let names: Vec<String> = values.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    let line = source.text.find("[sweep]").filter(|_| !values.is_empty());
    let complain = |what: String, hint: String| {
        let with = if names.is_empty() {
            "with --set".to_owned()
        } else {
            names.join(", ")
        };
        source.error(line, format!("{with}: {what}"), hint)
    };
    for (key, value) in &values {
        assign(&mut table, key, value.clone()).map_err(|why| {
            let hint = "a key is as in the file, e.g. \"tenant.db.memory-max\"";
            complain(why, hint.to_owned())
        })?;
    }
    // The table is converted to text and parsed again, because only parsed text has positions for
    // errors.
    let text =
        toml::to_string(&table).map_err(|error| complain(error.to_string(), String::new()))?;
    let again = Source {
        name: source.name,
        text: &text,
    };
    let file: File = toml::from_str(&text).map_err(|error| {
        let reported = again.toml(&error);
        complain(reported.what, reported.hint)
    })?;
    check(again, &file).map_err(|reported| complain(reported.what, reported.hint))?;
    Ok(Plan { values, file })
}

/// Reads the recordings that a run replays.
fn load(
    source: Source<'_>,
    file: &mut File,
    recordings: &mut Recordings,
) -> Result<(), ScenarioError> {
    for tenant in &mut file.tenant {
        for spanned in &mut tenant.get_mut().work {
            let work = spanned.get_mut();
            if let Some(name) = &work.file {
                let read = recordings.get(name);
                let reported =
                    |what| source.error(None, what, "`pagetide run --record FILE` makes one");
                work.recorded = Some(read.map_err(reported)?);
            }
        }
    }
    Ok(())
}

/// Returns every combination of the swept values; one empty combination if nothing is swept.
fn combinations(
    source: Source<'_>,
    sweep: &Table,
) -> Result<Vec<Vec<(String, Value)>>, ScenarioError> {
    let mut all: Vec<Vec<(String, Value)>> = vec![Vec::new()];
    let at = source.text.find("[sweep]");
    for (key, values) in sweep {
        let values = values.as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| {
            let what = format!("sweep: `{key}` is no list of values");
            let hint = "quote the whole key: \"run.memory\" = [\"1G\", \"2G\"]";
            source.error(at, what, hint)
        })?;
        // All values must have the same unit, in which the table and an axis show them.
        if values.iter().any(Value::is_integer) && values.iter().any(Value::is_str) {
            let what = format!("sweep: `{key}` has numbers beside texts");
            return Err(source.error(at, what, "give all of them a unit: [\"512M\", \"1G\"]"));
        }
        if all.len().saturating_mul(values.len()) > RUNS_MAX {
            let what = format!("sweep: more than {RUNS_MAX} combinations");
            return Err(source.error(at, what, "sweep fewer values at a time"));
        }
        let longer = |old: &Vec<(String, Value)>, value: &Value| {
            let mut new = old.clone();
            new.push((key.clone(), value.clone()));
            new
        };
        all = all
            .iter()
            .flat_map(|old| values.iter().map(move |value| longer(old, value)))
            .collect();
    }
    Ok(all)
}

/// Returns the tree of the file's tenants.
fn tree(source: Source<'_>, file: &File) -> Result<Hierarchy, ScenarioError> {
    Hierarchy::new(file).map_err(|wrong| {
        let tenant = &file.tenant[wrong.tenant];
        let what = format!("tenant `{}`: {}", tenant.get_ref().name, wrong.what);
        source.error(Some(tenant.span().start), what, wrong.hint)
    })
}

/// Checks that a tenant with a balloon has a memory limit and no children, and that the LRU policy
/// has ages of pages.
fn check_guest(
    source: Source<'_>,
    (at, tenant): (Option<usize>, &Tenant),
    (classic, has_children): (bool, bool),
) -> Result<(), ScenarioError> {
    let older_than = tenant.balloon_older_than;
    let wrong = match (older_than, tenant.balloon_every) {
        (None, None) => return Ok(()),
        (None, Some(_)) => "balloon-every without balloon-older-than",
        (Some(_), Some(every)) if every.0 == 0 => "balloon-every is 0",
        (Some(age), _) if age.0 == 0 => "balloon-older-than is 0",
        _ if tenant.memory_max.is_none() => "a balloon without memory-max",
        _ if has_children => "a balloon of a tenant with others below it",
        _ if classic => "a balloon under the active/inactive LRU, which knows no ages",
        _ => return Ok(()),
    };
    let hint = "e.g. memory-max = \"1G\", balloon-older-than = \"10s\", policy = \"multi-gen\"";
    Err(source.error(at, format!("tenant `{}`: {wrong}", tenant.name), hint))
}

/// Checks that tenants with a policy are aged, under the multi-gen LRU, because policies decide by
/// ages.
fn check_policy(
    source: Source<'_>,
    (at, tenant): (Option<usize>, &Tenant),
    run: &Run,
) -> Result<(), ScenarioError> {
    let wrong = match tenant.policy {
        None => return Ok(()),
        _ if run.age_every.is_none() => "a policy without age-every",
        _ if run.policy.is_classic() => {
            "a policy under the active/inactive LRU, which knows no ages"
        }
        _ => return Ok(()),
    };
    let hint = "e.g. in [run]: age-every = \"10s\", policy = \"multi-gen\"";
    Err(source.error(at, format!("tenant `{}`: {wrong}", tenant.name), hint))
}

/// Checks a run with `reclaim = "host"`. Returns what is wrong with it, and a hint; `None` if
/// nothing is.
fn find_fault_of_host(run: &Run) -> Option<(&'static str, &'static str)> {
    match () {
        () if run.reclaim == ReclaimName::Kernel => None,
        () if run.age_every.is_none() => Some((
            "without age-every",
            "a host scans at an interval: age-every = \"10s\" is the default of `serve`",
        )),
        () if run.policy != PolicyName::MultiGen => Some((
            "with another policy than multi-gen",
            "leave policy out: `serve` has generations",
        )),
        () if run.memcg_lru != MemcgLruName::Newer => Some((
            "with memcg-lru = \"seed\"",
            "leave memcg-lru out: `serve` has that of current kernels",
        )),
        () if run.reclaimers != 1 => Some((
            "with several reclaimers",
            "leave reclaimers out: `serve` has one",
        )),
        () => None,
    }
}

/// Checks the rules that the types of the file cannot express.
fn check(source: Source<'_>, file: &File) -> Result<(), ScenarioError> {
    let run = &file.run;
    if run.step.0 == 0 || run.duration.0 / run.step.0.max(1) > STEPS_MAX {
        let hint = "a step is 1 ms at least, e.g. step = \"100ms\"";
        return Err(source.error(None, "run: no step, or too many of them", hint));
    }
    if let Some((at, what)) = baseline::complaint(file) {
        let hint =
            "each tenant has memory-max and no other limit, and the run no memory of its own";
        return Err(source.error(at, what, hint));
    }
    let classic = run.policy.is_classic();
    if let Some((at, what)) = find_wrong_node(file, classic) {
        return Err(source.error(at, what, "nodes are 0 to 7, with a multi-gen policy"));
    }
    if classic && run.accessed_bits == AccessedBits::PageTables {
        let hint = "use accessed-bits = \"engine\" with it";
        let what = "run: the active/inactive LRU looks at accessed bits of the engine only";
        return Err(source.error(None, what, hint));
    }
    if run.memcg_lru == MemcgLruName::Seed && run.global() != Global::MemcgLru {
        let hint = "leave memcg-lru out, or set global = \"memcg-lru\"";
        let what = "run: memcg-lru = \"seed\" where reclaim of the root does not use the memcg LRU";
        return Err(source.error(None, what, hint));
    }
    if let Some((what, hint)) = find_fault_of_host(run) {
        let what = format!("run: reclaim = \"host\" {what}");
        return Err(source.error(None, what, hint));
    }
    if !(1..=64).contains(&run.reclaimers) {
        let what = format!("run: {} reclaimers", run.reclaimers);
        return Err(source.error(None, what, "1 to 64 can be at work at once"));
    }
    if run.age_every.is_some_and(|every| every.0 == 0) {
        return Err(source.error(None, "run: age-every is 0", "leave it out, or e.g. \"10s\""));
    }
    if file.tenant.is_empty() {
        let hint = "add [[tenant]] with a name and [[tenant.work]]";
        return Err(source.error(None, "there is no tenant", hint));
    }
    let mut names = Vec::new();
    for spanned in &file.tenant {
        let (at, tenant) = (Some(spanned.span().start), spanned.get_ref());
        if names.contains(&tenant.name.as_str()) {
            let what = format!("two tenants are called `{}`", tenant.name);
            return Err(source.error(at, what, "give them different names, or a count"));
        }
        names.push(&tenant.name);
    }
    let tree = tree(source, file)?;
    for (n, spanned) in file.tenant.iter().enumerate() {
        let (at, tenant) = (Some(spanned.span().start), spanned.get_ref());
        check_tenant(source, (at, tenant), tree.has_children(n))?;
        check_guest(source, (at, tenant), (classic, tree.has_children(n)))?;
        check_policy(source, (at, tenant), run)?;
    }
    for spanned in &file.reclaim {
        let (at, reclaim) = (Some(spanned.span().start), spanned.get_ref());
        let unknown = |name: &&String| !names.contains(&name.as_str());
        if let Some(name) = reclaim.tenant.as_ref().filter(unknown) {
            let what = format!("reclaim: there is no tenant `{name}`");
            return Err(source.error(at, what, "leave it out to reclaim the root"));
        }
        if reclaim.every.is_some_and(|every| every.0 == 0) {
            return Err(source.error(at, "reclaim: every is 0", "e.g. every = \"6s\""));
        }
        check_swappiness(source, at, reclaim.swappiness)?;
    }
    Ok(())
}

/// Finds a memory node that the machine cannot have. Returns the byte where it is, and a message.
fn find_wrong_node(file: &File, is_classic: bool) -> Option<(Option<usize>, String)> {
    let works = file.tenant.iter().flat_map(|tenant| &tenant.get_ref().work);
    let works = works.map(|work| (work.span().start, work.get_ref().node));
    let of_reclaim = |spanned: &Spanned<Reclaim>| {
        let node = spanned.get_ref().node?;
        Some((spanned.span().start, node))
    };
    let reclaims = file.reclaim.iter().filter_map(of_reclaim);
    let has_lists = is_classic || baseline::curve_policy(file.run.policy).is_some();
    let wrong =
        |&(_, node): &(usize, u8)| usize::from(node) >= NodeId::MAX || (has_lists && node > 0);
    let (at, node) = works.chain(reclaims).find(wrong)?;
    Some((Some(at), format!("there is no node {node}")))
}

fn check_swappiness(
    source: Source<'_>,
    at: Option<usize>,
    swappiness: Option<u8>,
) -> Result<(), ScenarioError> {
    match swappiness {
        Some(value) if value > 201 => {
            let hint = "0 to 200, or 201 for anon only";
            Err(source.error(at, format!("swappiness {value} is too large"), hint))
        }
        _ => Ok(()),
    }
}

fn check_tenant(
    source: Source<'_>,
    (at, tenant): (Option<usize>, &Tenant),
    has_children: bool,
) -> Result<(), ScenarioError> {
    check_swappiness(source, at, tenant.swappiness)?;
    let complain = |what: &str, hint: &str| {
        Err(source.error(at, format!("tenant `{}`: {what}", tenant.name), hint))
    };
    if tenant.count == 0 || tenant.name.is_empty() {
        return complain(
            "it has no name, or there are none of it",
            "count is at least 1",
        );
    }
    if let (Some(min), Some(max)) = (tenant.memory_min, tenant.memory_max)
        && min > max
    {
        return complain("memory-min is above memory-max", "lower memory-min");
    }
    // A limit is rounded down to whole pages, but a size is rounded up.
    if tenant
        .memory_max
        .is_some_and(|max| Bytes(max.0).pages() == Pages(0))
    {
        return complain(
            "memory-max is below a page: none of its pages fits",
            "give a page (4096) or more",
        );
    }
    if tenant.work.is_empty() && !has_children {
        let hint = "add [[tenant.work]], or tenants with it as their parent";
        return complain("it does nothing", hint);
    }
    for spanned in &tenant.work {
        let (at, work) = (Some(spanned.span().start), spanned.get_ref());
        if let Some((what, hint)) = find_fault(work) {
            let what = format!("work of `{}`: {what}", tenant.name);
            return Err(source.error(at, what, hint));
        }
    }
    Ok(())
}

fn find_fault(work: &Work) -> Option<(&'static str, &'static str)> {
    use PatternName::{Ebizzy, FioZipf, HotCold, Recording, Zipf};
    let takes_exponent = matches!(work.pattern, Zipf | FioZipf | Ebizzy);
    let hot = work.hot.is_some() || work.hot_touches.is_some() || work.phase.is_some();
    if work.pattern == Recording {
        return find_fault_of_recording(work);
    }
    let size = work.size.unwrap_or_default();
    match () {
        () if work.size.is_none() => Some(("missing field `size`", "e.g. size = \"512M\"")),
        () if work.rate.is_none() => Some(("missing field `rate`", "e.g. rate = 1000")),
        () if work.file.is_some() => Some((
            "a file is for recordings only",
            "leave it out, or pattern = \"recording\"",
        )),
        () if size.0 == 0 || size.pages() > PAGES_MAX => {
            Some(("its size is 0 or above 256G", "e.g. size = \"512M\""))
        }
        () if work.exponent.is_some_and(|e| !(0.0..=10.0).contains(&e)) => {
            Some(("the exponent is not in 0 to 10", "e.g. exponent = 0.9"))
        }
        () if work.exponent.is_some() && !takes_exponent => Some((
            "its pattern takes no exponent",
            "zipf, fio-zipf and ebizzy do",
        )),
        () if matches!(work.pattern, Zipf | FioZipf) && work.exponent.is_none() => {
            Some(("zipf needs an exponent", "e.g. exponent = 0.9"))
        }
        () if hot && work.pattern != HotCold => Some((
            "hot, hot-touches and phase are for hot-cold only",
            "leave them out, or pattern = \"hot-cold\"",
        )),
        () if work.phase.is_some_and(|phase| phase.0 == 0) => {
            Some(("its phase is 0", "e.g. phase = \"10s\""))
        }
        () if work.chunk.is_some() && work.pattern != Ebizzy => {
            Some(("a chunk is for ebizzy only", "leave it out"))
        }
        () if work.chunk.is_some_and(|chunk| chunk.0 == 0 || chunk > size) => Some((
            "its chunk is 0 or larger than its size",
            "e.g. chunk = \"512K\"",
        )),
        () => None,
    }
}

/// Checks the keys of a recording: only its path and the kind of memory may be given. Returns what
/// is wrong, and a hint; `None` if nothing is.
fn find_fault_of_recording(work: &Work) -> Option<(&'static str, &'static str)> {
    let has_more = work.size.is_some()
        || work.rate.is_some()
        || work.exponent.is_some()
        || work.hot.is_some()
        || work.hot_touches.is_some()
        || work.phase.is_some()
        || work.chunk.is_some();
    match () {
        () if work.file.is_none() => Some((
            "a recording without its file",
            "e.g. file = \"redis.rec\", of `pagetide run --record redis.rec`",
        )),
        () if has_more => Some((
            "a recording has its own size, rate and pattern",
            "leave size, rate and what belongs to other patterns out",
        )),
        () => None,
    }
}

/// Checks the limits on the touches of all runs together, and on the tenants and pages of each run.
fn check_bounds(source: Source<'_>, runs: &[Plan]) -> Result<(), ScenarioError> {
    let mut touches = 0u128;
    for plan in runs {
        let (mut pages, mut tenants) = (0u64, 0u64);
        let tree = tree(source, &plan.file)?;
        for (n, tenant) in plan.file.tenant.iter().enumerate() {
            let (tenant, count) = (tenant.get_ref(), tree.instances(n));
            tenants = tenants.saturating_add(count);
            for work in tenant.work.iter().map(Spanned::get_ref) {
                pages = pages.saturating_add(work.pages().saturating_mul(count));
                let recorded = work.recorded.as_ref();
                let accesses = recorded.map_or(0, |recorded| recorded.accesses());
                touches += accesses as u128 * u128::from(count);
                let seconds = u128::from(plan.file.run.duration.0).div_ceil(1000);
                touches += u128::from(work.rate()) * seconds * u128::from(count);
            }
        }
        if pages > PAGES_MAX || tenants > TENANTS_MAX {
            let what = format!("{tenants} tenants with {pages} pages in all");
            let hint = format!("{TENANTS_MAX} tenants and {PAGES_MAX} pages (256G) are the most");
            return Err(source.error(None, what, hint));
        }
    }
    if touches > TOUCHES_MAX {
        let what = format!("{touches} touches in all runs together would take days");
        return Err(source.error(None, what, "lower rate, duration, counts or the sweep"));
    }
    Ok(())
}
