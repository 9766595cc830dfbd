//! Runs the built program the way a shell does.

use std::{
    io::Write as _,
    process::{Child, Command, Output, Stdio},
};

use super::fake::Fake;

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The output, if all went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "out: {}\nerr: {}", self.out, self.err);
        self.out
    }
}

pub(crate) fn command(fake: &Fake, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_listwatch"));
    command
        .env("LISTWATCH_SERVER", fake.address.to_string())
        .args(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn listwatch(fake: &Fake, args: &[&str]) -> Ran {
    listwatch_with(fake, args, b"")
}

/// With standard input.
pub(crate) fn listwatch_with(fake: &Fake, args: &[&str], input: &[u8]) -> Ran {
    let mut child = command(fake, args).spawn().unwrap();
    // A command that does not read its input may be gone by now.
    let _ = child.stdin.take().unwrap().write_all(input);
    ran(child.wait_with_output().unwrap())
}

pub(crate) fn end(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    Ran { code, out, err }
}
