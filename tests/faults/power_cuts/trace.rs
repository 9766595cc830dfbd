//! What a process does to its files, as strace writes it down.

use std::collections::BTreeMap;

/// What to trace: all by which a server changes files, and what waits for the disk.
/// (A server whose files are not as the trace says fails its test.)
pub const CALLS: &str = "trace=openat,write,pwrite64,fsync,fdatasync,rename,unlink,unlinkat,\
                         rmdir,mkdir,ftruncate,fallocate";

/// A change of files, or a wait for the disk. Paths are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Open {
        path: String,
        create: bool,
        truncate: bool,
    },
    MakeFolder(String),
    /// `at`: `None`, where the last one ended.
    Write {
        path: String,
        at: Option<u64>,
        bytes: Vec<u8>,
    },
    SetLength(String, u64),
    /// Makes room, and the file longer if it is shorter.
    Extend(String, u64),
    Rename(String, String),
    Remove(String),
    /// Whether it waits for the length and the data only makes no difference here.
    Sync(String),
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Begun(u64, Call),
    /// With how much it did: bytes, of a write.
    Succeeded(u64, u64),
    Failed(u64),
}

/// Reads a trace line by line, as it grows.
#[derive(Default)]
pub struct Trace {
    read: usize,
    /// Thread → its call that has not returned.
    begun: BTreeMap<u64, u64>,
    calls: u64,
}

impl Trace {
    /// The steps in what has been added to the text since the last time. A call is known by a
    /// number of its own.
    pub fn steps(&mut self, text: &str) -> Vec<Step> {
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        let new = &text[self.read..whole.max(self.read)];
        self.read = whole.max(self.read);
        let mut steps = Vec::new();
        for line in new.lines() {
            self.line(line, &mut steps);
        }
        steps
    }

    fn line(&mut self, line: &str, steps: &mut Vec<Step>) {
        let Some((thread, rest)) = line.split_once(' ') else {
            return;
        };
        let thread = thread.parse().expect("a line begins with its thread");
        let rest = rest.trim_start();
        // Ends, signals, and a thread that was killed before its call was known.
        if ["+++", "---", "???"]
            .iter()
            .any(|mark| rest.starts_with(mark))
        {
            return;
        }
        if rest.starts_with("<... ") {
            let (_, result) = rest.rsplit_once(" resumed>").expect("a call is resumed");
            let (_, result) = result.rsplit_once("= ").expect("a result");
            if let Some(call) = self.begun.remove(&thread) {
                steps.extend(returned(call, result));
            }
            return;
        }
        let (name, arguments, result) = call(rest);
        let Some(call) = meaning(name, &arguments) else {
            return;
        };
        self.calls += 1;
        steps.push(Step::Begun(self.calls, call));
        match result {
            Some(result) => steps.extend(returned(self.calls, result)),
            None => drop(self.begun.insert(thread, self.calls)),
        }
    }
}

fn returned(call: u64, result: &str) -> Option<Step> {
    // What strace reads where the process was killed in the call.
    if result.contains("(errno ") {
        return None;
    }
    let number = result.split([' ', '<']).next().unwrap_or_default();
    match number.parse::<i64>() {
        Ok(done) if done >= 0 => Some(Step::Succeeded(call, done.unsigned_abs())),
        Ok(_) => Some(Step::Failed(call)),
        // The process was killed in it.
        Err(_) => None,
    }
}

#[derive(Debug)]
enum Argument<'a> {
    Text(Vec<u8>),
    Other(&'a str),
}

/// Name, arguments and, unless it has not returned, the result of a call.
fn call(line: &str) -> (&str, Vec<Argument<'_>>, Option<&str>) {
    let (name, mut rest) = line.split_once('(').expect("a call has arguments");
    // Another thread's line came between, or it was killed in it.
    for mark in ["<unfinished ...>", "<detached ...>"] {
        rest = rest.strip_suffix(mark).unwrap_or(rest).trim_end();
    }
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(result) = rest.strip_prefix(')') {
            let result = result.trim_start().strip_prefix("= ");
            return (name, arguments, result);
        }
        if rest.is_empty() {
            return (name, arguments, None);
        }
        if let Some(text) = rest.strip_prefix('"') {
            let (bytes, after) = unescaped(text);
            assert!(
                !after.starts_with("..."),
                "the trace leaves out what was written"
            );
            arguments.push(Argument::Text(bytes));
            rest = after;
            continue;
        }
        let mut depth = 0_i32;
        let end = rest.find(|c: char| {
            match c {
                '<' | '{' | '[' | '(' => depth += 1,
                ')' if depth == 0 => return true,
                '>' | '}' | ']' | ')' => depth -= 1,
                _ => {}
            }
            depth == 0 && c == ','
        });
        let (argument, after) = rest.split_at(end.unwrap_or(rest.len()));
        arguments.push(Argument::Other(argument));
        rest = after;
    }
}

/// A string up to its closing quote, and what follows.
fn unescaped(text: &str) -> (Vec<u8>, &str) {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while bytes[at] != b'"' {
        if bytes[at] != b'\\' {
            found.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = |from: usize, most: usize, radix: u32| {
            let end = (from..bytes.len().min(from + most))
                .find(|i| !(bytes[*i] as char).is_digit(radix))
                .unwrap_or(bytes.len().min(from + most));
            let value = u32::from_str_radix(&text[from..end], radix).unwrap();
            (u8::try_from(value).unwrap(), end)
        };
        let (byte, next) = match bytes[at + 1] {
            b'x' => digits(at + 2, 2, 16),
            b'0'..=b'7' => digits(at + 1, 3, 8),
            b'n' => (b'\n', at + 2),
            b't' => (b'\t', at + 2),
            b'r' => (b'\r', at + 2),
            b'v' => (11, at + 2),
            b'f' => (12, at + 2),
            other => (other, at + 2),
        };
        found.push(byte);
        at = next;
    }
    (found, &text[at + 1..])
}

/// `None`: it changes no file.
fn meaning(name: &str, arguments: &[Argument<'_>]) -> Option<Call> {
    let other = |n: usize| match arguments.get(n) {
        Some(Argument::Other(text)) => *text,
        argument => panic!("{name} has {argument:?}"),
    };
    let text = |n: usize| match arguments.get(n) {
        Some(Argument::Text(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
        argument => panic!("{name} has {argument:?}"),
    };
    let number = |n: usize| {
        other(n)
            .parse::<u64>()
            .unwrap_or_else(|e| panic!("{name} {:?}: {e}", other(n)))
    };
    // 12</folder/file>: also sockets and pipes have brackets. A file that was removed has no name.
    let open = |n: usize| {
        let (_, path) = other(n).split_once('<')?;
        let path = path.strip_suffix('>')?;
        (path.starts_with('/') && !path.ends_with("(deleted)")).then(|| path.to_owned())
    };
    let within = |folder: usize, n: usize| {
        let path = text(n);
        if path.starts_with('/') {
            return path;
        }
        let folder = open(folder).unwrap();
        format!("{folder}/{path}")
    };
    Some(match name {
        "openat" => {
            let flags = other(2);
            let (create, truncate) = (flags.contains("O_CREAT"), flags.contains("O_TRUNC"));
            if !create && !truncate {
                return None;
            }
            Call::Open {
                path: within(0, 1),
                create,
                truncate,
            }
        }
        "mkdir" => Call::MakeFolder(text(0)),
        "write" | "pwrite64" => Call::Write {
            path: open(0)?,
            at: (name == "pwrite64").then(|| number(3)),
            bytes: match &arguments[1] {
                Argument::Text(bytes) => bytes.clone(),
                argument => panic!("{name} has {argument:?}"),
            },
        },
        "ftruncate" => Call::SetLength(open(0)?, number(1)),
        "fallocate" => Call::Extend(open(0)?, number(2) + number(3)),
        "rename" => Call::Rename(text(0), text(1)),
        "unlink" | "rmdir" => Call::Remove(text(0)),
        "unlinkat" => Call::Remove(within(0, 1)),
        "fsync" | "fdatasync" => Call::Sync(open(0)?),
        other => panic!("{other} was not to be traced"),
    })
}

#[test]
fn a_trace_tells_what_was_begun_and_what_came_of_it() {
    let text = "\
7 openat(AT_FDCWD</a>, \"/a/b\", O_RDWR|O_CREAT|O_CLOEXEC, 0666 <unfinished ...>
8 pwrite64(3</a/c>, \"\\x00\\xfe\", 2, 512) = 2
7 <... openat resumed>)             = 4</a/b>
8 write(5</a/c>, \"say \\\"x\\\"\\n, 1) = \\0\", 16) = 16
8 write(6<socket:[17]>, \"x\", 1) = 1
8 openat(AT_FDCWD</a>, \"/a/b\", O_RDONLY) = 5</a/b>
8 fdatasync(5</a/c>) = -1 EIO (Input/output error) (INJECTED)
7 fsync(4</a/b> <unfinished ...>
8 unlinkat(5</a>, \"b\", 0) = 0
7 <... fsync resumed>) = ?
9 fsync(4</a/b>) = -1 (errno 18446744073709551598)
7 +++ killed by SIGKILL +++
8 rename(\"/a/b\", \"/a/d\")";
    let path = |path: &str| path.to_owned();
    let write = |at, bytes: &[u8]| Call::Write {
        path: path("/a/c"),
        at,
        bytes: bytes.to_vec(),
    };
    let created = Call::Open {
        path: path("/a/b"),
        create: true,
        truncate: false,
    };
    let mut trace = Trace::default();
    let mut steps = trace.steps(&text[..text.find("512").unwrap()]);
    assert_eq!(steps.len(), 1);
    steps.extend(trace.steps(text));
    assert_eq!(
        steps,
        [
            Step::Begun(1, created),
            Step::Begun(2, write(Some(512), b"\0\xfe")),
            Step::Succeeded(2, 2),
            Step::Succeeded(1, 4),
            Step::Begun(3, write(None, b"say \"x\"\n, 1) = \0")),
            Step::Succeeded(3, 16),
            Step::Begun(4, Call::Sync(path("/a/c"))),
            Step::Failed(4),
            Step::Begun(5, Call::Sync(path("/a/b"))),
            Step::Begun(6, Call::Remove(path("/a/b"))),
            Step::Succeeded(6, 0),
            Step::Begun(7, Call::Sync(path("/a/b"))),
        ]
    );
    // A line that is not whole yet waits.
    let whole = format!("{text} = 0\n");
    let renamed = Call::Rename(path("/a/b"), path("/a/d"));
    assert_eq!(
        trace.steps(&whole),
        [Step::Begun(8, renamed), Step::Succeeded(8, 0)]
    );
}
