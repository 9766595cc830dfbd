//! The agent of the Rust client, for `client/conformance/run.py`: reads commands from standard
//! input and answers on standard output, one JSON object a line (`client/conformance/README.md`).

mod json;
mod reflecting;
mod watching;

use std::{
    collections::HashMap,
    io::{BufRead as _, Write as _},
    time::Duration,
};

use listwatch_client::{
    Client,
    v1::{CreateRequest, DeleteRequest, GetRequest, ListRequest, UpdateRequest},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::{
    json::{Answer, error_json, from_json, misused, number, option, text, to_json},
    reflecting::Reflecting,
    watching::Control,
};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(()) = sender.send(line) else { return };
        }
    });
    let mut agent = Agent::default();
    while let Some(line) = lines.recv().await {
        agent.obey(serde_json::from_str(&line?)?);
    }
    Ok(())
}

/// Writes one line. Lines are whole, whoever else writes.
fn tell(line: &Value) {
    // Whoever does not read any more has closed the input too.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn answer(id: &Value, result: Answer) {
    match result {
        Ok(ok) => tell(&json!({"id": id, "ok": ok})),
        Err(error) => tell(&json!({"id": id, "error": error})),
    }
}

#[derive(Default)]
struct Agent {
    client: Option<Client>,
    watches: HashMap<String, mpsc::UnboundedSender<Control>>,
    reflectors: HashMap<String, Reflecting>,
}

impl Agent {
    fn obey(&mut self, command: Value) {
        let id = command["id"].clone();
        match command["do"].as_str().unwrap_or_default() {
            "create" | "update" | "delete" | "get" | "list" => match self.client.clone() {
                Some(client) => {
                    tokio::spawn(async move { answer(&id, call(client, &command).await) });
                }
                None => answer(&id, Err(misused("not connected"))),
            },
            "wait_until_ready" | "wait_for_revision" => match self.reflector(&command) {
                Ok(reflecting) => {
                    let reader = reflecting.reader();
                    tokio::spawn(async move {
                        answer(&id, reflecting::wait(&reader, &command).await);
                    });
                }
                Err(error) => answer(&id, Err(error)),
            },
            _ => answer(&id, self.set_up(&command)),
        }
    }

    fn set_up(&mut self, command: &Value) -> Answer {
        let done = Ok(json!({}));
        match text(command, "do")? {
            "connect" => {
                let mut builder = Client::builder().endpoint(text(command, "address")?);
                if let Some(limit) = option(command, "request_timeout", Value::as_f64)? {
                    builder = builder.request_timeout(Duration::from_secs_f64(limit / 1000.0));
                }
                self.client = Some(builder.connect_lazy().map_err(|e| error_json(&e))?);
                done
            }
            "watch" => {
                let (name, options) = (text(command, "name")?, json::options(command)?);
                let control = watching::start(name.to_owned(), self.connected()?, options);
                self.watches.insert(name.to_owned(), control);
                done
            }
            "pause" => self.control(command, Control::Pause),
            "resume" => self.control(command, Control::Resume),
            "reflect" => {
                let (name, options) = (text(command, "name")?, json::options(command)?);
                let reflecting = Reflecting::start(name.to_owned(), self.connected()?, options);
                self.reflectors.insert(name.to_owned(), reflecting);
                done
            }
            "state" => Ok(reflecting::state(&self.reflector(command)?.reader())),
            "close" => match self.reflectors.get_mut(text(command, "name")?) {
                Some(reflecting) => {
                    reflecting.close();
                    done
                }
                None => self.control(command, Control::Close),
            },
            other => Err(misused(&format!("no command: {other}"))),
        }
    }

    fn connected(&self) -> Result<Client, Value> {
        self.client.clone().ok_or_else(|| misused("not connected"))
    }

    fn control(&self, command: &Value, control: Control) -> Answer {
        let name = text(command, "name")?;
        let watch = self.watches.get(name);
        let watch = watch.ok_or_else(|| misused(&format!("no watch {name}")))?;
        // One that has ended needs no control.
        let _ = watch.send(control);
        Ok(json!({}))
    }

    fn reflector(&self, command: &Value) -> Result<&Reflecting, Value> {
        let name = text(command, "name")?;
        let reflecting = self.reflectors.get(name);
        reflecting.ok_or_else(|| misused(&format!("no reflector {name}")))
    }
}

async fn call(client: Client, command: &Value) -> Answer {
    let resource = || from_json("Resource", &command["resource"]);
    let if_revision = option(command, "if_revision", Value::as_i64)?;
    match text(command, "do")? {
        "create" => {
            let request = CreateRequest {
                resource: Some(resource()?),
                ..CreateRequest::default()
            };
            let created = client.create(request).await.map_err(|e| error_json(&e))?;
            Ok(json!({"resource": to_json("Resource", &created.resource.unwrap_or_default())}))
        }
        "update" => {
            let request = UpdateRequest {
                resource: Some(resource()?),
                if_revision,
                allow_missing: command["allow_missing"].as_bool().unwrap_or_default(),
                ..UpdateRequest::default()
            };
            let updated = client.update(request).await.map_err(|e| error_json(&e))?;
            Ok(json!({"resource": to_json("Resource", &updated.resource.unwrap_or_default())}))
        }
        "delete" => {
            let request = DeleteRequest {
                key: Some(from_json("Key", &command["key"])?),
                if_revision,
                ..DeleteRequest::default()
            };
            let deleted = client.delete(request).await.map_err(|e| error_json(&e))?;
            Ok(json!({"resource": to_json("Resource", &deleted.resource.unwrap_or_default())}))
        }
        "get" => {
            let request = GetRequest {
                key: Some(from_json("Key", &command["key"])?),
                ..GetRequest::default()
            };
            let got = client.get(request).await.map_err(|e| error_json(&e))?;
            let resource = to_json("Resource", &got.resource.unwrap_or_default());
            Ok(json!({"resource": resource, "revision": got.revision}))
        }
        _ => {
            let request = ListRequest {
                selector: Some(from_json("Selector", &command["selector"])?),
                page_size: number(command, "page_size")?,
                ..ListRequest::default()
            };
            let pages = client.list_all(request);
            let all = pages.collect().await.map_err(|e| error_json(&e))?;
            let resources: Vec<Value> = all
                .resources
                .iter()
                .map(|resource| to_json("Resource", resource))
                .collect();
            Ok(json!({
                "resources": resources,
                "revision": all.revision,
                "resume_token": all.resume_token,
            }))
        }
    }
}
