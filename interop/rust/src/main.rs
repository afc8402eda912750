//! krafka: producer, consumer with both group protocols, share consumer, admin.
//! Usage: kshare-interop host:port

mod admin;
mod check;
mod consumer;
mod producer;
mod share;

use check::Outcome;
use krafka::Kafka;

async fn run(bootstrap: String) -> Outcome<()> {
    let kafka = Kafka::builder(&bootstrap)
        .client_id("kshare-interop")
        .connect()
        .await?;
    producer::run(&kafka).await?;
    consumer::run(&kafka, &bootstrap).await?;
    share::run(&kafka).await?;
    admin::run(&kafka).await
}

#[tokio::main]
async fn main() {
    let bootstrap = std::env::args()
        .nth(1)
        .expect("usage: kshare-interop host:port");
    match run(bootstrap).await {
        Ok(()) => println!("PASS krafka"),
        Err(e) => {
            println!("FAIL krafka: {e}");
            std::process::exit(1);
        }
    }
}
