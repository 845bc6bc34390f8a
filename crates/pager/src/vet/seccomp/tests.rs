//! Filters of the kinds that programs in the wild carry.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> BpfInsn {
    BpfInsn { code, jt, jf, k }
}

const fn ret(value: u32) -> BpfInsn {
    insn(0x06, 0, 0, value)
}

const ALLOW: u32 = 0x7fff_0000;
const EPERM: u32 = 0x0005_0001;
const KILL: u32 = 0x8000_0000;
const LOAD_NR: BpfInsn = insn(0x20, 0, 0, 0);
const LOAD_ARCH: BpfInsn = insn(0x20, 0, 0, 4);

/// `if arch != x86_64 kill; if nr in list: verdict; else other`.
fn listed(arch: u32, list: &[u32], verdict: u32, other: u32) -> Vec<BpfInsn> {
    let mut program = vec![LOAD_ARCH, insn(0x15, 1, 0, arch), ret(KILL), LOAD_NR];
    for nr in list {
        program.extend([insn(0x15, 0, 1, *nr), ret(verdict)]);
    }
    program.push(ret(other));
    program
}

fn names(filters: &[Vec<BpfInsn>]) -> Vec<&'static str> {
    let denied = denied_calls(filters, KEEPER_CALLS).expect("filters that make sense");
    denied.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn no_filter_and_a_mild_one_deny_nothing() {
    assert!(names(&[]).is_empty());
    assert!(names(&[vec![ret(ALLOW)]]).is_empty());
    assert!(names(&[vec![ret(0x7ffc_0000)]]).is_empty(), "log and go on");
}

#[test]
fn a_list_of_what_is_denied() {
    // What container runtimes deny: userfaultfd, kcmp, ptrace.
    let filter = listed(ARCH_X86_64, &[323, 312, 101], EPERM, ALLOW);
    let denied = denied_calls(&[filter], KEEPER_CALLS).expect("a sound filter");
    assert_eq!(
        denied,
        [
            ("ptrace", Action::Errno(1)),
            ("kcmp", Action::Errno(1)),
            ("userfaultfd", Action::Errno(1))
        ]
    );
}

#[test]
fn a_list_of_what_is_allowed_kills_the_rest() {
    let all: Vec<u32> = KEEPER_CALLS.iter().map(|call| call.nr).collect();
    assert!(names(&[listed(ARCH_X86_64, &all, ALLOW, KILL)]).is_empty());
    let strict: Vec<u32> = all.iter().copied().filter(|nr| *nr != 56).collect();
    assert_eq!(
        names(&[listed(ARCH_X86_64, &strict, ALLOW, KILL)]),
        ["clone"]
    );
}

#[test]
fn arguments_are_looked_at() {
    // ioctl: only TIOCGWINSZ; mmap and mprotect: nothing executable (MemoryDenyWriteExecute).
    let filter = vec![
        LOAD_NR,
        insn(0x15, 0, 3, 16),
        insn(0x20, 0, 0, 24),
        insn(0x15, 4, 0, 0x5413),
        ret(EPERM),
        insn(0x15, 0, 2, 9),
        insn(0x20, 0, 0, 32),
        insn(0x45, 1, 0, 4),
        ret(ALLOW),
        ret(EPERM),
    ];
    let denied = names(&[filter]);
    assert!(denied.contains(&"mmap (code)") && !denied.contains(&"mmap"));
    assert!(denied.contains(&"ioctl (UFFDIO_MOVE)"));
    assert!(!denied.contains(&"read"));
}

#[test]
fn a_filter_for_another_machine_denies_all() {
    const ARCH_AARCH64: u32 = 0xc000_00b7;
    let denied = names(&[listed(ARCH_AARCH64, &[], ALLOW, ALLOW)]);
    assert_eq!(denied.len(), KEEPER_CALLS.len());
}

#[test]
fn of_several_filters_each_counts() {
    let first = listed(ARCH_X86_64, &[0], EPERM, ALLOW);
    let second = listed(ARCH_X86_64, &[1], 0x7ff0_0000, ALLOW);
    let denied = denied_calls(&[first, second], KEEPER_CALLS).expect("sound filters");
    assert_eq!(
        denied,
        [("read", Action::Errno(1)), ("write", Action::Trace)]
    );
}

#[test]
fn a_broken_filter_is_an_error_not_a_yes() {
    let filters = [vec![ret(ALLOW)], vec![LOAD_NR]];
    assert_eq!(
        denied_calls(&filters, KEEPER_CALLS),
        Err(BpfError::NoReturn)
    );
}

#[test]
fn the_list_names_each_call_once() {
    let mut names: Vec<_> = KEEPER_CALLS.iter().map(|call| call.name).collect();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
}

proptest! {
    /// Filters as they are, with a few instructions changed, left out or doubled: a verdict or an
    /// error, and the same one each time.
    #[test]
    fn changed_filters_have_a_verdict_or_none(
        list in prop::collection::vec(0u32..450, 0..20),
        changes in prop::collection::vec((any::<Index>(), any::<(u16, u8, u8, u32)>(), 0u8..4), 0..4),
        cut in any::<Index>(),
    ) {
        let mut filter = listed(ARCH_X86_64, &list, EPERM, ALLOW);
        for (at, (code, jt, jf, k), how) in changes {
            let at = at.index(filter.len());
            match how {
                0 => filter[at] = insn(code, jt, jf, k),
                1 => filter[at].k ^= 1 << (k % 32),
                2 => filter.insert(at, insn(code % 0x100, jt, jf, k % 64)),
                _ => (filter[at].jt, filter[at].jf) = (jt, jf),
            }
        }
        if cut.index(3) == 0 {
            filter.truncate(cut.index(filter.len()));
        }
        let filters = [filter];
        let verdict = denied_calls(&filters, KEEPER_CALLS);
        prop_assert_eq!(&verdict, &denied_calls(&filters, KEEPER_CALLS));
    }
}
