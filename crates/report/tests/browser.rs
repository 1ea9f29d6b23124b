//! The page in a real browser: Chromium, driven through its debugging pipe.
//!
//! Skipped, with a message, where no Chromium or Chrome is installed; `CHROME`
//! names one that is not on the PATH. With `HEATSMOOTH_SCREENSHOTS=FOLDER` the
//! page is also photographed, light, dark and as printed.

#![cfg(unix)]

mod cdp;
mod common;
mod methods;

use std::fs;
use std::path::{Path, PathBuf};

use cdp::Browser;
use heatsmooth_report::build;
use methods::options;
use serde_json::{Value, json};

fn chrome() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CHROME") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "chrome",
    ];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Opens the demo's page; `None` (and a message) without a browser.
fn open() -> Option<(Browser, tempfile::TempDir)> {
    let Some(chrome) = chrome() else {
        eprintln!("SKIPPED: no chromium or chrome on the PATH; install one or set CHROME");
        return None;
    };
    let (folder, runs) = common::demo(200);
    let report = build(&[runs], &options()).unwrap();
    let written = report.write(&folder.path().join("out")).unwrap();
    let mut browser = Browser::start(&chrome, folder.path());
    browser.open(&format!("file://{}", written.page.display()));
    Some((browser, folder))
}

/// No error in the console, no request but the page itself and its own pictures.
fn check_quiet(browser: &Browser) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let requests = browser.requests();
    let foreign: Vec<&String> = requests
        .iter()
        .filter(|url| !url.starts_with("data:") && !url.ends_with("/out/report.html"))
        .collect();
    assert!(
        requests.iter().any(|url| url.ends_with("report.html")),
        "{requests:?}"
    );
    assert_eq!(foreign, Vec::<&String>::new());
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("expected a number, got {value}"))
}

#[test]
fn hovering_shows_the_value_of_the_table() {
    let Some((mut browser, _folder)) = open() else {
        return;
    };
    // Where radius 0.4 lies in the first figure, as the drawing has it.
    let figure = "document.querySelector('figure[data-figure=\"0\"]')";
    browser.evaluate(&format!(
        "{figure}.scrollIntoView({{behavior: 'instant', block: 'start'}})"
    ));
    let place = browser.evaluate(&format!(
        "(() => {{
            const svg = {figure}.querySelector('svg');
            const tick = [...svg.querySelectorAll('.x text')].find((t) => t.textContent === '0.4');
            const box = tick.getBoundingClientRect(), all = svg.getBoundingClientRect();
            return [box.left + box.width / 2, all.top + all.height / 2];
        }})()"
    ));
    browser.move_to(number(&place[0]), number(&place[1]));
    let tip = browser.evaluate(&format!(
        "(() => {{
            const tip = {figure}.querySelector('.tip');
            return [tip.hidden, tip.querySelector('b').textContent,
                    Object.fromEntries([...tip.querySelectorAll('div')].map((d) =>
                        [d.children[0].textContent, parseFloat(d.children[1].textContent)]))];
        }})()"
    ));
    assert_eq!((&tip[0], &tip[1]), (&json!(false), &json!("L2 radius 0.4")));
    let table = browser.evaluate(
        "(() => {
            const table = document.getElementById('t-certified-digits-test-sigma-0.25');
            const heads = [...table.querySelectorAll('thead tr:last-child th')];
            const at = heads.findIndex((head) => head.textContent === '0.4');
            return Object.fromEntries([...table.tBodies[0].rows].map((row) =>
                [row.cells[0].textContent, 100 * parseFloat(row.cells[at].dataset.value)]));
        })()",
    );
    let table = table.as_object().unwrap();
    assert_eq!(table.len(), 4);
    for (name, value) in table {
        let shown = number(&tip[2][name]);
        assert!(
            (shown - number(value)).abs() < 0.01,
            "{name}: {shown} and {value}"
        );
    }
    // Leaving hides it again.
    browser.move_to(2.0, 2.0);
    assert_eq!(
        browser.evaluate(&format!("{figure}.querySelector('.tip').hidden")),
        json!(true)
    );
    check_quiet(&browser);
}

#[test]
fn keys_read_values_and_switches_hide_lines() {
    let Some((mut browser, _folder)) = open() else {
        return;
    };
    let figure = "document.querySelector('figure[data-figure=\"0\"]')";
    browser.evaluate(&format!("{figure}.querySelector('.plot').focus()"));
    browser.press("ArrowRight", 39);
    browser.press("End", 35);
    browser.press("ArrowLeft", 37);
    let read = format!("{figure}.querySelector('.tip').textContent");
    let tip = browser.evaluate(&read);
    assert!(tip.as_str().unwrap().starts_with("L2 radius 0."), "{tip}");
    let lines = format!("{figure}.querySelectorAll('.tip div').length");
    assert_eq!(browser.evaluate(&lines), json!(4));

    // Tab reaches the first switch; Space presses it.
    browser.press("Tab", 9);
    browser.press(" ", 32);
    let state = browser.evaluate(&format!(
        "(() => {{
            const button = {figure}.querySelector('.switches button');
            const line = {figure}.querySelector('.series');
            return [button.getAttribute('aria-pressed'), getComputedStyle(line).display,
                    document.activeElement === button];
        }})()"
    ));
    assert_eq!(state, json!(["false", "none", true]));
    browser.evaluate(&format!("{figure}.querySelector('.plot').focus()"));
    browser.press("Home", 36);
    assert_eq!(browser.evaluate(&lines), json!(3));
    browser.press("Escape", 27);
    assert_eq!(
        browser.evaluate(&format!("{figure}.querySelector('.tip').hidden")),
        json!(true)
    );
    check_quiet(&browser);
}

#[test]
fn sorting_sorts() {
    let Some((mut browser, _folder)) = open() else {
        return;
    };
    let sorted = |browser: &mut Browser, head: &str| {
        browser.evaluate(&format!(
            "(() => {{
                const table = document.getElementById('t-adversarial-digits-test');
                const heads = [...table.querySelectorAll('thead tr:last-child th')];
                const at = heads.findIndex((head) =>
                    head.querySelector('button').ariaLabel === 'sort by {head}');
                heads[at].querySelector('button').click();
                return [heads[at].getAttribute('aria-sort'), [...table.tBodies[0].rows].map((row) =>
                    row.cells[at].dataset.value ? parseFloat(row.cells[at].dataset.value)
                                                : row.cells[at].textContent)];
            }})()"
        ))
    };
    for expected in ["descending", "ascending"] {
        let found = sorted(&mut browser, "PGD median");
        assert_eq!(found[0], json!(expected));
        let mut values: Vec<f64> = found[1].as_array().unwrap().iter().map(number).collect();
        assert_eq!(values.len(), 4);
        if expected == "descending" {
            values.reverse();
        }
        assert!(
            values.windows(2).all(|pair| pair[0] <= pair[1]),
            "{values:?}"
        );
    }
    // The baseline has no L-bound: last in either order.
    for _ in 0..2 {
        let found = sorted(&mut browser, "L-bound, all images mean");
        assert_eq!(found[1][3], json!("–"));
    }
    let found = sorted(&mut browser, "model");
    let names = [
        "baseline",
        "HeatSmoothing",
        "RandomizedSmoothing",
        "SmoothAdv",
    ];
    assert_eq!(found, json!(["ascending", names]));
    check_quiet(&browser);
}

#[test]
fn filters_filter_and_order() {
    let Some((mut browser, _folder)) = open() else {
        return;
    };
    let choose = |browser: &mut Browser, name: &str, value: &str| {
        browser.evaluate(&format!(
            "(() => {{
                const form = document.getElementById('filters');
                form.elements['{name}'].value = '{value}';
                form.elements['{name}'].dispatchEvent(new Event('change', {{ bubbles: true }}));
                const shown = [...document.querySelectorAll('.card')].filter((card) => !card.hidden);
                return [form.elements.count.value, shown.map((card) => card.innerText),
                        shown.map((card) => parseFloat(card.dataset.spread))];
            }})()"
        ))
    };
    let broken =
        browser.evaluate("[...document.images].filter((image) => !image.naturalWidth).length");
    let pictures = browser.evaluate("document.images.length");
    assert_eq!((broken, pictures), (json!(0), json!(24 * 10)));
    let all = choose(&mut browser, "show", "all");
    assert_eq!(all[0], json!("24 of 24 images"));
    let abstained = choose(&mut browser, "show", "abstained");
    let texts: Vec<&str> = abstained[1]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(!texts.is_empty() && texts.len() < 24);
    assert!(texts.iter().all(|text| text.contains("abstains")));
    let expected = all[1]
        .as_array()
        .unwrap()
        .iter()
        .filter(|text| text.as_str().unwrap().contains("abstains"));
    assert_eq!(texts.len(), expected.count());
    // By one model: only cards on which that model abstains.
    let by_model = choose(&mut browser, "model", "0");
    assert!(by_model[1].as_array().unwrap().len() < texts.len());
    choose(&mut browser, "model", "any");
    choose(&mut browser, "show", "all");
    let ordered = choose(&mut browser, "order", "difference");
    let spreads: Vec<f64> = ordered[2].as_array().unwrap().iter().map(number).collect();
    assert!(
        spreads.len() == 24 && spreads.windows(2).all(|pair| pair[0] >= pair[1]),
        "{spreads:?}"
    );
    assert!(spreads[0] > spreads[23]);
    check_quiet(&browser);
}

#[test]
fn it_is_readable_in_light_dark_and_print() {
    let Some((mut browser, _folder)) = open() else {
        return;
    };
    let shots = std::env::var_os("HEATSMOOTH_SCREENSHOTS").map(PathBuf::from);
    for (name, scheme, media) in [
        ("light", "light", "screen"),
        ("dark", "dark", "screen"),
        ("print", "dark", "print"),
    ] {
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        let look = browser.evaluate(
            "(() => {
                const contrast = (a, b) => {
                    const light = (c) => c.match(/[\\d.]+/g).slice(0, 3).map((v) => {
                        v /= 255;
                        return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
                    }).reduce((sum, v, at) => sum + v * [.2126, .7152, .0722][at], 0);
                    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
                    return (x + .05) / (y + .05);
                };
                const paper = getComputedStyle(document.body).backgroundColor;
                const ink = (query, name = 'color') =>
                    contrast(getComputedStyle(document.querySelector(query))[name], paper);
                const lines = [...document.querySelectorAll('.series path')].map((path) =>
                    contrast(getComputedStyle(path).stroke, paper));
                return { paper, text: Math.min(ink('h2'), ink('.caption'), ink('.intro'), ink('.files a'),
                                               ink('.plot svg', 'fill')),
                         lines: Math.min(...lines), wide: document.documentElement.scrollWidth,
                         nav: getComputedStyle(document.querySelector('nav')).display };
            })()",
        );
        let paper = if name == "dark" {
            "rgb(20, 23, 28)"
        } else {
            "rgb(255, 255, 255)"
        };
        assert_eq!(look["paper"], json!(paper), "{name}");
        // WCAG: 4.5 for text, 3 for graphics.
        assert!(number(&look["text"]) >= 4.5, "{name}: {look}");
        assert!(number(&look["lines"]) >= 3.0, "{name}: {look}");
        assert!(number(&look["wide"]) <= 1280.0, "{name}: {look}");
        assert_eq!(look["nav"] == json!("none"), media == "print");
        if let Some(folder) = &shots {
            fs::create_dir_all(folder).unwrap();
            photograph(&mut browser, &folder.join(format!("{name}.png")));
        }
    }
    browser.call("Emulation.setEmulatedMedia", json!({"media": "screen", "features": [{"name": "prefers-color-scheme", "value": "light"}]}));
    // On a telephone nothing sticks out: tables scroll in their own frames.
    let phone = json!({"width": 375, "height": 700, "deviceScaleFactor": 1, "mobile": true});
    browser.call("Emulation.setDeviceMetricsOverride", phone);
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    assert_eq!(wide, json!(375));
    if let Some(folder) = &shots {
        photograph(&mut browser, &folder.join("phone.png"));
    }
    // The button overrides the system's choice.
    browser.evaluate("document.getElementById('theme').click()");
    let paper = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, json!("rgb(20, 23, 28)"));
    check_quiet(&browser);
}

fn photograph(browser: &mut Browser, path: &Path) {
    use base64::Engine;
    let shot = browser.call(
        "Page.captureScreenshot",
        json!({"captureBeyondViewport": true}),
    );
    let png = base64::engine::general_purpose::STANDARD
        .decode(shot["data"].as_str().unwrap())
        .unwrap();
    fs::write(path, png).unwrap();
}
