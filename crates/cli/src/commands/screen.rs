//! A screen that is drawn repeatedly, each frame over the previous one.
//!
//! Invariant: a frame is written by one call. It first moves the cursor to the top, and clears each
//! line after its text, so nothing flickers. A frame is never higher than the terminal. The cursor
//! is never hidden and is below the frame, so the terminal is usable however the program ends.

use std::io::{self, Write};

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct Screen {
    drawn: bool,
}

impl Screen {
    /// Draws the text's first lines, as many as fit, over the last frame.
    pub(super) fn draw(
        &mut self,
        out: &mut impl Write,
        text: &str,
        height: usize,
    ) -> io::Result<()> {
        // Synchronized output: terminals that know this sequence show the frame as a whole; others
        // ignore it.
        let mut frame = "\x1b[?2026h".to_owned();
        if !self.drawn {
            self.drawn = true;
            frame += "\x1b[2J";
        }
        frame += "\x1b[H";
        let lines: Vec<&str> = text.lines().collect();
        let fit = height.saturating_sub(1).max(1);
        let shown = match lines.len() > fit {
            // The last line says how many lines do not fit.
            true => fit.saturating_sub(1),
            false => lines.len(),
        };
        for line in &lines[..shown] {
            frame += line;
            frame += "\x1b[K\r\n";
        }
        if lines.len() > shown {
            let more = lines.len() - shown;
            frame += &format!("({more} more lines)\x1b[K\r\n");
        }
        frame += "\x1b[J\x1b[?2026l";
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Leaves the last frame on the screen, without the `^C` that the terminal may have shown below
    /// it.
    pub(super) fn leave(&self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn {
            out.write_all(b"\r\x1b[K")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Clears the last frame, if there is one, so that the whole text can be printed instead.
    pub(super) fn clear(&self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn {
            out.write_all(b"\x1b[H\x1b[J")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(screen: &mut Screen, text: &str, height: usize) -> String {
        let mut out = Vec::new();
        screen.draw(&mut out, text, height).expect("a vector");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_frame_goes_over_the_one_before() {
        let mut screen = Screen::default();
        let first = drawn(&mut screen, "a\nb\n", 10);
        assert!(
            first.contains("\x1b[2J\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J"),
            "{first:?}"
        );
        let second = drawn(&mut screen, "c\n", 10);
        assert!(
            !second.contains("[2J") && second.contains("\x1b[Hc\x1b[K"),
            "{second:?}"
        );
    }

    #[test]
    fn a_frame_is_never_higher_than_the_terminal() {
        let text = "x\n".repeat(50);
        for height in 1..60 {
            let frame = drawn(&mut Screen::default(), &text, height);
            assert!(frame.matches('\n').count() < height.max(2), "{height}");
            assert_eq!(frame.contains("more lines"), height < 51, "{height}");
        }
    }
}
