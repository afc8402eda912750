//! The driver of releases before 0.27, whose API is another one: implicit acknowledgement alone, for what was mended then.

use std::env::var;
use std::io::{BufRead, Write};
use std::time::Duration;

use krafka::share_consumer::ShareConsumer;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

fn say(event: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{event}");
    let _ = out.flush();
}

async fn poll(consumer: &ShareConsumer, poll_ms: u64, number: usize) -> usize {
    match consumer.poll(Duration::from_millis(poll_ms)).await {
        Ok(records) => {
            for r in &records {
                say(json!({"ev": "rec", "t": &*r.topic, "p": r.partition, "o": r.offset, "dc": r.delivery_count.unwrap_or(0), "h": "", "poll": number}));
            }
            records.len()
        }
        Err(e) => {
            say(json!({"ev": "error", "where": "poll", "code": e.to_string(), "text": e.to_string()}));
            sleep(Duration::from_millis(10)).await;
            0
        }
    }
}

#[tokio::main]
async fn main() {
    say(json!({"ev": "hello", "client": "krafka", "version": "0.28.1", "caps": []}));
    let (send, mut ops) = mpsc::unbounded_channel::<Value>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(o) = serde_json::from_str(&line) {
                let _ = send.send(o);
            }
        }
        std::process::exit(0); // nobody is left to obey
    });
    let consumer = loop {
        let built = ShareConsumer::builder().bootstrap_servers(var("KSJ_BOOTSTRAP").unwrap_or_default()).group_id(var("KSJ_GROUP").unwrap_or_default()).client_id("driver").build().await;
        match built {
            Ok(c) => break c,
            Err(e) => say(json!({"ev": "error", "where": "api", "code": e.to_string(), "text": e.to_string()})),
        }
        sleep(Duration::from_millis(500)).await;
    };
    let topics = var("KSJ_TOPICS").unwrap_or_default();
    let topics: Vec<&str> = topics.split(',').collect();
    if let Err(e) = consumer.subscribe(&topics).await {
        say(json!({"ev": "error", "where": "api", "code": e.to_string(), "text": e.to_string()}));
    }
    let (mut running, mut polls) = (false, 0);
    loop {
        let o = if running {
            match ops.try_recv() {
                Ok(o) => o,
                Err(mpsc::error::TryRecvError::Disconnected) => std::process::exit(0),
                Err(_) => {
                    polls += 1;
                    poll(&consumer, 200, polls).await;
                    continue;
                }
            }
        } else {
            match ops.recv().await {
                Some(o) => o,
                None => std::process::exit(0),
            }
        };
        match o["op"].as_str().unwrap_or("") {
            "run" => running = true,
            "pause" => {
                running = false;
                say(json!({"ev": "done", "op": "pause"}));
            }
            "poll" => {
                running = false;
                polls += 1;
                say(json!({"ev": "polled", "n": poll(&consumer, 1000, polls).await}));
            }
            "close" => {
                let _ = consumer.close().await;
                say(json!({"ev": "closed"}));
                std::process::exit(0);
            }
            op => say(json!({"ev": "unsupported", "what": op})),
        }
    }
}
