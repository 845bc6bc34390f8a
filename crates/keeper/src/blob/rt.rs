//! What the compiler expects of a runtime: a panic handler and the entry point
//! (memory routines: `freestanding`).

use core::arch::naked_asm;

/// Entry: the stub in the target jumps here on the boot stack, with the image's first byte in rdi.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "and rsp, -16", "call {boot}", "ud2", boot = sym super::boot::first)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The other keeper takes over; it finds every journal as this one left it.
    super::sys::exit()
}

#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
