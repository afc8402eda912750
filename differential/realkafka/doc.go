// Package realkafka runs an Apache Kafka 4.4.0 node, broker and controller in one JVM, for tests that hold kshare
// against it.
//
// It needs JDK 17 or later and, for the first run, Maven, which copies the broker's jars (about 55 MB) into a cache
// directory. A node takes about 1 GB of memory, keeps its data in a temporary directory and ends with the process
// that started it.
package realkafka
