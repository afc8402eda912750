package control

import "net/http"

// endpoints is everything that the interface does.
var endpoints = []endpoint{
	on(http.MethodGet, "/v1/cluster", "getCluster", "The cluster: its nodes, how they do, and its clock.", (*server).getCluster),
	on(http.MethodPost, "/v1/reset", "reset", "Empties the cluster within about a millisecond. Topics asked for at the start exist again, addresses and time stay, "+
		"connections are closed, and faults are gone.", (*server).reset, http.StatusConflict),

	on(http.MethodGet, "/v1/time", "getTime", "The time of the cluster.", (*server).getTime),
	on(http.MethodPost, "/v1/time/advance", "advance", "Lets time pass, at once. What is due on the way happens in its order. A virtual clock alone can do that.",
		(*server).advance, http.StatusConflict),
	on(http.MethodPost, "/v1/time/advance-to-next-timer", "advanceToNextTimer", "Lets time pass until the next thing happens that waits for a time: a lock ends, a session times out, "+
		"a request has waited long enough.", (*server).advanceToNextTimer, http.StatusConflict),

	on(http.MethodGet, "/v1/topics", "getTopics", "All topics and how far their partitions are.", (*server).getTopics),
	on(http.MethodGet, "/v1/groups", "getGroups", "All groups and their members.", (*server).getGroups),
	on(http.MethodGet, "/v1/share-partition", "getSharePartition", "The records of a share partition that are in flight, their states, owners and locks, and what is persisted.",
		(*server).getSharePartition, http.StatusNotFound),

	on(http.MethodGet, "/v1/transactions", "getTransactions", "The transactions that are not complete, and the records of share groups that wait for their ends.", (*server).getTransactions),
	on(http.MethodPost, "/v1/transactions/abort", "abortTransaction", "Aborts the ongoing transaction of a transactional id and fences its owner, as whoever takes the id over does.",
		(*server).abortTransaction, http.StatusConflict),
	on(http.MethodPost, "/v1/transactions/release", "releaseStaged", "Gives records back whose acknowledgements wait for a transaction that is not there any more.",
		(*server).releaseStaged, http.StatusConflict),

	on(http.MethodGet, "/v1/faults", "getFaults", "The faults of requests, in their order, and what they have done.", (*server).getFaults),
	on(http.MethodPost, "/v1/faults", "addFault", "Has something go wrong with requests from now on: a rule as an object, or as text, like {\"text\": \"api=Fetch times=1 close\"}.",
		(*server).addFault),
	on(http.MethodPost, "/v1/release", "releaseFaults", "Lets the requests go on that faults of a name hold.", (*server).releaseFaults, http.StatusNotFound),
	on(http.MethodDelete, "/v1/faults/{id}", "removeFault", "Removes a fault and lets the requests go on that it holds.", (*server).removeFault, http.StatusNotFound),
	on(http.MethodDelete, "/v1/faults", "removeFaults", "Removes all faults of requests and lets the requests go on that they hold.", (*server).removeFaults),
	on(http.MethodGet, "/v1/requests", "getRequests", "The last requests of clients that the log remembers, the oldest first, and what they were answered.", (*server).getRequests, http.StatusConflict),

	on(http.MethodGet, "/v1/judge", "getJudge", "The verdicts on what clients have put on the wire: of each rule whether it was kept, and what broke it.", (*server).getJudge, http.StatusConflict),
	on(http.MethodPost, "/v1/judge/reset", "resetJudge", "Forgets the verdicts. What is known of open connections, members and sessions stays.", (*server).resetJudge, http.StatusConflict),

	on(http.MethodPost, "/v1/nodes/{id}/stop", "stopNode", "Stops a node as a controlled shutdown does.", (*server).stopNode, http.StatusNotFound, http.StatusConflict),
	on(http.MethodPost, "/v1/nodes/{id}/start", "startNode", "Starts a stopped node again, on its address.", (*server).startNode, http.StatusNotFound, http.StatusConflict),
	on(http.MethodPost, "/v1/nodes/{id}/cut", "cutNode", "Cuts a node off from clients and the other nodes.", (*server).cutNode, http.StatusNotFound, http.StatusConflict),
	on(http.MethodPost, "/v1/nodes/{id}/heal", "healNode", "Ends a cut.", (*server).healNode, http.StatusNotFound, http.StatusConflict),
	on(http.MethodPost, "/v1/leader", "moveLeader", "Makes a node the leader of a partition, in the next leader epoch.", (*server).moveLeader, http.StatusConflict),
	on(http.MethodPost, "/v1/coordinator", "moveCoordinator", "Makes a node the coordinator of a key, and of those that the same partition keeps.", (*server).moveCoordinator, http.StatusConflict),

	on(http.MethodGet, "/v1/share-write-faults", "getShareWriteFaults", "The faults of writes of share state.", (*server).getShareWriteFaults),
	on(http.MethodPost, "/v1/share-write-faults", "addShareWriteFault", "Makes writes of share state slow or has them fail.", (*server).addShareWriteFault),
	on(http.MethodPost, "/v1/share-write-faults/{id}/release", "releaseShareWrites", "Lets the writes go on that a fault holds.", releaseOf(ofShareWrites), http.StatusNotFound),
	on(http.MethodDelete, "/v1/share-write-faults/{id}", "removeShareWriteFault", "Removes a fault and lets the writes go on that it holds.", removeOf(ofShareWrites), http.StatusNotFound),
	on(http.MethodGet, "/v1/marker-faults", "getMarkerFaults", "The faults of markers that end transactions.", (*server).getMarkerFaults),
	on(http.MethodPost, "/v1/marker-faults", "addMarkerFault", "Makes markers that end transactions slow or has them fail.", (*server).addMarkerFault),
	on(http.MethodPost, "/v1/marker-faults/{id}/release", "releaseMarkers", "Lets the markers go on that a fault holds.", releaseOf(ofMarkers), http.StatusNotFound),
	on(http.MethodDelete, "/v1/marker-faults/{id}", "removeMarkerFault", "Removes a fault and lets the markers go on that it holds.", removeOf(ofMarkers), http.StatusNotFound),
	on(http.MethodPost, "/v1/disk/fail", "failDisk", "Has the next writes to the cluster's store or reads of records fail.", (*server).failDisk),
	on(http.MethodPost, "/v1/disk/mend", "mendDisk", "Has reads and writes succeed again.", (*server).mendDisk),

	on(http.MethodPost, "/v1/scenarios", "runScenario", "Runs a scenario against this cluster, and says what each command showed. One runs at a time.", (*server).runScenario),
}
