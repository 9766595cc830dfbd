//! A client of some language behind its conformance agent: `client/conformance/README.md`.

use std::{collections::HashMap, ffi::OsString, process::Stdio, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{Mutex, mpsc, oneshot},
    time::timeout,
};

use crate::harness::PATIENCE;

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// The program that runs a language's agent, and its arguments.
pub type AgentCommand = Vec<OsString>;

/// A running agent. Killed when dropped.
pub struct Agent {
    pub language: &'static str,
    _process: Child,
    input: ChildStdin,
    answers: Answers,
    /// What is no answer.
    told: mpsc::Receiver<Value>,
    next_id: u64,
}

impl Agent {
    pub fn start(language: &'static str, command: &AgentCommand) -> Self {
        let (program, arguments) = command.split_first().expect("a program");
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{language}: {command:?}: {error}"));
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let answers = Answers::default();
        let (tell, told) = mpsc::channel(10_000);
        tokio::spawn(read(output, Arc::clone(&answers), tell));
        Self {
            language,
            _process: process,
            input,
            answers,
            told,
            next_id: 1,
        }
    }

    /// Sends a command; returns its `ok`.
    pub async fn run(&mut self, what: &str, arguments: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let (answer, answered) = oneshot::channel();
        self.answers.lock().await.insert(id, answer);
        let mut command = arguments;
        command["id"] = json!(id);
        command["do"] = json!(what);
        let line = format!("{command}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
        let language = self.language;
        let answered = timeout(PATIENCE, answered).await;
        let answer = answered
            .unwrap_or_else(|_| panic!("{language}: {what} is not answered"))
            .unwrap_or_else(|_| panic!("{language}: the agent ended in {what}"));
        assert!(answer["error"].is_null(), "{language}: {what}: {answer}");
        answer["ok"].clone()
    }

    /// The next line of a watch with this event; others before it are passed over.
    pub async fn event(&mut self, kind: &str) -> Value {
        let language = self.language;
        loop {
            let line = timeout(PATIENCE, self.told.recv()).await;
            let line = line.unwrap_or_else(|_| panic!("{language}: no {kind}"));
            let line = line.unwrap_or_else(|| panic!("{language}: the agent ended before {kind}"));
            if line["event"] == kind {
                return line;
            }
        }
    }
}

async fn read(
    output: impl tokio::io::AsyncBufRead + Unpin,
    answers: Answers,
    tell: mpsc::Sender<Value>,
) {
    let mut lines = output.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let value: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("an agent printed {line:?}: {error}"));
        match value["id"].as_u64() {
            Some(id) => {
                if let Some(answer) = answers.lock().await.remove(&id) {
                    // Who asked may have given up.
                    let _ = answer.send(value);
                }
            }
            None => {
                if tell.send(value).await.is_err() {
                    return;
                }
            }
        }
    }
}
