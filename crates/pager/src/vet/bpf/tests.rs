//! Programs assembled by hand, as seccomp users write them.

use proptest::prelude::*;

use super::*;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> BpfInsn {
    BpfInsn { code, jt, jf, k }
}

const fn load(offset: u32) -> BpfInsn {
    insn(0x20, 0, 0, offset)
}

const fn ret(value: u32) -> BpfInsn {
    insn(0x06, 0, 0, value)
}

const ALLOW: u32 = 0x7fff_0000;

fn data(nr: u32, args: [u64; 6]) -> SeccompData {
    SeccompData {
        nr,
        arch: ARCH_X86_64,
        instruction_pointer: 0x1122_3344_5566_7788,
        args,
    }
}

fn verdict(program: &[BpfInsn]) -> Result<Action, BpfError> {
    evaluate(program, &data(9, [0x1_0000_0002, 0, 0, 0, 0, 77]))
}

#[test]
fn every_action_is_told_apart() {
    for (value, action) in [
        (ALLOW, Action::Allow),
        (0x7ffc_0000, Action::Log),
        (0x7ff0_0001, Action::Trace),
        (0x7fc0_0000, Action::UserNotif),
        (0x0005_0001, Action::Errno(1)),
        (0x0003_0000, Action::Trap),
        (0x0000_0000, Action::KillThread),
        (0x8000_0000, Action::KillProcess),
        (0x1234_0000, Action::KillProcess),
    ] {
        assert_eq!(verdict(&[ret(value)]), Ok(action));
        assert_eq!(
            action.allows(),
            matches!(action, Action::Allow | Action::Log)
        );
    }
}

#[test]
fn the_stricter_verdict_wins() {
    let order = [
        Action::KillProcess,
        Action::KillThread,
        Action::Trap,
        Action::Errno(13),
        Action::UserNotif,
        Action::Trace,
        Action::Log,
        Action::Allow,
    ];
    for (i, strict) in order.iter().enumerate() {
        for lax in &order[i..] {
            assert_eq!(strict.stricter(*lax), *strict);
            assert_eq!(lax.stricter(*strict), *strict);
        }
    }
    assert_eq!(
        Action::Errno(1).stricter(Action::Errno(2)),
        Action::Errno(1)
    );
}

#[test]
fn the_data_is_laid_out_as_the_kernel_does() {
    for (offset, want) in [
        (0, 9),
        (4, ARCH_X86_64),
        (8, 0x5566_7788),
        (12, 0x1122_3344),
        (16, 2),
        (20, 1),
        (24, 0),
        (56, 77),
        (60, 0),
    ] {
        let program = [load(offset), insn(0x15, 0, 1, want), ret(ALLOW), ret(0)];
        assert_eq!(verdict(&program), Ok(Action::Allow), "offset {offset}");
    }
    for offset in [1, 2, 63, 64, 68, u32::MAX] {
        let bad = [load(offset), ret(ALLOW)];
        let unknown = BpfError::Unknown { at: 0, code: 0x20 };
        assert_eq!(verdict(&bad), Err(unknown), "offset {offset}");
    }
}

#[test]
fn arithmetic_scratch_and_registers() {
    // ((7 + 5) * 3 - 6) / 2 = 15; | 0x40 = 0x4f; & 0x0f = 15; ^ 1 = 14; << 2 = 56; >> 3 = 7;
    // neg, into M[3] by X, back, compared with X.
    let program = [
        insn(0x00, 0, 0, 7),
        insn(0x04, 0, 0, 5),
        insn(0x24, 0, 0, 3),
        insn(0x14, 0, 0, 6),
        insn(0x34, 0, 0, 2),
        insn(0x44, 0, 0, 0x40),
        insn(0x54, 0, 0, 0x0f),
        insn(0xa4, 0, 0, 1),
        insn(0x64, 0, 0, 2),
        insn(0x74, 0, 0, 3),
        insn(0x84, 0, 0, 0),
        insn(0x02, 0, 0, 2),
        insn(0x61, 0, 0, 2),
        insn(0x03, 0, 0, 3),
        insn(0x60, 0, 0, 3),
        insn(0x1d, 0, 2, 0),
        insn(0x15, 0, 1, 7u32.wrapping_neg()),
        ret(ALLOW),
        ret(0),
    ];
    assert_eq!(verdict(&program), Ok(Action::Allow));
}

#[test]
fn moves_between_registers_and_ret_a() {
    let program = [
        insn(0x80, 0, 0, 0),
        insn(0x07, 0, 0, 0),
        insn(0x00, 0, 0, ALLOW - 64),
        insn(0x0c, 0, 0, 0),
        insn(0x16, 0, 0, 0),
    ];
    assert_eq!(verdict(&program), Ok(Action::Allow), "64 bytes of data");
}

#[test]
fn division_by_an_x_of_zero_ends_with_kill() {
    let program = [insn(0x01, 0, 0, 0), insn(0x3c, 0, 0, 0), ret(ALLOW)];
    assert_eq!(verdict(&program), Ok(Action::KillThread));
}

#[test]
fn jumps_of_every_kind() {
    for (code, k, taken) in [
        (0x15, 9, true),
        (0x15, 8, false),
        (0x25, 8, true),
        (0x25, 9, false),
        (0x35, 9, true),
        (0x35, 10, false),
        (0x45, 1, true),
        (0x45, 6, false),
    ] {
        let program = [load(0), insn(code, 1, 0, k), ret(0), ret(ALLOW)];
        assert_eq!(verdict(&program).unwrap().allows(), taken, "{code:#x} {k}");
    }
    let far = [insn(0x05, 0, 0, 1), ret(0), ret(ALLOW)];
    assert_eq!(verdict(&far), Ok(Action::Allow));
}

#[test]
fn what_the_kernel_would_refuse_has_no_verdict() {
    assert_eq!(verdict(&[]), Err(BpfError::Length(0)));
    assert_eq!(
        verdict(&vec![ret(ALLOW); 4097]),
        Err(BpfError::Length(4097))
    );
    for code in [
        0x28, 0x30, 0x40, 0xa0, 0x94, 0xb4, 0x62, 0x12, 0x0e, 0x17, 0xffff,
    ] {
        let unknown = BpfError::Unknown { at: 0, code };
        assert_eq!(verdict(&[insn(code, 0, 0, 0), ret(0)]), Err(unknown));
    }
    for program in [
        [load(0), load(4)],
        [load(0), insn(0x15, 200, 200, 0)],
        [load(0), insn(0x05, 0, 0, u32::MAX)],
    ] {
        assert_eq!(verdict(&program), Err(BpfError::NoReturn));
    }
    let scratch = BpfError::Unknown { at: 0, code: 0x60 };
    assert_eq!(verdict(&[insn(0x60, 0, 0, 16), ret(0)]), Err(scratch));
}

fn any_insn() -> impl Strategy<Value = BpfInsn> {
    let code = prop_oneof![any::<u16>(), 0u16..0x100];
    let k = prop_oneof![any::<u32>(), 0u32..70];
    (code, any::<u8>(), any::<u8>(), k).prop_map(|(code, jt, jf, k)| insn(code, jt, jf, k))
}

proptest! {
    #[test]
    fn any_program_ends(program in proptest::collection::vec(any_insn(), 0..64), nr: u32, arg: u64) {
        let _ = evaluate(&program, &data(nr, [arg; 6]));
    }
}
