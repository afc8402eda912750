// Package differential holds kshare against a running Apache Kafka 4.4.0, which its tests start from the published
// jars: the recorded sessions are played against both, and random requests are sent to both.
//
// The tests run where KSHARE_DIFFERENTIAL is set: make differential sets it to short, make differential-full to full.
// They need JDK 17 and Maven, and about 1 GB of memory. To look into one thing:
//
//	KSHARE_DIFFERENTIAL=full go test ./differential -run TestSessions/share -v
//	KSHARE_DIFFERENTIAL=full go test ./differential -run TestRandomProbes -v -seed 7 -steps 50 -requests
package differential
