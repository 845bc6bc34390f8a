//! Real processes: shells in control groups of their own, which fork, daemonize, exec and end.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;
use crate::system::testing::OwnGroup;

/// A shell that does what it is told. All that it starts stays in its control group, and is ended
/// with it.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    group: OwnGroup,
}

impl Shell {
    /// `front` is put before the shell: `setsid` gives it a session of its own.
    fn start(name: &str, front: &str) -> Shell {
        let group = OwnGroup::new(name);
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec {front} sh",
            group.dir.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut shell = Shell {
            child,
            input,
            output,
            group,
        };
        shell.tell("true");
        shell
    }

    /// Has a command carried out; the pid that it printed last, if it did.
    fn tell(&mut self, command: &str) -> Option<u32> {
        // In one piece, because a shell that execs takes what it has read along to its grave.
        self.input
            .write_all(format!("{command}\necho done\n").as_bytes())
            .expect("told");
        let mut pid = None;
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).expect("a line") > 0,
                "the shell ended"
            );
            if line == "done\n" {
                return pid;
            }
            pid = line.trim().parse().ok();
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn family(&self, target: Target) -> Family {
        let _ = &self.group;
        let proc = Proc::system().unwrap();
        let groups = Groups::find(&proc).unwrap();
        Family::new(proc, Some(groups), target).unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn pids(family: &Family) -> Vec<u32> {
    let mut pids: Vec<u32> = family.members().map(|member| member.identity.pid).collect();
    pids.sort_unstable();
    pids
}

fn sorted<const N: usize>(mut pids: [u32; N]) -> Vec<u32> {
    pids.sort_unstable();
    pids.to_vec()
}

#[test]
fn events_follow_daemons() {
    let mut shell = Shell::start("events", "");
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::Descendants(shell.pid()));
    family.update(Some(&mut events), None).unwrap();
    assert_eq!(pids(&family), [shell.pid()]);
    // The parents of these end at once, and nothing of the family is left to see in the last.
    let orphan = shell.tell("(sleep 50 > /dev/null & echo $!)").unwrap();
    let session = shell
        .tell("(setsid sleep 50 > /dev/null & echo $!)")
        .unwrap();
    let double = shell
        .tell("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(!changes.lost && changes.gone.is_empty());
    assert_eq!(
        pids(&family),
        sorted([shell.pid(), orphan, session, double])
    );
    assert_eq!(changes.new.len(), 3);
    // Three subshells, one of which became `setsid sh` itself or ended before it.
    let ended = family.ended();
    assert!(
        ended.by_events && ended.unseen == ended.processes && ended.unseen >= 3,
        "{ended:?}"
    );
    assert_eq!(family.maybe_missed(), 0);

    // Short lives are counted exactly, and statuses are told.
    shell.tell("for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done");
    kill(orphan);
    let before = family.ended();
    let gone_at = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let mut gone = Vec::new();
    while gone.is_empty() && std::time::Instant::now() < gone_at {
        gone.extend(family.update(Some(&mut events), None).unwrap().gone);
    }
    assert_eq!((gone.len(), gone[0].identity.pid), (1, orphan));
    assert_eq!(gone[0].how, Departure::Ended { status: Some(9) });
    assert_eq!(family.ended().unseen - before.unseen, 10);
}

#[test]
fn execs_void_what_was_known() {
    for with_events in [true, false] {
        let mut shell = Shell::start("execs", "");
        let mut events = with_events.then(|| Events::open().unwrap());
        let mut family = shell.family(Target::Descendants(shell.pid()));
        family.update(events.as_mut(), None).unwrap();
        let identity = family.member(shell.pid()).unwrap().identity;
        assert!(
            family
                .update(events.as_mut(), None)
                .unwrap()
                .execs
                .is_empty()
        );
        shell.tell("exec sh -c 'echo done; read x'");
        assert_eq!(
            family.update(events.as_mut(), None).unwrap().execs,
            [identity]
        );
        assert!(
            family
                .update(events.as_mut(), None)
                .unwrap()
                .execs
                .is_empty(),
            "once"
        );
    }
}

#[test]
fn looks_find_orphans_of_a_session_of_its_own() {
    let mut shell = Shell::start("session", "setsid");
    let mut family = shell.family(Target::Descendants(shell.pid()));
    let changes = family.update(None, None).unwrap();
    assert_eq!((changes.new.len(), pids(&family)), (1, vec![shell.pid()]));
    let orphan = shell.tell("(sleep 50 > /dev/null & echo $!)").unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), orphan]));
    // Once a member, always one: its session tells of it no longer, and it needs not.
    kill(shell.pid());
    shell.child.wait().unwrap();
    let changes = family.update(None, None).unwrap();
    assert_eq!((changes.gone.len(), pids(&family)), (1, vec![orphan]));
    assert_eq!(changes.gone[0].how, Departure::Ended { status: None });
    assert_eq!(
        (family.ended().processes, family.ended().by_events),
        (1, false)
    );
}

#[test]
fn looks_find_orphans_in_a_control_group_of_its_own() {
    let mut shell = Shell::start("home", "");
    let mut family = shell.family(Target::Descendants(shell.pid()));
    family.update(None, None).unwrap();
    // Its session is new, and who began it was never seen: only the control group tells.
    let double = shell
        .tell("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), double]));
    assert_eq!(family.maybe_missed(), 0);
    // A stranger in the group: now it proves nothing.
    let stranger = Shell::start("stranger", "");
    family.update(None, None).unwrap();
    std::fs::write(
        shell.group.dir.join("cgroup.procs"),
        stranger.pid().to_string(),
    )
    .unwrap();
    family.update(None, None).unwrap();
    shell
        .tell("(setsid sh -c 'sleep 50 > /dev/null & echo $!')")
        .unwrap();
    family.update(None, None).unwrap();
    assert_eq!(pids(&family), sorted([shell.pid(), double]));
    assert_eq!(family.maybe_missed(), 1);
    family.update(None, None).unwrap();
    assert_eq!(family.maybe_missed(), 1, "once");
}

#[test]
fn a_group_and_who_is_moved() {
    for with_events in [true, false] {
        let mut shell = Shell::start("group", "");
        let proc = Proc::system().unwrap();
        let group = Groups::find(&proc).unwrap();
        let group = group.resolve(shell.group.dir.to_str().unwrap()).unwrap();
        let mut events = with_events.then(|| Events::open().unwrap());
        let mut family = shell.family(Target::Group(group));
        family.update(events.as_mut(), None).unwrap();
        let child = shell.tell("sleep 50 > /dev/null & echo $!").unwrap();
        shell.tell("/bin/true");
        assert_eq!(
            family.update(events.as_mut(), None).unwrap().new[0]
                .identity
                .pid,
            child
        );
        assert_eq!(pids(&family), sorted([shell.pid(), child]));
        assert_eq!(family.ended().unseen, u64::from(with_events));
        let other = OwnGroup::new("other");
        std::fs::write(other.dir.join("cgroup.procs"), child.to_string()).unwrap();
        let changes = family.update(events.as_mut(), None).unwrap();
        assert_eq!(
            (changes.gone.len(), changes.gone[0].how),
            (1, Departure::Moved)
        );
        assert_eq!(pids(&family), [shell.pid()]);
        assert_eq!(family.ended().processes, u64::from(with_events));
    }
}

/// Who is listed may have ended since, and who has come since is not listed.
#[test]
fn a_listing_is_older_than_the_events_that_come_with_it() {
    let mut shell = Shell::start("listed", "");
    let proc = Proc::system().unwrap();
    let group = Groups::find(&proc).unwrap();
    let group = group.resolve(shell.group.dir.to_str().unwrap()).unwrap();
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::Group(group));
    family.update(Some(&mut events), None).unwrap();
    let ended = shell.tell("sleep 50 > /dev/null & echo $!").unwrap();
    let mut update = |family: &mut Family, listed: &[u32]| {
        let listed = Some(listed.to_vec());
        let changes = family.update(Some(&mut events), listed).unwrap();
        changes.new.len()
    };
    assert_eq!(update(&mut family, &[shell.pid(), ended]), 1);
    let child = shell.tell("sleep 50 > /dev/null & echo $!").unwrap();
    shell.tell(&format!("kill -9 {ended}; wait {ended}; true"));
    assert_eq!(update(&mut family, &[shell.pid(), ended]), 0);
    assert_eq!(pids(&family), [shell.pid()]);
    assert_eq!(update(&mut family, &[shell.pid(), child]), 1);
    assert_eq!(pids(&family), sorted([shell.pid(), child]));
    // From elsewhere, without an event.
    let mut guest = Command::new("sleep").arg("50").spawn().unwrap();
    let procs = shell.group.dir.join("cgroup.procs");
    std::fs::write(procs, guest.id().to_string()).unwrap();
    let all = [shell.pid(), child, guest.id()];
    assert_eq!(update(&mut family, &all), 1);
    assert_eq!(pids(&family), sorted(all));
    assert_eq!(family.ended().processes, 1);
    guest.kill().unwrap();
    guest.wait().unwrap();
}

#[test]
fn all_but_ourselves_and_the_kernel() {
    let mut shell = Shell::start("all", "");
    let mut events = Events::open().unwrap();
    let mut family = shell.family(Target::All);
    let before = family.update(Some(&mut events), None).unwrap();
    assert!(
        before
            .new
            .iter()
            .any(|member| member.identity.pid == shell.pid())
    );
    assert!(family.member(std::process::id()).is_none() && family.member(2).is_none());
    let child = shell.tell("sleep 50 > /dev/null & echo $!").unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(
        changes
            .new
            .iter()
            .any(|member| member.identity.pid == child)
    );
    family.note_peak(shell.pid(), 77);
    kill(shell.pid());
    shell.child.wait().unwrap();
    let changes = family.update(Some(&mut events), None).unwrap();
    assert!(
        changes
            .gone
            .iter()
            .any(|gone| gone.identity.pid == shell.pid())
    );
    assert!(family.ended().peak_resident >= 77);
}

#[test]
fn a_process_whose_first_thread_ended() {
    let mut events = Events::open().unwrap();
    let script = "import threading,os,ctypes,sys,time\n\
        threading.Thread(target=lambda:(sys.stdin.readline(),os._exit(0))).start()\n\
        print('x',flush=True)\n\
        ctypes.CDLL(None).syscall(60,0)\n";
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut family = Family::new(
        Proc::system().unwrap(),
        None,
        Target::Descendants(child.id()),
    )
    .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    family.update(Some(&mut events), None).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(
        family
            .update(Some(&mut events), None)
            .unwrap()
            .gone
            .is_empty()
    );
    assert_eq!(pids(&family), [child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(
        family.update(Some(&mut events), None).unwrap().gone.len(),
        1
    );
}

#[test]
fn children_of_those_that_are_left_out() {
    for with_events in [true, false] {
        let mut events = with_events.then(|| Events::open().unwrap());
        let proc = Proc::system().unwrap();
        let target = Target::Descendants(std::process::id());
        let mut family = Family::new(proc, None, target).unwrap();
        family.update(events.as_mut(), None).unwrap();
        let mut shell = Shell::start("left", "");
        let child = shell.tell("sleep 50 > /dev/null & echo $!").unwrap();
        family.update(events.as_mut(), None).unwrap();
        assert!(family.member(shell.pid()).is_some() && family.member(child).is_some());
        assert!(family.member(std::process::id()).is_none());
    }
}

#[test]
fn nobody_is_an_error_with_a_hint() {
    let error = Family::new(
        Proc::system().unwrap(),
        None,
        Target::Descendants(4_194_304),
    );
    assert!(!error.unwrap_err().hint().is_empty());
}
