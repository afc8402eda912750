// Package cases provokes what a client of Kafka must survive, one case at a time: a cluster is made that goes wrong in one way, a driver (package driver) runs the
// client against it, and what the client puts on the wire and tells its application decides the verdict.
//
// Each case has a cluster of its own in this process, on a clock that goes with the machine's and is moved ahead where locks are to end. Between the client and
// the cluster stands a proxy: what no broker does it does to answers and connections. The passive rules of package conformance watch every case.
package cases
