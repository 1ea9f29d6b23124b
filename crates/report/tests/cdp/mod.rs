//! As much of the Chrome DevTools Protocol as a test needs, over the pipe of
//! `--remote-debugging-pipe`: JSON messages that end in a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A headless browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    events: Vec<Value>,
    session: Value,
    next: u64,
}

impl Browser {
    /// Starts the browser with a profile of its own under `folder`.
    pub fn start(chrome: &Path, folder: &Path) -> Self {
        // The pipe is file descriptors 3 and 4; a shell puts them there.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null"])
            .arg(chrome)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.join("profile").display()
            ))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let to = child.stdin.take().expect("a pipe");
        let mut pipe = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, from) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while pipe
                .read_until(0, &mut message)
                .is_ok_and(|length| length > 0)
            {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if send.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            events: vec![],
            session: Value::Null,
            next: 0,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    /// Calls a method and waits for its answer; events are kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        self.wait(method, |message| message["id"] == json!(id))
            .map(|answer| {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                answer["result"].clone()
            })
            .unwrap_or_else(|| panic!("{method}: no answer"))
    }

    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self
                .from
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("{what}: no answer"));
            if wanted(&message) {
                return Some(message);
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// Opens a page and waits until it has loaded.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        let loaded = |message: &Value| message["method"] == json!("Page.loadEventFired");
        if !self.events.iter().any(loaded) {
            self.wait("load", loaded);
        }
    }

    /// Evaluates an expression in the page; an exception fails the test.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{}",
            result["exceptionDetails"]
        );
        result["result"]["value"].clone()
    }

    /// Moves the mouse.
    pub fn move_to(&mut self, x: f64, y: f64) {
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": x, "y": y}),
        );
        // Pointer events come with the next frame.
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
    }

    /// Presses and releases a key.
    pub fn press(&mut self, key: &str, code: u32) {
        let mut event = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if key == " " {
            event["text"] = json!(" ");
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Exceptions, console errors and warnings, browser log entries (also about
    /// the content security policy).
    pub fn complaints(&self) -> Vec<String> {
        let bad = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != json!("log"),
            _ => false,
        };
        self.events
            .iter()
            .filter(bad)
            .map(|event| event["params"].to_string())
            .collect()
    }

    /// Addresses of all requests.
    pub fn requests(&self) -> Vec<String> {
        let requests = self
            .events
            .iter()
            .filter(|event| event["method"] == json!("Network.requestWillBeSent"));
        requests
            .map(|event| {
                event["params"]["request"]["url"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
